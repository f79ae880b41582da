"""All agents except Claude Code: what `install` writes and removes, and what the hooks of most of them say."""

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hook_project import NOTE, HookProject
from made_files import written
from patience import HANG_S

from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.hosts.claude_code.host import HOST as CLAUDE_CODE
from swarm_memory.server.hosts.cursor.host import project_names
from swarm_memory.server.hosts.host import HookPayload, InstallScope, host
from swarm_memory.server.hosts.opencode.host import plugin_text
from swarm_memory.server.hosts.settings_files import apply

CONTEXT: HookPayload = {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "Run make first"}}
OTHER: dict[str, Any] = {"command": "other", "args": []}

FILES: dict[tuple[str, InstallScope], dict[str, Any]] = {
    ("codex", "user"): {
        ".codex/config.toml": 'model = "x"  # mine\n\n[mcp_servers.other]\ncommand = "o"\n\n[tui]\ntheme = "dark"\n',
        ".codex/hooks.json": {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}},
    },
    ("copilot", "user"): {".copilot/mcp-config.json": {"mcpServers": {"other": OTHER}}},
    ("copilot", "project"): {".mcp.json": {"mcpServers": {"other": OTHER}}},
    ("gemini", "user"): {
        ".gemini/settings.json": {"hooks": {"AfterAgent": [{"hooks": [{"command": "say"}]}]}, "ui": 1}
    },
    ("gemini", "project"): {".gemini/settings.json": {"mcpServers": {"other": OTHER}}},
    ("cursor", "user"): {".cursor/hooks.json": {"version": 1, "hooks": {"stop": [{"command": "say done"}]}}},
    ("cursor", "project"): {".cursor/mcp.json": {"mcpServers": {"other": OTHER}}},
    ("opencode", "user"): {".config/opencode/opencode.json": {"model": "x", "mcp": {"other": {"type": "local"}}}},
    ("opencode", "project"): {"opencode.json": {"model": "x"}},
}
"""By agent and scope: what the files contain before, as text or as JSON."""


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CODEX_HOME", "COPILOT_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(("name", "scope"), FILES)
def test_what_is_installed_stands_beside_what_was_there_and_is_taken_out_to_the_byte(
    name: str, scope: InstallScope, home: Path, tmp_path: Path
) -> None:
    project, agent = tmp_path / "project", host(name)
    folder = home if scope == "user" else project
    project.mkdir()
    before = {
        folder / path: data if isinstance(data, str) else json.dumps(data) for path, data in FILES[name, scope].items()
    }
    for path, text in before.items():
        written(path, text)
    apply(agent.plan_install(scope, project))
    assert agent.installed_scopes(project) == [scope]
    assert agent.plan_install(scope, project) == []
    installed = {path: path.read_text() for path in folder.rglob("*") if path.is_file() and "state" not in path.parts}
    answer = "".join(installed.values())
    assert ("swarm-memory hook" if scope == "project" else "swarm_memory.server.hooks") in answer or name == "opencode"
    assert ("python" in answer) is (scope == "user")
    for path, text in before.items():
        read = json.loads if path.suffix == ".json" else tomllib.loads
        assert path.suffix == ".json" or installed[path].startswith(text), "comments and all"
        kept, now = read(text), read(installed[path])
        others = kept.keys() - {"hooks", "mcpServers", "mcp", "mcp_servers"}
        assert {key: now[key] for key in others} == {key: kept[key] for key in others}
        assert "other" in answer or "say" in answer or "model" in answer
    apply(agent.plan_uninstall(scope, project))
    left = {path: path.read_text() for path in folder.rglob("*") if path.is_file() and "state" not in path.parts}
    assert left == before
    assert agent.installed_scopes(project) == []


