"""The cursor with which copies follow a team: whoever reads while many write misses no change."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from laid_bank import opened_bank
from patience import FULL, HANG_S
from postgres_server import BOTH_ENGINES

from swarm_memory.schema.base import Scope
from swarm_memory.schema.team.sharing import Evidence, ItemEvidence, Proposal, SharedMemory, team_scope
from swarm_memory.server.storage.stores.team import sharing
from swarm_memory.tools.memories.decide import MemoryChange
from swarm_memory.tools.memories.decide import edit as edit_memory
from swarm_memory.tools.memories.manage import forget_memories
from swarm_memory.tools.team.bank import TeamBank
from swarm_memory.tools.toolbox import Toolbox
from tests.team.team_banks import PROJECT, Home, NewHome

TEAM = team_scope("default", PROJECT)
TITLES = ("Close the pool", "Freeze the clock", "Sort the rows", "Pin the locale")
LATER = ("Rotate the certificate", "Quote every path", "Warm the cache")
ROUNDS = 3 if FULL else 2
BLOCKED = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""

pytestmark = BOTH_ENGINES


class Copy:
    """The knowledge of a reader that only ever asks for changes."""

    def __init__(self, server: Toolbox) -> None:
        self._server = server
        self._stamp: str = ""
        self._cursor: int = 0
        self.known: dict[str, SharedMemory] = {}

    async def look(self, limit: int = 50) -> None:
        """Apply the changes, page by page."""
        more = True
        while more:
            changes = await self._server.store.team.changes(TEAM, self._stamp, self._cursor, "", limit)
            assert changes.cursor >= self._cursor
            self.known |= {each.id: each for each in changes.shared}
            for each in changes.withdrawn:
                self.known.pop(each, None)
            self._stamp, self._cursor, more = changes.stamp, changes.cursor, changes.has_more

    async def look_until(self, is_over: Callable[[], bool], limit: int) -> None:
        """Look again and again, for the last time once everything is over."""
        over = False
        while not over:
            over = is_over()
            await self.look(limit)


@pytest.fixture
async def others(server: Toolbox, tmp_path: Path, database_url: str | None) -> AsyncIterator[list[Toolbox]]:
    """Two more servers on the same bank."""
    async with AsyncExitStack() as opened:
        path, hub = tmp_path / "server" / "memory.db", Scope(project="hub")
        yield [await opened.enter_async_context(opened_bank(path, scope=hub, url=database_url)) for _ in range(2)]


async def shared(ann: Home, rob: Home, title: str) -> str:
    return str((await rob.decide(await proposed(ann, title))).memory_id)


async def proposed(ann: Home, title: str) -> Proposal:
    return await ann.propose(await ann.learn(title, f"1. {title}, then go on."))


async def count(server: Toolbox, bank: str, memory_id: str, tried: int) -> None:
    counts = Evidence(worked=tried, tried=tried, shown=tried)
    await TeamBank(server).send_evidence(bank, [ItemEvidence(memory_id=memory_id, evidence=counts)])


async def edit(server: Toolbox, memory_id: str, description: str) -> None:
    await edit_memory(server.in_project(TEAM.project), memory_id, MemoryChange(description=description))
    await Copy(server).look()  # the first reader counts it as a change


async def withdraw(server: Toolbox, memory_id: str) -> None:
    await forget_memories(server.in_project(TEAM.project), [memory_id])
    await Copy(server).look()


class Held:
    """Holds the first writer that counts a change, in its open transaction, until it may continue."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._counts, self._first = sharing.next_revision, threading.Lock()
        self.counted, self.go_on = threading.Event(), threading.Event()
        monkeypatch.setattr(sharing, "next_revision", self._held)

    def _held(self, connection: Any, scope_id: int) -> int:
        revision = self._counts(connection, scope_id)
        if self._first.acquire(blocking=False):
            self.counted.set()
            self.go_on.wait(HANG_S)
        return revision


async def until_it_waits(task: "asyncio.Task[None]", url: str | None) -> None:
    """Return once a task is done or waits for a database lock; with a file, return immediately."""
    if url is None:
        return
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as raw:
        while not task.done():
            row = await (await raw.execute(BLOCKED.encode())).fetchone()
            if row is not None and row[0]:
                return


