"""The arguments of a tool call: read from their text, described, compared.

Arguments are untrusted text. What is shown of them is generalised, on one line, in quotes, and never reads like an
instruction.
"""

import json
import re
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from swarm_memory.tools.guard.generalize import generalize
from swarm_memory.tools.text.cleaning import one_line
from swarm_memory.tools.text.tokens import STOP_WORDS, query_tokens, words_as_written
from swarm_memory.tools.trajectory.calls import LOOKING_TOOL
from swarm_memory.tools.trajectory.phrasing import show_command, show_symptom

MAX_VALUE = 60
"""Characters of a value that are shown."""

_ASKING = frozenset({
    "query", "q", "question", "search", "search_query", "keywords", "keyword", "term", "terms", "topic", "prompt",
    "text", "pattern",
})  # fmt: skip
COMMANDS = frozenset({"command", "cmd", "script", "shell"})
_WORD = re.compile(r"[^\W\d_]{3,30}")
_LETTERS = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*")
_MAX_OPENING = 20

OPENING = "beginswith"
"""Begins the token that says how a request begins; no word of a request does."""
_NO_ARGUMENT = "input"


def arguments_of(text: str) -> dict[str, JsonValue]:
    """Return the arguments of a call's input: a JSON object, or anything else under the name `input`."""
    if not text.strip():
        return {}
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return {_NO_ARGUMENT: text}
    return value if isinstance(value, dict) else {_NO_ARGUMENT: value}


def asked_of(arguments: Mapping[str, JsonValue]) -> str:
    """Return what a call asked for in words: the values of `query`, `question` …; empty where it asks for nothing."""
    asked = (value for name, value in arguments.items() if name.lower() in _ASKING and isinstance(value, str))
    return " ".join(asked).strip()


def is_looking(tool_name: str, arguments: Mapping[str, JsonValue]) -> bool:
    """Tell whether a call looks for something, so that an empty answer is of no use."""
    return bool(asked_of(arguments)) or LOOKING_TOOL.search(tool_name.rpartition("__")[2]) is not None


def input_tokens(text: str) -> tuple[str, ...]:
    """Return the distinct tokens of the values of a call's input; names of arguments say nothing of the task."""
    return query_tokens(" ".join(_strings(arguments_of(text))))


def similarity(text: str, other: str) -> float:
    """Return how alike two inputs are: shared tokens over all (Jaccard); 1 for equal ones, whatever their ids."""
    if signature(text) == signature(other):
        return 1.0
    own, others = set(input_tokens(text)), set(input_tokens(other))
    return len(own & others) / len(own | others) if own | others else 0.0


def signature(text: str) -> str:
    """Return an input without what differs from call to call: ids, times, paths of one machine, white space."""
    return " ".join(generalize(json.dumps(arguments_of(text), sort_keys=True, ensure_ascii=False)).split())


def opening_of(text: str) -> str:
    """Return the word that a request begins with, in lower case; of a script without spaces the first two characters.

    It says best what kind of thing is asked for. Empty where there is none, or where it is no plain word.
    """
    words = words_as_written(text[: _MAX_OPENING * 4])
    is_unspaced = len(words) > 1 and len(words[0]) == len(words[1]) == 1 and not words[0].isascii()
    first = "".join(words[: 2 if is_unspaced else 1])
    return first if len(first) <= _MAX_OPENING and _LETTERS.fullmatch(first) else ""


def opening_token(text: str) -> tuple[str, ...]:
    """Return the token by which calls that begin as a request does are known; none where it has no opening."""
    opening = opening_of(text)
    return (f"{OPENING}{opening}",) if opening else ()


def topics_of(request: str) -> set[str]:
    """Return the words that a request is about but the one it begins with, as they were written, in lower case."""
    return {word for word in _WORD.findall(request.lower()) if word not in STOP_WORDS} - {opening_of(request)}


def show_value(name: str, value: JsonValue) -> str:
    """Return a value as it may be shown; empty when it reads like an instruction."""
    if isinstance(value, str):
        return show_command(value) if name.lower() in COMMANDS else show_symptom(value, limit=MAX_VALUE)
    return show_symptom(json.dumps(value, ensure_ascii=False), limit=MAX_VALUE)


def difference(before: str, after: str) -> str:
    """Return in words how the arguments of a call differ from those of an earlier one; empty where they do not."""
    old, new = arguments_of(before), arguments_of(after)
    parts: list[str] = []
    for name in sorted(new.keys() | old.keys()):
        shown = f"`{safe_name(name) or '?'}`"
        if name not in new:
            parts.append(f"without {shown}")
        elif name not in old:
            parts.append(f"with {shown} = {_quoted(name, new[name])}")
        elif old[name] != new[name]:
            parts.append(f"with {shown} = {_quoted(name, new[name])} instead of {_quoted(name, old[name])}")
    return one_line(", ".join(parts), 300)


def _quoted(name: str, value: JsonValue) -> str:
    shown = show_value(name, value)
    if not shown:
        return "another value"
    return f'"{shown}"' if isinstance(value, str) else shown


def safe_name(name: str) -> str:
    """Return the name of an argument, tool or program as it may stand between back-ticks."""
    return "".join(char for char in name if char.isalnum() or char in "_-.+/")[:60]


def _strings(value: JsonValue, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, bool) or value is None:
        return
    elif isinstance(value, int | float):
        yield str(value)
    elif depth < 6:
        for part in value.values() if isinstance(value, dict) else value:
            yield from _strings(part, depth + 1)
