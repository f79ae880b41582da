"""The real Codex CLI, Copilot CLI, Gemini CLI and OpenCode: what one session learned is in the next one."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hook_project import wait_for_processes, wait_for_server
from made_files import written
from patience import HANG_S, STATIC

from swarm_memory.server.location import state_folder
from tests.e2e.claude_code import NODE, write_commands
from tests.e2e.messages_api import Say, Turn, Use
from tests.e2e.responses_api import ResponsesApi
from tests.e2e.sessions import NEXT_TASK, SETUP, checkout
from tests.e2e.shop_project import TASK

PACKAGES = {
    "codex": "@openai/codex@0.169.0", "copilot": "@github/copilot@1.0.102", "gemini": "@google/gemini-cli@0.61.0",
    "opencode": "opencode-ai@1.18.33",
}  # fmt: skip
SHELLS = {"codex": "exec_command", "copilot": "bash", "gemini": "run_shell_command", "opencode": "bash"}
ARGUMENTS = {
    "codex": [
        "exec",
        "--profile",
        "mock",
        "--dangerously-bypass-hook-trust",
        "--dangerously-bypass-approvals-and-sandbox",
    ],
    "copilot": ["--trust-folder", "--allow-all-tools", "-p"],
    "gemini": ["-m", "gemini-2.5-flash", "--yolo", "-p"],
    "opencode": ["run"],
}
TESTS, RULE = "python -m pytest -q", "Never push to main without asking"
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.enable_socket,
    pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="looks for left processes in /proc"),
]


Json = dict[str, Any]


class ChatApi(ResponsesApi):
    """Scripted APIs of Responses, of Chat Completions and of Gemini on loopback; streams only.

    A request with tools is answered with the next turn of the script; any other, such as one for a title, with a word.
    """

    def stream(self, path: str, body: Json) -> bytes | None:
        if path.endswith("/chat/completions"):
            number, turn = self._turn(body)
            return b"".join(b"data: %s\n\n" % part for part in (_chunk(turn, number), _last(turn), b"[DONE]"))
        if ":streamGenerateContent" in path:
            _, turn = self._turn(body)
            return b"data: %s\r\n\r\n" % json.dumps(_candidate(turn)).encode()
        return super().stream(path, body)

    def _turn(self, body: Json) -> tuple[int, Turn]:
        if not body.get("tools"):
            return 0, Say("A title")
        if not self.requests:
            self.wait()
        return self.next_turn(body)

    def seen_by_model(self, place: int) -> str:
        """Return all that request number `place` sent to the model except the model's own earlier words, as JSON."""
        asked = self.requests[place]
        return json.dumps(next(asked[name] for name in ("input", "messages", "contents") if name in asked))


def _chunk(turn: Turn, number: int) -> bytes:
    delta: Json = {"role": "assistant"}
    if isinstance(turn, Say):
        delta["content"] = turn.text
    else:
        function = {"name": turn.tool, "arguments": json.dumps(turn.input)}
        delta["tool_calls"] = [{"index": 0, "id": f"call_{number}", "type": "function", "function": function}]
    return _event({"index": 0, "delta": delta, "finish_reason": None})


def _last(turn: Turn) -> bytes:
    return _event({"index": 0, "delta": {}, "finish_reason": "stop" if isinstance(turn, Say) else "tool_calls"})


def _event(choice: Json) -> bytes:
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    head = {"id": "chat", "object": "chat.completion.chunk", "created": 1, "model": "mock-1"}
    return json.dumps({**head, "choices": [choice], "usage": usage}).encode()


def _candidate(turn: Turn) -> Json:
    part = {"text": turn.text} if isinstance(turn, Say) else {"functionCall": {"name": turn.tool, "args": turn.input}}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    content = {"role": "model", "parts": [part]}
    return {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}], "usageMetadata": usage}


def _binary(name: str) -> Path:
    return Path(os.environ.get(f"{name.upper()}_CLI") or NODE / name)


