"""Headless sessions of the real Claude Code in a project with our server and hooks."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from forked import CLI, run
from hook_project import DEMO, second_session, wait_for_processes

from tests.e2e.claude_code import CLAUDE, INSTALL_HINT, ClaudeCode
from tests.e2e.messages_api import MessagesApi, Turn, Use, bash
from tests.e2e.shop_project import write_project

IN_CLAUDE_CODE = [
    pytest.mark.e2e,
    pytest.mark.enable_socket,
    pytest.mark.skipif(not CLAUDE.exists(), reason=INSTALL_HINT),
    pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="looks for left processes in /proc"),
]
"""The marks of tests that run sessions."""

SETUP = "cp config/test.example.toml config/test.toml && python -m shop.migrate"
"""The command that is learned from the agent of `shop_project.SCRIPT`."""

NOTE = {
    "title": "Set the tests of the shop up",
    "when": "When the tests end with `SettingsError: config/test.toml not found`.",
    "note": f"Run `{SETUP}` first.",
}
"""The note that this agent leaves for the next one."""

TEACH = Use("mcp__swarm-memory__remember", {"notes": [NOTE], "outcome": "Success"})


def connected(home: Path) -> Use:
    """Return a turn that ends once the session's server is connected, so that its tools can be called."""
    return bash(f"until grep -q 'Successfully connected' {home}/debug.log; do sleep 0.1; done")


def written(home: Path) -> Use:
    """Return a turn that ends once the failed call is in the transcript, which the host writes a little later."""
    return bash(f"until grep -qs '\"is_error\":true' {home}/.claude/projects/*/*.jsonl; do sleep 0.1; done")


NEXT_TASK = "The test suite fails with SettingsError: config/test.toml not found. Make the tests pass."
NOTES = "UserPromptSubmit hook additional context: <swarm-memory-notes>"
"""The text that precedes what is shown at a prompt."""


def checkout(project: Path) -> Path:
    """Make the small project as a git repository, or like a fresh checkout of one."""
    write_project(project)
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    for made in (project / "config" / "test.toml", *project.glob("*.db")):
        made.unlink(missing_ok=True)
    return project


def swarm_memory(project: Path, *arguments: str) -> str:
    """Run our command line on the project and return what it printed."""
    done = run([*CLI, "--project", project, *arguments], text=True, cwd=project)
    assert done.returncode == 0, done.stderr
    return done.stdout


def learn_demo(project: Path) -> Any:
    """Let two sessions of the demo, which confirm each other, teach the project their fix; return the memory."""
    swarm_memory(project, "learn", str(DEMO))
    swarm_memory(project, "learn", str(second_session(project)))
    (memory,) = json.loads(swarm_memory(project, "memories", "list", "--json"))
    return memory


def run_session(project: Path, home: Path, script: list[Turn], *prompts: str) -> tuple[MessagesApi, ClaudeCode]:
    """Run a headless session (later prompts resume it) and wait until its last process has ended."""
    home.mkdir(exist_ok=True)
    with MessagesApi(script) as api:
        claude = ClaudeCode(home, project, api.url)
        for number, prompt in enumerate(prompts):
            run = claude.run(prompt, *(["--continue"] if number else []))
            assert run.code == 0, run.stderr + run.stdout
            wait_for_processes(project)
    return api, claude
