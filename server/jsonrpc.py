"""Reads clients' JSON-RPC messages: each is either one that the SDK answers, or is refused with the proper error."""

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
"""At most this many commas and opening brackets in a message, in strings too: refusing more takes 700 MiB and 10 s."""

_BYTE_COST, _VALUE_COST, _SMALL_COST = 26, 1600, 1024 * 1024
"""Bytes of memory per byte and per value of a message: the maximum measured on oddly shaped messages. Up to the
third, in bytes, it is not checked whether there is enough memory."""

_ID_AT_END = re.compile(rb'(?<!\\)"id"\s*:\s*(-?[0-9]{1,18}|"[ !#-\[\]-~]*")\s*\}\s*\Z')
"""The single bracket closes the message itself, so this is not the id of something nested in it."""

log = logging.getLogger(__name__)


class Message(NamedTuple):
    """A message and its JSON for the SDK: the client's own text, repaired where the SDK would not answer that."""

    value: JSONRPCMessage
    text: bytes


class Refusal(NamedTuple):
    """The answer to a message that cannot be accepted."""

    answer: JSONRPCError


def read_message(text: bytes) -> Message | Refusal | None:
    """Read one message; None for a malformed response, to which no client expects an answer.

    An id is a string or an integer (MCP; JSON-RPC 2.0 §4). A message with any other id is refused: treated as a
    notification, which has no id, it would never be answered.
    """
    values = sum(map(text.count, (b",", b"[", b"{")))
    if values > MAX_VALUES:
        has = f"{values:,} commas and opening brackets ([ and {{), strings included; at most {MAX_VALUES:,} are allowed"
        return refused(f"it has {has}; send less at a time", id_of_request(text, text))
    if (cost := _BYTE_COST * len(text) + _VALUE_COST * values) > _SMALL_COST:
        try:  # parsers in native code abort when they get no memory
            mmap.mmap(-1, cost).close()
        except OSError:
            return refused("there is not enough memory to read it; send less at a time", id_of_request(text, text))
    try:
        try:
            decoded: Any = from_json(text)
        except ValueError:  # the other parser accepts half of a surrogate pair, as of an emoji that was cut in two
            text = json.dumps(json.loads(text.decode(errors="replace")), ensure_ascii=False).encode(errors="replace")
            decoded = from_json(text)
    except (ValueError, RecursionError) as error:
        return refused(f"it is not JSON: {error}", code=PARSE_ERROR)
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
            log.warning("a response that is not JSON-RPC was ignored")
            return None
        known = cast(RequestId, given) if is_id else None
        return refused('it needs "jsonrpc": "2.0", a method, and its params as an object', known)


def id_of_request(start: bytes, end: bytes) -> RequestId | None:
    """Return the id of a request that is not read in full, if it is in the first kilobyte or is the very last member.

    None where it is unknown, or where this may not be a request: the client does not wait for a response's id.
    """
    try:
        head: Any = from_json(start[:1024], allow_partial=True)
        if not isinstance(head, dict) or "method" not in head:
            return None
        members, last = cast(dict[str, Any], head), _ID_AT_END.search(end[-256:])
        is_whole = "id" in [*members][:-1]  # a number at the end of the known part may go on
        known: Any = members["id"] if is_whole else None if last is None else from_json(last[1])
    except ValueError:
        return None
    return known if isinstance(known, str | int) and not isinstance(known, bool) else None


def refused(reason: str, of: RequestId | None = None, code: int = INVALID_REQUEST) -> Refusal:
    """Return the error for a message that is not accepted; its id is None where it is unknown (JSON-RPC 2.0 §5)."""
    said = ErrorData(code=code, message=f"the message cannot be accepted: {reason}")
    return Refusal(JSONRPCError(jsonrpc="2.0", id=of, error=said))
