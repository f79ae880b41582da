"""The rollouts of Codex CLI as trajectories."""

from pathlib import Path

import pytest

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.server.hosts.transcript import read_trajectories
from swarm_memory.tools.trajectory.reading import read as read_calls
from tests.hosts import codex_records as made
from tests.hosts.agent_records import FAILED, FILE, FIRST, ITEM, PASSED, SECOND, SESSION, Record, write_lines

CHILD = "0d6f1e2b-0000-4c58-9a2e-5f0c2a3e3c4d"


def read(path: Path, records: list[Record]) -> list[Trajectory]:
    return list(read_trajectories(write_lines(path / f"rollout-2026-05-01T10-00-00-{SESSION}.jsonl", records)))


def test_a_command_that_ran_on_has_the_output_of_all_its_parts(tmp_path: Path) -> None:
    first, _ = read(tmp_path, made.newer())
    failed, _, passed = read_calls(first).calls
    assert (failed.output, passed.output) == (FAILED, f"collecting ...{PASSED}")


def test_a_rollout_of_an_earlier_version_is_read_and_its_mirrors_are_counted_once(tmp_path: Path) -> None:
    first, second = read(tmp_path, made.earlier())
    assert (first.task, second.task) == (FIRST, SECOND)
    assert [step.text for step in first.steps if step.kind in ("message", "thought")] == [
        "Look first.", "I run it.", "Fixed."
    ]  # fmt: skip
    assert [step.text for step in second.steps] == ["Done."]
    failed, _, edited, passed = read_calls(first).calls
    assert (failed.exit_code, failed.name, failed.output) == (1, "pytest", FAILED)
    assert (edited.file, edited.writes, edited.failed) == (FILE, True, False)
    assert (passed.exit_code, passed.output) == (0, PASSED)


def test_a_rollout_without_what_was_typed_is_refused_and_the_same_words_twice_are_two_messages(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no `user_message` event"):
        read(tmp_path, [made.meta(), made.said("user", FIRST), *made.answered("Done.")])
    assert read(tmp_path, [made.meta(), made.said("user", FIRST)]) == [], "nothing was done"
    again = [*made.newer(), *made.typed("Once more, please"), *made.answered("Done.")]
    assert [step.text for step in read(tmp_path, again)[-1].steps if step.role == "assistant"] == ["Done.", "Done."]


@pytest.mark.parametrize("left_out", ["response_item", "event_msg"])
def test_what_the_agent_said_is_read_from_either_form(tmp_path: Path, left_out: str) -> None:
    records = [made.meta(), *made.typed(FIRST)]
    records += [each for each in made.answered("Done.") if each["type"] != left_out]
    (trajectory,) = read(tmp_path, records)
    assert [step.text for step in trajectory.steps if step.role == "assistant"] == ["Done."]


def test_a_command_that_never_ended_has_no_exit_code(tmp_path: Path) -> None:
    records = [made.meta(), *made.typed(FIRST), made.call("c1", cmd="serve"), made.output("c1", "up", None, process=9)]
    ended = made.completed("CommandExecution", id="c1", exit_code=-1, aggregated_output="up", status="failed")
    for lines in (records, [*records, ended]):
        (trajectory,) = read(tmp_path, lines)
        (call,) = read_calls(trajectory).calls
        assert (call.exit_code, call.failed, call.output) == (None, False, "up")


def test_a_subagent_is_one_task_of_the_session_that_started_it(tmp_path: Path) -> None:
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": SESSION, "depth": 1}}}
    order = "Message Type: NEW_TASK\nTask name: /root/map_auth\nSender: /root\nPayload:\n"
    copied = [made.meta(), *made.typed(FIRST), *made.answered("I delegate it.")]
    order_item = made.item("agent_message", author="/root", content=[{"type": "input_text", "text": order}])
    own = [made.call("c1", cmd="ls"), made.output("c1", "auth.py"), *made.answered("It is auth.py.")]
    (child,) = read(tmp_path, [made.meta(id=CHILD, source=spawned), *copied, order_item, *own])
    assert (child.task_id, child.agent_id, child.task) == (f"{SESSION}:agent-{CHILD}", CHILD, "map auth")
    assert [step.text for step in child.steps if step.kind == "message"] == ["It is auth.py."]


def test_an_interruption_a_refusal_and_a_lost_connection_are_distinguished(tmp_path: Path) -> None:
    records = [
        made.meta(),
        *made.typed(FIRST),
        made.call("c1", cmd="rm -r build"),
        made.item("function_call_output", call_id="c1", output="exec_command rejected by user"),
        made.event("turn_aborted", reason="interrupted"),
        made.event("error", message="stream disconnected before completion"),
    ]
    (trajectory,) = read(tmp_path, records)
    refused, stopped = (step for step in trajectory.steps if step.interrupted)
    assert (refused.kind, stopped.role) == ("observation", "user")
    assert trajectory.broken_off == "stream disconnected before completion"


def test_our_own_tools_are_left_out_and_those_of_servers_fail_by_what_is_named_them(tmp_path: Path) -> None:
    def asked(call_id: str, name: str, server: str) -> Record:
        return made.item("function_call", name=name, namespace=f"mcp__{server}", call_id=call_id, arguments="{}")

    def answer(call_id: str, text: str) -> Record:
        return made.item("function_call_output", call_id=call_id, output=f"Wall time: 0.05 seconds\nOutput:\n{text}")

    records = [
        made.meta(),
        *made.typed(FIRST),
        asked("c1", "retrieve_memories", "swarm_memory"),
        made.completed("McpToolCall", id="c1", status="completed", result={"content": []}),
        answer("c1", f"[{ITEM}] Run the tests first."),
        asked("c2", "search", "docs"),
        made.completed("McpToolCall", id="c2", status="failed", result={"content": [], "isError": True}),
        answer("c2", "no index"),
    ]
    (trajectory,) = read(tmp_path, records)
    (call,) = read_calls(trajectory).calls
    assert (call.tool, call.failed, call.output) == ("mcp__docs__search", True, "no index")
    assert trajectory.injected_memory_ids == (ITEM,)


def test_records_of_unknown_kinds_are_counted(tmp_path: Path) -> None:
    records = made.newer()
    strange = [made.line("teleport", {}), made.event("teleport_begun"), made.item("teleport")]
    found = read(tmp_path, [*records[:8], *strange, *records[8:]])
    assert [each.skipped_lines for each in found] == [2, 0], "of events only those that add something are read"
