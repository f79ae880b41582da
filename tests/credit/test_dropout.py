"""Which memory a task is not told by lot, where, and how that is recorded."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hooked import hooked
from hypothesis import given
from hypothesis import strategies as st
from made_tasks import STEPS, Shop

from swarm_memory.schema.memory import Provenance
from swarm_memory.schema.outcome import LiftReport
from swarm_memory.schema.sqlite.events import DRAWN, INJECTED
from swarm_memory.server.hooks.session import Moment, session_start
from swarm_memory.server.hooks.settings import LightSettings
from swarm_memory.server.hosts.host import host
from swarm_memory.server.location import Location, lot_key, state_folder
from swarm_memory.server.storage.hook_reader import open_for_hook
from swarm_memory.tools.credit.holdout import Lots
from swarm_memory.tools.ports.journal import Event
from swarm_memory.tools.retrieve.retrieve import retrieve

QUERY = "prepare the test configuration of the shop"
SESSION = "0b6f4a7e-93c1-4d21-8a57-5d1f0a2b3c4d"
PROMPT = {"hook_event_name": "UserPromptSubmit", "session_id": SESSION, "prompt": QUERY}
KEY = b"k" * 32


def by_lot(shop: Shop, key: bytes = KEY, rate: float = 0.5) -> Shop:
    drawing = shop.set(dropout=rate)
    return Shop(replace(drawing.toolbox, lot_key=key))


def task_where(memory_id: str, *, left_out: bool) -> str:
    """A task that is told a memory, or is not."""
    lots = Lots(dropout=0.5, key=KEY)
    return next(name for name in map(str, range(99)) if bool(lots.left_out(name, [memory_id])) == left_out)


async def drawn(shop: Shop, limit: int = 9) -> list[Event]:
    await shop.toolbox.store.injections(shop.toolbox.scope, "any")  # what is queued is written first
    return await shop.toolbox.store.events_of_kind(shop.toolbox.scope, DRAWN, limit)


@pytest.mark.parametrize("rate", [0.05, 0.1, 0.5])
def test_the_share_of_what_is_left_out_is_near_the_rate(rate: float) -> None:
    lots = Lots(dropout=rate, key=KEY)
    share = sum(len(lots.left_out(f"t{number}", ["rm_1", "rm_2"])) for number in range(5_000)) / 10_000
    assert share == pytest.approx(rate, abs=4 * (rate * (1 - rate) / 10_000) ** 0.5)


@given(st.text(max_size=40), st.lists(st.text(max_size=20), max_size=5), st.floats(0, 0.5), st.floats(0, 0.5))
def test_what_is_left_out_stays_so_when_the_rate_rises(task: str, ids: list[str], rate: float, other: float) -> None:
    low, high = sorted((rate, other))
    assert Lots(dropout=low, key=KEY).left_out(task, ids) <= Lots(dropout=high, key=KEY).left_out(task, ids)
    assert Lots(dropout=0.5).left_out(task, ids) == set()


def test_nobody_knows_the_lots_without_the_key_and_memories_draw_apart() -> None:
    tasks = [f"t{number}" for number in range(64)]
    lots = {
        tuple(bool(Lots(dropout=0.5, key=key).left_out(task, [memory])) for task in tasks)
        for key in (KEY, b"other")
        for memory in ("rm_1", "rm_2")
    }
    assert len(lots) == 4


def test_the_tasks_of_one_session_draw_one_lot() -> None:
    lots = Lots(dropout=0.5, key=KEY)
    told = [{bool(lots.left_out(f"{n:08x}{SESSION[8:]}:{task}", ["rm_1"])) for task in (1, 2)} for n in range(50)]
    assert all(len(each) == 1 for each in told)
    assert {True} in told


def test_the_key_is_made_once_for_this_user_alone() -> None:
    file = state_folder() / "lot.key"
    file.unlink()
    key = lot_key()
    assert (len(key), lot_key()) == (32, key)
    assert list(file.parent.iterdir()) == [file]
    assert os.name != "posix" or file.stat().st_mode & 0o777 == 0o600


async def test_a_task_is_not_told_what_is_left_out_and_both_are_recorded(shop: Shop) -> None:
    memory = await shop.add()
    told_task, other_task = task_where(memory, left_out=False), task_where(memory, left_out=True)
    told = await retrieve(by_lot(shop).toolbox, QUERY, task_id=told_task)
    assert [each.item.id for each in told.memories] == [memory]
    left = await retrieve(by_lot(shop).toolbox, QUERY, task_id=other_task)
    assert (left.memories, left.preamble) == ((), "")
    assert "1 memory left out by lot" in str(left.reason)
    now, before = await drawn(shop)
    assert (now.subject_id, now.data["left_out"], now.data["told"], now.data["tokens"]) == (other_task, [memory], [], 0)
    assert (before.subject_id, before.data["told"], before.data["rate"]) == (told_task, [memory], 0.5)
    assert before.data["tokens"] == -(-len(told.preamble.encode()) // 3)
    injected = await shop.toolbox.store.events_of_kind(shop.toolbox.scope, INJECTED, 9)
    assert [event.subject_id for event in injected] == [told_task]
    (item,) = await shop.toolbox.store.get_memories(shop.toolbox.scope.readable(), [memory])
    assert item.usage_count == 1


async def test_the_others_stay_in_their_order_and_nothing_comes_in_the_place_of_one(shop: Shop) -> None:
    for title in ("Prepare the test configuration", "Prepare the shop", "Test the shop", "Configuration of the shop"):
        await shop.add(title, f"{STEPS}\n3. {title}.")
    whole = [each.item.id for each in (await retrieve(shop.toolbox, QUERY)).memories]
    lots = Lots(dropout=0.5, key=KEY)
    task = next(name for name in map(str, range(99)) if len(lots.left_out(name, whole)) == 1)
    found = await retrieve(by_lot(shop).toolbox, QUERY, task_id=task)
    gone = lots.left_out(task, whole)
    assert [each.item.id for each in found.memories] == [each for each in whole if each not in gone]
    assert "1 memory left out by lot" in found.notices[-1]
    assert not any(each in found.preamble for each in gone)


async def test_what_may_harm_is_left_out_more_often_and_its_rate_is_recorded(shop: Shop, tmp_path: Path) -> None:
    doubted, other = await shop.add(), await shop.add("Test the shop")
    rates = {doubted: 0.5}
    await shop.toolbox.store.save_lifts(shop.toolbox.scope, {}, LiftReport(dropout=0.01), rates)
    assert await shop.toolbox.store.dropout_rates(shop.toolbox.scope) == rates
    shop, lots = by_lot(shop, rate=0.01), Lots(dropout=0.01, key=KEY, rates=rates)
    names = [f"t{number}" for number in range(20)]
    told = {
        name: {each.item.id for each in (await retrieve(shop.toolbox, QUERY, task_id=name)).memories} for name in names
    }
    assert told == {name: {doubted, other} - lots.left_out(name, [doubted, other]) for name in names}
    assert 3 < sum(doubted not in ids for ids in told.values()) < 17
    (event,) = [event for event in await drawn(shop, 30) if event.subject_id == "t1"]
    assert (event.data["rate"], event.data["rates"]) == (0.01, rates)
    place = (shop.toolbox.scope.tenant_id, shop.toolbox.scope.project)
    with open_for_hook(tmp_path / "memory.db", place, 1.0) as bank:
        assert bank.with_rates(Lots(dropout=0.01, key=KEY)) == lots
        assert bank.with_rates(Lots()) == Lots(), "where no lots are drawn none are looked for"


async def test_what_the_user_said_is_always_told_and_draws_no_lot(shop: Shop) -> None:
    memory = await shop.add(provenance=Provenance(distiller="user"))
    for task in map(str, range(12)):
        assert [each.item.id for each in (await retrieve(by_lot(shop).toolbox, QUERY, task_id=task)).memories] == [
            memory
        ]
    assert await drawn(shop) == []


async def test_who_names_no_task_or_wants_no_lots_is_told_all(shop: Shop) -> None:
    memory = await shop.add()
    task = task_where(memory, left_out=True)
    for toolbox, named in ((by_lot(shop).toolbox, None), (by_lot(shop, rate=0.0).toolbox, task), (shop.toolbox, task)):
        assert [each.item.id for each in (await retrieve(toolbox, QUERY, task_id=named)).memories] == [memory]
    assert await drawn(shop) == []


async def test_the_briefing_leaves_out_what_the_prompts_of_its_session_leave_out(shop: Shop, tmp_path: Path) -> None:
    memory = await shop.add(content="1. Prepare the configuration before the tests.")  # of every task: no name in it
    (state_folder() / "lot.key").write_bytes(KEY)
    place, lots = Location(tmp_path / "shop", tmp_path / "memory.db"), Lots(dropout=0.5, key=KEY)

    def briefed(session: str, **event: str) -> str:
        moment = Moment({"session_id": session, **event}, place, LightSettings(dropout=0.5), host("claude"))
        return str(session_start(moment))

    sessions = [f"{number:08x}{SESSION[8:]}" for number in range(8)]
    gone = [bool(lots.left_out(f"{session}:1", [memory])) for session in sessions]
    assert set(gone) == {True, False}
    assert [memory not in briefed(session) for session in sessions] == gone
    assert [memory not in briefed(session, source="resume") for session in sessions] == gone
    answers = [await hooked(by_lot(shop).toolbox, {**PROMPT, "session_id": session}) for session in sessions]
    assert [memory not in str(answer) for answer in answers] == gone
    events = await shop.toolbox.store.events_of_kind(shop.toolbox.scope, DRAWN, 99)
    briefings = {event.subject_id: event.data["left_out"] == [memory] for event in events if "via" not in event.data}
    assert briefings == {f"{session}:1": out for session, out in zip(sessions, gone, strict=True)}
