"""What ended an error: shown as it was done, hidden at first, and a memory once a second task confirms it."""

from copy import copy
from dataclasses import replace
from pathlib import Path

import pytest
from made_items import made_item
from patience import grows_by
from scripted_chat import ScriptedChatModel
from scripted_runs import Script, opened

from swarm_memory.schema.memory import CANDIDATE, FIX, MemoryDraft
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.tools.distill.distill import distill_by_extraction
from swarm_memory.tools.distill.fixes import fixes_of, fixes_tried
from swarm_memory.tools.judge.judge import judge_by_evidence
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.trajectory.reading import read

NO_MODULE = "ModuleNotFoundError: No module named 'web'"
FLAKY = "ship: error: the harbour gave no answer"


def ended(script: Script) -> list[tuple[str, ...]]:
    """Return the actions of each fix."""
    return [fix.actions for fix in fixes_of(read(script.done()))]


def drafts(script: Script) -> list[MemoryDraft]:
    trajectory = script.done()
    return list(distill_by_extraction(trajectory, judge_by_evidence(trajectory, Settings()), Settings()).drafts)


def test_an_action_after_which_the_same_call_went_through_is_a_fix_and_a_candidate() -> None:
    script = Script("translate the menu of the harbour").shell("manage test", NO_MODULE, 1)
    assert ended(script.shell("pip install web", "ok")) == []
    (draft,) = drafts(script.shell("manage test", "ok"))
    assert draft.title == "Run `pip install web` before manage"
    assert draft.content.splitlines() == [
        f'1. When `manage test` ends with "{NO_MODULE}", do not run it again unchanged.',
        "2. Run `pip install web`.",
        "3. Run `manage test` again: after that it succeeded.",
    ]
    assert {FIX, CANDIDATE} <= set(draft.tags)
    assert "harbour" not in draft.description


def test_of_an_error_that_ended_twice_only_what_was_done_both_times_is_shown() -> None:
    script = Script("seed it").shell("ship seed", FLAKY, 1).shell("ship wash", "ok").shell("ship lid", "ok")
    script.shell("ship seed", "seeded").shell("ship seed", FLAKY, 1).shell("ship lid", "ok")
    assert ended(script.shell("ship seed", "seeded")) == [("`ship lid`",)]


def test_of_what_was_in_vain_before_and_helped_at_the_end_nobody_knows_what_it_wanted() -> None:
    script = Script("ship it").shell("ship out", FLAKY, 4).shell("ship lid", "ok").shell("ship out", FLAKY, 4)
    script.shell("ship fold", "ok").shell("ship out", FLAKY, 4).shell("ship lid", "ok").shell("ship out", "shipped")
    assert ended(script) == []


@pytest.mark.parametrize(
    "script",
    [
        Script("it passed by itself").shell("ship seed", FLAKY, 1).shell("ship seed", "seeded"),
        Script("it never went through").shell("ship sync", NO_MODULE, 1).shell("pip install web", "ok"),
        Script("a process of this run").shell("serve", "error: port is already in use", 1)
        .shell("kill -9 31337", "").shell("serve", "up"),
        Script("a port that was free").shell("serve --port 80", "error: port is already in use", 1)
        .shell("serve --port 8081", "up"),
        Script("who held it").shell("ship seed", "error: the lock is held by 9f31bc04", 1)
        .shell("ship unlock 9f31bc04", "").shell("ship seed", "seeded"),
        Script("a change of a file").shell("ship seed", FLAKY, 1).edit("/r/ship.py", "a", "b").shell("ship seed", "ok"),
        Script("code written by a command").shell("ship seed", FLAKY, 1)
        .shell("sed -i s/sum/total/ ship.py", "").shell("ship seed", "seeded"),
        Script("an action that cannot be shown").shell("ship seed", FLAKY, 1)
        .shell("for f in a b; do ship load $f; done", "ok").shell("ship seed", "seeded"),
        Script("a fault in the work itself").shell("pytest -q", "E   TypeError: takes 1 argument\n1 failed in 0.1s", 1)
        .shell("ship lid", "ok").shell("pytest -q", "1 passed in 0.1s"),
        Script("an error that says nothing")
        .shell("npm test", "", 1).shell("npm install", "ok").shell("npm test", "ok"),
        Script("ended once by this and once by that").shell("ship seed", FLAKY, 1).shell("ship init", "ok")
        .shell("ship seed", "seeded").shell("ship seed", FLAKY, 1).shell("ship reset", "ok")
        .shell("ship seed", "seeded").shell("ship seed", FLAKY, 1),
    ],
    ids=lambda script: script.task,
)  # fmt: skip
def test_what_holds_for_one_run_alone_or_cannot_be_done_again_is_no_fix(script: Script) -> None:
    actions = [action for actions in ended(script) for action in actions]
    assert actions == [] or script.task.startswith("ended once by this")
    assert not (script.task.startswith("ended once by this") and len(actions) > 1)


