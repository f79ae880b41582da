"""The transcripts of Copilot CLI: where they lie, and their events as trajectories, one for each task of a session."""

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.server.hosts.copilot_cli.host import EVENTS_FILE, folders
from swarm_memory.server.hosts.host import Origin, Transcripts
from swarm_memory.server.hosts.records import (
    JsonObject,
    as_code,
    as_list,
    as_object,
    as_text,
    as_time,
    first_record,
)
from swarm_memory.server.hosts.session import Session
from swarm_memory.server.hosts.steps import read_answer

_SHELLS = frozenset({"bash", "powershell", "read_bash", "read_powershell", "write_bash", "write_powershell"})
_GUIDANCE = re.compile(r"\n\nTool \"[^\"\n]{1,100}\" (?:succeeded|failed)\. Additional guidance from [\s\S]*\Z")
"""What the answers of hooks are put behind a result with."""

_ENDED = re.compile(r"<shellId: [^>\n]{1,40} completed with exit code (-?\d{1,10})>\s*\Z")
_KNOWN = (
    "session.", "assistant.", "hook.", "permission.", "skill.", "subagent.", "system.", "tool.", "tool_search.", "mcp.",
    "external_tool.", "human_response.", "abort",
)  # fmt: skip
"""Events of these families that are not read say nothing that the others do not."""


def is_copilot_cli(record: JsonObject) -> bool:
    """Tell whether a record is an event of a Copilot CLI session."""
    return "parentId" in record and isinstance(record.get("data"), dict) and bool(as_text(record.get("type")))


def read_session(events: Iterator[JsonObject], origin: Origin) -> Iterator[Trajectory]:
    """Yield one trajectory for each task. Events of subagents are left out: what they found is their call's result."""
    path = origin.path
    named = path.parent.name if path is not None and path.name == EVENTS_FILE else origin.stem
    session = Session("copilot_cli", origin.session_id, fallback_id=named)
    return session.read(events, origin.records, lambda event: _take(session, event))


def transcripts_of(root: Path | None) -> list[Path]:
    """Return the events of all sessions, or of those that began in a project; older ones have no folder."""
    (folder,) = map(Path, folders())
    found = [*folder.glob(f"*/{EVENTS_FILE}"), *folder.glob("*.jsonl")]
    return found if root is None else [path for path in found if _began_in(path, str(root))]


def _began_in(path: Path, root: str) -> bool:
    context = as_object(as_object(first_record(path).get("data")).get("context"))
    return root in (context.get("cwd"), context.get("gitRoot"))


def _take(session: Session, record: JsonObject) -> bool:
    kind, data, at = as_text(record.get("type")), as_object(record.get("data")), as_time(record.get("timestamp"))
    if record.get("agentId") or data.get("parentToolCallId"):
        return True
    match kind:
        case "user.message":
            _user(session, data, at)
        case "assistant.message":
            _agent(session, data, at)
        case "assistant.reasoning":
            session.say(as_text(data.get("content")), at, thought=True)
        case "tool.execution_start":
            session.call(as_text(data.get("toolName")), data.get("arguments"), as_text(data.get("toolCallId")), at)
        case "tool.execution_complete":
            _result(session, data, at)
        case _:
            _host(session, kind, data, at)
            return kind.startswith(_KNOWN)
    return True


def _host(session: Session, kind: str, data: JsonObject, at: datetime | None) -> None:
    """Take what the host says of the session."""
    match kind:
        case "session.start":
            session.session_id = session.session_id or as_text(data.get("sessionId")) or None
        case "hook.end" if data.get("hookType") != "userPromptSubmitted":  # that is in the prompt
            session.note(as_text(as_object(data.get("output")).get("additionalContext")))
        case "abort":
            session.stop(f"[stopped: {as_text(data.get('reason')) or 'by the user'}]", at)
        case "session.error":
            session.stop(as_text(data.get("message")), at, failed=True)
        case _:
            pass


def _user(session: Session, data: JsonObject, at: datetime | None) -> None:
    """Take a prompt; what a skill or the autopilot says in the user's name is not theirs."""
    if as_text(data.get("source")) in ("", "user") and data.get("isAutopilotContinuation") is not True:
        session.prompt(as_text(data.get("content")), at)
    session.note(as_text(data.get("transformedContent")))


def _agent(session: Session, data: JsonObject, at: datetime | None) -> None:
    session.say(as_text(data.get("reasoningText")), at, thought=True)
    session.say(as_text(data.get("content")), at)
    for request in map(as_object, as_list(data.get("toolRequests"))):
        session.call(as_text(request.get("name")), request.get("arguments"), as_text(request.get("toolCallId")), at)


def _result(session: Session, data: JsonObject, at: datetime | None) -> None:
    """Take a result: that a command succeeded only says that it ran, its exit code stands beside it or in its text."""
    call_id, error, failed = as_text(data.get("toolCallId")), as_object(data.get("error")), data.get("success") is False
    text = as_text(as_object(data.get("result")).get("content")) or as_text(error.get("message"))
    code, is_error = None, failed
    if session.tools.get(call_id) in _SHELLS:
        text = _ENDED.sub(r"<exited with exit code \1>", _GUIDANCE.sub("", text))
        code, answer = as_code(as_object(data.get("shellExecution")).get("exitCode")), read_answer(text)
        code, text = answer.exit_code if code is None else code, answer.text
        is_error = failed or None
    refused = as_text(error.get("code")) in ("rejected", "denied")
    session.result(call_id, text, at, is_error=is_error, exit_code=code, interrupted=refused)


TRANSCRIPTS = Transcripts(is_copilot_cli, read_session, transcripts_of)
