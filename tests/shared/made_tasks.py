"""Memories and tasks made for a test, in a real bank."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from clock import SetClock
from laid_bank import opened_bank
from made_items import made_item, put
from pydantic import JsonValue

from swarm_memory.schema.base import RETRIEVAL, Scope, new_id
from swarm_memory.schema.memory import MemoryItem, Provenance
from swarm_memory.schema.outcome import OutcomeRecord
from swarm_memory.schema.settings import CreditSettings, Settings
from swarm_memory.schema.trajectory import Label, Step, Trajectory, Verdict
from swarm_memory.tools.credit.outcome import record_outcome
from swarm_memory.tools.ports.memories import RetrievalRecord
from swarm_memory.tools.ports.records import BankEvent
from swarm_memory.tools.toolbox import Toolbox

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
STEPS = "1. Run `cp config/test.example.toml config/test.toml`.\n2. Run `python -m shop.migrate`."


def said(text: str) -> Step:
    """Return a message of the agent; `done` sets its id."""
    return Step(id="s0", kind="message", role="assistant", text=text)


def ran(command: str, minute: int | None = None) -> Step:
    """Return a tool call, made `minute` minutes after noon."""
    given: dict[str, JsonValue] = {"command": command}
    at = None if minute is None else NOW + timedelta(minutes=minute)
    return Step(id="s0", kind="tool_call", role="assistant", tool_name="Bash", tool_input=given, at=at)


def saw(text: str) -> Step:
    """Return a tool's output."""
    return Step(id="s0", kind="observation", role="tool", text=text)


def done(*steps: Step, task_id: str = "t1", task: str = "mend the shop", **fields: Any) -> Trajectory:
    """Return a trajectory of the steps, numbered s1, s2 and so on."""
    numbered = tuple(step.model_copy(update={"id": f"s{at}"}) for at, step in enumerate(steps, 1))
    return Trajectory(task_id=task_id, task=task, steps=numbered, **fields)


def verdict(label: Label) -> Verdict:
    """Return a verdict from evidence."""
    return Verdict(label=label, confidence=0.0 if label == "Undecided" else 0.9, judge="evidence")


def made(title: str = "Prepare the test configuration", content: str = STEPS, **fields: Any) -> MemoryItem:
    """Return a memory of the project."""
    return made_item(title, content=content, **{"created_at": NOW, "scope": Scope(project="shop"), **fields})


class Shop:
    """A toolbox over a real bank."""

    def __init__(self, toolbox: Toolbox) -> None:
        self.toolbox = toolbox

    def set(self, **credit: Any) -> "Shop":
        """Return the same bank with other credit settings."""
        settings = self.toolbox.settings.model_copy(update={"credit": CreditSettings(**credit)})
        return Shop(replace(self.toolbox, settings=settings))

    async def add(self, title: str = "Prepare the test configuration", content: str = STEPS, **fields: Any) -> str:
        """Put a memory into the bank and return its id."""
        fields.setdefault("provenance", Provenance(task_id=fields.pop("task_id", None)))
        (added,) = await put(self.toolbox, made(title, content, **fields))
        return added

    async def inject(self, *ids: str, task_id: str = "t1", at: datetime = NOW, withheld: bool = False) -> None:
        """Record that memories were injected into a task, or withheld from it."""
        scores = dict.fromkeys(ids, 0.5)
        record = RetrievalRecord(new_id(RETRIEVAL), self.toolbox.scope, "q", scores, 1.0, at, task_id, None, withheld)
        await self.toolbox.store.record_retrieval(record)

    async def outcome(
        self, label: Label, trajectory: Trajectory | None = None, *, task_id: str = "t1", given: bool = False
    ) -> OutcomeRecord:
        return await record_outcome(self.toolbox, task_id, verdict(label), trajectory, given=given)

    async def confidence(self, *ids: str) -> list[float]:
        items = await self.toolbox.store.get_memories(self.toolbox.scope.readable(), ids)
        return [item.confidence for item in items]

    async def history(self, memory_id: str) -> list[BankEvent]:
        """Return the credit events of a memory."""
        events = await self.toolbox.store.memory_history(self.toolbox.scope.readable(), memory_id)
        return [event for event in events if event.kind == "reasoning_memory.credited"]


@asynccontextmanager
async def opened(folder: Path, settings: Settings | None = None) -> AsyncGenerator[Shop]:
    """Open a bank in a folder."""
    async with opened_bank(folder / "memory.db", clock=SetClock(NOW), settings=settings) as toolbox:
        yield Shop(toolbox)
