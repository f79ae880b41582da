"""The MCP Inspector's command line and `claude mcp list`, as independent checks of our server."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from made_files import committed, git
from patience import AT_FULL_LENGTH, HANG_S

from swarm_memory.server.hosts.claude_code.host import HOST
from swarm_memory.server.hosts.host import InstallScope
from swarm_memory.server.hosts.settings import SERVER_NAME, cli_command
from swarm_memory.server.hosts.settings_files import apply
from tests.e2e.claude_code import CLAUDE, INSPECTOR, INSTALL_HINT, ClaudeCode


def node_major() -> int:
    """Return the major version of Node.js; 0 if there is none."""
    node = shutil.which("node")
    if node is None:
        return 0
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    return int(version.lstrip("v").partition(".")[0])


pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not (INSPECTOR.exists() and CLAUDE.exists()), reason=INSTALL_HINT),
    pytest.mark.skipif(node_major() < 20, reason="the Inspector needs Node.js 20 or newer"),
]


def inspect(project: Path, method: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Let the Inspector call a method of our server, as `install` writes it, for a project."""
    entry = HOST.server_entry(cli_command())
    server = ["-e", f"CLAUDE_PROJECT_DIR={project}", entry["command"], *entry["args"]]
    command = [str(INSPECTOR), "--cli", *server, "--method", method, *arguments]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=HANG_S)


def shown(project: Path, method: str, *arguments: str) -> Any:
    """Return what the Inspector shows for a call that must succeed."""
    done = inspect(project, method, *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_tool_passes_the_strict_list(tmp_path: Path) -> None:
    names = {tool["name"] for tool in shown(tmp_path, "tools/list", "--strict")["tools"]}
    assert {"retrieve_memories", "learn_from_trajectory"} <= names


def test_the_inspector_retrieves_from_an_empty_bank(tmp_path: Path) -> None:
    call = ("--tool-name", "retrieve_memories", "--tool-arg", "query=fix the failing tests", "--format", "json", "-q")
    result = shown(tmp_path, "tools/call", *call)["result"]
    assert not result.get("isError")
    assert result["structuredContent"]["memories"] == []
    assert result["structuredContent"]["reason"]


def test_the_inspector_is_shown_what_a_prompt_takes(tmp_path: Path) -> None:
    call = ("prompts/get", "--prompt-name", "memories")
    assert "manage_memories with action list" in shown(tmp_path, *call)["messages"][0]["content"]["text"]
    refused = inspect(tmp_path, *call, "--prompt-args", "query=x")
    assert refused.returncode == 1
    assert "memories takes topic" in refused.stdout + refused.stderr
    assert "Traceback" not in refused.stdout + refused.stderr


@pytest.mark.parametrize("scope", ["local", pytest.param("user", marks=AT_FULL_LENGTH)])
def test_claude_code_connects_to_the_server_until_it_is_uninstalled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scope: InstallScope
) -> None:
    claude = ClaudeCode(tmp_path / "home", tmp_path / "project", "http://127.0.0.1:9")
    for folder in (claude.home, claude.project):
        folder.mkdir()
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(claude.config))
    apply(HOST.plan_install(scope, claude.project))
    assert f"{SERVER_NAME}:" in (listed := mcp_list(claude))
    assert "Connected" in listed
    apply(HOST.plan_uninstall(scope, claude.project))
    assert f"{SERVER_NAME}:" not in mcp_list(claude)


def test_claude_code_itself_takes_the_server_of_one_person_and_project_out_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claude = ClaudeCode(tmp_path / "home", tmp_path / "main", "http://127.0.0.1:9")
    claude.home.mkdir()
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(claude.config))
    git(committed(claude.project), "worktree", "add", "-q", str(tmp_path / "tree"))
    apply(HOST.plan_install("local", tmp_path / "tree"))
    removed = mcp(claude, "remove", "-s", "local", SERVER_NAME)
    assert removed.returncode == 0, removed.stderr
    assert SERVER_NAME not in (claude.config / ".claude.json").read_text()


def mcp(claude: ClaudeCode, *words: str) -> subprocess.CompletedProcess[str]:
    """Run one of Claude Code's commands about its servers."""
    return subprocess.run(
        [str(claude.binary), "mcp", *words],
        cwd=claude.project,
        env=claude.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )


def mcp_list(claude: ClaudeCode) -> str:
    """Return what `claude mcp list` says about the servers' health."""
    done = mcp(claude, "list")
    return done.stdout + done.stderr
