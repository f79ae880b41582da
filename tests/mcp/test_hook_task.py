"""An agent that asks for memories by itself gets what its host's task may have: the hooks said which task that is."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from hooked import hooked
from patience import HANG_S

from swarm_memory.schema.settings import CreditSettings, Settings
from swarm_memory.server.bank import MAX_CLIENTS, Bank
from swarm_memory.server.hooks.client import wake
from swarm_memory.server.location import Location
from swarm_memory.tools.toolbox import Toolbox

SESSION = "0b6f4a7e-93c1-4d21-8a57-5d1f0a2b3c4d"
PROMPT = "The tests of the shop fail: no such table orders. Make them pass."
EVENT = {"hook_event_name": "UserPromptSubmit", "session_id": SESSION, "prompt": PROMPT}


@pytest.fixture
def rate() -> float:
    return 0.0


@pytest.fixture
def settings(settings: Settings, rate: float) -> Settings:
    return settings.model_copy(update={"credit": CreditSettings(holdout_rate=rate)})


async def noted(toolbox: Toolbox) -> None:
    """Wait until the prompt's task is written: the hook's answer does not wait for that."""
    with anyio.fail_after(HANG_S):
        while await toolbox.store.get_session(toolbox.scope, SESSION) is None:
            await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("rate", [1.0])
async def test_in_a_held_out_session_it_gets_nothing_without_naming_the_task(
    connected: Callable[[], Any], fixed: dict[str, Any], toolbox: Toolbox, place: Location
) -> None:
    async with connected() as caller:
        for task_id in ("fix-1", "fix-2"):  # the second bears out what the first one showed
            await caller.call("learn_from_trajectory", **{**fixed, "task_id": task_id})
        before = await caller.call("retrieve_memories", query=PROMPT)
        assert before["memories"], "nobody knows of a task yet"
        assert any("takes no part" in notice for notice in before["notices"])
        assert await caller.hook(place.root, **EVENT) == {}
        await noted(toolbox)
        after = await caller.call("retrieve_memories", query=PROMPT)
        assert after["memories"] == []
        assert "held out" in after["reason"]


async def test_what_it_gets_is_credited_to_the_hosts_task(
    connected: Callable[[], Any], fixed: dict[str, Any], toolbox: Toolbox, place: Location
) -> None:
    async with connected() as caller:
        for task_id in ("fix-1", "fix-2"):  # the second bears out what the first one showed
            await caller.call("learn_from_trajectory", **{**fixed, "task_id": task_id})
        assert await caller.hook(place.root, **EVENT | {"prompt": "Fix it."}) == {}
        await noted(toolbox)
        found = await caller.call("retrieve_memories", query=PROMPT)
    kept = await toolbox.store.injections(toolbox.scope, f"{SESSION}:1")
    assert list(kept.given) == [memory["id"] for memory in found["memories"]] != []


async def test_the_hosts_task_is_known_though_the_hook_did_its_work_itself_and_only_told_of_the_session(
    connected: Callable[[], Any], fixed: dict[str, Any], toolbox: Toolbox, place: Location
) -> None:
    async with connected() as caller:
        for task_id in ("fix-1", "fix-2"):  # the second bears out what the first one showed
            await caller.call("learn_from_trajectory", **{**fixed, "task_id": task_id})
        await hooked(toolbox, EVENT)
        await anyio.to_thread.run_sync(wake, place.root, SESSION)
        with anyio.fail_after(HANG_S):
            while not (kept := await toolbox.store.injections(toolbox.scope, f"{SESSION}:1")).given:
                await caller.call("retrieve_memories", query=PROMPT)
        found = await caller.call("retrieve_memories", query=PROMPT)
    assert list(kept.given) == [memory["id"] for memory in found["memories"]]


async def test_a_client_that_cannot_be_told_apart_has_no_task(toolbox: Toolbox) -> None:
    async def opened() -> Toolbox:
        return toolbox

    bank = Bank(opened)
    await hooked(toolbox, EVENT)
    bank.note_session(None, SESSION)
    assert await bank.session_of(None) is None
    bank.note_session("one", SESSION)
    session = await bank.session_of("one")
    assert session is not None
    assert session.task_id == f"{SESSION}:1"
    assert await bank.session_of("two") is None
    for number in range(MAX_CLIENTS):
        bank.note_session(str(number), "s")
    assert await bank.session_of("one") is None, "only so many are remembered"
