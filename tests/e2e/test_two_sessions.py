"""What one session of the real Claude Code learned comes back in the next, with everything as `install` writes it."""

import json
import sqlite3
from pathlib import Path
from typing import Any

from tests.e2e.messages_api import Say, Turn, bash
from tests.e2e.record_demo import SCRIPT, TASK
from tests.e2e.sessions import (
    IN_CLAUDE_CODE,
    NEXT_TASK,
    NOTE,
    NOTES,
    SETUP,
    TEACH,
    checkout,
    connected,
    run_session,
    swarm_memory,
)

pytestmark = IN_CLAUDE_CODE

NEXT: list[Turn] = [bash(f"{SETUP} && python -m pytest -q", "As noted before."), Say("2 tests pass.")]
AGAIN: list[Turn] = [bash("python -m pytest -q"), Say("Still 2 passed.")]


def rows(project: Path, query: str) -> list[Any]:
    """Read from the database; no other process has it open any more."""
    connection = sqlite3.connect(f"file:{project}/.swarm/memory.db?mode=ro", uri=True)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def test_what_one_session_taught_is_in_the_prompt_of_the_next_and_a_continued_task_is_one_task(tmp_path: Path) -> None:
    shop, home = checkout(tmp_path / "shop"), tmp_path / "home"
    swarm_memory(shop, "install", "--project")
    script = [*SCRIPT[:-1], connected(home), TEACH, SCRIPT[-1]]
    first, _ = run_session(shop, home, script, TASK)
    assert "<swarm-memory-notes>" not in first.text_of(0)
    assert len(first.requests) == len(script), "what was taught is not asked for"
    calls = rows(shop, "SELECT tool_name, success FROM tool_calls WHERE tool_name = 'Bash' ORDER BY seq")
    assert [bool(success) for _, success in calls] == [False, False, False, True, True, True, True]
    jobs = json.loads(swarm_memory(shop, "jobs", "list", "--all", "--json"))
    learning = [job for job in jobs if job["kind"] == "learn"]
    assert {(job["status"], job["attempts"]) for job in learning} == {("completed", 1)}
    rest = {(job["kind"], job["status"]) for job in jobs if job["kind"] != "learn"}
    assert ("evaluate_tool_calls", "queued") in rest, "what followed a call is waited for before it is evaluated"
    (memory,) = json.loads(swarm_memory(shop, "memories", "list", "--json"))
    assert memory["content"] == NOTE["note"]
    assert json.loads(swarm_memory(shop, "status", "--json"))["trajectories"] == 1

    ((before,),) = rows(shop, "SELECT max(seq) FROM tool_calls")
    checkout(shop)
    second, _ = run_session(shop, home, [*NEXT, *AGAIN], NEXT_TASK, "now run the tests again")
    first_prompt = second.text_of(0)
    assert SETUP in first_prompt
    assert first_prompt.count(NOTES) == 1
    assert "SessionStart hook additional context" not in first_prompt, "what an error calls for comes with the error"
    assert (shop / "config" / "test.toml").exists()
    assert second.text_of(-1).count("<swarm-memory-notes>") == 1, "a task that goes on is shown nothing twice"
    later = rows(shop, f"SELECT task_id, count(*) FROM tool_calls WHERE seq > {before} GROUP BY task_id")
    assert [(task.rpartition(":")[2], count) for task, count in later] == [("1", 2)], "and is one task"
