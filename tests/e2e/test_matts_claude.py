"""MaTTS with the real Claude Code as its command: two rollouts in copies of the project, compared and learned from."""

import json
from pathlib import Path

import pytest
from forked import CLI, run

from tests.e2e.claude_code import CLAUDE, INSTALL_HINT, ClaudeCode
from tests.e2e.messages_api import MessagesApi, Say, Turn, bash
from tests.e2e.sessions import SETUP
from tests.e2e.shop_project import TASK, write_project

pytestmark = [pytest.mark.e2e, pytest.mark.enable_socket, pytest.mark.skipif(not CLAUDE.exists(), reason=INSTALL_HINT)]

AGENT = f"{CLAUDE} -p --output-format stream-json --verbose --permission-mode bypassPermissions"
CHECK = "python -m pytest -q --tb=line"
SCRIPT: list[Turn] = [
    bash(CHECK),
    bash(f"mkdir -p config && touch config/test.toml && {CHECK}"),
    Say("I could not make them pass."),
    bash(CHECK),
    bash(SETUP),
    bash(CHECK),
    Say("Both tests pass."),
]


def swarm_memory(claude: ClaudeCode, *arguments: str, **settings: str) -> str:
    command = [*CLI, "--project", claude.project, *arguments]
    done = run(command, cwd=claude.project, env=claude.environment | settings, text=True)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def test_two_rollouts_of_claude_are_kept_apart_by_what_they_did(tmp_path: Path) -> None:
    project, home = tmp_path / "shop", tmp_path / "home"
    write_project(project)
    home.mkdir()
    with MessagesApi(SCRIPT) as api:
        claude = ClaudeCode(home, project, api.url)
        swarm_memory(claude, "install", "--project")
        allowed = {
            "SWARM_MEMORY_MATTS__ALLOWED_COMMANDS": f"{AGENT};;{CHECK}",
            "SWARM_MEMORY_MATTS__MAX_CONCURRENCY": "1",
        }
        run = json.loads(
            swarm_memory(claude, "matts", TASK, "--command", AGENT, "--check", CHECK, "-k", "2", "--json", **allowed)
        )
    assert run["status"] == "completed"
    assert [each["label"] for each in run["rollouts"]] == ["Failure", "Success"]
    assert run["best"] == 2
    assert run["best_answer"] == "Both tests pass."
    assert (Path(run["best_folder"]) / "config" / "test.toml").is_file()
    assert not (project / "config" / "test.toml").exists(), "the project itself is left alone"
    assert any(
        SETUP.split(" && ")[1] in item["title"] or "test.example.toml" in item["title"] for item in run["stored"]
    )
    assert len(api.requests) == len(SCRIPT)
    status = json.loads(swarm_memory(claude, "status", "--json"))
    assert status["trajectories"] == 2, "the rollouts' own hooks learned nothing"
    found = json.loads(swarm_memory(claude, "retrieve", "SettingsError: config/test.toml not found", "--json"))
    assert [memory["id"] for memory in found["memories"]] == [item["id"] for item in run["stored"]][:3]
