"""What one tool call was worth, told without a model from what it returned and what followed; no I/O.

Words of the output are compared with what was asked, and believed in nothing else: a tool that praises itself, or that
is praised in a page, gains nothing by it.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import JsonValue

from swarm_memory.schema.tool_memory import Evaluation, KeptCall, ToolCall
from swarm_memory.tools.ports.tool_memory import Neighbour, PendingCalls
from swarm_memory.tools.text.tokens import query_tokens, tokenize
from swarm_memory.tools.tool_memory.inputs import (
    arguments_of,
    asked_of,
    input_tokens,
    is_looking,
    show_value,
    similarity,
)
from swarm_memory.tools.trajectory.phrasing import show_symptom

MIN_COVERAGE = 0.2
"""An answer that has a smaller share of the words that were asked for is irrelevant."""

ENOUGH = 0.5
"""An answer with so many of them was an answer: a similar question after it is another one, and no retry."""

MIN_ASKED = 2
"""Words that a question must have for its answer to be compared with it."""

TRIES = 6
"""So many calls of a tool after one that failed may be what resolved it."""

MIN_ALIKE = 0.2
"""A good call that has so much in common with a failed one resolved it."""

RIGHT_AFTER = timedelta(minutes=5)
REPHRASED = (0.2, 0.95)
"""A call with so much in common with the next one was asked again in other words."""

_ERROR_TEXT = re.compile(
    r"(?i)\s*(?:\[?error\b|exception\b|traceback \(|fatal\b|failed\b|failure\b|service (?:busy|unavailable)|timed? ?out"
    r"|internal server error|too many requests|access denied|permission denied|unauthorized|forbidden)"
)
_NOTHING = re.compile(
    r"(?i)\s*(?:\[\]|\{\}|null|none|n/a|\"\""
    r"|no (?:results?|matches|files|data|records?|items?|hits)(?: were)?(?: found)?"
    r"|0 (?:results?|matches|rows|hits)(?: found)?|nothing (?:was )?found|not found)[\s.!]*"
)
_RESULT_KEYS = ("results", "result", "items", "data", "matches", "hits", "documents", "rows", "content")
_ERROR_LINE = re.compile(
    r"(?i)error|exception|fail|fatal|denied|not found|busy|timed? ?out|invalid|missing|cannot|refused"
)
_IDENTIFIER = re.compile(r"\w+(?:[.-]\w+)*")
_TELLING_NAME = re.compile(r"[a-z][A-Z]|[_.\d-]")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What followed a call in its session."""

    next_call: Neighbour | None = None
    corrected: bool = False
    """The user corrected what was done, and no other call stands between."""


def surroundings_of(kept: KeptCall, pending: PendingCalls) -> Surroundings:
    """Return what followed a call, from what was read around it."""
    session = kept.call.session_id
    if session is None:
        return Surroundings()
    following = next((each for each in pending.after if each.seq > kept.seq and each.session_id == session), None)
    until = following.at if following else None
    corrected = any(
        at >= kept.call.created_at and (until is None or at <= until) for at in pending.corrections.get(session, ())
    )
    return Surroundings(following, corrected)


def evaluate_by_evidence(call: ToolCall, around: Surroundings, names: frozenset[str] = frozenset()) -> Evaluation:
    """Return score, summary and evaluation of a call; the reason for a 0 is the first of the proofs that holds.

    `names` are those of all tools that are known: what an output says of any of them is no answer.
    """
    against = _against(call, around, names)
    return Evaluation(
        score=0.0 if against else 1.0,
        summary=_summary(call),
        evaluation=against or "it returned something, and nothing that followed speaks against it",
        method="evidence",
    )


def error_line(output: str) -> str:
    """Return the line of an output that names the error, as a symptom that may be quoted; may be empty."""
    parsed = _error_of(_parsed(output))
    lines = [line.strip() for line in (parsed or output).splitlines() if line.strip()]
    telling = [line for line in lines if _ERROR_LINE.search(line)]
    for line in (*telling[-1:], *telling, *lines):
        if shown := show_symptom(line):
            return shown
    return ""


def is_error(call: ToolCall) -> bool:
    """Tell whether a call failed: as its caller says, or as its output does at its very beginning."""
    return not call.success or bool(_error_of(_parsed(call.output))) or _ERROR_TEXT.match(call.output) is not None


