"""The transcripts of Copilot CLI: where they are, and their events as trajectories, one for each task of a session."""

import re
from collections.abc import Iterator
from pathlib import Path

from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.server.hosts.copilot_cli.host import EVENTS_FILE, HOST
from swarm_memory.server.hosts.host import Origin, Transcripts
from swarm_memory.server.hosts.records import JsonDict, first_record
from swarm_memory.server.hosts.session import Session, read_answer

_SHELLS = frozenset({"bash", "powershell", "read_bash", "read_powershell", "write_bash", "write_powershell"})
_GUIDANCE = re.compile(r"\n\nTool \"[^\"\n]{1,100}\" (?:succeeded|failed)\. Additional guidance from [\s\S]*\Z")
"""The wording with which hooks' answers are appended to a result."""

_ENDED = re.compile(r"<shellId: [^>\n]{1,40} completed with exit code (-?\d{1,10})>\s*\Z")
_KNOWN = (
    "session.", "assistant.", "hook.", "permission.", "skill.", "subagent.", "system.", "tool.", "tool_search.", "mcp.",
    "external_tool.", "human_response.", "abort",
)  # fmt: skip
"""Families of events; those of them that are not read add nothing to the others."""


def is_copilot_cli(record: JsonDict) -> bool:
    """Whether a record is an event of a Copilot CLI session."""
    return "parentId" in record and isinstance(record.get("data"), dict) and bool(record.text("type"))


def read_session(events: Iterator[JsonDict], origin: Origin) -> Iterator[Trajectory]:
    """Yield one trajectory for each task. Events of subagents are left out: what they found is their call's result."""
    path = origin.path
    named = path.parent.name if path is not None and path.name == EVENTS_FILE else origin.stem
    session = Session("copilot_cli", origin.session_id, fallback_id=named)
    own = (event for event in events if not (event.get("agentId") or event.object("data").get("parentToolCallId")))
    return session.read(own, origin.records, lambda event: _take(session, event))


def transcripts_of(root: Path | None) -> list[Path]:
    """Return the event files of all sessions, or of those that began in a project; older sessions have no folder."""
    (folder,) = map(Path, HOST.folders())
    found = [*folder.glob(f"*/{EVENTS_FILE}"), *folder.glob("*.jsonl")]
    if root is None:
        return found
    contexts = [(path, first_record(path).object("data").object("context")) for path in found]
    return [path for path, context in contexts if str(root) in (context.get("cwd"), context.get("gitRoot"))]


def _take(session: Session, record: JsonDict) -> bool:
    kind, data, session.at = record.text("type"), record.object("data"), record.time("timestamp")
    match kind:
        case "user.message":  # what a skill or the autopilot says in the user's name is not the user's
            if data.text("source") in ("", "user") and data.get("isAutopilotContinuation") is not True:
                session.prompt(data.text("content"))
            session.note(data.text("transformedContent"))
        case "assistant.message":
            session.say(data.text("reasoningText"), thought=True)
            session.say(data.text("content"))
            for request in data.objects("toolRequests"):
                session.call(request.text("name"), request.get("arguments"), request.text("toolCallId"))
        case "assistant.reasoning":
            session.say(data.text("content"), thought=True)
        case "tool.execution_start":
            session.call(data.text("toolName"), data.get("arguments"), data.text("toolCallId"))
        case "tool.execution_complete":
            _result(session, data)
        case "session.start":
            session.session_id = session.session_id or data.text("sessionId") or None
        case "hook.end" if data.get("hookType") != "userPromptSubmitted":  # that is in the prompt
            session.note(data.object("output").text("additionalContext"))
        case "abort":
            session.stop(f"[stopped: {data.text('reason') or 'by the user'}]")
        case "session.error":
            session.stop(data.text("message"), failed=True)
        case _:
            return kind.startswith(_KNOWN)
    return True


def _result(session: Session, data: JsonDict) -> None:
    """Take a result. Success of a command only means that it ran: its exit code is in another field or in its text."""
    call_id, error, failed = data.text("toolCallId"), data.object("error"), data.get("success") is False
    text = data.object("result").text("content") or error.text("message")
    code, is_error = None, failed
    if session.tools.get(call_id) in _SHELLS:
        text = _ENDED.sub(r"<exited with exit code \1>", _GUIDANCE.sub("", text))
        code, answer = data.object("shellExecution").code("exitCode"), read_answer(text)
        code, text = answer.exit_code if code is None else code, answer.text
        is_error = failed or None
    refused = error.text("code") in ("rejected", "denied")
    session.result(call_id, text, is_error=is_error, exit_code=code, interrupted=refused)


TRANSCRIPTS = Transcripts(is_copilot_cli, read_session, transcripts_of)
