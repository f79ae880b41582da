"""Credit: a task's outcome, which of its memories the task used, and by how much the outcome changes the confidence of
exactly those that it had.

Only the agent's own messages and tool calls show use; what a tool or a person says does not.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from swarm_memory.schema.job import WITHDRAW
from swarm_memory.schema.memory import MemoryItem
from swarm_memory.schema.outcome import Arm, Credit, OutcomeRecord, OutcomeStatus, TaskFigures, Use
from swarm_memory.schema.sqlite.events import TRIED
from swarm_memory.schema.trajectory import Label, Step, Trajectory, Verdict
from swarm_memory.tools.guard.trust import may_have_written
from swarm_memory.tools.ports.records import TaskInjections
from swarm_memory.tools.text.cleaning import lazy
from swarm_memory.tools.text.tokens import names_in
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.reading import Reading, read

MIN_TERMS = 2
"""The fewest names in common that count: a single one is chance."""

MIN_OVERLAP = 0.5
"""The share of what a memory names (commands, files, identifiers) that a task must have taken from it to count as use
when the agent did not name the memory."""

_MAX_TEXT = 20_000
_ID = lazy(r"(?i)\brm_[0-9a-z]{6,26}(?![0-9a-z])")
"""The id of a memory, or its beginning; fewer characters identify nothing."""

SENTENCE = lazy(r"(?<=[.!?;])\s+|\n+")
_DENIAL = lazy(
    r"(?i)(?:\b(?:not|never)|n['\u2019]t)\s+(?:(?!to\b)\w+\s+){0,2}(?:us|appl|fit|help|need|follow|rel[ey])\w*"
    r"|\b(?:(?:unused|irrelevant|unrelated|unhelpful|neither)\b|ignor|skipped|none of)"
)
ADVERSE = lazy(
    r"(?i)\b(?:d(?:o|oes|id) not|don't|doesn't|didn't|never|avoid|instead of|rather than|must not|no use|in vain)\b"
)
"""A step that warns: doing what it names is not using it."""

_TERM = lazy(r"[A-Za-z0-9_@$./:+-]+")


def detect_uses(
    trajectory: Trajectory | None,
    items: Sequence[MemoryItem],
    since: Mapping[str, datetime],
    named: Collection[str] = (),
) -> tuple[Use, ...]:
    """Return for each memory how it was seen to be used.

    `cited`: it is among the `named`, or a message of the agent contains its id, or an unambiguous beginning of the id,
    in a sentence that does not say it was left aside. `overlap`: tool calls contain at least half of the names that the
    memory advises, two or more, and these names were neither in the task nor in anything that the agent had read before
    the call. Calls count from when the task was given the memory (`since`, by id), else from the task's beginning.
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
    """Return the words of the names that an item advises, without options; a line that warns advises none."""
    lines = (line for line in item.advice.splitlines() if not ADVERSE.search(line))
    return frozenset(term for line in lines for name in names_in(line) for term in terms_of(name))


def terms_of(text: str) -> Iterator[str]:
    """Yield the words of a command or of code that can name something, in lower case and without options."""
    for word in _TERM.findall(text[:_MAX_TEXT].replace("\\n", "\n")):
        term = word.strip("./:+-@$").lower()
        if len(term) > 1 and not word.startswith("-") and term != term.upper():
            yield term


def _cited(steps: Sequence[Step], ids: Sequence[str]) -> set[str]:
    said = [step.text for step in steps if step.kind == "message" and step.role == "assistant"]
    sentences = (each for text in said for each in SENTENCE.split(text) if not _DENIAL.search(each))
    named = {found[0].lower() for each in sentences for found in _ID.finditer(each)}
    meant = ([each for each in ids if each.lower().startswith(name)] for name in named)
    return {found[0] for found in meant if len(found) == 1}


def _overlap(since: datetime | None, advised: frozenset[str], steps: Sequence[tuple[Step, frozenset[str]]]) -> float:
    """Return the share of the advised names that were in a call before the agent could have read them elsewhere."""
    read, found = set[str](), set[str]()
    for step, terms in steps:
        if step.kind == "tool_call" and (step.at is None or since is None or step.at >= since):
            found |= advised & terms - read
        if step.role != "assistant":
            read |= advised & terms
    return len(found) / len(advised) if len(found) >= MIN_TERMS else 0.0


ETA, INJECTED_WEIGHT = 0.05, 0.25
"""Added to the confidence of a memory that a successful task used; the share of this for one not seen to be used."""

FAILURE_FACTOR = -0.5
"""A failure weighs half as much as a success: it has more causes than the memory."""

_DIGITS = 9


def credited(confidence: float, change: float) -> float:
    """Return the confidence after a change, clamped to 0…1."""
    return min(1.0, max(0.0, round(confidence + change, _DIGITS)))


