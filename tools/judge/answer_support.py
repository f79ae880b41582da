"""Whether the answer to a question was found in what the agent read; for trajectories that look things up and answer.

It compares words only: it can tell an answer that nothing supports, and cannot tell a right one from a plausible one.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.tools.trajectory.calls import LOOKING_TOOL, Call

_STOP_WORDS = """the a an of in on at to for and or is was were are did do does what which who whom whose when
where how that this by with from it its as be been has have had also both same between there their
his her he she they"""
_STOP = frozenset(_STOP_WORDS.split())
_QUESTION = re.compile(r"(?i)\?|^\W*(?:who|what|which|when|where|why|how|is|are|was|were|did|does|do|tell|name|give)\b")
_NO_ANSWER = re.compile(r"(?i)\b(?:unknown|not (?:found|available|specified|mentioned)|no information|unable|cannot)\b")
_MAX_ANSWER_WORDS = 30
_MAX_READ_CHARS = 200_000
_GIVEN = ("messages", "steps", "agent")
"""The forms of trajectories that no host wrote: what a host's agent says last is a word to its user."""


@dataclass(frozen=True, slots=True)
class AnswerSupport:
    """What was found out about one answer: weights as log-odds with their reasons."""

    findings: tuple[tuple[float, str], ...]
    steps: tuple[str, ...]


def answer_support(trajectory: Trajectory, calls: Sequence[Call]) -> AnswerSupport | None:
    """Weigh the answer of a question that was looked up; None when the trajectory is not of that kind.

    Of that kind is one that only looked things up, talked with nobody while it did, and ends with a short text: the
    argument of a terminal call, or the last message.
    """
    given = _given_answer(trajectory, calls)
    looked = [call for call in calls if LOOKING_TOOL.search(call.tool) and call.output and not call.ends_task]
    if given is None or not looked or not _only_looks(calls):
        return None
    answer = _words(given[0])
    if not answer or len(answer) > _MAX_ANSWER_WORDS:
        return None
    read = [call.output for call in looked if not call.failed and not call.empty]
    question = set(_words(trajectory.task)) - _STOP
    findings = [*_found(answer, question, read), *_form(answer, looked)]
    return AnswerSupport(tuple(findings), tuple(dict.fromkeys([*given[1], *looked[-1].ids])))


def asks_for_answer(trajectory: Trajectory, calls: Sequence[Call]) -> bool:
    """Whether the task is a question, and the agent did nothing but look things up."""
    asked = bool(_QUESTION.search(trajectory.task))
    return asked and _only_looks(calls) and any(LOOKING_TOOL.search(call.tool) for call in calls)


def _only_looks(calls: Sequence[Call]) -> bool:
    return not any(call.writes or call.command for call in calls if not call.ends_task)


def _given_answer(trajectory: Trajectory, calls: Sequence[Call]) -> tuple[str, tuple[str, ...]] | None:
    """Return the answer and the ids of the steps that give it."""
    steps, last = trajectory.steps, calls[-1]
    if any(step.role == "user" and step.kind == "message" for step in steps[calls[0].position :]):
        return None
    if last.ends_task:
        texts = [value for value in last.input.values() if isinstance(value, str)]
        return (" ".join(texts) if texts else last.step.text), last.ids
    final = steps[-1]
    if final.kind != "message" or final.role != "assistant" or trajectory.source not in _GIVEN:
        return None
    return final.text, (final.id,)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _found(answer: list[str], question: set[str], read: list[str]) -> list[tuple[float, str]]:
    """Is the answer there word for word, and does the sentence that holds it speak of the question?

    That it is there says little: a wrong one stands there just as often. That it is not there says more.
    """
    text = "\n".join(read)[-_MAX_READ_CHARS:]
    known = set(_words(text))
    covered = len(question & known) / len(question) if question else 0.0
    findings = [(-0.6, "little of the question was found in what was read")] if covered < 0.4 else []
    findings += [(0.2, "what was read speaks of nearly all of the question")] if covered >= 0.75 else []
    if answer in (["yes"], ["no"]):
        return findings
    phrase = f" {' '.join(answer)} "
    sentences = [f" {' '.join(_words(part))} " for part in re.split(r"(?<=[.!?])\s+|\n", text)]
    holding = [sentence for sentence in sentences if phrase in sentence]
    if not holding:
        return [*findings, (-0.7, "the answer stands in nothing that was read")]
    shared = max(len(question & set(sentence.split())) for sentence in holding) / max(len(question), 1)
    if shared >= 0.2:
        findings.append((0.3, "a sentence that was read holds the answer and speaks of the question"))
    return findings


def _form(answer: list[str], looked: list[Call]) -> list[tuple[float, str]]:
    """A long answer hedges; many look-ups mean that the way was not found."""
    findings: list[tuple[float, str]] = []
    if _NO_ANSWER.search(" ".join(answer)):
        findings.append((-1.2, "the answer says that there is none"))
    elif len(answer) >= 4:
        findings.append((-0.8, "the answer is long where one thing was asked for"))
    if len(looked) >= 4:
        findings.append((-0.5, "it took many look-ups"))
    return findings
