"""Trajectories written down call by call, and a bank in memory that keeps the promises of the port."""

from datetime import UTC, datetime
from typing import cast

from pydantic import JsonValue

from swarm_memory.schema.base import Scope
from swarm_memory.schema.memory import MemoryItem
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.status import BankStatistics
from swarm_memory.schema.trajectory import Role, Step, StepKind, Trajectory, TrajectorySource
from swarm_memory.tools.indexing import cosine
from swarm_memory.tools.ports import Embedder, LearnedBefore, LearnRecord, MemoryFilter, Store, Vector
from swarm_memory.tools.toolbox import Toolbox

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Script:
    """A trajectory that grows call by call."""

    def __init__(self, task: str, *, task_id: str = "t1", source: TrajectorySource = "claude_code") -> None:
        self.task, self.task_id = task, task_id
        self.source: TrajectorySource = source
        self._steps: list[Step] = []
        self.user(task)

    def step(self, kind: StepKind, role: Role, **fields: object) -> "Script":
        self._steps.append(
            Step.model_validate({"id": f"s{len(self._steps) + 1}", "kind": kind, "role": role, **fields})
        )
        return self

    def user(self, text: str, *, interrupted: bool = False) -> "Script":
        return self.step("message", "user", text=text, interrupted=interrupted)

    def say(self, text: str) -> "Script":
        return self.step("message", "assistant", text=text)

    def call(self, tool: str, given: dict[str, JsonValue], output: str, *, error: bool | None = None) -> "Script":
        """A tool call and its observation; `error` is what the host says of it."""
        call_id = f"c{len(self._steps)}"
        self.step("tool_call", "assistant", tool_name=tool, tool_input=given, call_id=call_id)
        return self.step("observation", "tool", text=output, call_id=call_id, tool_name=tool, is_error=error)

    def shell(self, command: str, output: str = "", code: int = 0) -> "Script":
        """A command with its exit code, as a coding agent's host tells it."""
        shown = f"Exit code {code}\n{output}" if code else output
        return self.call("Bash", {"command": command}, shown, error=code != 0)

    def edit(self, path: str, old: str, new: str) -> "Script":
        given: dict[str, JsonValue] = {"file_path": path, "old_string": old, "new_string": new}
        return self.call("Edit", given, f"The file {path} has been updated.", error=False)

    def done(self) -> Trajectory:
        return Trajectory(task_id=self.task_id, task=self.task, steps=tuple(self._steps), source=self.source)


class MemoryBank:
    """The part of the store that learning uses, kept in dictionaries."""

    def __init__(self) -> None:
        self.items: dict[str, MemoryItem] = {}
        self.vectors: dict[str, Vector | None] = {}
        self.records: list[LearnRecord] = []

    async def learned_before(self, scope: Scope, task_id: str, content_digest: str) -> LearnedBefore | None:
        for record in self.records:
            same = record.trajectory.task_id == task_id and record.trajectory.content_digest == content_digest
            if same and record.scope == scope:
                ids = tuple(memory.item.id for memory in record.memories)
                return LearnedBefore(record.trajectory_id, record.run_id, record.verdict, ids)
        return None

    async def save_learning(self, record: LearnRecord) -> tuple[str, ...]:
        gone = [
            item.id
            for item in self.items.values()
            if item.provenance.task_id == record.trajectory.task_id
            and item.status == "active"
            and item.id not in record.reinforced
        ]
        for item_id in gone:
            self.items[item_id] = self.items[item_id].model_copy(update={"status": "archived"})
        for item_id in record.reinforced:
            raised = min(1.0, self.items[item_id].confidence + record.reinforcement)
            self.items[item_id] = self.items[item_id].model_copy(update={"confidence": raised})
        for memory in record.memories:
            self.items[memory.item.id] = memory.item
            self.vectors[memory.item.id] = memory.vector
        self.records.append(record)
        return tuple(gone)

    async def list_memories(self, scopes: tuple[Scope, ...], which: MemoryFilter) -> list[MemoryItem]:
        wanted = (which.text or "").lower()
        return [item for item in self.items.values() if item.scope in scopes and wanted in item.title.lower()]

    async def get_memories(self, scopes: tuple[Scope, ...], ids: list[str]) -> list[MemoryItem]:
        return [self.items[item_id] for item_id in ids if self.items[item_id].scope in scopes]

    async def nearest(
        self, scopes: tuple[Scope, ...], embedder: str, vector: Vector, k: int
    ) -> list[tuple[str, float]]:
        found = [
            (item_id, cosine(vector, other))
            for item_id, other in self.vectors.items()
            if other is not None and self.items[item_id].status == "active" and self.items[item_id].scope in scopes
        ]
        return sorted(found, key=lambda pair: -pair[1])[:k]

    async def statistics(self, scope: Scope, embedder: str) -> BankStatistics:
        return BankStatistics(
            scope=scope, memories={}, by_outcome={}, trajectories=len(self.records), verdicts={}, retrievals=0, jobs={},
            embedded={}, not_embedded=0, new_since_consolidation=len(self.items),
            consolidation_due=len(self.items) >= 20,
        )  # fmt: skip

    @property
    def active(self) -> list[MemoryItem]:
        return [item for item in self.items.values() if item.status == "active"]

    def everything(self) -> str:
        """All that was ever stored, as one text."""
        kept = [record.trajectory.model_dump_json() + record.verdict.model_dump_json() for record in self.records]
        return "\n".join([*kept, *(item.model_dump_json() for item in self.items.values())])


class Fixed:
    """A clock that stands."""

    def now(self) -> datetime:
        return NOW


def toolbox(bank: MemoryBank, embedder: Embedder, settings: Settings | None = None, project: str = "shop") -> Toolbox:
    return Toolbox(
        store=cast(Store, bank), embedder=embedder, clock=Fixed(), settings=settings or Settings(),
        scope=Scope(project=project),
    )  # fmt: skip
