"""Tasks as a list, a timeline and a transcript: what was shown is at its moment, and reasons on their steps."""

from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hooked import after_failure
from laid_bank import EMBEDDER
from made_tasks import Shop
from scripted_runs import NOW, Bank, Script, learn_fix, opened

from swarm_memory.schema.base import RETRIEVAL, new_id
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.settings import CreditSettings
from swarm_memory.schema.sqlite.events import BRIEFING, INJECTED
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.server.wiring import SystemClock
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.ports.memories import RetrievalRecord
from swarm_memory.tools.ports.records import Event, HostSession, TaskFilter
from swarm_memory.tools.tasks.transcript import WINDOW, Injection, Shown, list_tasks, timeline, transcript
from swarm_memory.tools.tasks.verdict import say_verdict
from swarm_memory.tools.toolbox import Toolbox

Opened = tuple[Toolbox, Bank]
MISSING = "FileNotFoundError: [Errno 2] No such file or directory: 'config/test.toml'"


def script(task_id: str = "s1:1", task: str = "make the returns tests pass") -> Script:
    run = Script(task, task_id=task_id).shell("pytest tests/returns", MISSING, 1)
    run.shell("cp config/test.example.toml config/test.toml").shell("pytest tests/returns", "12 passed in 0.32s")
    return run.say("They pass.")


def timed(run: Script, *, began: datetime = NOW, session_id: str = "s1", **fields: Any) -> Trajectory:
    """One step a minute."""
    done = run.done()
    steps = [step.model_copy(update={"at": began + timedelta(minutes=at)}) for at, step in enumerate(done.steps)]
    ended = began + timedelta(minutes=len(steps))
    changes = {"steps": tuple(steps), "started_at": began, "ended_at": ended, "session_id": session_id, **fields}
    return done.model_copy(update=changes)


@pytest.fixture
async def bank(tmp_path: Path) -> AsyncGenerator[Opened]:
    async with opened(tmp_path, EMBEDDER) as both:
        yield both


async def test_a_list_tells_what_a_task_was_given_taught_and_took(bank: Opened) -> None:
    tools, _ = bank
    shop = Shop(tools)
    given = await shop.add("Copy the example", "1. Run `cp config/test.example.toml config/test.toml`.")
    await shop.inject(given, task_id="s1:1", at=NOW)
    learned = await learn(tools, timed(script(), agent_id="a7"))
    (row,) = await list_tasks(tools, TaskFilter())
    assert (row.task_id, row.task, row.source, row.agent_id) == ("s1:1", script().task, "claude_code", "a7")
    assert (row.session_id, row.began, row.ended) == ("s1", NOW, NOW + timedelta(minutes=8))
    assert (row.label, row.judge, row.confidence) == ("Success", "evidence", learned.verdict.confidence)
    assert (row.failures, row.taught) == (1, len(learned.stored))
    assert row.outcome is not None
    assert (len(row.outcome.credits), row.outcome.figures.steps) == (1, 3)


async def test_of_a_task_its_newest_trajectory_is_listed_and_earlier_ones_are_found_by_their_id(bank: Opened) -> None:
    tools, _ = bank
    first = await learn(tools, timed(script()))
    second = await learn(tools, timed(script().user("and now push it").shell("git push", "done").say("Pushed.")))
    assert [row.trajectory_id for row in await list_tasks(tools, TaskFilter())] == [second.trajectory_id]
    earlier = await transcript(tools, first.trajectory_id)
    assert (earlier.task.row.trajectory_id, earlier.task.later) == (first.trajectory_id, 1)
    assert (await transcript(tools, "s1:1")).task.row.trajectory_id == second.trajectory_id


async def test_tasks_are_found_by_agent_verdict_and_words_and_paged(bank: Opened) -> None:
    tools, _ = bank
    for number in range(1, 6):
        run = script(f"s{number}:1", f"make suite {number} of Returns pass")
        await learn(tools, timed(run, began=NOW - timedelta(days=number), session_id=f"s{number}", source="codex"))
    await learn(tools, timed(Script("look around", task_id="s9:1").shell("ls", "a b"), session_id="s9"))

    async def found(**which: Any) -> list[str]:
        return [row.task_id for row in await list_tasks(tools, TaskFilter(**which))]

    assert await found() == ["s9:1", "s1:1", "s2:1", "s3:1", "s4:1", "s5:1"], "the one that ended last first"
    assert await found(limit=2, offset=2) == ["s2:1", "s3:1"]
    assert await found(source="claude_code") == ["s9:1"]
    assert await found(label="Undecided") == ["s9:1"]
    assert await found(text="SUITE 4 of returns") == ["s4:1"]
    assert await found(text="100%") == []
    assert await tools.store.sources_of_tasks(tools.scope) == ["claude_code", "codex"]
    assert await list_tasks(tools.in_project("other"), TaskFilter()) == []
    for wrong in ({"limit": 0}, {"limit": 201}, {"offset": -1}):
        with pytest.raises(InputError):
            await found(**wrong)


