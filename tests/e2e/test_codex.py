"""The real Codex CLI: what one session learned is in the prompt of the next, and beside a failure."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from hook_project import wait_for_processes, wait_for_server
from patience import HANG_S, STATIC

from swarm_memory.server.location import state_folder
from tests.e2e.claude_code import NODE
from tests.e2e.messages_api import Say, Turn
from tests.e2e.record_demo import TASK
from tests.e2e.responses_api import ResponsesApi, shell
from tests.e2e.sessions import NEXT_TASK, SETUP, checkout

VERSION = "0.169.0"
CODEX = Path(os.environ.get("CODEX_CLI") or NODE / "codex")
HINT = f"needs Codex CLI, 400 MB: npm i --no-save --prefix tests/node @openai/codex@{VERSION}, or CODEX_CLI=PATH"
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.enable_socket,
    pytest.mark.skipif(not CODEX.exists(), reason=HINT),
    pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="looks for left processes in /proc"),
]

TESTS = "python -m pytest -q"
FIRST: list[Turn] = [shell(TESTS), shell("cat README.md"), shell(SETUP), shell(TESTS), Say("The 2 tests pass now.")]
RULE = "Never push to main without asking"
LATER: list[Turn] = [shell(TESTS), Say("I see what is missing.")]


@dataclass(frozen=True)
class CodexCli:
    """One person's Codex CLI: a home folder and a project."""

    home: Path
    project: Path

    @property
    def environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        variables = {"HOME": str(self.home), "XDG_STATE_HOME": str(state_folder().parent), "KEY": "dummy"}
        return {**STATIC, **variables, "PATH": path, "LANG": "C.UTF-8", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

    def ours(self, *arguments: str) -> str:
        """Run our command line, as this person does."""
        command = [sys.executable, "-I", "-m", "swarm_memory.server.cli", *arguments]
        return self.run(command)

    def session(self, script: list[Turn], prompt: str) -> ResponsesApi:
        """Run a headless session against a script and wait until its last process has ended."""
        with ResponsesApi(script, wait=partial(wait_for_server, self.project)) as api:
            (self.home / ".codex" / "mock.config.toml").write_text(
                f'model = "gpt-5.1-codex"\nmodel_provider = "mock"\n[model_providers.mock]\nname = "mock"\n'
                f'base_url = "{api.url}"\nwire_api = "responses"\nenv_key = "KEY"\n'
            )
            vetted = ["--dangerously-bypass-hook-trust", "--dangerously-bypass-approvals-and-sandbox"]
            self.run([str(CODEX), "exec", "--profile", "mock", *vetted, prompt])
            wait_for_processes(self.project)
        return api

    def run(self, command: list[str]) -> str:
        """Run a command as this person and return what it printed."""
        done = subprocess.run(
            command, cwd=self.project, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=HANG_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout


def with_codex(folder: Path, project: Path) -> CodexCli:
    """Give a person of its own a project."""
    codex = CodexCli(folder / "home", project)
    (codex.home / ".codex").mkdir(parents=True)
    (codex.home / ".bash_profile").write_text(f"export PATH={codex.environment['PATH']}\n")  # commands run in a login
    return codex


def test_what_one_session_learned_is_in_the_prompt_of_the_next_and_beside_a_failure(tmp_path: Path) -> None:
    codex = with_codex(tmp_path, checkout(tmp_path / "shop"))
    codex.ours("install", "--agent", "codex")
    first = codex.session(FIRST, TASK)
    assert "swarm-memory-notes" not in first.seen_by_model(0)
    assert "swarm-memory" in codex.run([str(CODEX), "mcp", "list"]), "the server is known"
    (memory,) = json.loads(codex.ours("memories", "list", "--json"))

    checkout(codex.project)
    codex.ours("remember", RULE)
    second = codex.session(LATER, NEXT_TASK)
    assert SETUP in second.seen_by_model(0)
    assert memory["id"] in second.seen_by_model(0)
    checkout(codex.project)
    third = codex.session(LATER, "Have a look around this folder and report what you find there")
    assert memory["id"] not in third.seen_by_model(0)
    assert RULE in third.seen_by_model(0), "the briefing at the start of the session"
    assert memory["id"] in third.seen_by_model(1), "it ended the error that the command just failed with"
    sessions = json.loads(codex.ours("status", "--json"))
    assert sessions["trajectories"] == 3
