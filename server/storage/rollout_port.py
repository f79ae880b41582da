"""Runs of scaled tasks on SQLite: each function one call of a thread of the bank; the rows stand in `matts`."""

from collections.abc import Sequence
from datetime import UTC, datetime

from swarm_memory.schema.base import Scope
from swarm_memory.schema.rollout import MattsRun, Rollout, RunStatus
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.server.storage import rollouts as matts
from swarm_memory.server.storage.engine.access import Access
from swarm_memory.tools.ports.rollouts import RunEnd


class SqliteRollouts(Access):
    """Runs and their rollouts in one bank, for a store that has its threads."""

    async def begin_run(self, run: MattsRun) -> MattsRun:
        now = datetime.now(UTC)
        return await self.write(lambda connection: matts.begin_run(connection, run, now))

    async def get_run(self, scope: Scope, run_id: str) -> MattsRun | None:
        return await self.read(lambda connection: matts.get_run(connection, scope, run_id))

    async def list_runs(self, scope: Scope, statuses: Sequence[RunStatus], limit: int) -> list[MattsRun]:
        return await self.read(lambda connection: matts.list_runs(connection, scope, statuses, limit))

    async def save_rollout(
        self, scope: Scope, run_id: str, rollout: Rollout, trajectory: Trajectory | None, verdict: Verdict | None
    ) -> bool:
        now = datetime.now(UTC)
        return await self.write(
            lambda connection: matts.save_rollout(connection, scope, run_id, rollout, trajectory, verdict, now)
        )

    async def end_run(self, end: RunEnd) -> bool:
        now, quantization = datetime.now(UTC), self.quantization_of(end.embedder)
        return await self.write(lambda connection: matts.end_run(connection, self.index, end, quantization, now))

    async def reopen_run(self, scope: Scope, run_id: str) -> bool:
        return await self.write(lambda connection: matts.reopen_run(connection, scope, run_id))

    async def cancel_run(self, scope: Scope, run_id: str) -> bool:
        now = datetime.now(UTC)
        return await self.write(lambda connection: matts.cancel_run(connection, scope, run_id, now))