async def record_outcome(
    toolbox: Toolbox,
    task_id: str,
    verdict: Verdict,
    trajectory: Trajectory | Reading | None = None,
    *,
    given: bool = False,
    named: Collection[str] = (),
) -> OutcomeRecord:
    """Record a task's outcome, and change the confidence of the memories that it was given.

    Those are the memories of its recorded retrievals and of `trajectory.injected_memory_ids`, but not what the task
    itself taught; outcomes never change what the user said. `trajectory` must be fit to keep (`archivable`); if not
    given, the task's stored one is read. Without any, only the memories that the agent `named` are seen as used.
    The same outcome twice changes nothing; a longer version of the task, or another label, replaces the former credit.
    A fix that the task was seen to try is credited by its effect on its own error, however the task ended.
    A label that somebody gave (`given`) is not changed by a later judgment. Raises `StorageError`.
    """
    store = toolbox.store
    if trajectory is None:
        kept = await store.get_trajectory(toolbox.scope, task_id)
        trajectory = kept[0] if kept and kept[0].task_id == task_id else None
    reading = read(trajectory) if trajectory else None
    known = reading.trajectory if reading else None
    retrieved = await store.injections(toolbox.scope, task_id)
    former = await store.get_outcome(toolbox.scope, task_id)
    label, judge = verdict.label, verdict.judge
    said_by = toolbox.speakers or ((known.session_id,) if known and known.session_id else ())
    if former is not None and former.given and not given:
        label, judge, said_by, given = former.label, former.judge, former.said_by, True
    since = {**retrieved.beside, **retrieved.given}
    ids = dict.fromkeys((*since, *(known.injected_memory_ids if known else ())))
    had = await store.get_memories(toolbox.readable, list(ids))
    items = {item.id: item for item in had if item.provenance.task_id != task_id}
    own = [each for each in had if await may_have_written(toolbox, each, next(iter(said_by), None), known)]
    said_by = tuple(dict.fromkeys((*said_by, *(str(each.provenance.session_id) for each in own))))
    if former is not None and known is not None and not known.steps:  # its words were removed: keep what was seen
        record, uses = former, former.credits
    else:
        record = OutcomeRecord(
            task_id=task_id,
            digest=known.content_digest if known else "",
            label=label,
            judge=judge,
            arm=_arm(retrieved, items),
            randomised=toolbox.settings.credit.holdout_rate > 0 and bool(retrieved.given or retrieved.withheld),
            rested=tuple(each for each in retrieved.rested if each not in items),
            figures=task_figures(reading) if reading else TaskFigures(),
            at=(known.ended_at if known else None) or toolbox.clock.now(),
        )
        uses = detect_uses(known, [*items.values()], since, named)
    fixed = {item.id for item in items.values() if item.provenance.is_users_word}
    fixes = [item.id for item in items.values() if item.use == "fix"]
    ends = {  # the fixes that the task tried, and whether the last try ended the error
        memory_id: bool(event.data["worked"])
        for memory_id, events in (await store.memory_histories(toolbox.readable, fixes, (TRIED,))).items()
        for event in events
        if event.data["task_id"] == task_id and event.data["signature"]
    }
    credits = tuple(_credit(use, label, ends.get(use.memory_id), fixed=use.memory_id in fixed) for use in uses)
    status: OutcomeStatus = "credited" if credits else "nothing_injected"
    if credits and label == "Undecided" and not any(credit.change for credit in credits):
        status = "undecided"
    changed = {"label": label, "judge": judge, "given": given, "credits": credits, "status": status, "said_by": said_by}
    written = await store.save_outcome(toolbox.readable, record.model_copy(update=changed))
    if written.status != "already_credited" and (written.credits or written.rested):
        await toolbox.queue(WITHDRAW, WITHDRAW)
    return written


def task_figures(reading: Reading) -> TaskFigures:
    """Return what a task took, according to its trajectory."""
    usage, began, ended = reading.trajectory.usage, reading.trajectory.started_at, reading.trajectory.ended_at
    return TaskFigures(
        steps=count_steps(reading.trajectory),
        tokens=usage.input_tokens + usage.output_tokens + usage.cache_creation_tokens or None,
        duration_s=max(0.0, (ended - began).total_seconds()) if began and ended else None,
        failed_calls=sum(call.failed for call in reading.calls),
    )


def count_steps(trajectory: Trajectory) -> int:
    """Return how many actions a task took: tool calls, or messages of the agent when it called no tool.

    Half of the steps dropped from its middle are taken to be tool calls, the other half their observations.
    """
    calls = sum(step.kind == "tool_call" for step in trajectory.steps)
    said = sum(step.kind == "message" and step.role == "assistant" for step in trajectory.steps)
    return (calls or said) + trajectory.dropped_steps // 2


def _credit(use: Use, label: Label, worked: bool | None, *, fixed: bool) -> Credit:
    """Return a memory's credit: +η for a success, -η/2 for a failure, a quarter of that when no use was seen."""
    method = use.method
    if worked is not None:  # a fix's effect on its own error says more about it than how the task ended
        label, method = "Success" if worked else "Failure", "cited" if method == "cited" else "overlap"
    change = 0.0 if fixed or label == "Undecided" else ETA if label == "Success" else FAILURE_FACTOR * ETA
    change = round(change if method != "none" else change * INJECTED_WEIGHT, _DIGITS)
    return Credit(memory_id=use.memory_id, method=method, overlap=use.overlap, change=change, worked=worked)


def _arm(retrieved: TaskInjections, had: Iterable[str]) -> Arm:
    """Return a task's arm; a held-out task counts as such, even if the agent got memories in another way."""
    given = not retrieved.held_out and not retrieved.beside.keys() >= set(had)
    return "held_out" if retrieved.withheld else "memory" if given else "nothing_fitted"
