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
_MAX_SHAPE = 24
"""Characters of a word or a number that calls are told apart by."""

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
_FORMATS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\d{4}-\d{2}-\d{2}"), "a date as YYYY-MM-DD"),
    (re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}.*"), "a date with a time"),
    (re.compile(r"\d{1,2}[./]\d{1,2}[./]\d{2,4}"), "a date with dots or slashes"),
    (re.compile(r"[a-z][a-z0-9+.-]{1,15}://\S+"), "a URL"),
    (re.compile(r"(?:/|~/|[A-Za-z]:\\)\S+"), "an absolute path"),
    (re.compile(r"[\w.-]+(?:/[\w.-]+)+"), "a relative path"),
    (re.compile(r"[+-]?\d+(?:\.\d+)?"), "a number in quotes"),
)
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
    return " ".join(value for name, value in arguments.items() if is_asking(name) and isinstance(value, str)).strip()


def is_asking(name: str) -> bool:
    """Tell whether an argument holds what is asked for in words, by its name."""
    return name.lower() in _ASKING


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

    It tells best what kind of thing is asked for. Empty where there is none, or where it is no plain word.
    """
    words = words_as_written(text[: _MAX_OPENING * 4])
    first = "".join(words[:2]) if words and _is_unspaced(words) else "".join(words[:1])
    return first if len(first) <= _MAX_OPENING and _LETTERS.fullmatch(first) else ""


def opening_token(text: str) -> tuple[str, ...]:
    """Return the token by which calls that begin as a request does are known; none where it has no opening."""
    opening = opening_of(text)
    return (f"{OPENING}{opening}",) if opening else ()


def _is_unspaced(words: list[str]) -> bool:
    return len(words[0]) == 1 and not words[0].isascii() and len(words) > 1 and len(words[1]) == 1


def topics_of(text: str) -> set[str]:
    """Return the words that a request is about, as they were written, in lower case."""
    return {word for word in _WORD.findall(text.lower()) if word not in STOP_WORDS}


def features_of(arguments: Mapping[str, JsonValue]) -> set[str]:
    """Return what can be said of the arguments, each as a short phrase: which are given, their values and shapes."""
    found: set[str] = set()
    for name, value in arguments.items():
        shown = f"`{_safe_name(name)}`"
        found.add(f"{shown} given")
        found.update(f"{shown} {phrase}" for phrase in _shapes(name, value))
    return found


def show_value(name: str, value: JsonValue) -> str:
    """Return a value as it may be told; empty when it reads like an instruction."""
    if isinstance(value, str):
        return show_command(value) if name.lower() in COMMANDS else show_symptom(value, limit=MAX_VALUE)
    return show_symptom(json.dumps(value, ensure_ascii=False), limit=MAX_VALUE)


def difference(before: str, after: str) -> str:
    """Return in words how the arguments of a call differ from those of an earlier one; empty where they do not."""
    old, new = arguments_of(before), arguments_of(after)
    parts: list[str] = []
    for name in sorted(new.keys() | old.keys()):
        shown = f"`{_safe_name(name)}`"
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


def _safe_name(name: str) -> str:
    return "".join(char for char in name if char.isalnum() or char in "_-.")[:40] or "?"


def _shapes(name: str, value: JsonValue) -> Iterator[str]:
    if isinstance(value, int | float) or value is None:
        shown = json.dumps(value)
        yield f"= {shown}" if len(shown) <= _MAX_SHAPE else "a long number"
    elif isinstance(value, list):
        yield "an empty list" if not value else "a list"
    elif isinstance(value, dict):
        yield "an object"
    elif name.lower() in COMMANDS:
        yield f'starting with "{show_command(value).split(" ")[0][:30]}"'
    else:
        yield from _text_shapes(value)


def _text_shapes(value: str) -> Iterator[str]:
    plain = value.strip()
    phrase = next((phrase for pattern, phrase in _FORMATS if pattern.fullmatch(plain)), None)
    if phrase:
        yield f"as {phrase}"
    words = len(plain.split())
    if words <= 1 and len(plain) <= _MAX_SHAPE and (shown := show_symptom(plain, limit=_MAX_SHAPE)):
        yield f'= "{shown}"'
    elif words > 1:
        yield f"of {_length(words)}"


def _length(words: int) -> str:
    for limit, phrase in ((3, "2 to 3 words"), (6, "4 to 6 words"), (12, "7 to 12 words"), (25, "13 to 25 words")):
        if words <= limit:
            return phrase
    return "more than 25 words"


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
