"""Work in the background gives way to who is served, and goes on under any load."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from made_items import made_item, put

from swarm_memory.server.bank import Bank
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.jobs.reembed import reembed
from swarm_memory.tools.consolidate.consolidate import consolidate
from swarm_memory.tools.memories.remember import remember
from swarm_memory.tools.ports.models import Vector
from swarm_memory.tools.toolbox import Toolbox


async def never() -> Toolbox:
    raise AssertionError("nothing is opened here")


async def passes(bank: Bank) -> bool:
    """Return whether work goes on within some turns of the loop."""
    going = asyncio.ensure_future(bank.give_way())
    for _ in range(20):
        await asyncio.sleep(0)
    if going.done():
        return True
    going.cancel()
    return False


async def test_work_waits_while_somebody_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarm_memory.server.bank.GIVE_WAY_S", 60.0)
    bank = Bank(never)
    assert await passes(bank)
    with bank.serving():
        waiting = asyncio.ensure_future(bank.give_way())
        with bank.serving():
            assert not await passes(bank)
        assert not await passes(bank)
    await waiting
    assert await passes(bank)


async def test_work_goes_on_though_the_server_is_never_at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarm_memory.server.bank.GIVE_WAY_S", 0.0)
    bank = Bank(never)
    with bank.serving():
        await bank.give_way()


async def test_consolidation_does_nothing_while_it_gives_way(toolbox: Toolbox) -> None:
    quiet, asking, asked = asyncio.Event(), asyncio.Event(), 0

    async def give_way() -> None:
        nonlocal asked
        asked += 1
        asking.set()
        await quiet.wait()

    await put(toolbox, made_item("Run the migrations first", scope=toolbox.scope))
    running = asyncio.ensure_future(consolidate(replace(toolbox, give_way=give_way)))
    await asking.wait()
    assert not running.done()
    quiet.set()
    assert (await running).compared == 1
    assert asked > 1


class Slow(StaticEmbedder):
    """One that takes long for a text, beside one that does not."""

    light = StaticEmbedder()
    longest = 0

    @property
    def name(self) -> str:
        return "slow-256"

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        self.longest = max(self.longest, len(texts))
        return await super().embed_documents(texts)


async def test_re_embedding_gives_way_before_every_few_texts(toolbox: Toolbox) -> None:
    for number in range(20):
        await remember(toolbox, f"Case {number}: ask before the upload replaces a file.")
    asked, slow = 0, Slow()

    async def give_way() -> None:
        nonlocal asked
        asked += 1

    done = await reembed(toolbox.store, slow, drop_others=False, on_progress=lambda _: None, give_way=give_way)
    assert (done.embedded, slow.longest, asked) == (20, 8, 3)


async def test_a_caller_who_waits_for_the_work_itself_does_not_hold_it_up(
    connected: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarm_memory.server.bank.FIRST_LOOK_S", 0.0)
    monkeypatch.setattr("swarm_memory.server.bank.GIVE_WAY_S", 60.0)
    async with connected() as caller:
        for number in range(3):
            await caller.call("remember", text=f"Case {number}: ask before the upload replaces a file.")
        answer = await caller.call("consolidate_memories", full=True)
    assert answer["status"] == "completed"
