"""Which of the memories that a task was given it used: from what the agent said and from what it did.

It knows no store. Only the agent's own messages and tool calls count; what a tool or a person says proves no use.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from swarm_memory.schema.memory import MemoryItem
from swarm_memory.schema.outcome import Use
from swarm_memory.schema.trajectory import Step, Trajectory
from swarm_memory.tools.text.patterns import lazy

MIN_TERMS = 2
"""A single name in common is chance."""

_MIN_PREFIX, _MIN_SUFFIX = 6, 4
"""Letters of an id, counted from its front or its end, below which a short form names nothing."""

_MAX_TEXT = 20_000
_ID = lazy(r"\brm_([0-9A-HJKMNP-TV-Z]{4,26})(?![0-9A-Za-z])", re.IGNORECASE)
_ID_END = lazy(r"\brm_(?:\.{2,3}|…)([0-9A-HJKMNP-TV-Z]{4,26})(?![0-9A-Za-z])", re.IGNORECASE)
_SENTENCE = lazy(r"(?<=[.!?;])\s+|\n+")
_DENIAL = lazy(
    r"(?:\bnot|\bnever|n['\u2019]t)\s+(?:(?!to\b)\w+\s+){0,2}"
    r"(?:us(?:e|ed|ing)|appl(?:y|ied|icable)|fit|help(?:ed|ful)?|need(?:ed)?|follow(?:ed)?|relevant|useful|rel(?:y|ied))\b"
    r"|\b(?:unused|irrelevant|unrelated|unhelpful|ignor(?:e|ed|ing)|skipped|none of|neither)\b",
    re.IGNORECASE,
)
_QUOTED = lazy(r"`([^`\n]{2,500})`")
_TERM = lazy(r"[A-Za-z0-9_@$./:+-]+")
_LETTER = lazy(r"[A-Za-z]")
_EDGES = "./:+-@$"
_ADVERSE = lazy(
    r"(?i)\b(?:do(?:es|id)? not|don't|doesn't|didn't|never|avoid|instead of|rather than|must not|no use|in vain)\b"
)
"""A step that warns: to do what it names is no use of it."""

_IDENTIFIER = lazy(r"\b(?=\w*[A-Za-z])\w+(?:[_./-]\w+)+\b|\b[a-z]+[A-Z]\w+\b")


class Injection(NamedTuple):
    """A memory that a task was given, and since when; None: from its beginning."""

    item: MemoryItem
    at: datetime | None = None


def detect_uses(trajectory: Trajectory, injections: Sequence[Injection], min_overlap: float) -> tuple[Use, ...]:
    """Return for each memory how it was seen to be used.

    `cited`: a message of the agent names its id, or a part of the id that is of no other one, in a sentence that does
    not say it was left aside. `overlap`: tool calls made after the injection hold at least `min_overlap` of the names
    that the memory advises, two or more, and these names stood neither in the task nor in anything that the agent had
    read before the call.
    """
    cited = _cited(trajectory, [injection.item.id for injection in injections])
    seen = _first_calls(trajectory, injections)
    uses: list[Use] = []
    for injection in injections:
        memory_id = injection.item.id
        overlap = seen[memory_id]
        method = "cited" if memory_id in cited else "overlap" if overlap >= min_overlap > 0 else "none"
        uses.append(Use(memory_id=memory_id, method=method, overlap=round(overlap, 4)))
    return tuple(uses)


def advised_terms(item: MemoryItem) -> frozenset[str]:
    """Return the names that an item advises: the words of what it quotes in backticks, else its identifiers.

    What stands in a step that warns is left out, and so are options.
    """
    lines = [line for line in (item.title, *item.content.splitlines()) if not _ADVERSE.search(line)]
    quoted = [span for line in lines for span in _QUOTED.findall(line)]
    spans = quoted or [name for line in lines for name in _IDENTIFIER.findall(line)]
    return frozenset(term for span in spans for term in terms_of(span))


def terms_of(text: str) -> Iterator[str]:
    """Yield the words of a command or of code that can name something, in lower case; options are none."""
    for word in _TERM.findall(text[:_MAX_TEXT]):
        term = word.strip(_EDGES).lower()
        if len(term) > 1 and not word.startswith("-") and _LETTER.search(term):
            yield term


def _cited(trajectory: Trajectory, ids: Sequence[str]) -> set[str]:
    cited = set[str]()
    for step in trajectory.steps:
        if step.kind != "message" or step.role != "assistant" or "rm_" not in step.text.lower():
            continue
        for sentence in _SENTENCE.split(step.text):
            if not _DENIAL.search(sentence):
                cited.update(_named(sentence, ids))
    return cited


def _named(sentence: str, ids: Sequence[str]) -> Iterator[str]:
    fronts = [part.upper() for part in _ID.findall(sentence) if len(part) >= _MIN_PREFIX]
    ends = [part.upper() for part in _ID_END.findall(sentence) if len(part) >= _MIN_SUFFIX]
    meant = [[each for each in ids if each[3:].startswith(part)] for part in fronts]
    meant += [[each for each in ids if each.endswith(part)] for part in ends]
    yield from (found[0] for found in meant if len(found) == 1)


def _first_calls(trajectory: Trajectory, injections: Sequence[Injection]) -> dict[str, float]:
    """Return by memory id the share of its names that stood in a call before the agent could have read them."""
    wanted = {injection.item.id: advised_terms(injection.item) for injection in injections}
    every = frozenset[str]().union(*wanted.values())
    known = set(terms_of(trajectory.task)) & every
    asked = frozenset(known)
    found: Mapping[str, set[str]] = {memory_id: set[str]() for memory_id in wanted}
    for step in trajectory.steps:
        terms = set(terms_of(_text(step))) & every
        if step.kind == "tool_call":
            new = terms - known
            for injection in injections:
                if new and _after(step, injection):
                    found[injection.item.id].update(new & wanted[injection.item.id])
        if step.role != "assistant":
            known |= terms
    return {memory_id: _share(found[memory_id], terms - asked) for memory_id, terms in wanted.items()}


def _share(found: set[str], advised: frozenset[str]) -> float:
    return len(found) / len(advised) if len(found) >= MIN_TERMS else 0.0


def _after(step: Step, injection: Injection) -> bool:
    return step.at is None or injection.at is None or step.at >= injection.at


def _text(step: Step) -> str:
    """Return what a step says; of a call its arguments too, but not its tool: the agent knew of that anyway."""
    if step.tool_input is None:
        return step.text
    return f"{step.text}\n{json.dumps(step.tool_input, ensure_ascii=False)}".replace("\\n", "\n")