async def test_a_timeline_goes_by_day_and_session(bank: Opened) -> None:
    tools, _ = bank
    noon = datetime(2026, 3, 1, 12).astimezone().astimezone(UTC)  # of this machine's zone, in which days are counted
    for task_id, session_id, began in (
        ("a:1", "a", noon - timedelta(days=1)),
        ("a:2", "a", noon),
        ("b:1", "b", noon + timedelta(minutes=1)),
        ("a:3", "a", noon + timedelta(minutes=2)),
    ):
        await learn(
            tools, timed(Script(f"do {task_id}", task_id=task_id).say("ok"), began=began, session_id=session_id)
        )
    days = timeline(await list_tasks(tools, TaskFilter()))
    shown = [[(each.session_id, [row.task_id for row in each.tasks]) for each in day.sessions] for day in days]
    assert shown == [[("a", ["a:3", "a:2"]), ("b", ["b:1"])], [("a", ["a:1"])]]
    assert [day.day.isoformat() for day in days] == ["2026-03-01", "2026-02-28"]


async def test_a_transcript_joins_calls_with_results_and_marks_failures_evidence_and_lessons(bank: Opened) -> None:
    tools, _ = bank
    learned = await learn(tools, timed(script()))
    read = await transcript(tools, learned.trajectory_id)
    steps = [part for part in read.parts if isinstance(part, Shown)]
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


async def test_what_was_shown_stands_where_it_was_shown_and_beside_its_failure(bank: Opened, tmp_path: Path) -> None:
    tools, _ = bank
    way = next(item.id for item in await learn_fix(tools, timed(script())) if item.use == "way_out")
    # Of now, as the hook's clock is: what is shown falls between the failure and what was done then.
    run = timed(script("s2:1"), began=datetime.now(UTC) - timedelta(minutes=2.5), session_id="s2")
    scores, began, filed = (
        {await Shop(tools).add(): 0.7},
        run.steps[0].at,
        await Shop(tools).add("Ask", "1. Ask."),
    )
    assert began is not None
    asked = RetrievalRecord(
        new_id(RETRIEVAL),
        tools.scope,
        "make it pass",
        scores,
        1.0,
        began,
        "s2:1",
        "s2",
        via="hook",
        read=(filed,),
    )
    await tools.store.record_retrieval(asked)
    await tools.store.injections(tools.scope, "s2:1")
    await tools.store.put_session(HostSession(session_id="s2", scope=tools.scope, task_id="s2:1", updated_at=NOW))
    shown = Event(INJECTED, datetime.now(UTC), "s2:1", {"ids": list(scores), "via": BRIEFING})
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


async def test_what_was_kept_from_a_task_and_what_was_forgotten_is_shown_so(bank: Opened) -> None:
    tools, _ = bank
    tools = replace(tools, settings=tools.settings.model_copy(update={"credit": CreditSettings(holdout_rate=0.5)}))
    shop = Shop(tools)
    kept, gone = await shop.add(), await shop.add("Ask first", "1. Ask before it is pushed.")
    await shop.inject(kept, gone, task_id="s1:1", withheld=True)
    await learn(tools, timed(script()))
    await tools.store.forget(tools.scope.readable(), [gone])
    (given,) = [part for part in (await transcript(tools, "s1:1")).parts if isinstance(part, Injection)]
    assert given.withheld
    assert [(one.item is None) for one in given.memories] == [False, True]


async def test_of_a_long_task_a_window_is_shown_that_holds_the_step_asked_for(bank: Opened) -> None:
    tools, _ = bank
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


async def test_a_task_whose_words_were_removed_says_so_and_keeps_its_verdict(bank: Opened) -> None:
    tools, _ = bank
    learned = await learn(tools, timed(script()))
    await tools.store.retention.remove(tools.scope, "trajectories", NOW + timedelta(days=3650), 10)
    read = await transcript(tools, learned.trajectory_id)
    assert (read.task.row.is_blank, read.parts, read.total) == (True, (), 0)
    assert "removed" in read.task.row.task
    assert read.task.row.label == "Success"
    assert [item.id for item in read.taught] == [item.id for item in reversed(learned.stored)]


async def test_how_the_verdict_was_changed_is_shown_the_last_first(bank: Opened) -> None:
    tools, _ = bank
    await learn(tools, timed(script()))
    await say_verdict(tools, "s1:1", "Failure", "wrong suite")
    await say_verdict(tools, "s1:1", "Undecided")
    read = await transcript(tools, "s1:1")
    changes: list[Any] = [event.data for event in read.changes]
    assert [(each["from"]["label"], each["to"]["label"]) for each in changes] == [
        ("Failure", "Undecided"),
        ("Success", "Failure"),
    ]
