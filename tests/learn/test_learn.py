"""The loop: what is stored, what is not stored twice, and which tasks a model is asked about."""

import json
from pathlib import Path

import pytest
from claude_lines import call, prompt, result, says, text, write
from counting import DownEmbedder
from scripted_runs import Bank, Script, opened

from swarm_memory.schema.errors import StorageError
from swarm_memory.schema.job import Progress
from swarm_memory.schema.memory import MemoryDraft
from swarm_memory.schema.settings import DistillSettings, Settings
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.hosts.transcript import read_trajectories
from swarm_memory.server.jobs.transcripts import import_files
from swarm_memory.tools.guard import redact
from swarm_memory.tools.guard.redact import archivable, kept_text, strip_places
from swarm_memory.tools.learn.learn import ASSUMED_CONFIDENCE, REINFORCEMENT, learn
from swarm_memory.tools.learn.worth import LONG, LONG_S, is_worth_asking
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory import reading

EMBEDDER = StaticEmbedder()
TOKEN = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"


def checked(task_id: str = "t1", task: str = "run the tests of the billing service") -> Script:
    script = Script(task, task_id=task_id).shell("make prepare", "Done")
    return script.shell("sh ci/billing.sh all", "Tests  21 passed (21)").say("ok")


async def silent(progress: Progress) -> None:
    del progress


async def test_a_trajectory_is_judged_distilled_and_stored_with_where_it_came_from(tools: Toolbox, bank: Bank) -> None:
    result = await learn(tools, checked().done())
    assert result.status == "learned"
    assert result.verdict.label == "Success"
    assert tuple(await bank.items()) == result.stored
    item = result.stored[0]
    assert item.outcome == "Success"
    assert item.confidence == pytest.approx(result.verdict.confidence * 0.7, abs=1e-3)
    origin = item.provenance
    assert (origin.task_id, origin.judge, origin.distiller) == ("t1", "evidence", "extractive")
    assert (origin.trajectory_id, origin.run_id) == (result.trajectory_id, result.run_id)
    kept = await tools.store.get_trajectory(tools.scope, result.trajectory_id)
    assert kept is not None
    assert set(origin.evidence) <= {step.id for step in kept[0].steps}
    assert kept[1] == result.verdict


async def test_learning_twice_from_the_same_trajectory_changes_nothing(tools: Toolbox, bank: Bank) -> None:
    first = await learn(tools, checked().done())
    before = await bank.items("active", "archived"), await tools.store.statistics(tools.scope, EMBEDDER.name)
    second = await learn(tools, checked().done())
    assert (await bank.items("active", "archived"), await tools.store.statistics(tools.scope, EMBEDDER.name)) == before
    assert second.status == "already_learned"
    assert (second.trajectory_id, second.verdict) == (first.trajectory_id, first.verdict)
    assert second.stored == ()
    assert second.reason


async def test_what_a_forked_session_repeats_counts_once(tools: Toolbox, bank: Bank, tmp_path: Path) -> None:
    done = [prompt("run the tests of the billing service"), says(call("c1", "sh ci/billing.sh all")),
            result("c1", "Tests  21 passed (21)"), says(text("ok"))]  # fmt: skip
    fork = [{**each, "sessionId": "fork"} for each in done]  # with the uuids and times of the lines before it
    later = [{**each, "sessionId": "later", "timestamp": "2026-02-02T10:00:00.000Z"} for each in done]
    files = [write(tmp_path / name, lines) for name, lines in (("a.jsonl", done), ("b.jsonl", fork))]
    first = await import_files(tools, files, False, silent)
    before = await bank.items()
    assert (first.tasks, first.known, first.calls, len(before)) == (2, 1, 1, first.stored)
    assert (await import_files(tools, files, False, silent)).known == 2
    assert await bank.items() == before
    again = await import_files(tools, [write(tmp_path / "c.jsonl", later)], False, silent)
    assert (again.known, again.calls) == (0, 1)


