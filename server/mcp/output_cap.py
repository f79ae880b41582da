"""Cuts what a tool answers to what an agent can afford, at a boundary, and says what is missing; it knows no tool."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

from swarm_memory.tools.text.tokens import count_tokens

NOTE_TOKENS = 80
"""Kept free for the note."""

_MIN_STRING_CHARS = 200
_BOUNDARIES = ("\n\n", "\n", ". ", " ")
_CHARS_PER_TOKEN = 7
"""No token of the estimate has more letters."""

Json: TypeAlias = dict[str, Any]


class Paging(NamedTuple):
    """What a caller can ask of the tool to get what was left out."""

    offset: int | None = None
    """What the call gave as its offset; None when the tool has none."""
    counts: Sequence[str] = ()
    """Those of its arguments that say how many are wanted."""


class _Cut(NamedTuple):
    """Where something can be shortened, and what that saves at most."""

    holder: Any
    key: str | int
    saves: int
    is_top: bool


def is_within(text: str, max_tokens: int) -> bool:
    """Whether a text is within the limit: a short one surely is, without being looked at."""
    return 3 * len(text) <= max_tokens or count_tokens(text) <= max_tokens


def capped_text(text: str, max_tokens: int, paging: Paging) -> str:
    """Return a text within the limit, with a line that says what was left out where something was."""
    if is_within(text, max_tokens):
        return text
    kept = _beginning(text, max_tokens - NOTE_TOKENS)
    return f"{kept}\n\n[{_note(count_tokens(text) - count_tokens(kept), None, paging)}]"


def capped(content: Mapping[str, Any], max_tokens: int, paging: Paging) -> Json:
    """Return an answer within the limit: the last entries of its longest lists are left out, its longest texts cut.

    `cut` then says how many tokens are missing and how to get them.
    """
    whole = _tokens(content)
    if whole <= max_tokens:
        return dict(content)
    left: Json = json.loads(json.dumps(content))
    room = max_tokens - NOTE_TOKENS
    shown: int | None = None
    while (excess := _tokens(left) - room) > 0:
        cut = _heaviest(left)
        if cut is None:
            left = {}
            break
        value = cut.holder[cut.key]
        if isinstance(value, list):
            _shorten_list(cast(list[Any], value), excess)
            shown = len(cast(list[Any], value)) if cut.is_top else shown
        else:
            cut.holder[cut.key] = _shortened(value, excess)
    missing = whole - _tokens(left)
    left["cut"] = {"left_out_tokens": missing, "how": _note(missing, shown, paging)}
    return left


def _heaviest(value: Json) -> _Cut | None:
    """Return the longest list of more than one entry; where none weighs enough, the longest text."""
    cuts = list(_cuts(value, 0))
    lists = [cut for cut in cuts if isinstance(cut.holder[cut.key], list)]
    texts = [cut for cut in cuts if not isinstance(cut.holder[cut.key], list)]
    best_list = max(lists, key=lambda cut: cut.saves, default=None)
    best_text = max(texts, key=lambda cut: cut.saves, default=None)
    if best_list is None or (best_text is not None and best_text.saves > 4 * best_list.saves):
        return best_text
    return best_list


def _cuts(value: object, depth: int) -> Iterator[_Cut]:
    pairs: Iterable[tuple[Any, Any]]
    if isinstance(value, dict):
        pairs = cast(Json, value).items()
    elif isinstance(value, list):
        pairs = enumerate(cast(list[Any], value))
    else:
        return
    for key, part in pairs:
        if isinstance(part, list):
            entries = cast(list[Any], part)
            if len(entries) > 1:
                yield _Cut(cast(Any, value), key, _tokens(entries[1:]), depth == 0)
        elif isinstance(part, str) and len(part) > _MIN_STRING_CHARS:
            yield _Cut(cast(Any, value), key, count_tokens(part), False)
        yield from _cuts(cast(object, part), depth + 1)


def _shorten_list(entries: list[Any], excess: int) -> None:
    """Drop entries from the end until so many tokens are saved or one is left."""
    saved = 0
    while len(entries) > 1 and saved < excess:
        saved += _tokens(entries.pop())


def _shortened(text: str, excess: int) -> str:
    return _beginning(text, max(0, count_tokens(text) - excess - 1))


def _beginning(text: str, max_tokens: int) -> str:
    """Return the beginning of a text, at most so many tokens of it, up to a paragraph, line, sentence or word."""
    low, high = 0, min(len(text), max(0, max_tokens) * _CHARS_PER_TOKEN)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count_tokens(text[:middle]) <= max_tokens else (low, middle - 1)
    part = text[:low]
    for boundary in _BOUNDARIES:
        at = part.rfind(boundary)
        if at > len(part) // 2:
            part = part[: at + 1]
            break
    part = part.rstrip()
    return f"{part} …" if part else ""


def _note(missing: int, shown: int | None, paging: Paging) -> str:
    """Say how many tokens are missing, and how to get them."""
    said = f"{missing:,} tokens were left out"
    ways: list[str] = []
    if shown is not None and paging.offset is not None:
        ways.append(f"call again with offset={paging.offset + shown}")
    elif paging.counts:
        ways.append(f"call again with a smaller {' or '.join(paging.counts)}")
    else:
        ways.append("ask for less at once")
    return f"{said}: {', '.join(ways)}, or raise output.max_tokens"


def _tokens(value: object) -> int:
    return count_tokens(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
