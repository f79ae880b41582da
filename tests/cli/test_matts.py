"""`matts` on the command line: with a real agent program, made rollouts, and what it says when it cannot run."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Shell = Callable[..., Any]
TASK = "Make the answer of the shop right."


@pytest.fixture
def allowed(project: Path, tmp_path: Path) -> tuple[str, ...]:
    """Arguments that allow an agent which is right in rollout 2, and a check of it."""
    agent = tmp_path / "agent.py"
    agent.write_text("import os; open('answer', 'w').write(os.environ['MATTS_ROLLOUT']); print('I wrote it.')")
    (project / "test_answer.py").write_text("assert open('answer').read() == '2', 'it is wrong'; print('1 passed')")
    command, check = f"{sys.executable} -I {agent}", f"{sys.executable} -I test_answer.py"
    given = ("--set", f"matts.allowed_commands={command};;{check}")
    return (*given, "matts", TASK, "--command", command, "--check", check)


def test_a_task_is_scaled_and_the_best_rollouts_files_are_left(swarm: Shell, allowed: tuple[str, ...]) -> None:
    ran = swarm(*allowed, "-k", "2", "--json")
    assert ran.code == 0, ran.err
    assert [each["label"] for each in ran.json["rollouts"]] == ["Failure", "Success"]
    assert (ran.json["status"], ran.json["k"], ran.json["best"]) == ("completed", 2, 2)
    assert (Path(ran.json["best_folder"]) / "answer").read_text() == "2"
    shown = swarm(*allowed, "--mode", "sequential", "-k", "1")
    assert shown.err.startswith("run_matts run_")
    assert "status: completed" in shown.out


def test_a_run_is_not_done_again_by_its_id(swarm: Shell, allowed: tuple[str, ...]) -> None:
    first = swarm(*allowed, "-k", "2", "--json", "--run-id", "run_A").json
    again = swarm(*allowed, "-k", "2", "--json", "--run-id", "run_A").json
    assert again == first


def test_rollouts_that_were_made_before_are_compared(swarm: Shell, project: Path, fixed: dict[str, Any]) -> None:
    (project / "one.json").write_text(json.dumps({"id": "a", "task": fixed["task"], "steps": fixed["steps"][:2]}))
    (project / "two.json").write_text(json.dumps({"id": "b", "task": fixed["task"], "steps": fixed["steps"]}))
    ran = swarm("matts", fixed["task"], "--given", "one.json", "--given", "two.json", "--json")
    assert ran.code == 0, ran.err
    assert [each["label"] for each in ran.json["rollouts"]] == ["Failure", "Success"]
    assert ran.json["stored"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("matts", TASK), 2, "give the command line too"),
        (("matts", TASK, "--runner", "given"), 2, "give the attempts"),
        (("matts", TASK, "--command", "rm -rf ."), 3, "matts.allowed_commands"),
        (("matts", TASK, "--model"), 3, "no chat model"),
        (("matts", "--command", "x"), 2, "Missing argument 'TASK'"),
    ],
)
def test_what_cannot_run_says_what_to_change(swarm: Shell, arguments: tuple[str, ...], code: int, said: str) -> None:
    ran = swarm(*arguments)
    assert ran.code == code
    assert said in ran.err