@pytest.mark.parametrize("redact_pii", [True, False])
async def test_addresses_paths_and_uuids_are_archived_only_where_personal_data_is(
    tmp_path: Path, redact_pii: bool
) -> None:
    places = ("https://build.acme.io/run/7", "10.11.12.13", "/home/ada/shop", "0b0ea5b9-6f7c-4d1f-9d0c-2a9c1a1f8a11")
    script = Script(f"run the tests of {places[2]}", task_id="t1")
    script = script.shell(f"npm test --at {places[0]}", " ".join(places), 1)
    trajectory = script.shell("pnpm test", "Tests  21 passed (21)").say(f"ok on {places[1]}").done()
    asked = Settings(distill=DistillSettings(redact_pii=redact_pii))
    async with opened(tmp_path, EMBEDDER, asked) as (tools, _):
        first = await learn(tools, trajectory)
        kept = await tools.store.get_trajectory(tools.scope, first.trajectory_id)
        assert kept is not None
        stood = {place in kept[0].model_dump_json() for place in places}
        assert stood == {not redact_pii}
        assert "pnpm test" in kept[0].model_dump_json()
        assert (await learn(tools, trajectory)).status == "already_learned"
        assert strip_places(kept[0], tools.settings) == kept[0]


def cut_off(script: Script) -> Script:
    """End a script with the host's own message that its connection to the model broke."""
    return script.step("message", "system", text="API Error: Connection error.", is_error=True)


async def test_a_task_that_the_hosts_connection_broke_off_at_once_is_no_attempt(tools: Toolbox, bank: Bank) -> None:
    before = await tools.store.statistics(tools.scope, EMBEDDER.name)
    result = await learn(tools, cut_off(Script("run the tests")).done())
    assert (result.status, result.verdict.label, result.stored) == ("broken_off", "Undecided", ())
    assert "API Error: Connection error." in str(result.reason)
    assert await tools.store.statistics(tools.scope, EMBEDDER.name) == before
    assert await tools.store.get_outcome(tools.scope, "t1") is None
    assert await bank.items() == []


async def test_a_task_that_ended_in_a_broken_connection_is_undecided_and_teaches_once_it_was_gone_on_with(
    tools: Toolbox, bank: Bank
) -> None:
    for_good = cut_off(checked())
    result = await learn(tools, for_good.done())
    assert (result.status, result.verdict.label, result.stored) == ("nothing_new", "Undecided", ())
    assert "cut the task short" in str(result.reason)
    again = await learn(tools, for_good.user("go on").shell("pnpm test", "Tests  21 passed (21)").say("ok").done())
    assert (again.status, again.verdict.label) == ("learned", "Success")
    assert tuple(await bank.items()) == again.stored


async def test_what_fails_before_the_connection_breaks_off_is_no_failure(tools: Toolbox) -> None:

    def failed(task_id: str) -> Trajectory:
        script = Script("run the tests of the billing service", task_id=task_id)
        return cut_off(script.shell("npm test", "1 failed", 1)).done()

    assert (await learn(tools, failed("t1"))).verdict.label == "Undecided"
    shown = await learn(tools, failed("t2"), agent_verdict=Verdict.by_agent("Failure", 0.9))
    assert shown.verdict.label == "Failure", "the agent's own word stands"


async def test_what_the_bank_already_says_is_reinforced_and_not_stored_again(tools: Toolbox, bank: Bank) -> None:
    first = await learn(tools, checked("t1").done())
    second = await learn(tools, checked("t2").done())
    assert second.status == "nothing_new"
    assert second.reinforced == (first.stored[0].id,)
    assert "already holds" in (second.reason or "")
    assert await bank.confidence() == [pytest.approx(first.stored[0].confidence + REINFORCEMENT)]