@pytest.mark.parametrize("name", ["codex", "copilot", "gemini", "cursor", "opencode"])
def test_a_project_is_not_written_into_through_a_link_nor_is_the_home_folder_one(
    name: str, home: Path, tmp_path: Path
) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    project.mkdir()
    elsewhere.mkdir()
    for folder in (".codex", ".github", ".gemini", ".cursor", ".opencode"):
        (project / folder).symlink_to(elsewhere)
    with pytest.raises(ConfigError, match="symbolic link"):
        host(name).plan_install("project", project)
    if name in ("codex", "gemini", "cursor"):
        with pytest.raises(ConfigError, match="all your projects"):
            host(name).plan_install("project", home)


def test_a_server_that_claude_code_has_in_the_same_file_stays(tmp_path: Path) -> None:
    apply(CLAUDE_CODE.plan_install("project", tmp_path))
    agent = host("copilot")
    apply(agent.plan_install("project", tmp_path))
    apply(agent.plan_uninstall("project", tmp_path))
    (server,) = json.loads((tmp_path / ".mcp.json").read_text())["mcpServers"].values()
    assert server["args"] == ["serve"]  # it offers all tools, as Claude Code does


def test_a_plugin_of_our_name_that_is_anothers_is_left_alone(tmp_path: Path) -> None:
    written(tmp_path / ".opencode" / "plugins" / "swarm-memory.js", "export const mine = 1\n")
    with pytest.raises(ConfigError, match="not written by swarm-memory"):
        host("opencode").plan_install("project", tmp_path)


def test_hooks_of_claude_code_stand_back_where_another_agent_runs_them() -> None:
    said = {"session_id": "s", "cwd": "/", "prompt": "Fix it"}
    assert CLAUDE_CODE.parse_event("UserPromptSubmit", said) == said
    assert CLAUDE_CODE.parse_event("UserPromptSubmit", {**said, "timestamp": "2026-05-01T10:00:00Z"}) == {}
    assert CLAUDE_CODE.parse_event("SessionStart", {**said, "cursor_version": "3.1"}) == {}


def test_copilot_names_a_command_that_failed_in_the_result_of_one_that_ran(home: Path) -> None:
    agent = host("copilot")
    text = "no such file\n<shellId: 0 completed with exit code {}>"

    def after(code: int) -> HookPayload:
        result = {"result_type": "success", "text_result_for_llm": text.format(code)}
        said = {"session_id": "s-1", "tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_result": result}
        return agent.parse_event("PostToolUseFailure", said)

    assert after(0) == {}
    assert (after(2)["error"], after(2)["tool_input"]) == (text.format(2), {"command": "ls"})
    end = agent.parse_event("SessionEnd", {"session_id": "s-1"})
    assert end["transcript_path"] == str(home / ".copilot/session-state/s-1/events.jsonl")
    assert agent.parse_event("SessionStart", {"session_id": "s-1", "source": "resume"}) == {}
    assert agent.format_answer("UserPromptSubmit", CONTEXT) == {"additionalContext": "Run make first"}
    assert agent.format_answer("PreToolUse", CONTEXT)["hookSpecificOutput"]["additionalContext"] == "Run make first"
    assert agent.parse_event("PreToolUse", {"tool_name": "Read"})["tool_name"] == "view", "as its sessions call it"
    assert agent.format_answer("SessionStart", {"systemMessage": "x"}) == {}


def test_gemini_names_a_command_that_failed_in_the_text_of_its_result() -> None:
    agent = host("gemini")
    text = "<untrusted_context>\nOutput: no such file\nExit Code: 2\nProcess Group PGID: 7\n</untrusted_context>"
    said: HookPayload = {
        "tool_name": "run_shell_command",
        "tool_response": {"llmContent": text},
        "transcript_path": "/a.json",
    }
    assert agent.parse_event("PostToolUseFailure", said)["error"] == text
    assert (
        agent.parse_event(
            "PostToolUseFailure", {**said, "tool_response": {"llmContent": "Output: Exit Code: 2 is bad"}}
        )
        == {}
    )
    assert agent.parse_event("PostToolUseFailure", {**said, "tool_response": None}) == {}
    assert "transcript_path" not in agent.parse_event("Stop", said)
    assert agent.format_answer("UserPromptSubmit", {**CONTEXT, "systemMessage": "Look"}) == {
        "hookSpecificOutput": {"hookEventName": "BeforeAgent", "additionalContext": "Run make first"}
    }
    assert agent.format_answer("Stop", {"decision": "block", "reason": "x"}) == {}


