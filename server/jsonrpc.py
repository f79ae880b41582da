"""Reads JSON-RPC messages of clients: each is one that the SDK answers, or is refused with the error that is due."""

import json
import logging
import mmap
import re
from typing import Any, NamedTuple, cast

from mcp.types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from pydantic_core import from_json, to_json

MAX_VALUES = 500_000
"""Commas and brackets of a message, in texts too: refusing a list of so many values takes 700 MiB and ten seconds."""

_BYTE_COST, _VALUE_COST, _SMALL_COST = 26, 1600, 1024 * 1024
"""Bytes of memory for each byte and each value of a message, the most that was measured on messages of odd shapes; and
for how few no room is looked for."""

_ID_AT_END = re.compile(rb'(?<!\\)"id"\s*:\s*(-?[0-9]{1,18}|"[ !#-\[\]-~]*")\s*\}\s*\Z')
"""The one bracket closes the message itself, so that this is no id of something within it."""

log = logging.getLogger(__name__)


class Message(NamedTuple):
    """A message and the JSON that the SDK reads as it: the client's own, mended where that would not be answered."""

    value: JSONRPCMessage
    text: bytes


class Refusal(NamedTuple):
    """What answers a message that cannot be taken."""

    answer: JSONRPCError


def read_message(text: bytes) -> Message | Refusal | None:
    """Read one message; None for a malformed response, which nobody is waiting to have answered.

    An id is a string or an integer (MCP; JSON-RPC 2.0 §4). What has any other is refused: taken as a notification,
    which has no id, it would never be answered.
    """
    values = sum(map(text.count, (b",", b"[", b"{")))
    if values > MAX_VALUES:
        has = f"{values:,} commas and opening brackets ([ and {{), in texts too; {MAX_VALUES:,} are the most"
        return refused(f"it has {has}; send less at a time", id_of_request(text, text))
    if (cost := _BYTE_COST * len(text) + _VALUE_COST * values) > _SMALL_COST:
        try:  # parsers in native code abort where they get no memory
            mmap.mmap(-1, cost).close()
        except OSError:
            return refused("there is not enough memory to read it; send less at a time", id_of_request(text, text))
    try:
        try:
            decoded: Any = from_json(text)
        except ValueError:  # half of a surrogate pair, as where an emoji was cut in two, is read by the other parser
            text = json.dumps(json.loads(text.decode(errors="replace")), ensure_ascii=False).encode(errors="replace")
            decoded = from_json(text)
    except (ValueError, RecursionError) as error:
        return refused(f"it is no JSON: {error}", code=PARSE_ERROR)
    return _checked(text, decoded)


def _checked(text: bytes, decoded: Any) -> Message | Refusal | None:
    if not isinstance(decoded, dict):
        return refused("a message is one JSON object; batches are not part of MCP")
    sent = cast(dict[str, Any], decoded)
    given = sent.get("id")
    is_id = isinstance(given, str | int) and not isinstance(given, bool)
    is_response = "method" not in sent and ("result" in sent or "error" in sent)
    if "id" in sent and not is_id and not is_response:
        shown = to_json(given, inf_nan_mode="constants").decode()
        shown = shown if len(shown) <= 80 else f"{shown[:80]} …"
        return refused(f"its id must be a string or an integer, not {shown}")
    try:
        return Message(jsonrpc_message_adapter.validate_python(sent, by_name=False), text)
    except ValidationError:
        if is_response:
            log.warning("a response that is no JSON-RPC was left out")
            return None
        known = cast(RequestId, given) if is_id else None
        return refused('it needs "jsonrpc": "2.0", a method, and its params as an object', known)


def id_of_request(start: bytes, end: bytes) -> RequestId | None:
    """Return the id of a request that is not read whole, where it stands within the first kilobyte or last of all.

    None: it is not known, or this may be no request: the id of a response is none that the client waits for.
    """
    try:
        head: Any = from_json(start[:1024], allow_partial=True)
        if not isinstance(head, dict) or "method" not in head:
            return None
        members, last = cast(dict[str, Any], head), _ID_AT_END.search(end[-256:])
        is_whole = "id" in [*members][:-1]  # a number at the end of what is known may go on
        known: Any = members["id"] if is_whole else None if last is None else from_json(last[1])
    except ValueError:
        return None
    return known if isinstance(known, str | int) and not isinstance(known, bool) else None


def refused(reason: str, of: RequestId | None = None, code: int = INVALID_REQUEST) -> Refusal:
    """Return the error for a message that is not taken; its id is None where it is not known (JSON-RPC 2.0 §5)."""
    said = ErrorData(code=code, message=f"the message cannot be taken: {reason}")
    return Refusal(JSONRPCError(jsonrpc="2.0", id=of, error=said))
