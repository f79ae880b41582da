"""Tasks on SQLite, what was learned of them and how they ended: each function one call of a thread of the bank.

The rows stand in `trajectories`, `journal` and `outcomes`.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from swarm_memory.schema.base import Scope
from swarm_memory.schema.hook import HostSession
from swarm_memory.schema.outcome import OutcomeRecord
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.server.storage import journal, outcomes, trajectories
from swarm_memory.server.storage.engine.access import Access
from swarm_memory.tools.ports.credit import TaskOutcome
from swarm_memory.tools.ports.journal import Event
from swarm_memory.tools.ports.trajectories import LearnedBefore, LearnRecord


class SqliteLearning(Access):
    """Trajectories, sessions, events and outcomes of one bank, for a store that has its threads."""

    async def learned_before(self, scope: Scope, task_id: str, content_digest: str) -> LearnedBefore | None:
        return await self.read(
            lambda connection: trajectories.learned_before(connection, scope, task_id, content_digest)
        )

    async def save_learning(self, record: LearnRecord) -> tuple[str, ...]:
        quantization = self.quantization_of(record.embedder)
        return await self.write(
            lambda connection: trajectories.save_learning(connection, self.index, record, quantization)
        )

    async def save_verdict(self, scope: Scope, trajectory_id: str, trajectory: Trajectory, verdict: Verdict) -> None:
        at = datetime.now(UTC)
        await self.write(
            lambda connection: trajectories.save_verdict(connection, scope, trajectory_id, trajectory, verdict, at)
        )

    async def get_trajectory(self, scope: Scope, trajectory_id: str) -> tuple[Trajectory, Verdict | None] | None:
        return await self.read(lambda connection: trajectories.get_trajectory(connection, scope, trajectory_id))

    async def get_session(self, scope: Scope, session_id: str) -> HostSession | None:
        return await self.read(lambda connection: journal.get_session(connection, scope, session_id))

    async def put_session(self, session: HostSession) -> None:
        await self.write(lambda connection: journal.put_session(connection, session))

    async def add_event(self, scope: Scope, event: Event) -> None:
        await self.write(lambda connection: journal.add_event(connection, scope, event))

    async def events_of_kind(self, scope: Scope, kind: str, limit: int) -> list[Event]:
        return await self.read(lambda connection: journal.events_of_kind(connection, scope, kind, limit))

    async def get_outcome(self, scope: Scope, task_id: str) -> OutcomeRecord | None:
        return await self.read(lambda connection: outcomes.get_outcome(connection, scope, task_id))

    async def save_outcome(self, scopes: Sequence[Scope], record: OutcomeRecord) -> OutcomeRecord:
        now = datetime.now(UTC)
        return await self.write(lambda connection: outcomes.save_outcome(connection, scopes, record, now))

    async def list_outcomes(self, scope: Scope) -> list[TaskOutcome]:
        return await self.read(lambda connection: outcomes.list_outcomes(connection, scope))

    async def item_times(self, scope: Scope) -> list[datetime]:
        return await self.read(lambda connection: outcomes.item_times(connection, scope))
