"""A task as a transcript: what was said and done, what was shown to the agent at which moment, and what came of it."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, get_args

from swarm_memory.schema.memory import MemoryItem, MemoryStatus
from swarm_memory.schema.outcome import OutcomeRecord, UseMethod
from swarm_memory.schema.sqlite.events import BRIEFING, CALL, FILE, INJECTED, RETRIEVED, VERDICT, WITHHELD
from swarm_memory.schema.trajectory import Step
from swarm_memory.tools.ports.memories import MemoryFilter
from swarm_memory.tools.ports.records import BankEvent, KeptTask
from swarm_memory.tools.tasks.verdict import kept_task
from swarm_memory.tools.text.cleaning import clean
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.reading import Reading, read

WINDOW = 200
"""At most this many parts of a transcript are shown on one page."""

TASK = "task"
"""The id of the task's prompt if the first step is not the prompt itself."""

_MAX_TAUGHT = 200

Moment = Literal["prompt", "call", "failure", "search", "briefing", "file"]
"""At a prompt, with a call, with a failed call, when the agent asked, at a session's start, or in a file."""


class InjectedMemory(NamedTuple):
    """A memory that was shown to the agent, or withheld from the task."""

    memory_id: str
    item: MemoryItem | None
    """None: it was forgotten since."""
    method: UseMethod | None
    """How its use was recognized; None: nothing is known of its use."""


class Injection(NamedTuple):
    """What was retrieved at one moment."""

    at: datetime
    moment: Moment
    withheld: bool
    """Whether the task was held out and did not get it."""
    query: str
    memories: tuple[InjectedMemory, ...]


class TranscriptStep(NamedTuple):
    """A step as it is shown; a call's input and result are shown together."""

    ids: tuple[str, ...]
    """The ids of the step, and of the observation that belongs to it."""
    step: Step
    call: Call | None = None
    is_evidence: bool = False
    """Whether it is what the verdict rests on, or what a memory was distilled from."""
    taught: tuple[MemoryItem, ...] = ()
    """The memories that were distilled from it."""

    @property
    def failed(self) -> bool:
        """Whether a call failed, or a result without one says so."""
        return self.call.failed if self.call else self.step.is_error is True

    @property
    def took_s(self) -> float | None:
        """How long a call took, in seconds; None if unknown."""
        ended = self.call and self.call.observation and self.call.observation.at
        took = (ended - self.step.at).total_seconds() if ended and self.step.at else -1.0
        return None if took < 0 else took

    @property
    def given(self) -> list[tuple[str, str]]:
        """The arguments of a call, each as text."""
        values = self.step.tool_input or {} if self.call else {}
        return [
            (clean(key, 200), value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1))
            for key, value in values.items()
        ]


class Transcript(NamedTuple):
    """A task with all that is known about it."""

    task: KeptTask
    evidence: tuple[str, ...]
    """Ids of the steps that the verdict rests on; for an observation, its call's."""
    parts: tuple[Injection | TranscriptStep, ...]
    """A window of all parts."""
    first: int
    """Where the window begins."""
    total: int
    taught: tuple[MemoryItem, ...]
    changes: tuple[BankEvent, ...]
    """How the verdict was changed, the last first."""


