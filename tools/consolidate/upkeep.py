"""Upkeep runs: when one is due and queued, what it has written so far, and the withdrawal of harmful memories. Also
retention: records that are not memories are removed at the age that the settings say.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from swarm_memory.schema.base import RUN, new_id
from swarm_memory.schema.job import Progress, Report
from swarm_memory.schema.memory import MemoryLink, MemoryStatus, Related, Withdrawn
from swarm_memory.tools.consolidate.pairs import OnProgress
from swarm_memory.tools.credit.harm import HARMFUL, memory_records
from swarm_memory.tools.ports.records import RETAINED, Aging, Retained, Trials, UpkeepBatch, UpkeepChange, UpkeepWritten
from swarm_memory.tools.retrieve.embed import BACKLOG, EMBED
from swarm_memory.tools.toolbox import Toolbox

RETENTION = "retention"
"""The kind of the jobs that remove old records."""

_BATCH: Mapping[Retained, int] = {"trajectories": 10, "events": 500, "metrics": 500, "tool_calls": 100}
"""Rows per transaction, according to how long a row is: other writers wait no longer than one transaction."""


async def queue_retention_when_due(toolbox: Toolbox) -> bool:
    """Queue a removal if something is too old and none waits or runs; return if it is due. Raises `StorageError`."""
    if has_old := bool(await toolbox.store.retention.expired(toolbox.scope, _limits(toolbox))):
        await _queue_once(toolbox, RETENTION, RETENTION)
    return has_old


async def _queue_once(toolbox: Toolbox, kind: str, key: str) -> None:
    """Queue a job unless the last of its kind and key waits or runs: one that waits for a retry is not hurried."""
    former = await toolbox.store.find_job(toolbox.scope, kind, key)
    if former is None or former.ended_at is not None:
        await toolbox.queue(kind, key)


async def remove_old(toolbox: Toolbox, report: Report | None = None) -> dict[str, int]:
    """Remove what is too old in the toolbox's scope; return how many of each kind. Raises `StorageError`."""
    removed: dict[str, int] = {}
    for kind, before in _limits(toolbox).items():
        removed[kind] = 0
        while gone := await toolbox.store.retention.remove(toolbox.scope, kind, before, _BATCH[kind]):
            removed[kind] += gone
            if report is not None:
                await report(Progress(done=sum(removed.values()), message=f"{removed[kind]} {_name(kind)} removed"))
    return removed


def describe_retention(toolbox: Toolbox) -> str:
    """Return one line that says after how many days each kind is removed."""
    days = [(_name(kind), _days(toolbox, kind)) for kind in RETAINED]
    return ", ".join(f"{name} after {after:,} days" if after else f"{name} never" for name, after in days)


def _limits(toolbox: Toolbox) -> dict[Retained, datetime]:
    """Return for each kind the moment before which it is too old; kinds that are kept forever are left out."""
    now = toolbox.clock.now()
    return {kind: now - timedelta(days=days) for kind in RETAINED if (days := _days(toolbox, kind))}


def _days(toolbox: Toolbox, kind: Retained) -> int:
    return int(getattr(toolbox.settings.retention, f"{kind}_days"))


def _name(kind: Retained) -> str:
    return kind.replace("_", " ")


CONSOLIDATE = "consolidate"
"""The kind of the jobs that consolidate."""

WHOLE_BANK = "bank"
"""The key of the consolidation that nobody requested: at most one such job waits."""


async def queue_when_due(toolbox: Toolbox, *, embedder_answers: bool = False) -> bool:
    """Queue a consolidation if `consolidate.run_every_new_items` are new and none waits or runs; return if it is due.

    If anything is too old, its removal is queued as well. If the embedder has just answered, so is the embedding of
    what was stored while it did not. Raises `StorageError`.
    """
    enough = toolbox.settings.consolidate.run_every_new_items
    await queue_retention_when_due(toolbox)
    pending = await toolbox.store.pending_upkeep(toolbox.scope, toolbox.embedder.name, enough)
    if embedder_answers and pending.not_embedded:
        await _queue_once(toolbox, EMBED, BACKLOG)
    if is_due := pending.new >= enough:
        await _queue_once(toolbox, CONSOLIDATE, WHOLE_BANK)
    return is_due


@dataclass(slots=True)
class UpkeepRun:
    """One run of consolidation and what it did so far."""

    toolbox: Toolbox
    id: str
    now: datetime
    dry_run: bool
    on_progress: OnProgress | None
    total: int = 1
    done: int = 0
    changed: dict[str, UpkeepChange] = field(default_factory=dict[str, UpkeepChange])
    """The change that was written for each memory, by id."""
    skipped: list[str] = field(default_factory=list[str])

    async def write(
        self,
        changes: Sequence[UpkeepChange],
        links: Sequence[MemoryLink] = (),
        aging: tuple[Aging | None, Aging] | None = None,
        origins: Sequence[Related] = (),
    ) -> UpkeepWritten:
        """Write one batch, with how its links were found; a dry run assumes that all of it would be written."""
        written = UpkeepWritten(tuple(change.seen.id for change in changes))
        if not self.dry_run:
            await self.toolbox.give_way()
            found_by = tuple(origin.model_dump(mode="json", exclude_none=True) for origin in origins)
            batch = UpkeepBatch(self.id, self.now, tuple(changes), tuple(links), aging, found_by)
            written = await self.toolbox.store.write_upkeep(self.toolbox.scope, batch)
        self.skipped += written.skipped
        self.changed |= {change.seen.id: change for change in changes if change.seen.id in written.changed}
        return written

    @property
    def gone(self) -> set[str]:
        """Memories that are no longer active."""
        return {each for each, change in self.changed.items() if change.status != "active"}

    def withdrawn(self, status: MemoryStatus) -> tuple[Withdrawn, ...]:
        """Return the memories that have this status now, except duplicates."""
        return tuple(
            Withdrawn(id=each, confidence=change.confidence, reason=change.reason)
            for each, change in self.changed.items()
            if change.status == status and change.needs is None
        )

    def report(self, done: int) -> None:
        """Report progress, which never goes back."""
        self.done = max(self.done, min(done, self.total))
        if self.on_progress is not None:
            self.on_progress(self.done, self.total)


class WithdrawResult(NamedTuple):
    """The result of one check of the records."""

    run_id: str
    """The run that `undo_consolidation` can undo."""
    withdrawn: tuple[str, ...]
    trials: Trials


async def withdraw_harmful(toolbox: Toolbox) -> WithdrawResult:
    """Archive the project's memories that proved harmful, with their figures, and store which ones rest from now on.

    What the user said neither rests nor is archived: it waits for review. What belongs to every project or to a team
    stays: one project alone does not prove that it harms. Raises `StorageError`.
    """
    store, scope = toolbox.store, toolbox.scope
    records = {each: it for each, it in (await memory_records(toolbox)).items() if it.resting or it.harmful}
    found = [(each, records[each.id]) for each in await store.upkeep_items_of(scope, toolbox.embedder, list(records))]
    trials = Trials(
        frozenset(each.id for each, record in found if record.resting and each.priority <= 0),
        {each.id: record.says for each, record in found if record.is_doubtful and each.priority > 0},
    )
    changes = [
        UpkeepChange(each, each.confidence, "archived", f"{HARMFUL}: {record.says}")
        for each, record in found
        if record.harmful and each.priority <= 0
    ]
    run = UpkeepRun(toolbox, new_id(RUN), toolbox.clock.now(), dry_run=False, on_progress=None)
    await store.save_trials(scope, trials)
    return WithdrawResult(run.id, (await run.write(changes)).changed if changes else (), trials)
