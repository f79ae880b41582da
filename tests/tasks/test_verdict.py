"""A verdict that is said otherwise: what it did to memories is taken back, learned again, and given back again."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from laid_bank import EMBEDDER
from made_tasks import Shop
from pydantic import JsonValue
from scripted_chat import ScriptedChatModel
from scripted_runs import Bank, Script, learn_fix, opened

from swarm_memory.schema.errors import NotFoundError
from swarm_memory.schema.memory import LearnResult, MemoryDraft, MemoryItem
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.tools.guard.trust import is_borne_out, rests_on_evidence
from swarm_memory.tools.judge.judge import judge_given
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.tasks.transcript import transcript
from swarm_memory.tools.tasks.verdict import judge_again, kept_task, say_verdict
from swarm_memory.tools.toolbox import Toolbox

Opened = tuple[Toolbox, Bank]


def met() -> Trajectory:
    """A task that ends well, and shows how: its evidence says Success."""
    script = Script("run the tests of the billing service").shell("npm test", "sh: 1: vitest: not found", 127)
    return script.shell("pnpm install", "Done").shell("pnpm test", "Tests  21 passed (21)").say("ok").done()


def steps() -> Trajectory:
    """A task met by a procedure that is worth keeping only as long as it counts as met."""
    script = Script("publish the documentation of the billing service")
    for command in ("make docs", "python -m docs.check --strict", "make publish TARGET=staging", "make smoke"):
        script.shell(command, "ok")
    return script.shell("pytest tests/docs", "12 passed in 0.31s").say("Published.").done()


async def taught(tools: Toolbox) -> LearnResult:
    """Learn from it what its agent wrote down, which is no error's way out."""
    draft = MemoryDraft(
        title="Publish to staging before the smoke test",
        description="Of use when documentation is published.",
        content="1. Run `make docs`.\n2. Run `make publish TARGET=staging`.\n3. Run `make smoke`.",
    )
    return await learn(tools, steps(), agent_verdict=Verdict.by_agent("Success", 0.9), agent_drafts=[draft])


@pytest.fixture
async def bank(tmp_path: Path) -> AsyncGenerator[Opened]:
    async with opened(tmp_path, EMBEDDER) as both:
        yield both


async def test_what_the_user_says_replaces_the_verdict_and_is_noted(bank: Opened) -> None:
    tools, _ = bank
    learned = await learn(tools, met())
    revised = await say_verdict(tools, "t1", "Failure", "it tested another service")
    assert (revised.former, revised.trajectory_id) == (learned.verdict, learned.trajectory_id)
    task = await kept_task(tools, "t1")
    assert (task.row.label, task.row.judge, task.row.confidence) == ("Failure", "user", 1.0)
    assert task.verdict == revised.verdict
    outcome = task.row.outcome
    assert outcome is not None
    assert (outcome.label, outcome.given, outcome.judge) == ("Failure", True, "user")
    (event,) = (await transcript(tools, "t1")).changes
    assert event.data["from"] == learned.verdict.model_dump(mode="json")
    assert event.data["superseded"] == list(revised.superseded)


async def test_a_secret_in_the_users_reason_is_not_kept(bank: Opened) -> None:
    tools, folder = bank
    await learn(tools, met())
    secret = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
    revised = await say_verdict(tools, "t1", "Failure", f"the token {secret} was wrong")
    assert secret not in str(revised)
    assert not folder.holds(secret)


async def test_what_rested_on_the_wrong_verdict_is_superseded_and_what_was_seen_to_work_stays(bank: Opened) -> None:
    tools, items = bank
    learned = await taught(tools)
    strategies = {item.id for item in learned.stored if item.use == "strategy"}
    assert strategies
    revised = await say_verdict(tools, "t1", "Failure")
    assert strategies <= set(revised.superseded)
    assert not strategies & {item.id for item in await items.items()}
    fresh = {item.id: item for item in await items.items("active", "quarantined")}
    assert set(revised.stored) <= fresh.keys()
    assert all(fresh[each].provenance.judge == "user" for each in revised.stored)


async def test_a_way_past_an_error_that_was_seen_stays_one_memory(bank: Opened) -> None:
    tools, items = bank
    ways = [item.id for item in await learn_fix(tools, met()) if item.use == "way_out"]
    assert ways
    await say_verdict(tools, "t1", "Failure")
    assert [item.id for item in await items.items() if item.use == "way_out"] == ways


async def test_saying_the_former_verdict_again_gives_back_the_very_memories(bank: Opened) -> None:
    tools, items = bank

    async def state() -> list[tuple[str, str, float]]:
        return [(item.id, item.status, item.confidence) for item in await items.items()]

    await taught(tools)
    before = await state()
    for _ in range(2):
        wrong = await say_verdict(tools, "t1", "Failure")
        assert await state() != before
        back = await say_verdict(tools, "t1", "Success")
        assert (back.stored, back.superseded) == (wrong.superseded, wrong.stored)
        assert await state() == before
    restored = (await items.items())[0]
    history = await tools.store.memory_history((tools.scope,), restored.id)
    assert not is_borne_out(restored, history), "taking it back vouches for nothing"
    assert (await learn(tools, steps())).status == "already_learned"