def went_well(kept: KeptCall) -> bool:
    """Tell how a call went: by its evaluation, or, before it has one, by its errors alone."""
    return not is_error(kept.call) if kept.evaluation is None else kept.evaluation.score >= 1.0


def _against(call: ToolCall, around: Surroundings, names: frozenset[str]) -> str | None:
    if is_error(call):
        line = error_line(call.output)
        return f'it failed: "{line}"' if line else "it failed"
    if around.corrected:
        return "the user corrected what was done right after it"
    arguments = arguments_of(call.input)
    if is_looking(call.tool_name, arguments) and _is_nothing(call.output):
        return "it found nothing"
    asked = asked_of(arguments)
    found = _coverage(asked, call, names)
    if found is not None and found < MIN_COVERAGE:
        return "what it returned shares hardly a word with what was asked"
    if asked and (found is None or found < ENOUGH) and _was_rephrased(call, around.next_call):
        return "the same was asked again in other words right after it"
    return None


def _is_nothing(output: str) -> bool:
    if not output.strip() or _NOTHING.fullmatch(output):
        return True
    parsed = _parsed(output)
    if not isinstance(parsed, dict):
        return False
    told = [parsed[key] for key in _RESULT_KEYS if key in parsed]
    return bool(told) and all(not value for value in told)


def _coverage(asked: str, call: ToolCall, names: frozenset[str]) -> float | None:
    """Return the share of the words asked for that the output has; None where there are too few to tell.

    Sentences that name a tool speak of it and not of what was asked: they are left out.
    """
    wanted = set(query_tokens(asked))
    if len(wanted) < MIN_ASKED:
        return None
    own = call.tool_name.rpartition("__")[2].lower()
    told = " ".join(part for part in _SENTENCE_END.split(call.output) if not _names_a_tool(part.lower(), own, names))
    return len(wanted & set(tokenize(told))) / len(wanted)


def _names_a_tool(sentence: str, own: str, names: frozenset[str]) -> bool:
    return own in sentence or not names.isdisjoint(_IDENTIFIER.findall(sentence))


def tool_words(tool_names: Iterable[str]) -> frozenset[str]:
    """Return the names of tools by which a sentence is known to speak of a tool, in lower case.

    Names that are words of the language too, such as Read, are not among them.
    """
    short = (name.rpartition("__")[2] for name in tool_names)
    return frozenset(name.lower() for name in short if _TELLING_NAME.search(name))


def _was_rephrased(call: ToolCall, following: Neighbour | None) -> bool:
    if following is None or following.tool_name != call.tool_name or not _is_soon(call.created_at, following.at):
        return False
    own, others = set(input_tokens(call.input)), set(input_tokens(following.input))
    low, high = REPHRASED
    return bool(own | others) and low <= len(own & others) / len(own | others) <= high


def _is_soon(at: datetime, then: datetime) -> bool:
    return timedelta(0) <= then - at <= RIGHT_AFTER


def _summary(call: ToolCall) -> str:
    arguments = arguments_of(call.input)
    shown = [f"{name}: {value}" for name in list(arguments)[:3] if (value := show_value(name, arguments[name]))]
    lines = len(call.output.splitlines())
    returned = "nothing" if not call.output.strip() else f"{lines} line{'s' if lines != 1 else ''}"
    return f"called with {'; '.join(shown) or 'no telling arguments'}; returned {returned}"


def _parsed(text: str) -> JsonValue:
    if text.lstrip()[:1] != "{":
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _error_of(parsed: JsonValue) -> str:
    """Return what a JSON answer says of an error; empty when it tells of none."""
    if not isinstance(parsed, dict):
        return ""
    for key in ("error", "errors", "exception"):
        if value := parsed.get(key):
            return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    failed = parsed.get("isError") is True or parsed.get("status") in ("error", "failed", "failure")
    return str(parsed.get("message") or "error") if failed else ""


def resolving_call(failed: KeptCall, calls: Sequence[KeptCall]) -> KeptCall | None:
    """Return the good call that is most like a failed one, among the next few of its session.

    `calls` are those of the same tool, by arrival.
    """
    later = [each for each in calls if each.seq > failed.seq and each.call.session_id == failed.call.session_id]
    good = [each for each in later[:TRIES] if went_well(each)]
    alike = [(similarity(failed.call.input, each.call.input), -each.seq, each) for each in good]
    best = max(alike, key=lambda each: each[:2], default=None)
    return best[2] if best is not None and best[0] >= MIN_ALIKE else None
