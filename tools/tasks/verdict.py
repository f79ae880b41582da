"""A new verdict on a task that was judged before: judged again, or corrected by the user, with what follows from it."""

from typing import Any, NamedTuple

from pydantic import JsonValue

from swarm_memory.schema.base import RUN, new_id
from swarm_memory.schema.errors import NotFoundError
from swarm_memory.schema.sqlite.events import ARCHIVED, VERDICT
from swarm_memory.schema.trajectory import Label, Verdict
from swarm_memory.tools.credit.outcome import record_outcome
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.judge.judge import judge
from swarm_memory.tools.learn.learn import learn_again
from swarm_memory.tools.ports.memories import MemoryFilter
from swarm_memory.tools.ports.records import BankEvent, KeptTask, LearnedBefore, VerdictRevision
from swarm_memory.tools.text.cleaning import clean
from swarm_memory.tools.toolbox import Toolbox

MAX_REASON_CHARS = 500
_MAX_TAUGHT = 500


class Revised(NamedTuple):
    """A new verdict, the former one, and what came of the change."""

    trajectory_id: str
    task_id: str
    former: Verdict | None
    verdict: Verdict
    stands: bool = True
    """False: the user gave another verdict before, and that one stays."""
    stored: tuple[str, ...] = ()
    """Ids of memories that the new verdict taught, or restored."""
    superseded: tuple[str, ...] = ()
    """Ids of memories that were archived because they rested on the former verdict."""
    credited: tuple[str, ...] = ()
    """Ids of memories that the task was given and whose confidence changed."""


class _Changed(NamedTuple):
    """What a change of the label did to memories."""

    run_id: str | None
    """The run that made the memories that the trajectory then has."""
    stored: tuple[str, ...] = ()
    superseded: tuple[str, ...] = ()
    is_pending: bool = True
    """Whether these are still to be restored and archived; False: learning did that already."""


async def say_verdict(toolbox: Toolbox, given_id: str, label: Label, reason: str = "") -> Revised:
    """Replace a verdict by the user's, by the id of a trajectory or of a task (then on its newest trajectory).

    The credit that the former outcome gave is taken back. What was distilled under another label is learned again if
    the trajectory's text is still kept; else its strategies are archived. Setting the former label again undoes the
    change. Raises `NotFoundError`, `StorageError`.
    """
    task = await kept_task(toolbox, given_id)
    why = clean(redact(reason).text, MAX_REASON_CHARS).strip()
    return await _revise(toolbox, task, Verdict.by_user(label, (why,) if why else ()))


async def judge_again(toolbox: Toolbox, given_id: str) -> Revised:
    """Judge a kept trajectory again with the current judge; the verdict replaces any but the user's own.

    It has the effects that `say_verdict` describes. Raises `NotFoundError`, also if the trajectory's text was removed,
    and `StorageError`.
    """
    task = await kept_task(toolbox, given_id)
    if task.row.is_blank:
        raise NotFoundError(f"the record of {task.row.task_id} was removed: there is nothing left to judge")
    verdict = await judge(toolbox, task.trajectory)
    if task.verdict is not None and task.verdict.judge == "user":
        data = _data(new_id(RUN), task, verdict, _Changed(task.row.run_id), stands=False)
        await toolbox.store.add_event(toolbox.scope, BankEvent(VERDICT, toolbox.clock.now(), task.row.task_id, data))
        return Revised(task.row.trajectory_id, task.row.task_id, task.verdict, verdict, stands=False)
    return await _revise(toolbox, task, verdict)


async def kept_task(toolbox: Toolbox, given_id: str) -> KeptTask:
    """Return all that is kept of a task, by the id of a trajectory or of the task. Raises `NotFoundError`."""
    found = await toolbox.store.kept_task(toolbox.scope, given_id)
    if found is None:
        raise NotFoundError(f"no task or trajectory {given_id[:80]!r} in project {toolbox.scope.project!r}")
    return found