async def test_the_credit_of_the_former_outcome_is_taken_back(bank: Opened) -> None:
    tools, _ = bank
    shop = Shop(tools)
    used = await shop.add("Install first", "1. Run `pnpm install`.\n2. Run `pnpm test`.")
    await shop.inject(used, at=tools.clock.now() - timedelta(hours=1))
    await learn(tools, met())
    assert await shop.confidence(used) == pytest.approx([0.55])
    revised = await say_verdict(tools, "t1", "Failure")
    assert revised.credited == (used,)
    assert await shop.confidence(used) == pytest.approx([0.475])
    assert (await say_verdict(tools, "t1", "Failure")).credited == ()
    await say_verdict(tools, "t1", "Undecided")
    assert await shop.confidence(used) == pytest.approx([0.5])


async def blanked(tools: Toolbox) -> None:
    later = tools.clock.now() + timedelta(days=3650)
    assert await tools.store.retention.remove(tools.scope, "trajectories", later, 10)


async def test_where_the_words_were_removed_strategies_of_the_wrong_verdict_go_and_uses_stay_known(
    bank: Opened,
) -> None:
    tools, items = bank
    shop = Shop(tools)
    used = await shop.add("Check strictly", "1. Run `python -m docs.check --strict`.\n2. Run `pytest tests/docs`.")
    await shop.inject(used, at=tools.clock.now() - timedelta(hours=1))
    learned = await taught(tools)
    await blanked(tools)
    before = (await kept_task(tools, "t1")).row.outcome
    revised = await say_verdict(tools, "t1", "Failure")
    assert revised.superseded
    assert revised.stored == ()
    assert {item.id for item in learned.stored if item.use == "strategy"} == set(revised.superseded)
    assert await shop.confidence(used) == pytest.approx([0.475])
    after = (await kept_task(tools, "t1")).row.outcome
    assert before is not None
    assert after is not None
    assert (after.digest, after.figures) == (before.digest, before.figures)
    assert [credit.method for credit in after.credits] == ["overlap"]
    await say_verdict(tools, "t1", "Success")
    assert {item.id for item in await items.items()} >= {item.id for item in learned.stored}
    with pytest.raises(NotFoundError, match="removed"):
        await judge_again(tools, "t1")


async def test_reasons_go_with_the_words_of_the_task(bank: Opened) -> None:
    tools, folder = bank
    await learn(tools, met())
    await say_verdict(tools, "t1", "Failure", "because of the zeppelin")
    await blanked(tools)
    (event,) = (await transcript(tools, "t1")).changes
    assert "zeppelin" not in str(event.data)
    assert "vitest" not in str(event.data)
    task = await kept_task(tools, "t1")
    assert (task.row.label, task.row.is_blank) == ("Failure", True)
    assert folder


async def test_judging_again_replaces_the_machines_verdict_and_never_the_users(bank: Opened) -> None:
    tools, _ = bank
    first = await learn(tools, met())
    again = await judge_again(tools, first.trajectory_id)
    assert (again.former, again.verdict.label, again.stands) == (first.verdict, "Success", True)
    await say_verdict(tools, "t1", "Failure")
    beside = await judge_again(tools, "t1")
    assert (beside.stands, beside.verdict.label) == (False, "Success")
    task = await kept_task(tools, "t1")
    assert task.row.label == "Failure"
    assert (await transcript(tools, "t1")).changes[0].data["stands"] is False


async def test_judging_again_by_a_model_that_says_otherwise_learns_again(bank: Opened) -> None:
    tools, items = bank
    silent = Script("write down what the release needs").shell("cat NOTES.md", "release notes").say("Written down.")
    await learn(tools, silent.done())
    said: dict[str, JsonValue] = {"label": "Failure", "confidence": 0.9, "reasons": ["s3: it only read"]}
    guardrail: dict[str, JsonValue] = {
        "title": "Do not stop at reading the notes",
        "description": "Of use when something is to be written down.",
        "steps": ["Read the notes", "Write the missing part", "Read it once more"],
        "evidence": ["s2"],
    }
    chat = ScriptedChatModel([said, {"items": [guardrail]}])
    again = await judge_again(replace(tools, chat=chat), "t1")
    assert (again.former is not None and again.former.label, again.verdict.label) == ("Undecided", "Failure")
    (item,) = await items.items("active", "quarantined")
    assert (item.id,) == again.stored
    assert (item.outcome, item.provenance.model) == ("Failure", "scripted:test")


async def test_only_judged_tasks_change_their_verdict_and_no_memory(bank: Opened) -> None:
    tools, items = bank
    await judge_given(tools, met(), None, store=True)
    revised = await say_verdict(tools, "t1", "Undecided")
    assert (revised.stored, revised.superseded) == ((), ())
    assert (await kept_task(tools, "t1")).row.label == "Undecided"
    assert await items.items() == []


async def test_an_unknown_task_is_shown_so(bank: Opened) -> None:
    operations: list[Callable[[], Awaitable[object]]] = [
        lambda: say_verdict(bank[0], "nobody", "Success"),
        lambda: judge_again(bank[0], "nobody"),
    ]
    for operation in operations:
        with pytest.raises(NotFoundError, match="nobody"):
            await operation()


async def test_what_was_distilled_under_the_users_word_is_vouched_for(bank: Opened) -> None:
    tools, items = bank
    script = Script("look at the release").shell("make docs", "ok").shell("make publish", "ok").say("Done.")
    await learn(tools, script.done())
    await say_verdict(tools, "t1", "Success")
    distilled: list[MemoryItem] = [item for item in await items.items() if item.provenance.judge == "user"]
    assert all(rests_on_evidence(item) for item in distilled)
