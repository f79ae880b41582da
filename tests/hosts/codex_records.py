"""The story of `agent_records` as Codex CLI records it: as its newest versions do, and as earlier ones did."""

import json
from typing import Any

from tests.hosts.agent_records import FAILED, FILE, FIRST, NOTES, PASSED, SECOND, SESSION, Record

PATCH = f"*** Begin Patch\n*** Update File: {FILE}\n@@\n-a\n+b\n*** End Patch\n"


def line(kind: str, payload: Record, number: int = 30) -> Record:
    """Make a line of a rollout."""
    return {"timestamp": f"2026-05-01T10:00:{number % 60:02d}.000Z", "type": kind, "payload": payload}


def item(kind: str, **fields: Any) -> Record:
    """Make an item of a response."""
    return line("response_item", {"type": kind, **fields})


def event(kind: str, **fields: Any) -> Record:
    """Make an event."""
    return line("event_msg", {"type": kind, **fields})


def said(role: str, text: str) -> Record:
    """Make a message of a response."""
    kind = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": kind, "text": text}])


def call(call_id: str, **arguments: Any) -> Record:
    """Make a call of the tool that runs commands."""
    return item("function_call", name="exec_command", arguments=json.dumps(arguments), call_id=call_id)


def output(call_id: str, text: str, code: int | None = 0, *, process: int | None = None) -> Record:
    """Make the output of a command that ended with a code, or of one that is still running."""
    ended = f"Process running with session ID {process}" if code is None else f"Process exited with code {code}"
    framed = f"Chunk ID: a1b2c3\nWall time: 0.0312 seconds\n{ended}\nOriginal token count: 7\nOutput:\n{text}"
    return item("function_call_output", call_id=call_id, output=framed)


def completed(kind: str, **fields: Any) -> Record:
    """Make the event by which newer versions mirror an item."""
    return event("item_completed", thread_id=SESSION, item={"type": kind, **fields})


def typed(text: str) -> list[Record]:
    """Return what the user typed, as newer versions write it."""
    return [said("user", text), completed("UserMessage", content=[{"type": "text", "text": text}])]


def answered(text: str) -> list[Record]:
    """Return what the agent said, as newer versions write it."""
    return [completed("AgentMessage", content=[{"type": "Text", "text": text}]), said("assistant", text)]


def meta(**more: Any) -> Record:
    """Make the line that begins a rollout."""
    fields = {"id": SESSION, "cwd": "/home/dev/shop", "cli_version": "0.169.0", "source": "exec", **more}
    return line("session_meta", fields, 0)


def newer() -> list[Record]:
    """Return a rollout of version 0.169."""
    return [
        meta(),
        event("task_started", turn_id="t1"),
        said("developer", "<permissions instructions>\nNone.\n</permissions instructions>"),
        said("user", "<environment_context>\n  <cwd>/home/dev/shop</cwd>\n</environment_context>"),
        *typed(FIRST),
        said("developer", NOTES),
        item("reasoning", summary=[{"type": "summary_text", "text": "Look first."}], encrypted_content="gAAA"),
        *answered("I run it."),
        call("c1", cmd="pytest", workdir="/home/dev/shop"),
        output("c1", FAILED, 1),
        item("custom_tool_call", name="apply_patch", input=PATCH, call_id="c2"),
        item("custom_tool_call_output", call_id="c2", output=f"Success. Updated the following files:\nM {FILE}\n"),
        call("c3", cmd="pytest"),
        output("c3", "collecting ...", None, process=7001),
        item("function_call", name="write_stdin", call_id="c4", arguments='{"session_id": 7001, "chars": ""}'),
        output("c4", PASSED, 0),
        completed("CommandExecution", id="c3", command=["/bin/bash", "-lc", "pytest"], exit_code=0,
                  aggregated_output=f"collecting ...{PASSED}"),
        *answered("Fixed."),
        event("task_complete", turn_id="t1", last_agent_message="Fixed."),
        *typed(SECOND),
        *answered("Done."),
    ]  # fmt: skip


def earlier() -> list[Record]:
    """Return the same rollout from versions that had separate events for what was typed and how a command ended."""
    return [
        meta(cli_version="0.89.0"),
        said("user", "# AGENTS.md instructions for /home/dev/shop\n\n<INSTRUCTIONS>\nBe kind.\n</INSTRUCTIONS>"),
        said("developer", NOTES),
        event("user_message", message=f"# Context from my IDE setup:\n\n## My request for Codex:\n{FIRST}"),
        said("user", f"# Context from my IDE setup:\n\n## My request for Codex:\n{FIRST}"),
        item("reasoning", summary=[{"type": "summary_text", "text": "Look first."}]),
        event("agent_reasoning", text="Look first."),
        event("agent_message", message="I run it."),
        said("assistant", "I run it."),
        item("function_call", name="shell", call_id="c1", arguments='{"command": ["bash", "-lc", "pytest"]}'),
        event("exec_command_end", call_id="c1", exit_code=1, aggregated_output=FAILED),
        item("function_call_output", call_id="c1", output=json.dumps({"output": FAILED, "metadata": {"exit_code": 1}})),
        item("function_call", name="shell_command", call_id="c2", arguments=json.dumps({"command": PATCH})),
        event("patch_apply_end", call_id="p2", success=True, stdout="Success.", changes={FILE: {"type": "update"}}),
        item("function_call", name="shell_command", call_id="c3", arguments='{"command": "pytest"}'),
        item("function_call_output", call_id="c3", output=f"Exit code: 0\nWall time: 0.3 seconds\nOutput:\n{PASSED}"),
        said("assistant", "Fixed."),
        event("user_message", message=SECOND),
        event("agent_message", message="Done."),
        said("assistant", "Done."),
    ]
