"""The real Claude Code with our hooks: they need no server, and the first prompt has its notes."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from claude_code import CLAUDE, INSTALL_HINT, ClaudeCode
from messages_api import MessagesApi, Say, Turn
from record_demo import SCRIPT, TASK, write_project
from sessions import run_session, swarm_memory, wait_for_processes

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.enable_socket,
    pytest.mark.skipif(not CLAUDE.exists(), reason=INSTALL_HINT),
    pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="looks for left processes in /proc"),
]

SETUP = "cp config/test.example.toml config/test.toml && python -m shop.migrate"
NEXT_TASK = "The test suite fails with SettingsError: config/test.toml not found. Make the tests pass."
NEXT: list[Turn] = [Say("I see.")]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    project = tmp_path / "shop"
    write_project(project)
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    return project


def reset(project: Path) -> None:
    """Make the project as a fresh checkout is."""
    (project / "config" / "test.toml").unlink()
    for database in project.glob("*.db"):
        database.unlink()


def with_server(settings: Path, command: str) -> None:
    """Have the host start another command as the server."""
    servers: dict[str, Any] = json.loads(settings.read_text())
    servers["mcpServers"]["swarm-memory"] |= {"command": "sh", "args": ["-c", command]}
    settings.write_text(json.dumps(servers))


@pytest.mark.parametrize("command", ["exec sleep 60", "exit 1"])
def test_hooks_do_all_of_it_while_the_server_does_not_answer(shop: Path, tmp_path: Path, command: str) -> None:
    swarm_memory(shop, "install", "--project")
    with_server(shop / ".mcp.json", command)
    run_session(shop, tmp_path / "home", SCRIPT, TASK)
    assert len(json.loads(swarm_memory(shop, "memories", "list", "--json"))) == 1
    reset(shop)
    api, _ = run_session(shop, tmp_path / "home", NEXT, NEXT_TASK)
    assert SETUP in api.text_of(0)
    assert "UserPromptSubmit hook additional context: <swarm-memory-notes>" in api.text_of(0)


def test_after_an_install_for_the_user_sessions_in_any_folder_are_learned_from(shop: Path, tmp_path: Path) -> None:
    home, plain = tmp_path / "home", tmp_path / "plain"
    home.mkdir()
    plain.mkdir()
    with MessagesApi([*SCRIPT, Say("Paris.")]) as api:
        for project, prompt in ((shop, TASK), (plain, "Tell me in one word what the capital of France is")):
            claude = ClaudeCode(home, project, api.url)
            command = ["swarm-memory", "install", "--user"]
            subprocess.run(command, cwd=project, env=claude.environment, check=True, capture_output=True)
            assert claude.run(prompt).code == 0
            wait_for_processes(project)
    for project, tasks in ((shop, 1), (plain, 1)):
        status = json.loads(swarm_memory(project, "status", "--json"))
        assert status["statistics"]["trajectories"] == tasks, project
    assert len(json.loads(swarm_memory(shop, "memories", "list", "--json"))) == 1