@dataclass(frozen=True)
class Person:
    """One person with one of these agents: a home folder and a project."""

    agent: str
    home: Path
    project: Path

    def environment(self, api: ChatApi | None = None) -> dict[str, str]:
        path = os.pathsep.join(map(str, (self.home / "bin", Path(sys.executable).parent, os.environ["PATH"])))
        variables = {
            "HOME": str(self.home),
            "XDG_STATE_HOME": str(state_folder().parent),
            "PATH": path,
            "LANG": "C.UTF-8",
            "KEY": "dummy",
        }
        if api is not None:
            variables |= {"COPILOT_PROVIDER_BASE_URL": api.url, "COPILOT_MODEL": "mock-1", "COPILOT_OFFLINE": "true"}
            variables |= {
                "GOOGLE_GEMINI_BASE_URL": api.host,
                "GEMINI_API_KEY": "dummy",
                "OPENCODE_DISABLE_AUTOUPDATE": "1",
            }
            variables |= {"GEMINI_CLI_TRUST_WORKSPACE": "true", "OPENCODE_CONFIG_CONTENT": json.dumps(_provider(api))}
        return {**STATIC, **variables, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

    def ours(self, *arguments: str) -> str:
        """Run our command line as this person."""
        return self._run([sys.executable, "-I", "-m", "swarm_memory.server.cli", *arguments], self.environment())

    def session(self, commands: list[str], last: str, prompt: str) -> ChatApi:
        """Run a headless session that runs these commands, and wait until its last process has ended."""
        given, named = {"description": "Run it"}, "cmd" if self.agent == "codex" else "command"
        script: list[Turn] = [Use(SHELLS[self.agent], {named: each, **given}) for each in commands]
        with ChatApi([*script, Say(last)], wait=partial(wait_for_server, self.project)) as api:
            (self.home / ".codex" / "mock.config.toml").write_text(
                f'model = "gpt-5.1-codex"\nmodel_provider = "mock"\n[model_providers.mock]\nname = "mock"\n'
                f'base_url = "{api.url}"\nwire_api = "responses"\nenv_key = "KEY"\n'
            )
            self._run([str(_binary(self.agent)), *ARGUMENTS[self.agent], prompt], self.environment(api))
            wait_for_processes(self.project)
        return api

    def _run(self, command: list[str], environment: dict[str, str]) -> str:
        done = subprocess.run(
            command, cwd=self.project, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=HANG_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout


def _provider(api: ChatApi) -> object:
    options = {"baseURL": api.url, "apiKey": "dummy"}
    mock = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"mock-1": {"name": "mock-1"}}}
    return {"provider": {"mock": mock}, "model": "mock/mock-1", "small_model": "mock/mock-1"}


def someone_with(agent: str, home: Path, project: Path) -> Person:
    """Return a person whose agent asks nothing when it starts, or skip the test if there is no such agent."""
    if not _binary(agent).exists():
        install = f"npm i --no-save --prefix tests/node {PACKAGES[agent]}"
        pytest.skip(f"needs {agent}: {install}, or {agent.upper()}_CLI=PATH")
    person = Person(agent, home, project)
    write_commands(home / "bin")
    (home / ".codex").mkdir()
    written(home / ".gemini" / "settings.json", '{"security": {"auth": {"selectedType": "gemini-api-key"}}}')
    (home / ".bash_profile").write_text(f"export PATH={person.environment()['PATH']}\n")
    return person


@pytest.mark.parametrize("agent", PACKAGES)
def test_what_one_session_learned_is_in_the_prompt_of_the_next_and_beside_a_failure(agent: str, tmp_path: Path) -> None:
    person = someone_with(agent, tmp_path / "home", checkout(tmp_path / "shop"))
    person.ours("install", "--agent", agent, "--user")
    first = person.session([TESTS, "cat README.md", SETUP, TESTS], "The 2 tests pass now.", TASK)
    assert "swarm-memory-notes" not in first.seen_by_model(0)
    if agent != "codex":  # it offers the servers' tools through a search
        assert "retrieve_memories" in json.dumps(first.requests[-1]["tools"]), "the server runs too"
    (memory,) = json.loads(person.ours("memories", "list", "--json"))

    checkout(person.project)
    person.ours("remember", RULE)
    second = person.session([TESTS], "I see what is missing.", NEXT_TASK)
    assert SETUP in second.seen_by_model(0)
    assert memory["id"] in second.seen_by_model(0)
    checkout(person.project)
    third = person.session([TESTS], "Done.", "Have a look around this folder and report what you find there")
    assert memory["id"] not in third.seen_by_model(0)
    assert RULE in third.seen_by_model(0) or agent != "codex", "the briefing at the start of the session"
    assert memory["id"] in third.seen_by_model(1), "it ended the error that the command just failed with"
    sessions = json.loads(person.ours("status", "--json"))
    assert sessions["trajectories"] == 3
