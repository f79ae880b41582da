"""Message lists and steps as trajectories, and how the format of a file is recognized."""

import io
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from claude_lines import call, prompt, result, says, write

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.server.hosts.records import MAX_LINE_CHARS
from swarm_memory.server.hosts.transcript import read_trajectories

MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "You help."},
    {"role": "user", "content": "Book the cheapest flight"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"to": "SEA"}'}},
            {"id": "c2", "type": "function", "function": {"name": "weather", "arguments": "not json"}},
        ],
    },
    {"role": "tool", "tool_call_id": "c2", "content": "rain"},
    {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "3 flights"}]},
    {"role": "assistant", "content": "Booked.", "reasoning_content": "The second is cheapest."},
    {"role": "user", "content": "thanks"},
]

STEPS: dict[str, Any] = {
    "id": "run-7",
    "task": "Find the answer",
    "success": False,
    "steps": [{"role": "user", "content": "Find the answer"}, {"role": "assistant", "content": "42"}],
}


def check_messages(trajectory: Trajectory) -> None:
    assert trajectory.task == "Book the cheapest flight"
    assert trajectory.source == "messages"
    assert [(step.kind, step.role) for step in trajectory.steps] == [
        ("message", "system"),
        ("tool_call", "assistant"),
        ("tool_call", "assistant"),
        ("observation", "tool"),
        ("observation", "tool"),
        ("thought", "assistant"),
        ("message", "assistant"),
        ("message", "user"),
    ]
    assert [step.tool_input for step in trajectory.steps[1:3]] == [{"to": "SEA"}, {"input": "not json"}]
    assert [(step.tool_name, step.call_id) for step in trajectory.steps[3:5]] == [("weather", "c2"), ("search", "c1")]


@pytest.mark.parametrize(
    "written",
    [
        json.dumps(MESSAGES),
        json.dumps(MESSAGES, indent=2),
        json.dumps({"messages": MESSAGES}),
        json.dumps({"messages": MESSAGES}, indent=1),
        "\n".join(json.dumps(each) for each in MESSAGES),
        "[\n" + ",\n".join(json.dumps(each) for each in MESSAGES) + "\n]",
    ],
    ids=["array", "indented array", "object", "indented object", "lines", "array of lines"],
)
def test_a_message_list_is_read_however_it_is_written(written: str, tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text(written, encoding="utf-8")
    (trajectory,) = read_trajectories(path)
    check_messages(trajectory)
    check_messages(next(read_trajectories(io.StringIO(written))))
    check_messages(next(read_trajectories(io.BytesIO(written.encode()))))


def test_objects_with_steps_keep_their_ids_and_their_labels_are_not_read(tmp_path: Path) -> None:
    path = write(tmp_path / "runs.jsonl", [STEPS, STEPS | {"id": None, "success": True, "task": ""}])
    first, second = read_trajectories(path)
    assert (first.task_id, first.task) == ("run-7", "Find the answer")
    assert (second.task_id, second.task) == ("runs:2", "Find the answer")
    assert [step.text for step in first.steps] == ["42"]
    assert "success" not in first.model_dump_json()
    assert list(read_trajectories(path, "run-7")) == [first]
    both = list(read_trajectories(io.StringIO(json.dumps([STEPS, STEPS | {"id": "run-8"}]))))
    assert [each.task_id for each in both] == ["run-7", "run-8"]


def test_the_same_stream_gets_the_same_id_again() -> None:
    written = json.dumps(MESSAGES)
    first, again = (next(read_trajectories(io.StringIO(written))) for _ in range(2))
    assert first.task_id == again.task_id
    assert first.content_digest == again.content_digest


@pytest.mark.parametrize(
    ("answer", "text", "code", "failed"),
    [
        ('{"content": [{"type": "text", "text": "no such page"}], "isError": true}', "no such page", None, True),
        ('{"content": [{"type": "text", "text": "found"}], "isError": false}', "found", None, False),
        ('{"returncode": 2, "output": "bad option"}', "bad option", 2, True),
        ('{"status": "failed", "exit_code": 1, "tests": 2}', '{"status": "failed"', 1, True),
        ("sums.py\n[The command completed with exit code 2.]", "sums.py", 2, True),
        ("Exit code: 0\n\nOutput:\nfine", "fine", 0, False),
        ("Exit code 1 of many\nfine", "Exit code 1 of many", 1, True),
        ("it prints exit code 1 and goes on", "it prints", None, None),
    ],
)
def test_how_a_call_ended_is_read_in_its_result(answer: str, text: str, code: int | None, failed: bool | None) -> None:
    made = {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "fetch", "arguments": "{}"}}]}
    messages = [MESSAGES[1], made, {"role": "tool", "tool_call_id": "c1", "content": answer}]
    (trajectory,) = read_trajectories(io.StringIO(json.dumps(messages)))
    result = trajectory.steps[-1]
    assert (result.exit_code, result.is_error) == (code, failed)
    assert result.text.startswith(text)


