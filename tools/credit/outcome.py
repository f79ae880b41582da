"""Credit: what came of a task, by how much it changes the confidence of exactly the memories that the task had."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from swarm_memory.schema.memory import MemoryItem
from swarm_memory.schema.outcome import Arm, Credit, OutcomeRecord, OutcomeStatus, TaskFigures, Use, UseMethod
from swarm_memory.schema.settings import CreditSettings
from swarm_memory.schema.sqlite.events import TRIED
from swarm_memory.schema.trajectory import Judge, Label, Trajectory, Usage, Verdict
from swarm_memory.tools.credit.usage import Injection, detect_uses
from swarm_memory.tools.ports.credit import TaskInjections
from swarm_memory.tools.ports.jobs import WITHDRAW
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.reading import Reading, read

FAILURE_FACTOR = -0.5
"""A failure weighs half as much as a success: it has more causes than the memory."""

WORD: Mapping[Judge, float] = {"user": 1.0, "evidence": 1.0, "model": 0.8, "agent": 0.6}
"""How much a verdict counts by who gave it, times its confidence: the user and tests before a model, and a model before
the agent, which judges itself."""

_DIGITS = 9
_CACHED_SHARE = 0.1
"""Of the price of input, where the price of cached input is not set."""


def change_for(label: Label, method: UseMethod, settings: CreditSettings) -> float:
    """Return the change of confidence: +η for a success, half of η less for a failure, 0 when undecided.

    A memory that was injected and not seen to be used gets `injected_weight` of it.
    """
    if label == "Undecided":
        return 0.0
    change = settings.eta if label == "Success" else FAILURE_FACTOR * settings.eta
    return round(change if method != "none" else change * settings.injected_weight, _DIGITS)


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
    """Record what came of a task, and change the confidence of the memories that it was given.

    Those are the memories of its recorded retrievals and of `trajectory.injected_memory_ids`, but not what the task
    itself taught; outcomes move nothing that the user said. `trajectory` is one that may be kept (`archivable`); the
    stored one of the task when not given. Without any, no use can be seen but of those that the agent `named` as used.
    The same outcome twice changes nothing; a longer version of the task, or another label, replaces the former credit.
    A way out that the task was seen to try is credited with what it did against its own error, however the task ended.
    A label that somebody gave (`given`) stays against what is only judged later. Raises `StorageError`.
    """
    reading = read(found) if (found := trajectory or await _kept_trajectory(toolbox, task_id)) else None
    known = reading.trajectory if reading else None
    retrieved = await toolbox.store.injections(toolbox.scope, task_id)
    former = await toolbox.store.get_outcome(toolbox.scope, task_id)
    label, judge, weight = verdict.label, verdict.judge, round(verdict.confidence * WORD[verdict.judge], 4)
    if former is not None and former.given and not given:
        label, judge, weight, given = former.label, former.judge, former.weight, True
    items = await _injected(toolbox, task_id, retrieved, known)
    seen = former if known is not None and not known.steps else None  # its words were removed: what was seen stays seen
    uses = seen.credits if seen is not None else _uses(toolbox, items, retrieved, known, named)
    settings, tried = toolbox.settings.credit, await _tried(toolbox, items, task_id)
    fixed = {item.id for item in items if item.provenance.is_users_word}
    credits = tuple(_credit(use, label, tried.get(use.memory_id), use.memory_id in fixed, settings) for use in uses)
    said: dict[str, Any] = {
        "label": label,
        "judge": judge,
        "given": given,
        "weight": weight,
        "credits": credits,
        "status": _status(label, credits),
    }
    if seen is not None:
        record = seen.model_copy(update=said)
    else:
        record = OutcomeRecord(
            **said,
            task_id=task_id,
            digest=known.content_digest if known else "",
            arm=_arm(retrieved, any(item.id not in retrieved.beside for item in items)),
            randomised=settings.holdout_rate > 0 and bool(retrieved.given or retrieved.withheld),
            rested=tuple(each for each in retrieved.rested if each not in {item.id for item in items}),
            figures=figures_of(reading, settings) if reading else TaskFigures(),
            at=(known.ended_at if known else None) or toolbox.clock.now(),
        )
    written = await toolbox.store.save_outcome(toolbox.readable, record)
    if written.status != "already_credited" and (written.credits or written.rested):
        await toolbox.queue(WITHDRAW, WITHDRAW)
    return written


def figures_of(given: Trajectory | Reading, settings: CreditSettings) -> TaskFigures:
    """Return what a task took, by what its trajectory tells."""
    reading = read(given)
    trajectory = reading.trajectory
    usage, began, ended = trajectory.usage, trajectory.started_at, trajectory.ended_at
    tokens = usage.input_tokens + usage.output_tokens + usage.cache_creation_tokens
    return TaskFigures(
        steps=steps_of(trajectory),
        tokens=tokens or None,
        cost_usd=cost_of(usage, settings) if tokens else None,
        duration_s=max(0.0, (ended - began).total_seconds()) if began and ended else None,
        failed_calls=sum(call.failed for call in reading.calls),
        repeats=sum(len(error.calls) - 1 for error in reading.errors if not error.asked_for),
    )


def steps_of(trajectory: Trajectory) -> int:
    """Return how many actions it took: tool calls, or messages of the agent where it called no tool.

    Of steps that fell out of its middle, half are taken to be tool calls and half their observations.
    """
    calls = sum(step.kind == "tool_call" for step in trajectory.steps)
    said = sum(step.kind == "message" and step.role == "assistant" for step in trajectory.steps)
    return (calls or said) + trajectory.dropped_steps // 2


def cost_of(usage: Usage, settings: CreditSettings) -> float | None:
    """Return what the tokens cost in USD by the prices of the settings; None where those are not set."""
    if settings.price_in is None or settings.price_out is None:
        return None
    cached = settings.price_in * _CACHED_SHARE if settings.price_cached is None else settings.price_cached
    fresh = usage.input_tokens + usage.cache_creation_tokens
    total = fresh * settings.price_in + usage.output_tokens * settings.price_out + usage.cache_read_tokens * cached
    return total / 1_000_000


async def _kept_trajectory(toolbox: Toolbox, task_id: str) -> Trajectory | None:
    found = await toolbox.store.get_trajectory(toolbox.scope, task_id)
    return found[0] if found and found[0].task_id == task_id else None


async def _injected(
    toolbox: Toolbox, task_id: str, retrieved: TaskInjections, trajectory: Trajectory | None
) -> list[MemoryItem]:
    """Return the memories that the task had; trust never rises by what a task taught itself."""
    ids = dict.fromkeys((*retrieved.given, *retrieved.beside, *(trajectory.injected_memory_ids if trajectory else ())))
    found = await toolbox.store.get_memories(toolbox.readable, list(ids)) if ids else []
    return [item for item in found if item.provenance.task_id != task_id]


def _uses(
    toolbox: Toolbox,
    items: Sequence[MemoryItem],
    retrieved: TaskInjections,
    trajectory: Trajectory | None,
    named: Collection[str],
) -> list[Use]:
    if trajectory is None:
        uses = [Use(memory_id=item.id, method="none") for item in items]
    else:
        told = {**retrieved.beside, **retrieved.given}
        given = [Injection(item, told.get(item.id)) for item in items]
        uses = list(detect_uses(trajectory, given, toolbox.settings.credit.min_overlap))
    return [use.model_copy(update={"method": "cited"}) if use.memory_id in named else use for use in uses]


async def _tried(toolbox: Toolbox, items: Sequence[MemoryItem], task_id: str) -> dict[str, bool]:
    """Return which ways out among memories the task did against their own errors: whether each of those was ended."""
    ways = [item.id for item in items if item.use == "way_out"]
    histories = await toolbox.store.memory_histories(toolbox.readable, ways, (TRIED,)) if ways else {}
    found: dict[str, bool] = {}
    for memory_id, events in histories.items():
        last = {event.data["signature"]: event.data["worked"] for event in events if event.data["task_id"] == task_id}
        if ends := [bool(worked) for signature, worked in last.items() if signature]:
            found[memory_id] = all(ends)
    return found


def _credit(use: Use, label: Label, worked: bool | None, is_fixed: bool, settings: CreditSettings) -> Credit:
    """What a way out did against its own error says more of it than how the task ended."""
    method: UseMethod = "overlap" if worked is not None and use.method == "none" else use.method
    own: Label = label if worked is None else "Success" if worked else "Failure"
    change = 0.0 if is_fixed else change_for(own, method, settings)
    return Credit(memory_id=use.memory_id, method=method, overlap=use.overlap, change=change, worked=worked)


def _arm(retrieved: TaskInjections, injected: bool) -> Arm:
    """A task that is held out counts as such, even where the agent got at memories another way."""
    if retrieved.held_out:
        return "held_out" if retrieved.withheld else "nothing_fitted"
    return "memory" if injected else "nothing_fitted"


def _status(label: Label, credits: Sequence[Credit]) -> OutcomeStatus:
    if not credits:
        return "nothing_injected"
    return "undecided" if label == "Undecided" and not any(credit.change for credit in credits) else "credited"
