"""A conversation that its host wrote down twice is read once, whoever judges it afterwards."""

import io
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.server.hosts.transcript import read_trajectories
from swarm_memory.tools.judge.judge import judge_by_evidence
from swarm_memory.tools.trajectory.excerpt import shorten_trajectory

Message = dict[str, Any]
TASK = "write the parser for dates"


def said(text: str, role: str = "user") -> Message:
    return {"role": role, "content": text}


def ran(number: int, command: str, output: str, code: int = 0) -> list[Message]:
    """A command with its answer, as a list of chat messages holds it."""
    name = f"c{number}"
    asked = {
        "id": name,
        "type": "function",
        "function": {"name": "bash", "arguments": json.dumps({"command": command})},
    }
    shown = f"Exit code {code}\n{output}" if code else f"{output}\n"
    return [
        {"role": "assistant", "content": "", "tool_calls": [asked]},
        {"role": "tool", "tool_call_id": name, "content": shown},
    ]


OPENING = [said(TASK), said("I will.", "assistant")]
STOPPED = [said("[Request interrupted by user]"), said("use the ISO form"), said("So I do.", "assistant")]
SESSION = [*OPENING, *STOPPED, *ran(1, "pytest", "6 passed in 0.1s"), said("Done.", "assistant")]
AGAIN = [*OPENING, *STOPPED]


def read(messages: list[Message]) -> Trajectory:
    (trajectory,) = read_trajectories(io.BytesIO(json.dumps(messages).encode()), session_id="s")
    return trajectory


def texts(trajectory: Trajectory) -> list[str]:
    return [step.text for step in trajectory.steps]


def test_a_conversation_that_is_told_again_is_read_once() -> None:
    once, twice = read(SESSION), read([*SESSION, *AGAIN])
    assert texts(twice) == texts(once)
    assert judge_by_evidence(twice, Settings()) == judge_by_evidence(once, Settings())


def test_neither_a_model_that_judges_sees_it_twice() -> None:
    shown = shorten_trajectory(read([*SESSION, *AGAIN]), 10_000).text
    assert shown.count("use the ISO form") == 1


def test_the_content_is_that_of_the_first_telling_so_that_it_is_learned_once() -> None:
    assert read([*SESSION, *AGAIN]).content_digest == read(SESSION).content_digest


def test_what_comes_after_the_second_telling_stays() -> None:
    trajectory = read([*SESSION, *AGAIN, *ran(2, "pytest", "1 failed in 0.1s", 1)])
    assert "1 failed" in texts(trajectory)[-1]
    assert judge_by_evidence(trajectory, Settings()).label == "Failure"
    assert texts(trajectory).count("use the ISO form") == 1


def test_a_task_that_is_asked_for_again_is_no_replay() -> None:
    more = [said(TASK), *ran(2, "pytest", "1 failed in 0.1s", 1)]
    assert TASK in texts(read([*SESSION, *more]))


@given(st.lists(st.sampled_from(["a", "b", "c"]), max_size=12))
def test_no_call_is_ever_taken_out(chosen: list[str]) -> None:
    messages = [said("a")]
    for number, text in enumerate(chosen):
        messages += [said(text)] if number % 3 else ran(number, text, text)
    kept = [step.tool_input for step in read(messages).steps if step.kind == "tool_call"]
    assert kept == [{"command": text} for number, text in enumerate(chosen) if number % 3 == 0]


def test_one_message_said_thousands_of_times_is_read_in_little_time() -> None:
    long = "again " * 2_000
    trajectory = read([said(long), *[each for _ in range(1_500) for each in (said(long), *ran(1, "ls", "a"))]])
    assert trajectory.steps