def test_results_without_ids_answer_in_order_and_an_id_may_come_twice() -> None:
    def made(name: str, call_id: str | None) -> dict[str, Any]:
        function = {"name": name, "arguments": "{}"}
        return {"role": "assistant", "content": "", "tool_calls": [{"id": call_id, "function": function}]}

    messages: list[dict[str, Any]] = [
        MESSAGES[1], made("a", None), {"role": "tool", "content": "A"},
        made("b", "c"), {"role": "tool", "tool_call_id": "c", "content": "B"},
        made("b", "c"), {"role": "tool", "tool_call_id": "c", "content": "again"},
    ]  # fmt: skip
    (trajectory,) = read_trajectories(io.StringIO(json.dumps(messages)))
    results = [step for step in trajectory.steps if step.kind == "observation"]
    assert [(step.tool_name, step.text) for step in results] == [("a", "A"), ("b", "B"), ("b", "again")]
    assert len({step.call_id for step in results}) == 3


def test_a_first_word_of_the_user_that_is_more_than_the_task_is_kept() -> None:
    def said(text: str, task: str) -> list[str]:
        steps = [{"role": "user", "content": text}, {"role": "assistant", "content": "ok"}]
        (trajectory,) = read_trajectories(io.StringIO(json.dumps({"id": "r", "task": task, "steps": steps})))
        return [step.text for step in trajectory.steps]

    assert said("Fix it", "Fix it") == ["ok"]
    assert said("Fix it, but keep the name", "Fix it") == ["Fix it, but keep the name", "ok"]
    long = "The sign of a sum is lost where both of its parts are negative, and only then"
    assert said(f"You are in a repository.\n{long}\nBegin.", long) == ["ok"]


def test_a_trajectory_of_ours_can_be_read_back(tmp_path: Path) -> None:
    path = write(
        tmp_path / "s.jsonl", [prompt("Fix the build of the shop"), says(call("t1", "make")), result("t1", "ok")]
    )
    (trajectory,) = read_trajectories(path)
    (again,) = read_trajectories(io.StringIO(trajectory.model_dump_json()))
    assert (again.task_id, again.task, again.session_id) == (trajectory.task_id, trajectory.task, trajectory.session_id)
    assert again.steps == trajectory.steps


@pytest.mark.parametrize(
    "content",
    [
        "",
        "hello\nworld\n",
        "\ufffd\x00\x01" * 20,
        '{"id": "x", "steps": "none"}',
        '{"id": "x", "task": "y", "steps": [{"foo": 1}]}',
        "[1, 2, 3]",
        '{"type": "user", "mess',
    ],
)
def test_what_is_no_transcript_is_refused_with_what_is_accepted(content: str) -> None:
    with pytest.raises(InputError, match="accepted: a transcript of Claude Code") as caught:
        list(read_trajectories(io.StringIO(content)))
    assert "world" not in str(caught.value), "it quotes nothing of the content"


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_a_path_that_is_none_is_an_error_of_the_input(name: str) -> None:
    with pytest.raises(InputError):
        list(read_trajectories(name))


def test_a_line_that_is_too_long_is_skipped_without_being_held(tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", [prompt("Fix the build of the shop"), says({"type": "text", "text": "Done."})])
    first, last = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join((first, b'{"type":"user","x":"', b"a" * 5 * MAX_LINE_CHARS, b'"}\n', last)))
    tracemalloc.start()
    try:
        (trajectory,) = read_trajectories(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (trajectory.skipped_lines, [step.text for step in trajectory.steps]) == (1, ["Done."])
    assert peak < 4 * MAX_LINE_CHARS


def test_a_step_whose_kind_is_no_text_is_read_as_a_message() -> None:
    given = {**STEPS, "steps": [{**each, "kind": ["message"]} for each in STEPS["steps"]]}
    (trajectory,) = read_trajectories(io.StringIO(json.dumps(given)))
    assert [step.text for step in trajectory.steps] == ["42"]


def test_a_time_in_which_no_agent_worked_is_none() -> None:
    times = ["0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "2026-03-01T12:00:00+02:00", "9999-12-31T23:59:59Z", "x"]
    messages = "\n".join(json.dumps({"role": "assistant", "content": "Done.", "timestamp": time}) for time in times)
    (trajectory,) = read_trajectories(io.StringIO(f"{json.dumps(MESSAGES[1])}\n{messages}"))
    assert [step.at and step.at.hour for step in trajectory.steps] == [None, 0, 10, None, None]
