"""Codex CLI as its hooks need it: where it keeps its sessions, what its hooks say, and what they may answer."""

# ruff: noqa: PTH111, PTH118
import os
import re

from swarm_memory.server.hosts.host import Host, Said, context_in

EVENTS = {
    "SessionStart": "SessionStart",
    "UserPromptSubmit": "UserPromptSubmit",
    "PreToolUse": "PreToolUse",
    "PostToolUseFailure": "PostToolUse",
    "Stop": "Stop",
    "SessionEnd": "SessionEnd",
}
"""By our event: that of Codex."""

SHELL = "Bash"
"""How its hooks call every tool that runs a command."""

PATCHED_FILE = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
"""A file that a patch changes."""

_REQUEST = "## My request for Codex:"
"""What the user typed comes after it, where an editor named its open files first."""

_COMPLAINT = re.compile(
    r"error|fail|exception|traceback|fatal|denied|refused|panic|invalid|unknown|no such|not found|cannot|can't|unable"
    r"|could not|does not|must ",
    re.IGNORECASE,
)
"""What an output without any of it is no failed command's. Its hooks do not learn how a command ended."""


def codex_home() -> str:
    """Return the folder of the user's own files."""
    return os.environ.get("CODEX_HOME") or os.path.join(os.path.expanduser("~"), ".codex")


def folders() -> tuple[str, ...]:
    """Return the folders of all sessions, and of those that were archived."""
    return (os.path.join(codex_home(), "sessions"), os.path.join(codex_home(), "archived_sessions"))


def request_in(text: str) -> str:
    """Return what the user typed, without what an editor put before it."""
    return text.rpartition(_REQUEST)[2].strip() if _REQUEST in text else text


def heard(event: str, said: Said) -> Said:
    """Return an event in our words; nothing of what a subagent is asked, nor of a command that seems to have worked."""
    if event == "UserPromptSubmit":
        return {} if said.get("agent_id") else {**said, "prompt": request_in(str(said.get("prompt") or ""))}
    if event == "PreToolUse" and said.get("tool_name") == "apply_patch":
        given: Said = said.get("tool_input") or {}
        patch = str(given.get("command") or "")
        file = PATCHED_FILE.search(patch)
        return {**said, "tool_input": {"file_path": file[1].strip() if file else "", "input": patch}}
    if event != "PostToolUseFailure":
        return said
    output = said.get("tool_response")
    if said.get("tool_name") != SHELL or not isinstance(output, str) or not _COMPLAINT.search(output):
        return {}
    return {**said, "hook_event_name": event, "error": output, "may_have_worked": True}


def answered(event: str, answer: Said) -> Said:
    """Return what a hook of Codex may answer: a field that it does not know makes it refuse the whole."""
    context, reason = context_in(answer), answer.get("reason")
    if event == "Stop":
        return {"decision": "block", "reason": reason} if answer.get("decision") == "block" and reason else {}
    if event == "SessionEnd":
        return {}
    said: Said = {"systemMessage": answer["systemMessage"]} if answer.get("systemMessage") else {}
    if context:
        said["hookSpecificOutput"] = {"hookEventName": EVENTS[event], "additionalContext": context}
    return said


HOST = Host("codex", "Codex CLI", folders, heard, answered, reads=("agents-md",), sees_calls=True)