async def test_trust_does_not_rise_by_repetition_within_one_task(tools: Toolbox, bank: Bank) -> None:
    first = await learn(tools, checked().done())
    longer = await learn(tools, checked().shell("git status", "clean").say("ok").done())
    assert longer.reinforced == (first.stored[0].id,)
    assert await bank.confidence() == [first.stored[0].confidence]


async def test_items_of_an_earlier_version_of_the_task_that_no_longer_hold_are_superseded(
    tools: Toolbox, bank: Bank
) -> None:
    other = (
        Script("run the tests of the billing service")
        .shell("sh tools/everything.sh quick", "8 passed in 0.1s")
        .say("ok")
    )
    first = await learn(tools, checked().done())
    second = await learn(tools, other.done())
    assert second.superseded == (first.stored[0].id,)
    assert tuple(await bank.items()) == second.stored


async def test_nothing_to_learn_keeps_the_trajectory_and_says_why(tools: Toolbox) -> None:
    result = await learn(tools, Script("say hello").say("hello").done())
    assert (result.status, result.stored) == ("nothing_new", ())
    assert result.reason
    kept = await tools.store.get_trajectory(tools.scope, "t1")
    assert kept is not None
    assert kept[1] is not None
    assert kept[1].label == "Undecided"


async def test_a_failing_embedder_costs_only_the_vectors_and_is_shown(tmp_path: Path) -> None:
    async with opened(tmp_path, DownEmbedder()) as (tools, _):
        result = await learn(tools, checked().done())
        assert result.status == "learned"
        assert "401: key [secret" in (result.reason or "")
        assert (await tools.store.statistics(tools.scope, EMBEDDER.name)).not_embedded == 1
        again = await learn(tools, checked("t2").done())
        assert (again.status, again.reinforced) == ("nothing_new", (result.stored[0].id,))


async def test_the_agent_may_bring_its_own_verdict_and_items(tools: Toolbox) -> None:
    verdict = Verdict(label="Success", confidence=0.9, judge="agent", reasons=("the user has it",))
    drafts = [MemoryDraft(title="Ask for the format first", content="1. Ask which format is wanted.")]
    drafts.append(MemoryDraft(title=TOKEN, content=TOKEN))
    trajectory = Script("write the letter").shell("ls", "a").say("Here it is.").done()
    result = await learn(tools, trajectory, agent_verdict=verdict, agent_drafts=drafts)
    assert [item.title for item in result.stored] == ["Ask for the format first"]
    assert (result.verdict.judge, result.distiller) == ("agent", "agent")
    assert result.stored[0].confidence == pytest.approx(0.63)
    assert "item 2" in (result.reason or "")


@pytest.mark.parametrize(("outcome", "stays"), [("met", True), ("open", True), ("failed", False)])
async def test_what_the_agent_wrote_stays_when_its_task_goes_on_unless_that_is_seen_to_fail(
    tools: Toolbox, bank: Bank, outcome: str, stays: bool
) -> None:
    later = {
        "met": checked(),
        "open": Script("say hello").shell("ls", "a").say("hello"),
        "failed": Script("ship it").shell("shipper push", "error: sealed", 1).say("Shipped.").user("that's wrong"),
    }[outcome]
    drafts = [MemoryDraft(title="Ask for the format first", content="1. Ask which format is wanted.")]
    task = Script("write the letter").shell("ls", "a").say("Here it is.").done()
    first = await learn(tools, task, agent_verdict=Verdict.by_agent("Success"), agent_drafts=drafts)
    second = await learn(tools, later.done())
    assert second.verdict.label == {"met": "Success", "open": "Undecided", "failed": "Failure"}[outcome]
    assert (first.stored[0].id in {item.id for item in await bank.items()}) is stays


async def test_items_of_an_undecided_trajectory_start_with_an_assumed_confidence(tools: Toolbox) -> None:
    script = Script("convert the videos").shell("ffmpeg -i a b", "bash: ffmpeg: command not found", 127)
    script.shell("apt-get install -y ffmpeg", "ok").shell("ffmpeg -i a b", "frame=1").say("ok")
    result = await learn(tools, script.done())
    assert (result.verdict.label, result.stored[0].confidence / 0.7) == ("Undecided", pytest.approx(ASSUMED_CONFIDENCE))


