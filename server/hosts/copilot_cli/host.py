"""Copilot CLI as its hooks need it: where it keeps its sessions, what its hooks say, and what they may answer."""

# ruff: noqa: PTH111, PTH119, PTH118
import os
import re

from swarm_memory.server.hosts.host import Host, Said, context_in

EVENTS_FILE = "events.jsonl"
_TOOLS = {"Bash": "bash", "Read": "view", "Edit": "edit", "Write": "create", "Grep": "grep", "Glob": "glob"}
"""What its hooks call a tool, in the words of Claude Code, and what its sessions do."""

_EXIT_CODE = re.compile(r"with exit code (-?[0-9]{1,10})>\s*\Z")


def home() -> str:
    """Return the folder of the user's own files."""
    return os.environ.get("COPILOT_HOME") or os.path.join(os.path.expanduser("~"), ".copilot")


def folders() -> tuple[str, ...]:
    """Return the folder of its sessions."""
    return (os.path.join(home(), "session-state"),)


def heard(event: str, said: Said) -> Said:
    """Return an event in our words; nothing of a session that is resumed, nor of a call that worked."""
    session = str(said.get("session_id") or "")
    transcript = said.get("transcript_path") or os.path.join(folders()[0], os.path.basename(session), EVENTS_FILE)
    ours: Said = {**said, "hook_event_name": event, "transcript_path": transcript}
    if event == "SessionStart" and said.get("source") == "resume":
        return {}
    if event == "PreToolUse":
        return {**ours, "tool_name": _TOOLS.get(str(said.get("tool_name")), said.get("tool_name"))}
    if event != "PostToolUseFailure":
        return ours
    result: Said = said.get("tool_result") or {}
    text = str(result.get("text_result_for_llm") or "")
    code = _EXIT_CODE.search(text)
    failed = code[1] != "0" if code else result.get("result_type") == "failure"
    return {**ours, "error": text} if failed else {}


def answered(event: str, answer: Said) -> Said:
    """Return what a hook may answer: context at the top, before a tool's call where Claude Code has it."""
    context = context_in(answer)
    if not context:
        return {}
    if event == "PreToolUse":
        return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": context}}
    return {"additionalContext": context}


HOST = Host("copilot", "Copilot CLI", folders, heard, answered, reads=("agents-md",), sees_calls=True)