@pytest.mark.parametrize("what", ["evidence", "an acceptance", "an edit", "a withdrawal"])
async def test_a_change_that_is_counted_first_and_committed_last_is_not_skipped(
    what: str,
    home: NewHome,
    server: Toolbox,
    others: list[Toolbox],
    database_url: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ann, rob = await home("ann"), await home("rob", "review")
    one, other = [await shared(ann, rob, title) for title in TITLES[:2]]
    waiting = await proposed(ann, LATER[0])
    slow, quick = others
    change: dict[str, Coroutine[Any, Any, object]] = {
        "evidence": count(slow, "bank-1", one, 3),
        "an acceptance": replace(rob, server=TeamBank(slow)).decide(waiting),
        "an edit": edit(slow, one, "When the pool is full."),
        "a withdrawal": withdraw(slow, one),
    }
    copy = Copy(server)
    await copy.look()
    held = Held(monkeypatch)
    first = asyncio.create_task(change.pop(what))
    for unused in change.values():
        unused.close()
    await asyncio.to_thread(held.counted.wait, HANG_S)
    second = asyncio.create_task(count(quick, "bank-2", other, 5))
    try:
        await until_it_waits(second, database_url)
        before = dict(copy.known)
        if what in ("evidence", "an acceptance"):  # whoever looks counts what was edited or withdrawn, and waits
            await copy.look()
            assert copy.known == before, "the second waits until the first is committed"
    finally:
        held.go_on.set()
    await asyncio.gather(first, second)
    await copy.look()
    whole = Copy(server)
    await whole.look()
    assert copy.known == whole.known != before


async def test_what_is_withdrawn_while_somebody_looks_and_restored_before_the_next_look_is_not_lost(
    home: NewHome, server: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, rob = await home("ann"), await home("rob", "review")
    first, other, last = [await shared(ann, rob, title) for title in TITLES[:3]]

    async def withdrawn_meanwhile(*_: object) -> bool:
        await server.store.set_status((TEAM,), [other], "archived", "to and fro")
        return False

    copy = Copy(server)
    with monkeypatch.context() as patched:
        patched.setattr(type(server.store.team), "_out_of_step", withdrawn_meanwhile)
        await copy.look()
    assert set(copy.known) == {first}
    await server.store.set_status((TEAM,), [other], "active", "to and fro")
    await copy.look()
    assert set(copy.known) == {first, other, last}


async def test_whoever_looks_while_many_write_knows_in_the_end_what_whoever_looks_then_knows(
    home: NewHome, server: Toolbox, others: list[Toolbox]
) -> None:
    ann, rob = await home("ann"), await home("rob", "review")
    ids = [await shared(ann, rob, title) for title in TITLES]

    async def count_all(number: int) -> None:
        for tried in range(1, ROUNDS + 1):
            for each in ids[number:] + ids[:number]:
                await count(others[number % 2], f"bank-{number}", each, tried)

    async def edit_one(number: int) -> None:
        for turn in range(ROUNDS):
            await edit(others[number], ids[number], f"Where it is the {turn}th time.")

    async def withdraw_and_restore() -> None:
        for turn in range(2 * ROUNDS):
            status = "active" if turn % 2 else "archived"
            await others[0].store.set_status((TEAM,), [ids[-1]], status, "to and fro")

    async def share_more() -> None:
        for title in LATER:
            await shared(ann, rob, title)

    writing = asyncio.gather(*map(count_all, range(4)), *map(edit_one, range(2)), withdraw_and_restore(), share_more())
    copies = [Copy(each) for each in (server, *others)]
    await asyncio.gather(
        writing, *(copy.look_until(writing.done, limit) for copy, limit in zip(copies, (50, 1, 3), strict=True))
    )
    whole = Copy(server)
    await whole.look()
    assert len(whole.known) == len(TITLES) + len(LATER)
    assert {each.evidence.tried for each in whole.known.values()} == {0, 4 * ROUNDS}
    for copy in copies:
        assert copy.known == whole.known