def test_no_part_of_a_secret_is_kept_where_the_text_around_it_is_cut(tmp_path: Path) -> None:
    key = "\n".join(("-----BEGIN PRIVATE KEY-----", "0123" * 1000, "-----END PRIVATE KEY-----\n"))
    given, said = ("x " * 90_000 + key + "y" * after for after in (300, 9_000))
    called = call("t1", "") | {"input": dict.fromkeys("abc", given)}
    (read,) = read_trajectories(write(tmp_path / "s.jsonl", [prompt("Print it"), says(called), result("t1", said)]))
    kept = archivable(read, Settings())
    assert ("0123" in kept.model_dump_json(), archivable(kept, Settings()) == kept) == (False, True)
    left_out = f"… [{len(said) - 20_000} characters left out] …"
    assert (len(str(kept.steps[0].tool_input)) < 3100, left_out in kept.steps[-1].text) == (True, True)
    text = kept_text(f"3 tests failed {f'{TOKEN} ' * 800}AssertionError", Settings(), 2000)
    assert (text[:15], text[-15:], "ghp_" in text) == ("3 tests failed ", " AssertionError", False)


def test_a_kept_trajectory_is_bounded_and_keeps_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redact, "MAX_STEPS", 20)
    monkeypatch.setattr(redact, "MAX_STEP_CHARS", 300)
    script = Script("long").say("x" * 5000)
    for number in range(60):
        script.shell(f"echo {number}", str(number))
    kept = archivable(script.done(), Settings())
    assert (len(kept.steps), kept.dropped_steps, kept.steps[-1].text) == (20, 122 - 20, "59")
    assert max(len(step.text) for step in kept.steps) <= 300
    assert archivable(kept, Settings()) == kept


@pytest.mark.parametrize(
    ("failed", "said", "worth"),
    [
        ([], ["that is wrong"], False),
        ([False], [], False),
        ([True, False], [], True),
        ([False], ["From now on write dates in UTC"], True),
        ([False] * (LONG - 1), ["thanks"], False),
        ([False] * (LONG - 1), ["No, that is wrong: use pnpm"], True),
        ([False] * LONG, [], True),
    ],
)
def test_a_model_is_asked_about_what_is_long_or_failed_somewhere_or_was_corrected(
    failed: list[bool], said: list[str], worth: bool
) -> None:
    assert is_worth_asking(failed, said) is worth
    assert is_worth_asking(failed, said, LONG_S) is bool(failed)


async def test_the_tasks_behind_an_odd_one_of_a_file_are_learned_from_and_a_fault_of_the_bank_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, faults = reading.calls_of, [ZeroDivisionError("division by zero"), StorageError("the disk is full")]

    def raises_at_odd_ones(trajectory: reading.Trajectory) -> tuple[reading.Call, ...]:
        if trajectory.task == "the odd one":
            raise faults.pop(0)
        return whole(trajectory)

    monkeypatch.setattr(reading, "calls_of", raises_at_odd_ones)
    steps = [{"role": "user", "content": "do it"}, {"role": "assistant", "content": "Done."}]
    tasks = [{"id": f"t{number}", "task": f"part {number}", "steps": steps} for number in range(4)]
    tasks[1]["task"] = "the odd one"
    file = tmp_path / "runs.jsonl"
    file.write_text("\n".join(map(json.dumps, tasks)))

    async with opened(tmp_path / "bank", StaticEmbedder()) as (tools, _):
        tally = await import_files(tools, [file], False, silent)
        with pytest.raises(StorageError):
            await import_files(tools, [file], False, silent)
    assert (tally.files, tally.tasks) == (1, 3)
    assert tally.faults[str(file)] == "1 of 4 tasks failed with an internal error: t1 (ZeroDivisionError); see the log"
