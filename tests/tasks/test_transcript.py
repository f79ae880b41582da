"""Tasks as a list, a timeline and a transcript; and verdicts that are overruled and restored."""

from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hooked import after_failure
from laid_bank import EMBEDDER
from made_tasks import Shop
from pydantic import JsonValue
from scripted_chat import ScriptedChatModel
from scripted_runs import NOW, Bank, Script, learn_fix, opened

from swarm_memory.schema.base import RETRIEVAL, new_id
from swarm_memory.schema.errors import NotFoundError
from swarm_memory.schema.memory import LearnResult, MemoryDraft
from swarm_memory.schema.settings import CreditSettings
from swarm_memory.schema.sqlite.events import BRIEFING, INJECTED
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.server.wiring import SystemClock
from swarm_memory.tools.guard.trust import is_borne_out
from swarm_memory.tools.judge.judge import judge_given
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.memories.decide import set_memory_status
from swarm_memory.tools.ports.memories import RetrievalRecord
from swarm_memory.tools.ports.records import BankEvent, HostSession, TaskFilter
from swarm_memory.tools.tasks.transcript import WINDOW, Injection, TranscriptStep, transcript
from swarm_memory.tools.tasks.verdict import judge_again, kept_task, say_verdict
from swarm_memory.tools.toolbox import Toolbox

Opened = tuple[Toolbox, Bank]
MISSING = "FileNotFoundError: [Errno 2] No such file or directory: 'config/test.toml'"


def script(task_id: str = "s1:1", task: str = "make the returns tests pass") -> Script:
    run = Script(task, task_id=task_id).shell("pytest tests/returns", MISSING, 1)
    run.shell("cp config/test.example.toml config/test.toml").shell("pytest tests/returns", "12 passed in 0.32s")
    return run.say("They pass.")


def timed(run: Script, *, began: datetime = NOW, session_id: str = "s1", **fields: Any) -> Trajectory:
    """Return the trajectory of a script, one step per minute."""
    done = run.done()
    steps = [step.model_copy(update={"at": began + timedelta(minutes=at)}) for at, step in enumerate(done.steps)]
    ended = began + timedelta(minutes=len(steps))
    changes = {"steps": tuple(steps), "started_at": began, "ended_at": ended, "session_id": session_id, **fields}
    return done.model_copy(update=changes)


@pytest.fixture
async def bank(tmp_path: Path) -> AsyncGenerator[Opened]:
    async with opened(tmp_path, EMBEDDER) as both:
        yield both


@pytest.fixture
def tools(bank: Opened) -> Toolbox:
    return bank[0]


async def test_a_list_tells_what_a_task_was_given_taught_and_took(tools: Toolbox) -> None:
    shop = Shop(tools)
    given = await shop.add("Copy the example", "1. Run `cp config/test.example.toml config/test.toml`.")
    await shop.inject(given, task_id="s1:1", at=NOW)
    learned = await learn(tools, timed(script(), agent_id="a7"))
    (row,) = await tools.store.list_tasks(tools.scope, TaskFilter())
    assert (row.task_id, row.task, row.source, row.agent_id) == ("s1:1", script().task, "claude_code", "a7")
    assert (row.session_id, row.began, row.ended) == ("s1", NOW, NOW + timedelta(minutes=8))
    assert (row.label, row.judge, row.confidence) == ("Success", "evidence", learned.verdict.confidence)
    assert (row.failures, row.taught) == (1, len(learned.stored))
    assert row.outcome is not None
    assert (len(row.outcome.credits), row.outcome.figures.steps) == (1, 3)


async def test_of_a_task_its_newest_trajectory_is_listed_and_earlier_ones_are_found_by_their_id(tools: Toolbox) -> None:
    first = await learn(tools, timed(script()))
    second = await learn(tools, timed(script().user("and now push it").shell("git push", "done").say("Pushed.")))
    assert [row.trajectory_id for row in await tools.store.list_tasks(tools.scope, TaskFilter())] == [
        second.trajectory_id
    ]
    earlier = await transcript(tools, first.trajectory_id)
    assert (earlier.task.row.trajectory_id, earlier.task.later) == (first.trajectory_id, 1)
    assert (await transcript(tools, "s1:1")).task.row.trajectory_id == second.trajectory_id