CLOSED = "feedctl: error: the ledger feed is closed for writers"


def pushed(number: int, *actions: str, session: str | None = None) -> Trajectory:
    """Return a task in which `feedctl push` failed, the actions were done, and then it succeeded."""
    script = Script(f"push feed number {number} to the ledger", task_id=f"t{number}").shell("feedctl push", CLOSED, 4)
    for action in actions:
        script.shell(action, "ok")
    done = script.shell("feedctl push", "pushed").done()
    return done.model_copy(update={"session_id": session or f"session {number}"})


async def test_a_candidate_is_hidden_and_a_second_task_makes_it_a_memory(tmp_path: Path) -> None:
    async with opened(tmp_path, StaticEmbedder()) as (tools, bank):
        (item,) = (await learn(tools, pushed(1, "sh house.sh open"))).stored
        assert item.status == "candidate"
        assert [each.id for each in await bank.items("candidate")] == [item.id]
        assert await bank.items() == []
        assert (await retrieve(tools, "feedctl push says that the ledger feed is closed")).memories == ()
        (signature,) = {call.signature for call in read(pushed(1)).calls if call.signature}
        assert await tools.store.known_fixes(tools.scope, [signature.digest]) == []

        assert (await learn(tools, pushed(2, "sh house.sh open", session="session 1"))).stored == ()
        assert await bank.items() == [], "the same session bears nothing out"

        third = await learn(tools, pushed(3, "sh house.sh open"))
        assert third.stored == ()
        assert str(third.reason).endswith(f"; its calls again show what {item.id} says")
        assert [each.id for each in await bank.items()] == [item.id]
        (way,) = await tools.store.known_fixes(tools.scope, [signature.digest])
        assert (way.memory_id, way.worked) == (item.id, 3)
        assert (await retrieve(tools, "feedctl push says that the ledger feed is closed")).memories


async def test_what_two_tasks_did_both_is_a_memory_and_nothing_that_one_of_them_did_beside(tmp_path: Path) -> None:
    for chat in (None, ScriptedChatModel([])):  # that one fails
        async with opened(tmp_path / str(chat is None), StaticEmbedder()) as (tools, bank):
            with_chat = replace(tools, chat=chat)
            await learn(with_chat, pushed(1, "feedctl wash", "sh house.sh open"))
            (item,) = (await learn(with_chat, pushed(2, "feedctl weigh", "sh house.sh open"))).stored
            assert (item.status, item.actions) == ("active", ("`sh house.sh open`",))
            assert [each.id for each in await bank.items()] == [item.id]


def test_a_known_fix_that_was_in_vain_speaks_against_itself_though_it_was_done_again_at_the_end() -> None:
    def shown(*failing: str, last: str) -> list[bool]:
        script = Script("push it")
        for action in (*failing, last):
            script.shell("feedctl push", CLOSED, 4).shell(action, "ok")
        reading = read(script.shell("feedctl push", "pushed").done())
        signature = next(call.signature.digest for call in reading.calls if call.signature)
        known = made_item("Open the house", content="1. Run `sh house.sh open`.")
        return [way.worked for way in fixes_tried(reading, [(signature, known)])]

    assert shown(last="sh house.sh open") == [True]
    assert shown("sh house.sh open", last="feedctl wash") == [False]
    assert shown("sh house.sh open", "feedctl wash", last="sh house.sh open") == [False]


def test_the_time_for_what_was_in_vain_grows_with_the_calls_and_not_with_their_square() -> None:
    few, many = Script("push all"), Script("push all")
    for letter in "abcdefghijklmnopqrstuvwxy":
        for script in (few, many) if letter < "f" else (many,):
            script.shell(f"feedctl push {letter} --now", f"feedctl: error: {letter * 5} is closed", 4)
    one, other = (read(script.done()) for script in (few, many))
    assert grows_by(lambda given: given.errors and fixes_of(copy(given)), one, other, at_most=10) <= 10


def test_a_slip_with_a_tool_of_the_hosts_gives_no_fix_and_one_of_a_services_does() -> None:
    def ended_by(tool: str) -> list[tuple[str, ...]]:
        script = Script("read the page").call(tool, {"url": "a"}, "error: the gateway of the house is shut", error=True)
        return ended(script.shell("sh house.sh open", "ok").call(tool, {"url": "a"}, "a page", error=False))

    assert ended_by("WebFetch") == []
    assert ended_by("mcp__pages__read") == [("`sh house.sh open`",)]


async def test_what_two_tasks_did_differently_stays_hidden(tmp_path: Path) -> None:
    async with opened(tmp_path, StaticEmbedder()) as (tools, bank):
        for number, action in enumerate(("feedctl wash", "feedctl weigh", "feedctl fold")):
            await learn(tools, pushed(number, action))
        assert await bank.items() == []
        assert len(await bank.items("candidate")) == 3
