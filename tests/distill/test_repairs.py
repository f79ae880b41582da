"""An error is shown with what ended it: the same call, the action that mattered, nothing unrelated, once per error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_runs import Script

from swarm_memory.schema.memory import MemoryDraft
from swarm_memory.schema.settings import DistillSettings, Settings
from swarm_memory.tools.distill.distill import distill_by_extraction
from swarm_memory.tools.judge.judge import judge_by_evidence
from swarm_memory.tools.trajectory.errors import Repair
from swarm_memory.tools.trajectory.failures import error_key
from swarm_memory.tools.trajectory.reading import read

SETTINGS = Settings(distill=DistillSettings(max_items_per_traj=10))


def repairs_of(script: Script) -> list[Repair]:
    return list(read(script.done()).repairs)


def drafts_of(script: Script, label: str | None = None) -> tuple[MemoryDraft, ...]:
    trajectory = script.done()
    verdict = judge_by_evidence(trajectory, SETTINGS)
    if label is not None:
        verdict = verdict.model_copy(update={"label": label, "confidence": 0.8})
    return distill_by_extraction(trajectory, verdict, SETTINGS).drafts


def commands(repair: Repair) -> list[str]:
    return [call.command.text for call in repair.actions if call.command]


def test_a_differing_failure_of_the_same_call_is_a_repair_only_when_the_call_succeeds_in_the_end() -> None:
    script = Script("test it").shell("manage test", "ModuleNotFoundError: No module named 'web'", 1)
    script.shell("pip install web", "ok").shell("manage test", "connection refused", 1)
    assert repairs_of(script) == []
    script.shell("docker compose up -d db", "Started").shell("manage test", "ok")
    first, second = repairs_of(script)
    assert commands(first) == ["pip install web"]
    assert commands(second) == ["docker compose up -d db"]


def test_an_error_that_came_back_was_not_resolved_by_what_lay_before() -> None:
    script = Script("sync").shell("sync all", "connection refused", 1).shell("sync reset-cache", "ok")
    script.shell("sync all", "permission denied", 1).shell("sync all", "connection refused", 1)
    script.shell("systemctl start syncd", "").shell("sync all", "done")
    first = repairs_of(script)[0]
    assert commands(first) == ["systemctl start syncd"]
    assert [call.command.text for call in first.vain if call.command] == ["sync reset-cache"]


def test_another_subcommand_of_the_program_does_not_answer_a_failure() -> None:
    script = Script("load it").shell("python manage.py loaddata seed", "CommandError: No fixture named seed", 1)
    assert repairs_of(script.shell("python manage.py check", "no issues")) == []
    assert repairs_of(script.shell("python manage.py dumpdata --root", "manage: error: no option --root", 2)) == []
    assert len(repairs_of(script.shell("python manage.py loaddata seeds", "3 objects"))) == 1


def test_a_pass_of_other_tests_does_not_answer_the_ones_that_failed() -> None:
    script = Script("test it").shell("pytest tests/api", "1 failed in 0.1s", 1).shell("make clean", "")
    assert repairs_of(script.shell("pytest tests/cli", "4 passed in 0.1s")) == []
    assert len(repairs_of(script.shell("pytest tests/api/test_user.py", "1 passed in 0.1s"))) == 1


@pytest.mark.parametrize("pause", ["sleep 40", "sleep 40 && true"])
def test_waiting_is_an_action_and_the_note_says_to_wait(pause: str) -> None:
    script = Script("fetch the rates").shell("rates get EUR", "error: 429 Too Many Requests", 1)
    script.shell(pause, "").shell("rates get EUR", "1.08")
    (repair,) = repairs_of(script)
    assert commands(repair) == [pause]
    (draft,) = drafts_of(script)
    assert draft.title.startswith(f"Run `{pause}` before rates")


def test_a_tool_that_waits_is_an_action_too() -> None:
    script = Script("fetch the rates", source="steps")
    script.call("get_rate", {"of": "EUR"}, "Error: 429 Too Many Requests", error=True)
    script.call("wait", {"seconds": 40}, "ok").call("get_rate", {"of": "EUR"}, '{"rate": 1.08}', error=False)
    assert [call.tool for call in repairs_of(script)[0].actions] == ["wait"]


def test_what_was_done_before_a_further_refusal_is_shown_as_no_help() -> None:
    script = Script("fetch the rates").shell("rates get EUR", "error: 429 Too Many Requests", 1)
    script.shell("sleep 2", "").shell("rates get EUR", "error: 429 Too Many Requests", 1)
    script.shell("sleep 40", "").shell("rates get EUR", "1.08")
    (draft,) = drafts_of(script)
    assert "What did not help: `sleep 2`." in draft.content
    assert "Run `sleep 40`." in draft.content


def test_all_that_was_done_is_kept() -> None:
    script = Script("import").shell("importer run", "importer: error: E17", 75)
    script.shell("importer prepare", "").shell("chmod +x hook", "").shell("importer run", "done")
    assert commands(repairs_of(script)[0]) == ["importer prepare", "chmod +x hook"]


def test_an_option_that_the_error_names_and_the_success_lacks_was_the_fix() -> None:
    script = Script("publish").shell("publisher push site --fast", "error: unknown option '--fast'", 2)
    (draft,) = drafts_of(script.shell("publisher push site", "done"))
    assert draft.title == "Run `publisher push site` (bad arguments)"


def test_an_error_that_a_pipe_hides_from_the_exit_code_is_one() -> None:
    script = Script("publish").shell("publisher push --fast 2>&1 | tail -5", "error: unknown option '--fast'")
    script.shell("publisher push 2>&1 | tail -5", "pushed")
    assert len(repairs_of(script)) == 1
    assert repairs_of(Script("x").shell("cat log | tail -5", "error: unknown option").shell("cat log | tail -5")) == []


# --- arguments of tools


@pytest.mark.parametrize("value", ["printer", "2026-03-01", "1250", "a long sentence", "anna@example.com"])
def test_a_value_of_the_task_or_that_is_no_code_is_never_shown(value: str) -> None:
    script = Script("open a case for the broken printer", source="agent")
    script.call("open_case", {"tier_code": "x1"}, "Error: tier_code: unknown code", error=True)
    script.call("open_case", {"tier_code": value}, '{"status": "open"}', error=False)
    assert all(f"tier_code={value}" not in draft.content + draft.title for draft in drafts_of(script, "Success"))


def test_a_failed_question_without_anything_of_its_own_teaches_nothing() -> None:
    script = Script("In which year was the bridge of Y built?", source="steps")
    for name in ("Y", "bridge", "Y river"):
        script.call("Search", {"query": name}, f"{name} is a place.")
    assert drafts_of(script.say("1907"), "Failure") == ()


# --- whatever comes

SHELLS = st.sampled_from(["tool get a", "tool get b", "tool put a --x", "sleep 5", "make", "pytest t/a.py", "cat x"])
ENDS = st.sampled_from(
    [("", 0), ("429 Too Many Requests", 1), ("error: boom", 2), ("tool: command not found", 127), ("1 failed in 1s", 1)]
)


@given(st.lists(st.tuples(SHELLS, ENDS), max_size=14))
def test_a_repair_always_begins_with_a_failure_and_ends_after_it_and_its_actions_lie_between(
    ran: list[tuple[str, tuple[str, int]]],
) -> None:
    script = Script("do it")
    for command, (output, code) in ran:
        script.shell(command, output, code)
    for repair in repairs_of(script):
        assert repair.failed.failed
        assert repair.failed.end < repair.success.position
        assert all(repair.failed.end < call.position < repair.success.position for call in repair.actions)
        assert not any(call.failed for call in repair.actions)
        assert all(call.failed for call in repair.attempts)
        if repair.success.failed:
            assert error_key(repair.success.error) != error_key(repair.failed.error)


def test_a_program_that_is_not_there_is_answered_by_another_one_with_the_same_arguments() -> None:
    script = Script("run the build").shell("python build all", "/bin/sh: 1: python: not found", 127)
    (draft,) = drafts_of(script.shell("python3 build all", "built"), "Success")
    assert draft.title == "Run `python3 build all` instead of python"