async def transcript(toolbox: Toolbox, given_id: str, *, step: str | None = None, first: int = 0) -> Transcript:
    """Return a task by the id of a trajectory or of the task (then its newest trajectory).

    At most `WINDOW` parts are returned: the window that has the part with the number `first`, or the one that has a
    `step`, which may also be named by the host's id of its call. Raises `NotFoundError`.
    """
    task = await kept_task(toolbox, given_id)
    statuses = get_args(MemoryStatus)
    every = MemoryFilter(statuses, task_id=task.row.task_id, limit=_MAX_TAUGHT)
    taught = tuple(await toolbox.store.list_memories((toolbox.scope,), every))
    histories = await toolbox.store.memory_histories(
        (toolbox.scope,), [task.row.task_id], (INJECTED, WITHHELD, VERDICT)
    )
    events = histories[task.row.task_id]
    injections = await _injections(toolbox, [event for event in events if event.kind != VERDICT], task.row.outcome)

    def woven() -> tuple[list[Injection | TranscriptStep], tuple[str, ...]]:
        reading, trajectory = read(task.trajectory), task.trajectory
        shown = list(transcript_steps(reading, task.verdict.evidence if task.verdict else (), taught))
        evidence = tuple(part.ids[0] for part in shown if part.is_evidence)
        if shown and (shown[0].step.role, clean(shown[0].step.text)) != ("user", clean(trajectory.task)):
            asked = Step(id=TASK, kind="message", role="user", text=trajectory.task, at=trajectory.started_at)
            shown.insert(0, TranscriptStep((TASK,), asked))
        return _woven(shown, injections), evidence

    parts, evidence = await asyncio.to_thread(woven)
    if step is not None:
        named = (isinstance(part, TranscriptStep) and step in (*part.ids, part.step.call_id) for part in parts)
        first = next((place for place, is_it in enumerate(named) if is_it), 0)
    first = max(0, min(first, len(parts) - 1)) // WINDOW * WINDOW
    return Transcript(
        task=task,
        evidence=evidence,
        parts=tuple(parts[first : first + WINDOW]),
        first=first,
        total=len(parts),
        taught=taught,
        changes=tuple(event for event in reversed(events) if event.kind == VERDICT),
    )


async def _injections(toolbox: Toolbox, events: Sequence[BankEvent], outcome: OutcomeRecord | None) -> list[Injection]:
    data: list[Any] = [event.data for event in events]
    retrievals = [each["retrieval_id"] for each in data if "retrieval_id" in each]
    asked = await toolbox.store.memory_histories(toolbox.readable, retrievals, (RETRIEVED,))
    ids = list(dict.fromkeys(memory_id for each in data for memory_id in each.get("ids", ())))
    items = {item.id: item for item in await toolbox.store.get_memories(toolbox.readable, ids)} if ids else {}
    credits = outcome.credits if outcome is not None else ()
    methods: dict[str, UseMethod] = {credit.memory_id: credit.method for credit in credits}
    found: list[Injection] = []
    for event, each in zip(events, data, strict=True):
        recorded = asked.get(each.get("retrieval_id"), ())
        retrieved: Any = recorded[0].data if recorded else {}
        via = each.get("via")
        moment: Moment = "failure" if retrieved.get("failure") else "prompt" if via else "search"
        if moment == "prompt" and via in (BRIEFING, FILE, CALL):
            moment = via
        memories = tuple(InjectedMemory(one, items.get(one), methods.get(one)) for one in each.get("ids", ()))
        query = clean(str(retrieved.get("query") or ""))
        found.append(Injection(event.at, moment, event.kind == WITHHELD, query, memories))
    return found


def transcript_steps(
    reading: Reading, evidence: Sequence[str], taught: Sequence[MemoryItem] = ()
) -> Iterator[TranscriptStep]:
    """Yield the steps as they are shown; those whose ids are in `evidence` are marked; each has what it `taught`."""
    calls = {call.position: call for call in reading.calls}
    joined = {call.end for call in reading.calls if call.observation is not None}
    rests_on = set(evidence)
    for index, step in enumerate(reading.trajectory.steps):
        if index in joined:
            continue
        call = calls.get(index)
        ids = call.ids if call else (step.id,)
        lessons = tuple(item for item in taught if set(item.provenance.evidence[:1]) & {*ids})
        yield TranscriptStep(ids, step, call, not rests_on.isdisjoint(ids), lessons)


def _woven(shown: Sequence[TranscriptStep], injections: Sequence[Injection]) -> list[Injection | TranscriptStep]:
    """Return the steps with the injections between them by their time; those without a place come after the task."""
    behind: dict[int, list[Injection]] = {}
    for each in injections:
        before = (place for place, part in enumerate(shown) if part.step.at is not None and part.step.at <= each.at)
        behind.setdefault(max(before, default=0), []).append(each)
    parts: list[Injection | TranscriptStep] = list(behind.get(0, ())) if not shown else []
    for place, step in enumerate(shown):
        parts += [step, *behind.get(place, ())]
    return parts
