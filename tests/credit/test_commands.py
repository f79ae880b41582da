"""`post-task`, `metrics` and `status`, as another agent or a person calls them."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from served import ran

from swarm_memory.server.cli.main import main

QUERY = "Make the tests of the shop pass: no such table orders"
Call = Callable[..., tuple[int, str]]


@pytest.fixture
def swarm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Run `swarm-memory` in an empty project; gives the exit code and what was printed."""
    folder = tmp_path / "shop"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["swarm-memory", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out + err

    return run


@pytest.fixture
def memory(swarm: Call) -> str:
    """Let the bank learn one memory and give it to the task T-1."""
    failure = "Exit code 1\nE sqlite3.OperationalError: no such table: orders\n1 failed in 0.02s"
    steps = [
        *ran("c1", "pytest -q", failure),
        *ran("c2", "python -m shop.migrate --env test", "migrated shop_test.db: 1 table"),
        *ran("c3", "pytest -q", "2 passed in 0.01s"),
    ]
    task = {"id": "fix-1", "task": "Make the tests of the shop pass.", "steps": steps}
    Path("run.json").write_text(json.dumps(task), encoding="utf-8")
    learned = json.loads(swarm("learn", "run.json", "--json")[1])
    Path("run.json").write_text(json.dumps({**task, "id": "fix-2"}), encoding="utf-8")
    swarm("learn", "run.json")  # it bears the fix out
    assert learned["stored"][0] in swarm("pre-task", "--task-id", "T-1", "--query", QUERY)[1]
    return learned["stored"][0]


def confidence(swarm: Call, memory: str) -> float:
    return json.loads(swarm("memories", "get", memory, "--json")[1])[0]["confidence"]


def test_an_outcome_credits_the_memories_that_pre_task_gave(swarm: Call, memory: str) -> None:
    before = confidence(swarm, memory)
    arguments = ("post-task", "--task-id", "T-1", "--outcome", "success", "--used", memory)
    code, out = swarm(*arguments, "--json")
    record = json.loads(out)
    assert code == 0
    assert record == {"status": "credited", "changed": {memory: 0.05}}
    assert confidence(swarm, memory) == pytest.approx(before + 0.05)
    assert "already_credited" in swarm(*arguments)[1]
    assert confidence(swarm, memory) == pytest.approx(before + 0.05)
    assert "credited" in swarm("memories", "get", "--history", memory)[1]


def test_post_task_credits_by_itself(swarm: Call, memory: str) -> None:
    before = confidence(swarm, memory)
    steps = [*ran("c1", "python -m shop.migrate --env test", "ok"), *ran("c2", "pytest -q", "2 passed in 0.01s")]
    Path("t1.json").write_text(json.dumps({"id": "x", "task": QUERY, "steps": steps}), encoding="utf-8")
    row = json.loads(swarm("post-task", "--task-id", "T-1", "--trajectory", "t1.json", "--json")[1])
    assert (row["verdict"], row["credited"]) == ("Success", [memory])
    assert confidence(swarm, memory) > before


def test_metrics_are_json_or_a_table(swarm: Call, memory: str) -> None:
    swarm("post-task", "--task-id", "T-1", "--outcome", "Failure")
    said = json.loads(swarm("metrics", "--json")[1])
    (week,) = said["weeks"]
    assert (week["tasks"], week["success_rate"], week["new_items"]) == (3, 2 / 3, 1)
    assert said["effect"]["basis"] == "observed"
    assert "too few tasks to tell" in swarm("metrics")[1]
    assert "effect: " in swarm("status")[1]


def test_metrics_of_an_empty_bank_say_so(swarm: Call) -> None:
    assert "no task has an outcome yet" in swarm("metrics")[1]
    assert json.loads(swarm("metrics", "--json")[1])["effect"] is None


def test_a_held_out_task_prints_nothing_before_it_starts(
    swarm: Call, memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWARM_MEMORY_CREDIT__HOLDOUT_RATE", "1")
    assert swarm("pre-task", "--task-id", "T-2", "--query", QUERY) == (0, "")


def test_measuring_is_switched_on_and_off_in_the_users_own_settings(swarm: Call, memory: str, home: Path) -> None:
    file = home / ".config" / "swarm-memory" / "config.yaml"
    assert "one task in ten works without any notes" in swarm("metrics", "--measure", "on")[1]
    assert "holdout_rate: 0.1" in file.read_text(encoding="utf-8")
    assert json.loads(swarm("status", "--settings", "--changed", "--json")[1])["credit.holdout_rate"]["value"] == 0.1
    assert "every task is shown" in swarm("metrics", "--measure", "off")[1]
    assert "holdout_rate: 0" in file.read_text(encoding="utf-8")


def test_a_setting_that_is_gone_is_ignored_and_named_once(swarm: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWARM_MEMORY_CREDIT__DROPOUT", "0.3")
    assert (
        swarm("status", "--settings")[1].count("credit.dropout (environment SWARM_MEMORY_CREDIT__DROPOUT) is ignored")
        == 1
    )
