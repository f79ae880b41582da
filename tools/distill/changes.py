"""Which arguments of a tool made the difference between the calls that it refused and the one that it took."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.errors import Repair, same_error

_MAX_VALUE, _MAX_ANSWER = 24, 20_000
_TOKEN = re.compile(r"[A-Za-z][\w.-]*")
"""What may be a code that a tool takes: one word; never an amount, a date, a sentence."""

_MIN_FOUND = 3
"""A shorter value stands in too many answers to say where it came from, unless it is the whole answer."""


@dataclass(frozen=True, slots=True)
class Change:
    """One argument that differs between the last refused call and the one that went through."""

    path: str
    """Such as `payments[].amount`."""
    value: JsonValue
    """What went through; None where it was left out."""
    refused: tuple[str, ...]
    """Values that may be told and were refused in the same argument."""
    source: str = ""
    """The tool whose answer held the value before; empty where none did."""
    is_named: bool = False
    """Whether the error names it."""
    is_code: bool = False
    """Whether the value may be told: a code of the tool's own, and nothing of this task."""

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rsplit(".", 1)[-1].removesuffix("[]")

    @property
    def is_left_out(self) -> bool:
        return self.value is None


def telling_changes(repair: Repair, calls: Sequence[Call], task: str, particulars: Sequence[str]) -> tuple[Change, ...]:
    """Return the arguments that may have made the difference between the refused calls and the one that went through.

    The last call with the same error is the nearest to that one, so that fewest bystanders differ. Where the error
    names some of the arguments the others are bystanders.
    """
    alike = [repair.failed, *(call for call in repair.attempts if same_error(repair.failed, call))]
    nearest = _nearest(alike, repair.success)
    changes = [_change(path, value, repair, calls, task, particulars) for path, value in nearest]
    named = tuple(change for change in changes if change.is_named)
    return named or tuple(changes)


def _nearest(failed: Sequence[Call], success: Call) -> list[tuple[str, JsonValue]]:
    """Return what differs from the last refused call; where that gave nothing, from the first."""
    for call in (failed[-1], failed[0]):
        found = dict(_differences(call.input, success.input))
        if found:
            return list(found.items())
    return []


def _change(
    path: str, value: JsonValue, repair: Repair, calls: Sequence[Call], task: str, particulars: Sequence[str]
) -> Change:
    name = path.rsplit(".", 1)[-1].removesuffix("[]")
    is_named = f" {_plain(name)} " in f" {_plain(repair.failed.error)} "
    others = [
        other
        for call in (repair.failed, *repair.attempts)
        for key, other in _leaves(call.input)
        if key == path and other != value
    ]
    source = _source(value, others, repair, calls)
    is_code = is_named and not source and _speaks_of(name, repair) and _may_be_told(value, task, particulars)
    refused = dict.fromkeys(str(other) for other in others if _may_be_told(other, task, particulars))
    return Change(path, value, tuple(refused) if is_code else (), source, is_named, is_code)


def _plain(text: str) -> str:
    """The words of a text, without the ending of the plural."""
    return " ".join(re.sub(r"s$", "", word) for word in re.split(r"[\W_]+", text.lower()) if word)


def _speaks_of(name: str, repair: Repair) -> bool:
    """Whether an error speaks of an argument as such, and not of a thing that happens to have the same name."""
    word = re.escape(name)
    spoken = rf"['\"`]{word}['\"`]|\b(?:field|parameter|argument|property|key) {word}\b"
    judged = rf"\b{word}(?::| is | must | has to | should | may | cannot )"
    named = "_" in name and any(name in call.error for call in (repair.failed, *repair.attempts))
    return named or any(re.search(f"{spoken}|{judged}", call.error) for call in (repair.failed, *repair.attempts))


def _may_be_told(value: JsonValue, task: str, particulars: Sequence[str]) -> bool:
    """Whether a value is a code of the tool: nothing that the task gave, that names a person or a record."""
    if isinstance(value, bool):
        return True
    text = value if isinstance(value, str) else ""
    return (
        0 < len(text) <= _MAX_VALUE
        and _TOKEN.fullmatch(text) is not None
        and text not in particulars
        and not re.search(rf"(?i)(?<!\w){re.escape(text)}(?!\w)", task)
        and len(re.findall(r"\d", text)) <= 2
    )


_ID = re.compile(r"(?=.*\d)(?=.*[A-Za-z]|\d{6})")
"""A value that names a thing, and is no amount."""


def _source(value: JsonValue, refused: Sequence[JsonValue], repair: Repair, calls: Sequence[Call]) -> str:
    """Return the other tool whose answer held the id last before it was used; a plain word or an amount has no source.

    Nor has a value that the error itself names, nor one of a tool whose answers held a refused value as well.
    """
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if not _ID.match(text) or any(_stands_in(text, call.output) for call in (repair.failed, *repair.attempts)):
        return ""
    earlier = [
        call for call in calls
        if call.position < repair.success.position and not call.failed and call.tool != repair.success.tool
    ]  # fmt: skip
    source = next((call.tool for call in reversed(earlier) if _holds(call, text)), "")
    is_doubtful = any(_holds(call, str(other)) for call in earlier if call.tool == source for other in refused)
    return "" if is_doubtful else source


def _holds(call: Call, text: str) -> bool:
    return call.output.strip() == text or (len(text) >= _MIN_FOUND and _stands_in(text, call.output))


def _stands_in(text: str, output: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(text)}(?!\w)", output[:_MAX_ANSWER]) is not None


def _leaves(given: Mapping[str, JsonValue], prefix: str = "") -> Iterator[tuple[str, JsonValue]]:
    for key, value in given.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        elif isinstance(value, list):
            for part in value:
                yield from _leaves(part, f"{prefix}{key}[].") if isinstance(part, dict) else [(f"{prefix}{key}", part)]
        else:
            yield f"{prefix}{key}", value


def _differences(
    before: Mapping[str, JsonValue], after: Mapping[str, JsonValue], prefix: str = ""
) -> Iterator[tuple[str, JsonValue]]:
    """Yield the paths of the arguments that differ, each with its new value: None where it was left out."""
    for key in after:
        old, new = before.get(key), after[key]
        path = f"{prefix}{key}"
        if old == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _differences(old, new, f"{path}.")
        elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
            pairs = [(left, right) for left, right in zip(old, new, strict=True) if left != right]
            inner = [
                inside
                for left, right in pairs
                if isinstance(left, dict) and isinstance(right, dict)
                for inside in _differences(left, right, f"{path}[].")
            ]
            yield from inner or [(path, new)]
        else:
            yield path, new
    yield from ((f"{prefix}{key}", None) for key in before if key not in after)