async def test_tasks_are_found_by_agent_verdict_and_words_and_paged(tools: Toolbox) -> None:
    for number in range(1, 6):
        run = script(f"s{number}:1", f"make suite {number} of Returns pass")
        await learn(tools, timed(run, began=NOW - timedelta(days=number), session_id=f"s{number}", source="codex"))
    await learn(tools, timed(Script("look around", task_id="s9:1").shell("ls", "a b"), session_id="s9"))

    async def found(**which: Any) -> list[str]:
        return [row.task_id for row in await tools.store.list_tasks(tools.scope, TaskFilter(**which))]

    assert await found() == ["s9:1", "s1:1", "s2:1", "s3:1", "s4:1", "s5:1"], "the one that ended last first"
    assert await found(limit=2, offset=2) == ["s2:1", "s3:1"]
    assert await found(source="claude_code") == ["s9:1"]
    assert await found(label="Undecided") == ["s9:1"]
    assert await found(text="SUITE 4 of returns") == ["s4:1"]
    assert await found(text="100%") == []
    assert await tools.store.sources_of_tasks(tools.scope) == ["claude_code", "codex"]
    assert await tools.store.list_tasks(tools.in_project("other").scope, TaskFilter()) == []


async def test_a_transcript_joins_calls_with_results_and_marks_failures_evidence_and_lessons(tools: Toolbox) -> None:
    learned = await learn(tools, timed(script()))
    read = await transcript(tools, learned.trajectory_id)
    steps = [part for part in read.parts if isinstance(part, TranscriptStep)]
    assert [part.step.kind for part in steps] == ["message", "tool_call", "tool_call", "tool_call", "message"]
    failed, copied, passed = steps[1:4]
    assert failed.call
    assert passed.call
    assert (failed.ids, failed.call.name, failed.call.tool) == (("s2", "s3"), "pytest", "Bash")
    assert (failed.failed, failed.took_s, failed.given) == (True, 60.0, [("command", "pytest tests/returns")])
    assert "No such file" in failed.call.error
    assert (copied.failed, passed.call.output) == (False, "12 passed in 0.32s")
    assert passed.is_evidence
    assert passed.ids[0] in read.evidence
    assert {item.id for part in steps for item in part.taught} == {item.id for item in learned.stored}


async def test_what_was_shown_stands_where_it_was_shown_and_beside_its_failure(tools: Toolbox, tmp_path: Path) -> None:
    way = next(item.id for item in await learn_fix(tools, timed(script())) if item.use == "fix")
    # At the present time, like the hook's clock: what is shown falls between the failure and what was done next.
    run = timed(script("s2:1"), began=datetime.now(UTC) - timedelta(minutes=2.5), session_id="s2")
    scores, began = {await Shop(tools).add(): 0.7}, run.steps[0].at
    filed = await Shop(tools).add("Ask", "1. Ask.")
    assert began is not None
    rt, query = new_id(RETRIEVAL), "make it pass"
    asked = RetrievalRecord(rt, tools.scope, query, scores, 1.0, began, "s2:1", "s2", via="hook", read=(filed,))
    await tools.store.record_retrieval(asked)
    await tools.store.injections(tools.scope, "s2:1")
    await tools.store.put_session(HostSession(session_id="s2", scope=tools.scope, task_id="s2:1", updated_at=NOW))
    shown = BankEvent(INJECTED, datetime.now(UTC), "s2:1", {"ids": list(scores), "via": BRIEFING})
    await tools.store.add_event(tools.scope, shown)
    now = replace(tools, clock=SystemClock())
    assert await after_failure(now, "s2", "pytest tests/returns", f"Exit code 1\n{MISSING}")
    await learn(tools, run)
    read = await transcript(tools, "s2:1")
    order = [part.moment if isinstance(part, Injection) else part.ids[0] for part in read.parts]
    assert order == ["s1", "prompt", "file", "s2", "briefing", "failure", "s4", "s6", "s8"]
    prompt, file, _, failure = (part for part in read.parts if isinstance(part, Injection))
    assert (prompt.query, prompt.withheld, prompt.memories[0].method) == ("make it pass", False, "none")
    assert [given.memory_id for given in file.memories] == [filed]
    assert [(given.memory_id, given.method) for given in failure.memories] == [(way, "overlap")]


async def test_what_was_kept_from_a_task_and_what_was_forgotten_is_shown_so(tools: Toolbox) -> None:
    tools = replace(tools, settings=tools.settings.model_copy(update={"credit": CreditSettings(holdout_rate=0.5)}))
    shop = Shop(tools)
    kept, gone = await shop.add(), await shop.add("Ask first", "1. Ask before it is pushed.")
    await shop.inject(kept, gone, task_id="s1:1", withheld=True)
    await learn(tools, timed(script()))
    await tools.store.forget(tools.scope.readable(), [gone])
    (given,) = [part for part in (await transcript(tools, "s1:1")).parts if isinstance(part, Injection)]
    assert given.withheld
    assert [(one.item is None) for one in given.memories] == [False, True]


