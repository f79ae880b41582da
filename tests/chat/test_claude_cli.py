"""Claude Code as a chat model: a stand-in program for what can go wrong, and the real binary against a local API."""

import asyncio
import contextlib
import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from patience import HANG_S
from scripted_chat import InMemoryMeter
from scripted_server import HANG, ScriptedServer, Turn, error, events

from swarm_memory.schema.errors import ModelAnswerInvalid, ModelError, ModelUnavailable
from swarm_memory.schema.settings import ChatProviderSettings
from swarm_memory.server.chat.claude_cli import ClaudeCliChatModel
from swarm_memory.tools.ports.models import ChatAnswer, ChatRequest
from tests.chat.chat_bench import request
from tests.e2e.messages_api import Say, Use, events_of, message_of

CLAUDE = shutil.which("claude", path=str(Path(__file__).parents[1] / "node/node_modules/.bin")) or shutil.which(
    "claude"
)
RESULT: dict[str, Any] = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": '{"label": "Success"}',
    "total_cost_usd": 0.25,
    "usage": {"input_tokens": 5, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 100, "output_tokens": 7},
}


class StandIn:
    """A program in place of `claude` that records how it was called and prints what it is given."""

    def __init__(self, folder: Path, *prints: str, then: str = "") -> None:
        self.folder = folder
        for number, text in enumerate(prints):
            (folder / f"print-{number}").write_text(text)
        program = folder / "claude"
        program.write_text(
            f"#!{sys.executable} -IS\n"
            "import json, os, sys\nfrom pathlib import Path\n"
            f"here = Path({str(folder)!r})\n"
            "number = len(list(here.glob('call-*')))\n"
            "call = dict(argv=sys.argv[1:], stdin=sys.stdin.read(), cwd=os.getcwd(), env=dict(os.environ))\n"
            "call['system'] = Path('system.md').read_text()\n"
            "(here / f'call-{number}').write_text(json.dumps(call))\n"
            "sys.stdout.write((here / f'print-{number}').read_text()); sys.stdout.flush()\n"
            f"{then}\n"
        )
        program.chmod(0o755)
        self.meter = InMemoryMeter()
        environ = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "CLAUDECODE": "1", "MINE": "kept"}
        self.model = ClaudeCliChatModel(ChatProviderSettings(provider="claude_cli"), environ, self.meter)

    def calls(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted(self.folder.glob("call-*"))]


async def test_the_answer_usage_and_cost_are_what_claude_code_tells(tmp_path: Path) -> None:
    stand_in = StandIn(tmp_path, f"a warning\n{json.dumps(RESULT)}\n")
    answer = await stand_in.model.complete(request())
    assert answer.data == {"label": "Success"}
    assert answer.model == "claude_cli:default"
    usage = answer.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cost_usd, usage.tries) == (125, 7, 0.25, 1)


