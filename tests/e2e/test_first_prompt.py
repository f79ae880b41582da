"""The real Claude Code with our hooks: they need no server, and the first prompt has its notes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hook_project import wait_for_processes
from patience import AT_FULL_LENGTH, FULL

from tests.e2e.claude_code import ClaudeCode
from tests.e2e.messages_api import MessagesApi, Say
from tests.e2e.record_demo import SCRIPT, TASK
from tests.e2e.sessions import IN_CLAUDE_CODE, NEXT_TASK, NOTES, SETUP, checkout, learn_demo, run_session, swarm_memory

pytestmark = IN_CLAUDE_CODE

SESSIONS = BURNERS = 20


def with_server(settings: Path, command: str) -> None:
    """Have the host start another command as the server."""
    servers: dict[str, Any] = json.loads(settings.read_text())
    servers["mcpServers"]["swarm-memory"] |= {"command": "sh", "args": ["-c", command]}
    settings.write_text(json.dumps(servers))


@pytest.mark.parametrize("command", ["exec sleep 60", pytest.param("exit 1", marks=AT_FULL_LENGTH)])
def test_hooks_do_all_of_it_while_the_server_does_not_answer(tmp_path: Path, command: str) -> None:
    shop = checkout(tmp_path / "shop")
    swarm_memory(shop, "install", "--project")
    with_server(shop / ".mcp.json", command)
    known = learn_demo(shop)
    api, _ = run_session(shop, tmp_path / "home", SCRIPT, NEXT_TASK)
    assert SETUP in api.text_of(0)
    assert NOTES in api.text_of(0)
    (after,) = json.loads(swarm_memory(shop, "memories", "list", "--json"))
    assert after["id"] == known["id"]
    assert after["confidence"] > known["confidence"], "the session was learned from: it ended the same way"


def test_after_an_install_for_the_user_sessions_in_any_folder_are_learned_from(tmp_path: Path) -> None:
    shop, home, plain = checkout(tmp_path / "shop"), tmp_path / "home", tmp_path / "plain"
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
        assert status["trajectories"] == tasks, project


@pytest.mark.fault
@pytest.mark.skipif(not FULL, reason="make faults runs it: it keeps every processor busy")
def test_first_prompts_have_their_notes_while_the_machine_has_no_time(tmp_path: Path) -> None:
    shop = checkout(tmp_path / "shop")
    swarm_memory(shop, "install", "--project")
    learn_demo(shop)
    burners = [subprocess.Popen([sys.executable, "-I", "-c", "while True: pass"]) for _ in range(BURNERS)]
    try:
        apis = [run_session(shop, tmp_path / "home", [Say("I see.")], NEXT_TASK)[0] for _ in range(SESSIONS)]
    finally:
        for each in burners:
            each.kill()
            each.wait()
    assert all(NOTES in api.text_of(0) for api in apis)
