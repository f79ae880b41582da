"""Every tool that writes, cancelled at each of its awaits in turn; after every tool, nothing is left open in SQLite."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias, cast

import pytest
from hooked import SOMEWHERE
from patience import FULL

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import SwarmMemoryError
from swarm_memory.schema.memory import MemoryDraft
from swarm_memory.schema.settings import Settings
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.hooks.events import HookEvent, handle_hook
from swarm_memory.server.mcp.tool import McpInvocation
from swarm_memory.server.operations import learning, memories, tools_and_sources
from swarm_memory.server.served_bank import ServedBank
from swarm_memory.server.storage.sqlite import SqliteStore, open_store
from swarm_memory.server.wiring import SystemClock
from swarm_memory.tools.consolidate.consolidate import consolidate
from swarm_memory.tools.toolbox import Toolbox
from tests.faults.rig import HERE, fill, inspected, made_item, with_vectors

pytestmark = pytest.mark.fault

THERE = Scope(project="there")
"""Where others write at the same time: it must not add to what is consolidated, or consolidation would never end."""

Work: TypeAlias = Callable[[int], Coroutine[Any, Any, Any]]
"""A tool call, distinguished from others of its kind by a number."""


class CancelledAt(Awaitable[Any]):
    """Work that is cancelled at its n-th wait, as a task is cancelled: through what it waits for."""

    def __init__(self, work: Coroutine[Any, Any, Any], at: int) -> None:
        self._work = work
        self._at = at
        self.waits = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        thrown: BaseException | None = None
        while True:
            try:
                waited = self._work.throw(thrown) if thrown else self._work.send(None)
            except StopIteration as ended:
                return ended.value
            self.waits += 1
            thrown = None
            if self.waits == self._at:
                if waited is None:
                    thrown = asyncio.CancelledError()
                    continue
                waited.cancel()
            try:
                yield waited
            except BaseException as raised:  # noqa: BLE001 - it is passed on to the work
                thrown = raised


def works(kept: list[str], toolbox: Toolbox) -> dict[str, Work]:
    """Return the tools that write, and what commands do to a whole bank, each as a call that takes a number."""
    store = cast(SqliteStore, toolbox.store)

    async def opened() -> Toolbox:
        return toolbox

    bank = ServedBank(opened)

    async def report_progress(*_: object, **__: object) -> None:
        await asyncio.sleep(0)

    site = McpInvocation(bank, cast(Any, SimpleNamespace(headers=None, report_progress=report_progress)))

    def steps(number: int) -> dict[str, Any]:
        said = [{"role": "assistant", "content": f"I did part {number} of it."}]
        return {"task_id": f"t{number}", "task": f"Mend part {number}", "steps": said, "verdict": "Success"}

    def draft(number: int) -> MemoryDraft:
        return MemoryDraft(title=f"Mend {number}", description=f"When {number} fails.", content=f"Do {number}.")

    def event(name: str, number: int) -> HookEvent:
        fields = {"hook_event_name": name, "session_id": f"s{number}", "prompt": f"Mend the part {number} of the shop"}
        return HookEvent.model_validate(fields | {"tool_name": "Bash", "tool_input": {"command": "make"}})

    def manage(action: str, **more: Any) -> Work:
        return lambda number: memories.manage_memories(
            site, cast(Any, action), ids=[kept[number % len(kept)]], reason="x", **more
        )

    return {
        "distill_memories": lambda number: learning.distill_memories(site, **steps(number), items=[draft(number)]),
        "learn_from_trajectory": lambda number: learning.learn_from_trajectory(site, **steps(number)),
        "judge_trajectory": lambda number: learning.judge_trajectory(site, **steps(number)),
        "record_outcome": lambda number: learning.record_outcome(site, f"t{number}", "Success", used=kept[:1]),
        "retrieve_memories": lambda number: memories.retrieve_memories(site, f"Mend {number}", task_id=f"t{number}"),
        "quarantine": manage("quarantine"),
        "restore": manage("restore"),
        "archive": manage("archive"),
        "edit": manage("edit", title="Mend it otherwise"),
        "forget": manage("forget"),
        "log_tool_call": lambda number: tools_and_sources.log_tool_call(
            site, [{"tool_name": "Bash", "input": str(number), "output": "done", "success": True}]
        ),
        "hook UserPromptSubmit": lambda number: handle_hook(
            bank.toolbox, event("UserPromptSubmit", number), "server", SOMEWHERE
        ),
        "hook PreToolUse": lambda number: handle_hook(bank.toolbox, event("PreToolUse", number), "server", SOMEWHERE),
        "consolidate": lambda number: consolidate(toolbox, full=number % 2 == 0),
        "memory_status": lambda _: memories.memory_status(site),
        "reindex": lambda _: store.reindex(),
        "back up": lambda _: store.back_up(),
        "inspect": lambda _: store.inspect(),
    }


@pytest.fixture
async def toolbox(database: Path) -> Toolbox:
    store = await open_store(database, embedder=StaticEmbedder())
    return Toolbox(store, StaticEmbedder(), SystemClock(), Settings(), HERE)


async def test_a_tool_that_is_cancelled_at_any_await_leaves_no_transaction_and_loses_nobodys_write(
    database: Path, toolbox: Toolbox
) -> None:
    store, embedder = cast(SqliteStore, toolbox.store), StaticEmbedder().name
    kept = [item.id for item in await fill(store, 30)]
    lost = left_open = cancelled = to_the_end = number = 0
    most = 200 if FULL else 8
    for work in works(kept, toolbox).values():
        for at in range(1, most):
            number += 1
            victim = CancelledAt(work(number), at)
            (memory,) = await with_vectors([made_item(f"Another's {number}", scope=THERE)])
            other = asyncio.ensure_future(store.add_memories([memory], embedder))
            with suppress(asyncio.CancelledError, SwarmMemoryError):
                await victim
            lost += await other != [memory.item.id] or len(await store.get_memories([THERE], [memory.item.id])) != 1
            left_open += await store.on_writer(lambda connection: connection.in_transaction)
            if victim.waits < at:
                to_the_end += 1
                break
            cancelled += 1
    await store.close()
    found = await inspected(database)
    assert cancelled > 30
    assert not FULL or to_the_end == 18
    assert (lost, left_open) == (0, 0)
    assert found.sound, found


async def test_after_every_tool_no_statement_is_left_open(toolbox: Toolbox) -> None:
    store = cast(SqliteStore, toolbox.store)
    kept = [item.id for item in await fill(store, 30)]
    held = 0
    for number, work in enumerate(works(kept, toolbox).values()):
        await work(number)
        for run in (store.read, store.on_writer):
            held += await run(lambda connection: connection.in_transaction)
        held += not await store.truncate_log()
    await store.close()
    assert held == 0
