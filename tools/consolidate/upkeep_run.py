"""One run of consolidation: how its batches are written, and what it did so far; what is to be done is not here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from swarm_memory.schema.memory import MemoryLink, Merged, Pruned, Quarantined, Related, Superseded
from swarm_memory.tools.ports.upkeep import Aging, UpkeepBatch, UpkeepChange, UpkeepWritten
from swarm_memory.tools.toolbox import Toolbox

Progress = Callable[[int, int], None]


@dataclass(slots=True)
class UpkeepRun:
    """One run of consolidation and what it did so far."""

    toolbox: Toolbox
    id: str
    now: datetime
    dry_run: bool
    on_progress: Progress | None
    total: int = 1
    told: int = 0
    gone: set[str] = field(default_factory=set[str])
    """Memories that are active no more."""
    merged: list[Merged] = field(default_factory=list[Merged])
    superseded: list[Superseded] = field(default_factory=list[Superseded])
    quarantined: list[Quarantined] = field(default_factory=list[Quarantined])
    pruned: list[Pruned] = field(default_factory=list[Pruned])
    aged: int = 0
    skipped: list[str] = field(default_factory=list[str])

    async def write(
        self,
        changes: Sequence[UpkeepChange],
        links: Sequence[MemoryLink] = (),
        origins: Sequence[Related] = (),
        aging: tuple[Aging | None, Aging] | None = None,
    ) -> UpkeepWritten:
        """Write one batch; a dry run takes it that all would be written."""
        if self.dry_run:
            return UpkeepWritten(tuple(change.seen.id for change in changes))
        told = tuple(origin.model_dump(mode="json", exclude_none=True) for origin in origins)
        batch = UpkeepBatch(self.id, self.now, tuple(changes), tuple(links), aging, told)
        written = await self.toolbox.store.write_upkeep(self.toolbox.scope, batch)
        self.skipped += written.skipped
        return written

    def tell(self, done: int) -> None:
        """Report progress, which never goes back."""
        self.told = max(self.told, min(done, self.total))
        if self.on_progress is not None:
            self.on_progress(self.told, self.total)