async def _revise(toolbox: Toolbox, task: KeptTask, verdict: Verdict) -> Revised:
    row, changed = task.row, _Changed(task.row.run_id)
    if task.verdict != verdict:
        if task.verdict is None or task.verdict.label != verdict.label:
            changed = await _changed(toolbox, task, verdict)
        revision_id = new_id(RUN)
        revision = VerdictRevision(
            scope=toolbox.scope,
            id=revision_id,
            row=row,
            verdict=verdict,
            run_id=changed.run_id,
            event=_data(revision_id, task, verdict, changed),
            at=toolbox.clock.now(),
            archived=changed.superseded if changed.is_pending else (),
            restored=changed.stored if changed.is_pending else (),
        )
        await toolbox.store.revise(revision)
    outcome = await record_outcome(toolbox, row.task_id, verdict, task.trajectory, given=verdict.judge == "user")
    moved = () if outcome.status == "already_credited" else outcome.credits
    return Revised(
        row.trajectory_id,
        row.task_id,
        task.verdict,
        verdict,
        stored=changed.stored,
        superseded=changed.superseded,
        credited=tuple(credit.memory_id for credit in moved if credit.applied),
    )


async def _changed(toolbox: Toolbox, task: KeptTask, verdict: Verdict) -> _Changed:
    """Return what a new label does to what the task taught; nothing for a rollout, which taught along with others."""
    row, former_run = task.row, task.row.run_id
    undone = await _undone(toolbox, task, verdict)
    if undone is not None:
        return undone
    if former_run is None or row.matts_run_id is not None:
        return _Changed(former_run)
    if not row.is_blank and task.verdict is not None:
        before = LearnedBefore(row.trajectory_id, row.task_id, former_run, task.verdict, ())
        learned = await learn_again(toolbox, before, task.trajectory, verdict)
        return _Changed(learned.run_id, tuple(item.id for item in learned.stored), learned.superseded, is_pending=False)
    taught = await toolbox.store.list_memories(
        (toolbox.scope,), MemoryFilter(("active", "quarantined", "candidate"), task_id=row.task_id, limit=_MAX_TAUGHT)
    )
    wrong = tuple(item.id for item in taught if item.use == "strategy" and item.outcome != verdict.label)
    return _Changed(former_run, superseded=wrong)


async def _undone(toolbox: Toolbox, task: KeptTask, verdict: Verdict) -> _Changed | None:
    """Return what undoes the last change, if the new label is the one before that change; None if it is not."""
    task_id = task.row.task_id
    events = (await toolbox.store.memory_histories((toolbox.scope,), [task_id], (VERDICT,)))[task_id]
    ours = [
        data
        for data in (event.data for event in events)
        if data["trajectory_id"] == task.row.trajectory_id and data["stands"]
    ]
    last: Any = ours[-1] if ours else None
    if last is None or last["from"] is None or last["from"]["label"] != verdict.label:
        return None
    items = await toolbox.store.get_memories(toolbox.scope.readable(), [*last["superseded"], *last["stored"]])
    archived = await toolbox.store.memory_histories(toolbox.scope.readable(), last["superseded"], (ARCHIVED,))
    # What was in quarantine, or a candidate, was held back: correcting a verdict does not release it.
    in_use = {memory_id for memory_id, events in archived.items() if events and events[-1].data["from"] == "active"}
    back = [item.id for item in items if item.id in in_use and item.status == "archived"]
    gone = [item.id for item in items if item.id in last["stored"] and item.status != "archived"]
    return _Changed(last["former_run_id"], tuple(back), tuple(gone))


def _data(
    revision_id: str, task: KeptTask, verdict: Verdict, changed: _Changed, *, stands: bool = True
) -> dict[str, JsonValue]:
    """Return what the event of a revision holds."""
    return {
        "id": revision_id,
        "trajectory_id": task.row.trajectory_id,
        "from": None if task.verdict is None else task.verdict.model_dump(mode="json"),
        "to": verdict.model_dump(mode="json"),
        "stands": stands,
        "former_run_id": task.row.run_id,
        "run_id": changed.run_id,
        "stored": list(changed.stored),
        "superseded": list(changed.superseded),
    }
