"""Which of the memories that a task was given it used: from what the agent said and from what it did.

It knows no store. Only the agent's own messages and tool calls count; what a tool or a person says proves no use.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

from swarm_memory.schema.memory import MemoryItem
from swarm_memory.schema.outcome import Use
from swarm_memory.schema.trajectory import Step, Trajectory
from swarm_memory.tools.text.cleaning import lazy
from swarm_memory.tools.text.names import names_in

MIN_TERMS = 2
"""A single name in common is chance."""

MIN_OVERLAP = 0.5
"""The share of what a memory names (commands, files, identifiers) that a task must have taken from it to count as use
where the agent did not name the memory."""

_MAX_TEXT = 20_000
_ID = lazy(r"(?i)\brm_[0-9a-z]{6,26}(?![0-9a-z])")
"""The id of a memory or its beginning; fewer letters name nothing."""

_SENTENCE = lazy(r"(?<=[.!?;])\s+|\n+")
_DENIAL = lazy(
    r"(?i)(?:\b(?:not|never)|n['\u2019]t)\s+(?:(?!to\b)\w+\s+){0,2}(?:us|appl|fit|help|need|follow|rel[ey])\w*"
    r"|\b(?:(?:unused|irrelevant|unrelated|unhelpful|neither)\b|ignor|skipped|none of)"
)
_ADVERSE = lazy(
    r"(?i)\b(?:do(?:es|id)? not|don't|doesn't|didn't|never|avoid|instead of|rather than|must not|no use|in vain)\b"
)
"""A step that warns: to do what it names is no use of it."""

_TERM = lazy(r"[A-Za-z0-9_@$./:+-]+")


def detect_uses(
    trajectory: Trajectory | None,
    items: Sequence[MemoryItem],
    since: Mapping[str, datetime],
    named: Collection[str] = (),
) -> tuple[Use, ...]:
    """Return for each memory how it was seen to be used.

    `cited`: it is among the `named`, or a message of the agent names its id, or a beginning of the id that is of no
    other one, in a sentence that does not say it was left aside. `overlap`: tool calls hold at least half of the names
    that the memory advises, two or more, and these names stood neither in the task nor in anything that the agent had
    read before the call. Calls count from when the task was given the memory: `since`, by id, or from its beginning.
    """
    given = trajectory.steps if trajectory else ()
    cited = {*named, *_cited(given, [item.id for item in items])}
    steps = [(step, frozenset(terms_of(f"{step.text}\n{step.tool_input or ''}"))) for step in given]
    asked = frozenset(terms_of(trajectory.task if trajectory else ""))
    uses: list[Use] = []
    for item in items:
        overlap = _overlap(since.get(item.id), advised_terms(item) - asked, steps)
        method = "cited" if item.id in cited else "overlap" if overlap >= MIN_OVERLAP else "none"
        uses.append(Use(memory_id=item.id, method=method, overlap=round(overlap, 4)))
    return tuple(uses)


def advised_terms(item: MemoryItem) -> frozenset[str]:
    """Return the words of the names that an item advises; a line that warns advises none, and options are none."""
    lines = (line for line in item.advice.splitlines() if not _ADVERSE.search(line))
    return frozenset(term for line in lines for name in names_in(line) for term in terms_of(name))


def terms_of(text: str) -> Iterator[str]:
    """Yield the words of a command or of code that can name something, in lower case; options are none."""
    for word in _TERM.findall(text[:_MAX_TEXT].replace("\\n", "\n")):
        term = word.strip("./:+-@$").lower()
        if len(term) > 1 and not word.startswith("-") and term != term.upper():
            yield term


def _cited(steps: Sequence[Step], ids: Sequence[str]) -> set[str]:
    said = [step.text for step in steps if step.kind == "message" and step.role == "assistant"]
    sentences = (each for text in said for each in _SENTENCE.split(text) if not _DENIAL.search(each))
    named = {found[0].lower() for each in sentences for found in _ID.finditer(each)}
    meant = ([each for each in ids if each.lower().startswith(name)] for name in named)
    return {found[0] for found in meant if len(found) == 1}


def _overlap(since: datetime | None, advised: frozenset[str], steps: Sequence[tuple[Step, frozenset[str]]]) -> float:
    """Return the share of its names that stood in a call before the agent could have read them elsewhere."""
    read, found = set[str](), set[str]()
    for step, terms in steps:
        if step.kind == "tool_call" and (step.at is None or since is None or step.at >= since):
            found |= advised & terms - read
        if step.role != "assistant":
            read |= advised & terms
    return len(found) / len(advised) if len(found) >= MIN_TERMS else 0.0
