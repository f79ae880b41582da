"""`post-task`, `metrics` and `status`, as another agent or a person calls them."""

import json
from pathlib import Path

import pytest
from served import fixed_task, ran
from shell import Shell, project, swarm

__all__ = ["project", "swarm"]

QUERY = "Make the tests of the shop pass: no such table orders"


@pytest.fixture
def memory(swarm: Shell) -> str:
    """Make the bank learn one memory and inject it into the task T-1."""
    Path("run.json").write_text(json.dumps(fixed_task(id="fix-1")), encoding="utf-8")
    learned = swarm("learn", "run.json", "--json").json
    Path("run.json").write_text(json.dumps(fixed_task(id="fix-2")), encoding="utf-8")
    swarm("learn", "run.json")  # it confirms the fix
    assert learned["stored"][0] in swarm("pre-task", "--task-id", "T-1", "--query", QUERY).out
    return learned["stored"][0]


def confidence(swarm: Shell, memory: str) -> float:
    return swarm("show", memory, "--json").json[0]["confidence"]


def test_an_outcome_credits_the_memories_that_pre_task_gave(swarm: Shell, memory: str) -> None:
    before = confidence(swarm, memory)
    arguments = ("post-task", "--task-id", "T-1", "--outcome", "success", "--used", memory)
    done = swarm(*arguments, "--json")
    assert done.code == 0
    assert done.json == {"status": "credited", "changed": {memory: 0.05}}
    assert confidence(swarm, memory) == pytest.approx(before + 0.05)
    assert "already_credited" in swarm(*arguments).out
    assert confidence(swarm, memory) == pytest.approx(before + 0.05)
    assert "credited" in swarm("show", "--history", memory).out


def test_post_task_credits_by_itself(swarm: Shell, memory: str) -> None:
    before = confidence(swarm, memory)
    steps = [*ran("c1", "python -m shop.migrate", "ok"), *ran("c2", "pytest -q", "2 passed in 0.01s")]
    Path("t1.json").write_text(json.dumps({"id": "x", "task": QUERY, "steps": steps}), encoding="utf-8")
    row = swarm("post-task", "--task-id", "T-1", "--trajectory", "t1.json", "--json").json
    assert (row["verdict"], row["credited"], row["calls"]) == ("Success", [memory], 2)
    assert confidence(swarm, memory) > before


def test_metrics_are_json_or_a_table(swarm: Shell, memory: str) -> None:
    swarm("post-task", "--task-id", "T-1", "--outcome", "Failure")
    said = swarm("metrics", "--json").json
    (week,) = said["weeks"]
    assert (week["tasks"], week["success_rate"], week["new_items"]) == (3, 2 / 3, 1)
    assert said["effect"]["basis"] == "observed"
    assert "too few tasks to tell" in swarm("metrics").out
    assert "effect: " in swarm("status", "-v").out


def test_metrics_of_an_empty_bank_say_so(swarm: Shell) -> None:
    assert "no task has an outcome yet" in swarm("metrics").out
    shown = swarm("metrics", "--json").json
    assert (shown["weeks"], shown["effect"]) == ([], None)


def test_measuring_is_switched_on_and_off_in_the_users_own_settings(swarm: Shell, memory: str, home: Path) -> None:
    file = home / ".config" / "swarm-memory" / "config.yaml"
    assert "one session in ten now works without any notes" in swarm("metrics", "--measure", "on").out
    assert "holdout_rate: 0.1" in file.read_text(encoding="utf-8")
    assert swarm("status", "--settings", "--json").json["credit.holdout_rate"]["value"] == 0.1
    assert "every task is shown" in swarm("metrics", "--measure", "off").out
    assert "holdout_rate: 0" in file.read_text(encoding="utf-8")
    file.write_bytes("# für mich".encode("latin-1"))
    assert "cannot be read" in swarm("metrics", "--measure", "on").err


def test_a_setting_that_is_gone_is_ignored_and_named_once(swarm: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWARM_MEMORY_CREDIT__DROPOUT", "0.3")
    named = "credit.dropout (environment SWARM_MEMORY_CREDIT__DROPOUT) is ignored"
    assert swarm("status", "--settings").err.count(named) == 1


def test_the_sentence_counts_what_agents_were_shown_and_used_and_no_look_of_a_person(swarm: Shell) -> None:
    assert swarm("status", "--json").json["sentence"].startswith("No memory is in use yet")
    said = "Run `python -m shop.migrate` before the tests of the shop"
    kept = swarm("remember", said, "--json").json["id"]
    assert swarm("retrieve", said, "--json").json["memories"][0]["id"] == kept
    assert swarm("show", kept, "--json").json[0]["shown"] == 0
    assert swarm("status", "--json").json["sentence"].startswith("No note was shown to an agent this week (1 in use)")
    assert kept in swarm("pre-task", "--task-id", "T-1", "--query", said).out
    assert swarm("show", kept, "--json").json[0]["shown"] == 1
    shown = "This week: notes shown in 1 task, none seen to be used; 1 note never used."
    assert swarm("status").out.splitlines()[0] == shown
    swarm("post-task", "--task-id", "T-1", "--outcome", "Success", "--used", kept)
    assert swarm("metrics", "--json").json["sentence"] == "This week: 1 note used in 1 task."
    swarm("remember", "Answer in German", "--scope", "global")
    assert swarm("status").out.splitlines()[0] == "This week: 1 note used in 1 task; 1 note never used."
    assert "memories  1 active, 1 for all projects" in swarm("status").out