async def test_of_a_long_task_a_window_is_shown_that_holds_the_step_asked_for(tools: Toolbox) -> None:
    run = Script("count to many", task_id="s1:1")
    for number in range(WINDOW + 50):
        run.shell(f"echo {number}", str(number))
    await learn(tools, run.done())
    start = await transcript(tools, "s1:1")
    assert (start.first, len(start.parts), start.total) == (0, WINDOW, WINDOW + 51)
    later = await transcript(tools, "s1:1", step=f"s{2 * WINDOW + 20}")
    assert (later.first, len(later.parts)) == (WINDOW, 51)
    assert (await transcript(tools, "s1:1", first=10**9)).first == WINDOW
    assert (await transcript(tools, "s1:1", step="s99999")).first == 0


def met() -> Trajectory:
    """Return a task that ends well and proves it: its evidence says Success."""
    script = Script("run the tests of the billing service").shell("npm test", "sh: 1: vitest: not found", 127)
    return script.shell("pnpm install", "Done").shell("pnpm test", "Tests  21 passed (21)").say("ok").done()


def steps() -> Trajectory:
    """Return a task met by a procedure that is worth keeping only as long as the task counts as met."""
    script = Script("publish the documentation of the billing service")
    for command in ("make docs", "python -m docs.check --strict", "make publish TARGET=staging", "make smoke"):
        script.shell(command, "ok")
    return script.shell("pytest tests/docs", "12 passed in 0.31s").say("Published.").done()


async def taught(tools: Toolbox) -> LearnResult:
    """Learn from the task `steps` what its agent wrote down, which is no way out of an error."""
    draft = MemoryDraft(
        title="Publish to staging before the smoke test",
        description="Of use when documentation is published.",
        content="1. Run `make docs`.\n2. Run `make publish TARGET=staging`.\n3. Run `make smoke`.",
    )
    return await learn(tools, steps(), agent_verdict=Verdict.by_agent("Success", 0.9), agent_drafts=[draft])


async def test_what_the_user_says_replaces_the_verdict_and_is_noted(tools: Toolbox) -> None:
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
    await say_verdict(tools, "t1", "Undecided")
    changes: list[Any] = [each.data for each in (await transcript(tools, "t1")).changes]
    assert [each["to"]["label"] for each in changes] == ["Undecided", "Failure"], "the last first"


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
    fixes = [item.id for item in await learn_fix(tools, met()) if item.use == "fix"]
    assert fixes
    await say_verdict(tools, "t1", "Failure")
    assert [item.id for item in await items.items() if item.use == "fix"] == fixes


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
    await set_memory_status(tools, [restored.id], "quarantined", "screened: an order")
    for label in ("Failure", "Success"):
        await say_verdict(tools, "t1", label)
    assert restored.id not in [each[0] for each in await state()], "no verdict releases what was held back"
    assert (await learn(tools, steps())).status == "already_learned"


async def test_the_credit_of_the_former_outcome_is_taken_back(tools: Toolbox) -> None:
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


async def test_where_words_were_removed_strategies_of_the_wrong_verdict_go_and_uses_stay_known(bank: Opened) -> None:
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


async def test_a_task_whose_words_were_removed_says_so_loses_its_reasons_and_keeps_its_verdict(tools: Toolbox) -> None:
    learned = await learn(tools, met())
    await say_verdict(tools, "t1", "Failure", "because of the zeppelin")
    await blanked(tools)
    read = await transcript(tools, learned.trajectory_id)
    (event,) = read.changes
    assert "zeppelin" not in str(event.data)
    assert "vitest" not in str(event.data)
    assert (read.task.row.is_blank, read.task.row.label, read.parts, read.total) == (True, "Failure", (), 0)
    assert "removed" in read.task.row.task
    assert {item.id for item in learned.stored} <= {item.id for item in read.taught}


async def test_judging_again_replaces_the_machines_verdict_and_never_the_users(tools: Toolbox) -> None:
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


async def test_an_unknown_task_is_shown_so(tools: Toolbox) -> None:
    for operation in (say_verdict(tools, "nobody", "Success"), judge_again(tools, "nobody")):
        with pytest.raises(NotFoundError, match="nobody"):
            await operation
