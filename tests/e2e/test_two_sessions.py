"""What one session of the real Claude Code learned comes back in the next, with everything as `install` writes it."""

import json
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest
from claude_code import CLAUDE, INSTALL_HINT
from messages_api import Say, Turn, bash
from record_demo import SCRIPT, TASK, write_project
from sessions import run_session, swarm_memory

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.enable_socket,
    pytest.mark.skipif(not CLAUDE.exists(), reason=INSTALL_HINT),
    pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="looks for left processes in /proc"),
]

SETUP = "cp config/test.example.toml config/test.toml && python -m shop.migrate"
NEXT_TASK = "The test suite fails with SettingsError: config/test.toml not found. Make the tests pass."
NEXT_SCRIPT: list[Turn] = [bash(f"{SETUP} && python -m pytest -q", "As noted before."), Say("2 tests pass.")]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A project with a git repository, our server and our hooks."""
    project = tmp_path / "shop"
    write_project(project)
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    swarm_memory(project, "install", "--project")
    return project


def rows(project: Path, query: str) -> list[Any]:
    """Read from the database; no other process has it open any more."""
    connection = sqlite3.connect(f"file:{project}/.swarm/memory.db?mode=ro", uri=True)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def reset(project: Path) -> None:
    """Make the project as a fresh checkout is."""
    (project / "config" / "test.toml").unlink()
    for database in project.glob("*.db"):
        database.unlink()


def test_what_one_session_learned_is_in_the_prompt_of_the_next(shop: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    first, _ = run_session(shop, home, SCRIPT, TASK)
    assert "<swarm-memory-notes>" not in first.text_of(0)
    assert len(first.requests) == len(SCRIPT)
    reset(shop)
    second, _ = run_session(shop, home, NEXT_SCRIPT, NEXT_TASK)
    told = second.text_of(0)
    assert SETUP in told
    assert told.count("UserPromptSubmit hook additional context: <swarm-memory-notes>") == 1
    assert "SessionStart hook additional context" not in told, "a way out is told where its error is spoken of"
    assert (shop / "config" / "test.toml").exists()


def test_each_tool_call_is_one_row_and_each_job_is_done_once(shop: Path, tmp_path: Path) -> None:
    run_session(shop, tmp_path / "home", SCRIPT, TASK)
    calls = rows(shop, "SELECT tool_name, success FROM tool_calls ORDER BY seq")
    assert [name for name, _ in calls] == ["Bash"] * 6
    assert [bool(success) for _, success in calls] == [False, False, False, True, True, True]
    jobs = json.loads(swarm_memory(shop, "jobs", "list", "--all", "--json"))
    learning = [job for job in jobs if job["kind"] == "learn"]
    assert {(job["status"], job["attempts"]) for job in learning} == {("completed", 1)}
    rest = {(job["kind"], job["status"]) for job in jobs if job["kind"] != "learn"}
    assert rest == {("evaluate_tool_calls", "queued")}, "what followed a call is waited for before it is evaluated"
    assert len(json.loads(swarm_memory(shop, "memories", "list", "--json"))) == 1


def test_a_continued_task_is_one_task(shop: Path, tmp_path: Path) -> None:
    script = [*SCRIPT, bash("python -m pytest -q"), Say("Still 2 passed.")]
    api, _ = run_session(shop, tmp_path / "home", script, TASK, "now run the tests again")
    assert "<swarm-memory-notes>" not in api.text_of(-1)
    tasks = {task for (task,) in rows(shop, "SELECT DISTINCT task_id FROM tool_calls")}
    assert len(tasks) == 1
    assert next(iter(tasks)).endswith(":1")
    assert rows(shop, "SELECT count(*) FROM tool_calls") == [(7,)]
