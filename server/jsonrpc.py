"""Reads JSON-RPC messages of clients: each is one that the SDK answers, or is refused with the error that is due."""

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

MAX_MEMORY_BYTES = 768 * 1024 * 1024
"""What one message may take to read: two million empty lists in 8 MB of JSON would take gigabytes."""

_BYTE_COST, _VALUE_COST = 13, 800
"""Bytes of memory for each byte and each value of a message, the most that was measured on messages of odd shapes."""

_SMALL_COST, _LOOKED_AT_COST = 1024 * 1024, 64 * 1024 * 1024
"""Below the one no room is looked for; above the other values are counted one by one."""

_STRING_OR_VALUE = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|([,\[{])', re.S)

_ESCAPES = re.compile(
    rb"\\(?:u([dD][89abAB][0-9a-fA-F]{2})(\\u[dD][c-fC-F][0-9a-fA-F]{2})?|u([dD][c-fC-F]..)|(.))", re.S
)
_SCALARS = rb'"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"'
_ID = rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\]{1,200}")'
_ID_FIRST = re.compile(rb"\s*\{\s*(?:" + _SCALARS + rb"\s*,\s*)*" + _ID + rb"\s*[,}]")
_ID_LAST = re.compile(rb",\s*" + _ID + rb"(?:\s*,\s*" + _SCALARS + rb")*\s*\}\s*\Z")
_TAIL = 1000

MAX_EXACT = 2**53
"""Up to here a number that is written with a point or an exponent is one integer and no other."""

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

    An id is a string or an integer (MCP; JSON-RPC 2.0 §4). One that is whole but written as 1e2 or 1.0 is that integer;
    what has any other is refused: taken as a notification, which has no id, it would never be answered.
    """
    if (fault := _too_dear(text)) is not None:
        return refused(text, text[-_TAIL:], fault)
    try:
        try:
            decoded: Any = from_json(text)
        except ValueError:
            text = without_lone_surrogates(text.decode(errors="replace").encode())
            decoded = from_json(text)
    except ValueError as error:
        return refused(text, text[-_TAIL:], f"it is no JSON: {error}", PARSE_ERROR)
    return _checked(text, decoded)


def _checked(text: bytes, decoded: Any) -> Message | Refusal | None:
    if not isinstance(decoded, dict):
        return _refusal(None, "a message is one JSON object; batches are not part of MCP")
    sent = cast(dict[str, Any], decoded)
    given = sent.get("id")
    if isinstance(given, float) and given.is_integer() and abs(given) <= MAX_EXACT:
        sent["id"] = given = int(given)
        text = to_json(sent, inf_nan_mode="constants")
    is_id = isinstance(given, str | int) and not isinstance(given, bool)
    is_response = "method" not in sent and ("result" in sent or "error" in sent)
    if "id" in sent and not is_id and not is_response:
        shown = to_json(given, inf_nan_mode="constants").decode()
        shown = shown if len(shown) <= 80 else f"{shown[:80]} …"
        return _refusal(None, f"its id must be a string or an integer, not {shown}")
    try:
        return Message(jsonrpc_message_adapter.validate_python(sent, by_name=False), text)
    except ValidationError:
        if is_response:
            log.warning("a response that is no JSON-RPC was left out")
            return None
        return _refusal(
            cast(RequestId, given) if is_id else None,
            'it needs "jsonrpc": "2.0", a method, and its params as an object',
        )


def refused(head: bytes, tail: bytes, reason: str, code: int = INVALID_REQUEST) -> Refusal:
    """Return the error for a message that was not read, with the id that its beginning or its end shows."""
    found = _ID_FIRST.match(head) or _ID_LAST.search(tail)
    return _refusal(None if found is None else from_json(found[1]), reason, code)


def _refusal(of: RequestId | None, reason: str, code: int = INVALID_REQUEST) -> Refusal:
    said = ErrorData(code=code, message=f"the message cannot be taken: {reason}")
    return Refusal(JSONRPCError(jsonrpc="2.0", id=of, error=said))


def without_lone_surrogates(text: bytes) -> bytes:
    """Return JSON in which every escaped surrogate without its other half is U+FFFD."""

    def mend(match: re.Match[bytes]) -> bytes:
        high, low, alone, _ = match.groups()
        return rb"\ufffd" if alone or (high and not low) else match[0]

    return _ESCAPES.sub(mend, text)


def memory_to_read(text: bytes) -> int:
    """Return how many bytes of memory it takes at most to read a message; exact counts are for the dear ones."""
    values = sum(text.count(sign) for sign in (b",", b"[", b"{"))
    if _BYTE_COST * len(text) + _VALUE_COST * values > _LOOKED_AT_COST:
        values = sum(match.lastindex is not None for match in _STRING_OR_VALUE.finditer(text))
    return _BYTE_COST * len(text) + _VALUE_COST * values


def _too_dear(text: bytes) -> str | None:
    """Return why a message must not be read: here and in the SDK, which may read it once more."""
    cost = memory_to_read(text)
    if cost > MAX_MEMORY_BYTES:
        return "it holds too many values"
    if cost > _SMALL_COST:
        try:  # parsers in native code abort where they get no memory
            mmap.mmap(-1, 2 * cost).close()
        except OSError:
            return "there is not enough memory to read it; send less at a time"
    return None
