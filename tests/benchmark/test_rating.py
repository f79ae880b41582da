"""The rating set: items of one half, each beside its trajectory, and figures of two readers' ratings."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "rating.py"


@pytest.fixture
def run() -> Callable[..., str]:
    def call(*arguments: object) -> str:
        command = [sys.executable, str(SCRIPT), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return done.stdout if done.returncode == 0 else f"{done.returncode}: {done.stderr}"

    return call


def turn(number: int, command: str, output: str) -> list[dict[str, object]]:
    """A command and its result as messages."""
    function = {"name": "Bash", "arguments": json.dumps({"command": command})}
    call = {"id": f"c{number}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": output},
    ]


def test_items_stand_beside_their_trajectory_and_each_task_in_one_half(tmp_path: Path, run: Callable[..., str]) -> None:
    missing = "ModuleNotFoundError: No module named 'web'\nexit code: 1"
    ran = [("manage test", missing), ("pip install web", "exit code: 0"), ("manage test", "exit code: 0")]
    messages = [message for number, each in enumerate(ran) for message in turn(number, *each)]
    records = [
        {"id": f"t{n}", "task_id": f"task {n // 2}", "task": "test the shop", "steps": messages} for n in range(12)
    ]
    (tmp_path / "tried.jsonl").write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    halves = [tmp_path / "looked.md", tmp_path / "unseen.md"]
    for half in halves:
        run("draw", "--data", tmp_path / "tried.jsonl", "--half", half.stem, "--out", half)
    looked, unseen = ([line for line in half.read_text().splitlines() if line.startswith("## ")] for half in halves)
    tasks = [{int(line.split()[4].strip("t,")) // 2 for line in half} for half in (looked, unseen)]
    assert len(looked) + len(unseen) == 12
    assert looked
    assert tasks[0].isdisjoint(tasks[1])
    assert "pip install web" in halves[0].read_text().partition("Task: ")[2]


def test_an_item_is_useful_when_both_readers_say_so_and_harmful_when_one_does(
    tmp_path: Path, run: Callable[..., str]
) -> None:
    kinds = ["repair", "repair", "repair", "procedure"]
    (tmp_path / "items.md").write_text("\n".join(f"## {n} [{kind}] f, t" for n, kind in enumerate(kinds, 1)))
    (tmp_path / "one").write_text("1 3\n2 2\n3 1\n4 0 false\n")
    (tmp_path / "other").write_text("4 1\n3 1\n2 1 vague\n1 2\n")
    lines = run("figures", tmp_path / "items.md", tmp_path / "one", tmp_path / "other").splitlines()
    assert [line.split(" [")[0].split() for line in lines[:3]] == [
        ["procedure", "n=", "1", "useful=", "0", "0.00"],
        ["repair", "n=", "3", "useful=", "1", "0.33"],
        ["all", "n=", "4", "useful=", "1", "0.25"],
    ]
    assert lines[2].endswith("harmful=1")
    assert lines[3].startswith("the same rating: 0.25")