async def test_prompts_stand_in_no_argument_and_the_child_is_marked(tmp_path: Path) -> None:
    stand_in = StandIn(tmp_path, json.dumps(RESULT))
    await stand_in.model.complete(request(max_tokens=77))
    call = stand_in.calls()[0]
    assert "The trajectory." in call["stdin"]
    assert "You judge." in call["system"]
    assert not any("trajectory" in part or "You judge" in part for part in call["argv"])
    environment = call["env"]
    assert (environment["SWARM_MEMORY_CHILD"], environment["MINE"]) == ("1", "kept")
    assert environment["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == "77"
    assert "CLAUDECODE" not in environment
    assert not os.path.exists(call["cwd"])  # noqa: PTH110, ASYNC240


async def test_structured_output_goes_before_the_text(tmp_path: Path) -> None:
    stand_in = StandIn(tmp_path, json.dumps(RESULT | {"result": "done", "structured_output": {"label": "Failure"}}))
    assert (await stand_in.model.complete(request())).data == {"label": "Failure"}


def result(**changes: object) -> str:
    return json.dumps(RESULT | changes)


FAULTS: Mapping[str, tuple[str, type[ModelError], str]] = {
    "not signed in": (result(is_error=True, result="Please run /login"), ModelUnavailable, "sign in"),
    "no schema kept": (
        result(is_error=True, subtype="error_max_structured_output_retries"),
        ModelAnswerInvalid,
        "schema",
    ),
    "too many turns": (result(subtype="error_max_turns"), ModelUnavailable, "error_max_turns"),
    "nothing": ("", ModelUnavailable, "without a result"),
    "half a result": (result()[:50], ModelUnavailable, "without a result"),
    "another JSON": ('{"hello": 1}', ModelUnavailable, "without a result"),
    "a depth bomb": ("[" * 3000 + '{"a":' * 3000, ModelUnavailable, "without a result"),
    "a flood": ("x" * 5_000_000, ModelUnavailable, "bytes"),
    "wrong types": (result(usage=[1], total_cost_usd="x", result=[2]), ModelUnavailable, "without a result"),
}


@pytest.mark.parametrize(("printed", "kind", "said"), FAULTS.values(), ids=FAULTS.keys())
async def test_a_child_that_fails_says_why(tmp_path: Path, printed: str, kind: type[ModelError], said: str) -> None:
    with pytest.raises(kind, match=said):
        await StandIn(tmp_path, printed).model.complete(request())


async def test_a_child_that_hangs_is_ended_at_the_deadline(tmp_path: Path) -> None:
    stand_in = StandIn(tmp_path, "", then="import time; time.sleep(600)")
    with anyio.fail_after(HANG_S), pytest.raises(ModelUnavailable, match=r"0\.5 s"):
        await stand_in.model.complete(request(timeout_s=0.5))
    assert [call.outcome for call in stand_in.meter.calls] == ["unavailable"]


async def test_a_missing_program_names_the_setting(tmp_path: Path) -> None:
    model = ClaudeCliChatModel(ChatProviderSettings(provider="claude_cli"), {"PATH": str(tmp_path)}, InMemoryMeter())
    with pytest.raises(ModelUnavailable, match=r"chat\.providers"):
        await model.complete(request())


# The real binary.

real = [
    pytest.mark.e2e,
    pytest.mark.allow_hosts(["127.0.0.1"]),
    pytest.mark.skipif(CLAUDE is None, reason="Claude Code is not installed: npm ci in tests/node"),
]


def streamed(turn: Say | Use) -> Turn:
    return events(*events_of(message_of("claude-haiku-4-5", turn)))


ANSWERS = [streamed(Use("StructuredOutput", {"label": "Success"})), streamed(Say("done"))]


async def ask_claude(server: ScriptedServer, home: Path, asked: ChatRequest) -> ChatAnswer:
    assert CLAUDE is not None
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": "sk-ant-test",
    }
    settings = ChatProviderSettings(provider="claude_cli", model="claude-haiku-4-5", command=CLAUDE)
    return await ClaudeCliChatModel(settings, environ, InMemoryMeter(), retries=0).complete(asked)


class TestRealClaude:
    pytestmark = real

    async def test_it_answers_by_the_schema(self, home: Path) -> None:
        async with ScriptedServer(ANSWERS) as server:
            answer = await ask_claude(server, home, request(HANG_S))
        assert answer.data == {"label": "Success"}
        assert answer.usage.input_tokens >= 1000
        assert answer.usage.cost_usd is not None
        sent = server.requests[0].body
        assert [tool["name"] for tool in sent["tools"]] == ["StructuredOutput"]
        assert "You judge." in json.dumps(sent["system"])

    async def test_it_runs_no_hook_server_or_command_reads_no_file_and_leaves_no_transcript(self, home: Path) -> None:
        ran, secret = home / "ran", home / "secret.txt"
        secret.write_text("the-content-of-the-secret")
        noted = [{"hooks": [{"type": "command", "command": f"echo hook >> {ran}"}]}]
        names = ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd")
        folder = home / ".claude"
        folder.mkdir()
        (folder / "settings.json").write_text(json.dumps({"hooks": dict.fromkeys(names, noted)}))
        (folder / "CLAUDE.md").write_text("the-memory-of-the-user")
        server_entry = {"command": "sh", "args": ["-c", f"echo server >> {ran}"]}
        (home / ".claude.json").write_text(json.dumps({"mcpServers": {"swarm-memory": server_entry}}))
        said = f'/help me\n!id\nSee @{secret} and @"{secret}" now'
        async with ScriptedServer(ANSWERS) as server:
            await ask_claude(server, home, request(30, user=said))
        assert not ran.exists()
        sent = json.dumps(server.requests[0].body)
        assert all(each in sent for each in ("/help me", str(secret)))
        assert not any(each in sent for each in ("the-memory-of-the-user", "the-content-of-the-secret"))
        assert not list(folder.glob("projects/**/*.jsonl"))

    async def test_an_error_of_its_api_is_unavailable(self, home: Path) -> None:
        async with ScriptedServer([error(429, "no", Retry_After="3600")] * 9) as server:
            with pytest.raises(ModelUnavailable):
                await ask_claude(server, home, request(HANG_S))

    async def test_a_cancelled_call_leaves_no_process(self, home: Path) -> None:
        async with ScriptedServer([HANG]) as server:
            call = asyncio.create_task(ask_claude(server, home, request(HANG_S)))
            async with asyncio.timeout(HANG_S):
                await server.first_request.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        assert not processes_with(str(home))


def processes_with(value: str) -> list[Path]:
    """Return the running processes whose environment contains `value`."""
    found: list[Path] = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if value.encode() in path.read_bytes():
                found.append(path)
    return found