def test_cursor_names_its_database_where_there_is_one_and_no_address(home: Path) -> None:
    agent = host("cursor")
    said: HookPayload = {"conversation_id": "c-1", "workspace_roots": ["/home/dev/shop"], "user_email": "a@example.org"}
    answer = agent.parse_event("Stop", said)
    assert (answer["session_id"], answer["cwd"], "user_email" in answer) == ("c-1", "/home/dev/shop", False)
    assert answer["transcript_path"].endswith("/projects/home-dev-shop/agent-transcripts/c-1/c-1.jsonl")
    store = written(home / ".cursor/chats" / project_names("/home/dev/shop")[0] / "c-1" / "store.db", "")
    assert agent.parse_event("Stop", said)["transcript_path"] == str(store)
    assert agent.format_answer("SessionStart", CONTEXT) == {"additional_context": "Run make first"}
    assert agent.format_answer("Stop", CONTEXT) == {}


def test_cursor_is_shown_beside_a_failed_command_what_ended_that_error_before(learned: HookProject) -> None:
    error = "E   shop.settings.SettingsError: config/test.toml not found\n2 failed"
    call = {"tool_name": "Shell", "tool_input": {"command": "python -m pytest -q"}, "is_interrupt": False}
    said = {"conversation_id": "c-1", "cwd": str(learned.root), **call, "error_message": error, "failure_type": "error"}
    done = learned.run("-m", "swarm_memory.server.hooks", "cursor", "tool-failure", given=json.dumps(said))
    assert NOTE in json.loads(done.stdout)["additional_context"]


_DRIVE = """
const { default: plugin } = await import(process.argv[2])
const hooks = await plugin.server({ directory: process.cwd() })
await hooks.event({ event: { type: "session.created", properties: { info: { id: "s1" } } } })
await hooks.event({ event: { type: "session.created", properties: { info: { id: "s2", parentID: "s1" } } } })
const prompt = async (sessionID) => {
  const parts = [{ id: "prt_1", type: "text", text: "Fix it" }]
  await hooks["chat.message"]({ sessionID }, { message: { id: "m1" }, parts })
  return parts.slice(1).map((part) => [part.text, part.synthetic])
}
const after = async (exit) => {
  const output = { output: "no such file", metadata: { exit } }
  await hooks["tool.execute.after"]({ tool: "bash", sessionID: "s1", args: { command: "ls" } }, output)
  return output.output
}
const answer = [await prompt("s1"), await prompt("s1"), await prompt("s2"), await after(0), await after(2)]
await hooks.dispose()
let context
await plugin.setup({ session: { hook: async (name, callback) => { context = callback } } })
const event = { sessionID: "s3", messages: [{ role: "user", content: [{ type: "text", text: "Fix it" }] }], system: [] }
await context(event)
console.log(JSON.stringify([...answer, event.system]))
"""
_HOOK = (
    "import json,sys; e=json.load(sys.stdin); print(json.dumps({'additionalContext': sys.argv[1]+' '+e['session_id']}))"
)


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")
def test_the_plugin_of_opencode_puts_what_our_hooks_answer_where_it_belongs(tmp_path: Path) -> None:
    (tmp_path / "plugin.mjs").write_text(plugin_text([sys.executable, "-I", "-c", _HOOK]))
    (tmp_path / "drive.mjs").write_text(_DRIVE)
    command = ["node", "drive.mjs", str(tmp_path / "plugin.mjs")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S, check=True)
    assert json.loads(done.stdout) == [
        [["session-start s1\n\nprompt s1", True]],
        [["prompt s1", True]],
        [],
        "no such file",
        "no such file\n\ntool-failure s1",
        [{"type": "text", "text": "prompt s3"}],
    ]
