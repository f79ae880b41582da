"""What the end of a turn does if the agent or a model may be asked about finished tasks."""

import json
from collections.abc import Generator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from claude_lines import Line, call, prompt, result, says, text, write
from hook_project import PATIENT, HookProject

from swarm_memory.server.hooks.events import last_turn
from swarm_memory.tools.learn.worth import QUESTION


def answer(project: HookProject, way: str, more: str = "") -> None:
    """Set the user's answer to who learns."""
    project.configure(f"chat: {{learn_with: {way}}}\n{more}")


def waited_s(project: HookProject) -> float:
    """Return after how many seconds the task is learned from."""
    ((due, queued),) = project.rows("SELECT run_after, created_at FROM jobs WHERE kind = 'learn'")
    waits = datetime.fromisoformat(due).astimezone(UTC) - datetime.fromisoformat(queued).astimezone(UTC)
    return waits.total_seconds()


def answered(project: HookProject, verb: str, **event: Any) -> dict[str, Any]:
    """Return the hook JSON of a hook that waits for a server."""
    done = project.run("-c", PATIENT, verb, given=project.event(**event))
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout) if done.stdout else {}


def stopped(project: HookProject, *, stop_hook_active: bool = False) -> dict[str, Any]:
    """End the turn, and return the hook JSON."""
    return answered(project, "stop", stop_hook_active=stop_hook_active)


@pytest.fixture
def served(shop: HookProject) -> Generator[HookProject]:
    """A project whose agent may be asked, with a server, during a task that fails three times before it is met."""
    answer(shop, "agent")
    shop.extra.update({"CLAUDE_CODE_ENTRYPOINT": "cli", "CI": ""})
    with shop.serving():
        shop.prompt(patient=True)
        yield shop


@pytest.mark.parametrize(("way", "waits_s"), [("rules", 20), ("claude", 600), ("agent", 20)])
def test_a_task_is_learned_from_when_it_is_hardly_gone_on_with_and_no_agent_is_asked_without_a_server(
    shop: HookProject, way: str, waits_s: int
) -> None:
    answer(shop, way)
    shop.prompt()
    assert stopped(shop) == {}
    assert waited_s(shop) == pytest.approx(waits_s, abs=1)


def test_an_agent_is_asked_once_what_its_task_taught_and_has_time_to_answer(served: HookProject) -> None:
    assert stopped(served, stop_hook_active=True) == {}, "it goes on because of a hook"
    shown = stopped(served)["hookSpecificOutput"]
    assert shown["hookEventName"] == "Stop"
    assert shown["additionalContext"].startswith(QUESTION)
    assert "`mcp__swarm-memory__remember`" in shown["additionalContext"]
    assert waited_s(served) == pytest.approx(120, abs=1)
    assert stopped(served, stop_hook_active=True) == {}
    assert stopped(served) == {}


def test_no_agent_is_asked_where_it_is_paused_or_held_out_or_the_user_said_otherwise(served: HookProject) -> None:
    served.cli("pause")
    assert stopped(served) == {}
    served.cli("pause", "--end")
    answer(served, "agent", "credit: {holdout_rate: 1.0}\n")
    assert stopped(served) == {}
    answer(served, "rules")
    assert stopped(served) == {}
    answer(served, "agent")
    with served.serving():  # a server keeps the settings that it has read; hooks with other settings do not call it
        asked = stopped(served)
    assert asked != {}, "it was no less than that which kept it from being asked"


def test_no_agent_is_asked_whose_answer_no_person_reads_that_taught_already_or_whose_turn_was_not_worth_it(
    served: HookProject,
) -> None:
    for variable, value in (("CLAUDE_CODE_ENTRYPOINT", "sdk-cli"), ("CI", "true")):
        assert stopped(replace(served, extra={**served.extra, variable: value})) == {}
    lines = served.transcript.read_text("utf-8").splitlines()
    taught = [says(call("c9", "", tool="mcp__swarm-memory__remember")), result("c9", "{}")]
    short = [prompt("Print the version"), says(call("c1", "make version")), result("c1", "1.2")]
    for turn in ([*lines, *taught], short):
        write(served.transcript, turn)
        assert stopped(served) == {}
    write(served.transcript, lines)
    assert stopped(served) != {}, "it was no less than that which kept it from being asked"


def test_the_turn_ends_with_the_first_answer_to_the_question_and_with_no_other_note(served: HookProject) -> None:
    def remembered() -> dict[str, Any]:
        return answered(served, "after-remember", tool_name="mcp__swarm-memory__remember", tool_input={})

    assert remembered() == {}
    assert stopped(served) != {}
    assert remembered()["continue"] is False
    assert remembered() == {}


def test_the_calls_of_the_last_turn_are_counted_and_not_our_own(tmp_path: Path) -> None:
    lines: list[Line | str] = [
        prompt("Fix it"),
        says(call("c0", "make")),
        result("c0", "no rule", error=True),
        prompt("no, that is wrong"),
        says(text("I see."), call("c1", "make tests"), call("c2", "make all")),
        result("c2", "Exit code 1", error=True),
        result("c1", "ok"),
        says(call("o1", "", tool="mcp__swarm-memory__retrieve_memories")),
        result("o1", "{}", error=True),
        prompt("a reminder of the host", isMeta=True),
        says(text("Done.")),
        '{"type": "assis',
    ]
    turn = last_turn(str(write(tmp_path / "s.jsonl", lines)))
    assert (turn.failed, turn.said, turn.taught) == ([False, True], ["no, that is wrong"], False)


def test_a_look_that_finds_nothing_is_no_failed_call(tmp_path: Path) -> None:
    lines = [
        prompt("Where is it?"),
        says(call("c1", "cat app.py; grep -rn began .")),
        result("c1", "Exit code 1\nx = 1", error=True),
        says(call("c2", "make all | grep error; make tests")),
        result("c2", "Exit code 2", error=True),
    ]
    assert last_turn(str(write(tmp_path / "s.jsonl", lines))).failed == [True, False]
