"""Gemini CLI as its hooks need it: where it keeps its chats, what its hooks say, and what they may answer."""

# ruff: noqa: PTH111, PTH118
import os
import re

from swarm_memory.server.hosts.host import Host, Said, context_in

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
    ours: Said = {**said, "hook_event_name": event}
    if not str(said.get("transcript_path") or "").endswith(".jsonl"):
        ours.pop("transcript_path", None)  # before 0.40 a chat is one JSON document that is written again each time
    if event == "SessionStart" and said.get("source") == "resume":
        return {}
    if event != "PostToolUseFailure":
        return ours
    response = said.get("tool_response")
    text = str(response.get("llmContent") or "") if isinstance(response, dict) else ""  # pyright: ignore
    codes = _EXIT_CODE.findall(text[-2000:])
    return {**ours, "error": text} if codes and codes[-1] != "0" else {}


def answered(event: str, answer: Said) -> Said:
    """Return what a hook may answer; at the end of a turn and of a session there is nothing to say."""
    said: Said = {"systemMessage": answer["systemMessage"]} if answer.get("systemMessage") else {}
    context = context_in(answer)
    if context and event in ("SessionStart", "UserPromptSubmit", "PostToolUseFailure"):
        said["hookSpecificOutput"] = {"hookEventName": EVENTS[event], "additionalContext": context}
    return said


HOST = Host("gemini", "Gemini CLI", folders, heard, answered)
