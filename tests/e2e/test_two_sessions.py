"""What one session of the real Claude Code learned comes back in the next, with everything as `install` writes it."""

import json
import sqlite3
from pathlib import Path
from typing import Any

from messages_api import Say, Turn, bash
from record_demo import SCRIPT, TASK
from sessions import IN_CLAUDE_CODE, NEXT_TASK, NOTES, SETUP, checkout, run_session, swarm_memory

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


def test_what_one_session_learned_once_is_in_the_prompt_of_the_next_and_a_continued_task_is_one_task(
    tmp_path: Path,
) -> None:
    shop, home = checkout(tmp_path / "shop"), tmp_path / "home"
    swarm_memory(shop, "install", "--project")
    first, _ = run_session(shop, home, SCRIPT, TASK)
    assert "<swarm-memory-notes>" not in first.text_of(0)
    assert len(first.requests) == len(SCRIPT)
    calls = rows(shop, "SELECT tool_name, success FROM tool_calls ORDER BY seq")
    assert [name for name, _ in calls] == ["Bash"] * 6, "each call is one row"
    assert [bool(success) for _, success in calls] == [False, False, False, True, True, True]
    jobs = json.loads(swarm_memory(shop, "jobs", "list", "--all", "--json"))
    learning = [job for job in jobs if job["kind"] == "learn"]
    assert {(job["status"], job["attempts"]) for job in learning} == {("completed", 1)}
    rest = {(job["kind"], job["status"]) for job in jobs if job["kind"] != "learn"}
    assert rest == {("evaluate_tool_calls", "queued")}, "what followed a call is waited for before it is evaluated"
    assert len(json.loads(swarm_memory(shop, "memories", "list", "--json"))) == 1

    checkout(shop)
    second, _ = run_session(shop, home, [*NEXT, *AGAIN], NEXT_TASK, "now run the tests again")
    told = second.text_of(0)
    assert SETUP in told
    assert told.count(NOTES) == 1
    assert "SessionStart hook additional context" not in told, "a way out is told where its error is spoken of"
    assert (shop / "config" / "test.toml").exists()
    assert second.text_of(-1).count("<swarm-memory-notes>") == 1, "a task that goes on is told nothing twice"
    later = rows(shop, "SELECT task_id, count(*) FROM tool_calls WHERE seq > 6 GROUP BY task_id")
    assert [(task.rpartition(":")[2], count) for task, count in later] == [("1", 2)], "and is one task"
