"""Trajectories scripted call by call, and a bank in a file that learns from them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from clock import SetClock
from laid_bank import opened_bank
from pydantic import JsonValue

from swarm_memory.schema.base import Scope
from swarm_memory.schema.memory import MemoryItem, MemoryStatus
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Role, Step, StepKind, Trajectory, TrajectorySource
from swarm_memory.server.storage.store import Store
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.ports.memories import MemoryFilter
from swarm_memory.tools.ports.models import Embedder
from swarm_memory.tools.toolbox import Toolbox

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Script:
    """A trajectory that grows call by call."""

    def __init__(
        self, task: str, task_id: str = "t1", session_id: str | None = None, *, source: TrajectorySource = "claude_code"
    ) -> None:
        self.task, self.task_id, self.session_id = task, task_id, session_id
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
        """Add a tool call and its observation; `error` is what the host reports about it."""
        call_id = f"c{len(self._steps)}"
        self.step("tool_call", "assistant", tool_name=tool, tool_input=given, call_id=call_id)
        return self.step("observation", "tool", text=output, call_id=call_id, tool_name=tool, is_error=error)

    def shell(self, command: str, output: str = "", code: int = 0) -> "Script":
        """Add a shell command with its exit code, as a coding agent's host writes it."""
        shown = f"Exit code {code}\n{output}" if code else output
        return self.call("Bash", {"command": command}, shown, error=code != 0)

    def edit(self, path: str, old: str, new: str) -> "Script":
        given: dict[str, JsonValue] = {"file_path": path, "old_string": old, "new_string": new}
        return self.call("Edit", given, f"The file {path} has been updated.", error=False)

    def done(self) -> Trajectory:
        return Trajectory(
            task_id=self.task_id,
            task=self.task,
            steps=tuple(self._steps),
            session_id=self.session_id,
            source=self.source,
        )


class Bank:
    """A real bank in a file, with the queries that tests need."""

    def __init__(self, store: Store, folder: Path, scope: Scope) -> None:
        self.store, self.folder, self.scope = store, folder, scope

    async def items(self, *statuses: MemoryStatus) -> list[MemoryItem]:
        which = MemoryFilter(statuses=statuses or ("active",), limit=1000)
        return sorted(await self.store.list_memories((self.scope,), which), key=lambda item: item.id)

    async def confidence(self) -> list[float]:
        return [item.confidence for item in await self.items()]

    def holds(self, text: str) -> bool:
        """Whether any of the database's files contains the text."""
        return any(text.encode() in path.read_bytes() for path in self.folder.iterdir() if path.is_file())


@asynccontextmanager
async def opened(
    folder: Path, embedder: Embedder, settings: Settings | None = None
) -> AsyncGenerator[tuple[Toolbox, Bank]]:
    """Open a toolbox on a fresh database in `folder`."""
    clock = SetClock(NOW)
    async with opened_bank(folder / "memory.db", embedder=embedder, clock=clock, settings=settings) as tools:
        yield tools, Bank(tools.store, folder, tools.scope)


async def learn_fix(tools: Toolbox, trajectory: Trajectory) -> list[MemoryItem]:
    """Learn from a task, after another one that did the same; return the memories that both tasks show."""
    # Its start time is unknown: with the same start time it would count as a copy.
    other = {"task_id": f"before {trajectory.task_id}", "session_id": None, "started_at": None}
    before = trajectory.model_copy(update=other)
    first = await learn(tools, before)
    await learn(tools, trajectory)
    return await tools.store.get_memories((tools.scope,), [item.id for item in first.stored])
