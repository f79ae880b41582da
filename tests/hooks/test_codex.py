"""Codex CLI: what `install` writes for a project, and what its hooks send and get as answers."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from forked import STARTS, run
from hook_project import NOTE, TASK, HookProject
from made_files import written

from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.hosts.codex.host import HOST, server_table
from swarm_memory.server.hosts.settings_files import apply
from swarm_memory.tools.promote.marks import digest, marked

plan_install, plan_uninstall, hook_entries = HOST.plan_install, HOST.plan_uninstall, HOST.hook_entries
heard, answered = HOST.parse_event, HOST.format_answer

CONTEXT = {"hookSpecificOutput": {"hookEventName": "PostToolUseFailure", "additionalContext": "Run make first"}}


@pytest.fixture
def codex(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = home / ".codex"
    folder.mkdir(parents=True)
    monkeypatch.setenv("CODEX_HOME", str(folder))
    return folder


def test_the_shared_files_of_a_project_name_no_machine(tmp_path: Path) -> None:
    apply(plan_install("project", tmp_path))
    (stop,) = json.loads((tmp_path / ".codex" / "hooks.json").read_text())["hooks"]["Stop"]
    assert stop["hooks"][0]["command"] == "swarm-memory hook codex stop"
    server = tomllib.loads(server_table(["x"]))["mcp_servers"]["swarm-memory"]
    server |= {"command": "swarm-memory", "args": ["serve", "--tools", "core"]}
    assert tomllib.loads((tmp_path / ".codex" / "config.toml").read_text())["mcp_servers"]["swarm-memory"] == server
    apply(plan_uninstall("project", tmp_path))
    assert not (tmp_path / ".codex").exists()


@pytest.mark.parametrize(("text", "complaint"), [
    ("model = ", "not valid TOML"),
    ('mcp_servers.swarm-memory.command = "x"\n', "swarm-memory does not edit"),
    ('[mcp_servers]\nswarm-memory = {command = "x"}\n', "swarm-memory does not edit"),
    ('mcp_servers = "none"\n', "must be an object"),
])  # fmt: skip
def test_a_configuration_that_cannot_be_edited_by_its_lines_is_left_alone(
    text: str, complaint: str, codex: Path, tmp_path: Path
) -> None:
    (codex / "config.toml").write_text(text)
    with pytest.raises(ConfigError, match=complaint):
        plan_install("user", tmp_path)


def test_the_words_of_a_hook_stay_the_same_because_they_are_trusted() -> None:
    entries = hook_entries(["python", "-m", "hooks", "codex"])
    runs = {event: each[0]["hooks"][0] for event, each in entries.items()}
    assert {event: (run["command"], run["timeout"]) for event, run in runs.items()} == {
        "SessionStart": ("python -m hooks codex session-start", 5),
        "UserPromptSubmit": ("python -m hooks codex prompt", 15),
        "PreToolUse": ("python -m hooks codex before-tool", 5),
        "PostToolUse": ("python -m hooks codex tool-failure", 5),
        "Stop": ("python -m hooks codex stop", 5),
        "SessionEnd": ("python -m hooks codex session-end", 3),
    }  # fmt: skip


def test_only_a_command_whose_output_complains_may_have_failed() -> None:
    said = {"tool_name": "Bash", "tool_input": {"command": "make"}}
    given = heard("PostToolUseFailure", {**said, "tool_response": "make: no rule to make target; error 2"})
    assert given["error"] == "make: no rule to make target; error 2"
    assert heard("PostToolUseFailure", {**said, "tool_response": "3 files changed"}) == {}
    assert heard("PostToolUseFailure", {**said, "tool_name": "apply_patch", "tool_response": "error"}) == {}
    assert heard("PostToolUseFailure", {**said, "tool_response": {"error": "x"}}) == {}


def test_a_patch_is_shown_by_its_file_and_a_prompt_without_what_an_editor_put_before_it() -> None:
    patch = "*** Begin Patch\n*** Update File: shop/orders.py\n@@\n-a\n+b\n*** End Patch"
    given = heard("PreToolUse", {"tool_name": "apply_patch", "tool_input": {"command": patch}})
    assert given["tool_input"] == {"file_path": "shop/orders.py", "input": patch}
    prompt = "# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:\nMend a.py\n"
    assert heard("UserPromptSubmit", {"prompt": prompt})["prompt"] == "Mend a.py"
    assert heard("UserPromptSubmit", {"prompt": prompt, "agent_id": "a1"}) == {}


@pytest.mark.parametrize(("event", "answer", "taken"), [
    ("PostToolUseFailure", CONTEXT, {"hookSpecificOutput": {"hookEventName": "PostToolUse",
                                                            "additionalContext": "Run make first"}}),
    ("SessionStart", {"systemMessage": "look", "decision": "block"}, {}),
    ("Stop", CONTEXT, {}),
    ("SessionEnd", CONTEXT, {}),
])  # fmt: skip
def test_an_answer_has_no_field_that_codex_refuses(event: str, answer: dict[str, Any], taken: dict[str, Any]) -> None:
    assert answered(event, answer) == taken


def test_a_hook_command_of_codex_answers_for_the_folder_that_its_event_names(learned: HookProject) -> None:
    shop = learned
    elsewhere = {**shop.environment, "CLAUDE_PROJECT_DIR": str(shop.home), "CODEX_HOME": str(shop.home / ".codex")}
    event = {"session_id": "c1", "cwd": str(shop.root), "hook_event_name": "UserPromptSubmit", "prompt": TASK}
    command = [*STARTS, "swarm_memory.server.hooks", "codex", "prompt"]
    done = run(command, input=json.dumps(event), cwd=shop.home, env=elsewhere, text=True)
    given = json.loads(done.stdout)["hookSpecificOutput"]
    assert given["hookEventName"] == "UserPromptSubmit"
    assert NOTE in given["additionalContext"]
    ids = re.findall(r"rm_[0-9A-Z]{26}", given["additionalContext"])
    skill = shop.root / ".claude/skills/learned-x/SKILL.md"
    written(skill, marked(ids, digest("source"), "body"))
    again = json.dumps(event | {"session_id": "c2"})
    assert NOTE in run(command, input=again, cwd=shop.home, env=elsewhere, text=True).stdout, "it reads no skills"
    ours = {**elsewhere, "CLAUDE_PROJECT_DIR": str(shop.root)}
    again = json.dumps(event | {"session_id": "c3"})
    other = run([*STARTS, "swarm_memory.server.hooks", "prompt"], input=again, cwd=shop.root, env=ours, text=True)
    assert NOTE not in other.stdout, "Claude Code reads them"
