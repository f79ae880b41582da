"""Gemini CLI as its hooks need it: where it keeps its chats, what its hooks say, and what they may answer."""

# ruff: noqa: PTH111, PTH118
import os
import re
from typing import TYPE_CHECKING

from swarm_memory.server.hosts.host import Host, HostFiles, InstallScope, Said

if TYPE_CHECKING:
    from swarm_memory.server.hosts.entries import HookRun

EVENTS = {
    "SessionStart": "SessionStart",
    "UserPromptSubmit": "BeforeAgent",
    "PostToolUseFailure": "AfterTool",
    "Stop": "AfterAgent",
    "SessionEnd": "SessionEnd",
}
"""By our event: that of Gemini CLI. Before a tool's call it takes no context."""

SHELL = "run_shell_command"
_EXIT_CODE = re.compile(r"^Exit Code: (-?[0-9]{1,10})\s*$", re.M)


def home() -> str:
    """Return the folder of the user's own files."""
    return os.path.join(os.environ.get("GEMINI_CLI_HOME") or os.path.expanduser("~"), ".gemini")


def folders() -> tuple[str, ...]:
    """Return the folder of the chats of all projects."""
    return (os.path.join(home(), "tmp"),)


def heard(event: str, said: Said) -> Said:
    """Return an event in our words; nothing of a session that is resumed, nor of a command that worked."""
    told: Said = {**said, "hook_event_name": event}
    if not str(said.get("transcript_path") or "").endswith(".jsonl"):
        told.pop("transcript_path", None)  # before 0.40 a chat is one JSON document that is written again each time
    if event == "SessionStart" and said.get("source") == "resume":
        return {}
    if event != "PostToolUseFailure":
        return told
    response = said.get("tool_response")
    text = str(response.get("llmContent") or "") if isinstance(response, dict) else ""  # pyright: ignore
    codes = _EXIT_CODE.findall(text[-2000:])
    return {**told, "error": text} if codes and codes[-1] != "0" else {}


def answered(event: str, answer: Said) -> Said:
    """Return what a hook may answer; at the end of a turn and of a session there is nothing to say."""
    said: Said = answer.get("hookSpecificOutput") or {}
    told = {name: answer[name] for name in ("systemMessage",) if answer.get(name)}
    context = said.get("additionalContext")
    if context and event in ("SessionStart", "UserPromptSubmit", "PostToolUseFailure"):
        return {**told, "hookSpecificOutput": {"hookEventName": EVENTS[event], "additionalContext": context}}
    return told


def _where(scope: InstallScope, root: str) -> tuple[str, str]:
    path = os.path.join(os.path.join(root, ".gemini") if scope == "project" else home(), "settings.json")
    return path, path


def _hook(run: "HookRun") -> Said:
    name = f"swarm-memory {run.words[-1]}"
    entry = {"type": "command", "name": name, "command": run.line, "timeout": run.timeout_s * 1000}
    return {"hooks": [entry]}


HOST = Host(
    name="gemini",
    title="Gemini CLI",
    folders=folders,
    heard=heard,
    answered=answered,
    files=HostFiles(
        where=_where,
        events=EVENTS,
        hook=_hook,
        programs=("gemini",),
        after_install="Restart Gemini CLI to use it; it warns of a project's hooks that are new or changed.",
        trace=lambda: os.path.join(home(), "settings.json"),
        matchers={"PostToolUseFailure": SHELL},
    ),
)
