"""The transcripts of Gemini CLI: where they are, and a chat (JSON, since 0.40 JSONL) as one trajectory per task."""

import re
from collections.abc import Iterator
from hashlib import sha256
from html import unescape
from pathlib import Path

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.server.hosts.gemini_cli.host import HOST, SHELL
from swarm_memory.server.hosts.host import Origin, Transcripts
from swarm_memory.server.hosts.records import (
    MAX_DOCUMENT_CHARS,
    JsonDict,
    Records,
    all_text,
    as_object,
    as_text,
    files_in,
    text_or_json,
)
from swarm_memory.server.hosts.session import Session

_CHATS = "chats"
_ID = re.compile(r"[0-9a-f]{8}")
_EXIT_CODE = re.compile(r"^Exit Code: (-?\d{1,10})\s*$", re.M)
_STATE = re.compile(
    r"\n(?:Error: \(none\)|Exit Code: -?\d{1,10}|Signal: [^\n]{0,40}|Background PIDs: [^\n]{0,200}"
    r"|Process Group PGID: [^\n]{0,40})(?=\n|\Z)"
)
_FRAME = re.compile(r"\A<untrusted_context>\n|\n</untrusted_context>\s*\Z")
_HOOKED = re.compile(r"<hook_context>([\s\S]*?)</hook_context>")
"""Matches what hooks said, which is HTML-escaped."""

_TAIL_CHARS = 1000
_BACKGROUND = re.compile(r"Command moved to background|[^\n]{0,200}Output hidden")


def is_gemini_cli(record: JsonDict) -> bool:
    """Whether a record is the first of a Gemini CLI chat: all of it, or its header."""
    return "sessionId" in record and "projectHash" in record


def read_session(records: Iterator[JsonDict], origin: Origin) -> Iterator[Trajectory]:
    """Yield one trajectory for each task, of the chat as it is after all its changes.

    A message written again replaces the earlier one; a rewound message is gone. Raises `InputError` for a large chat.
    """
    path, source = origin.path, origin.records
    parent = path.parent.name if path is not None and path.parent.parent.name == _CHATS else origin.stem
    session = Session("gemini_cli", origin.session_id, fallback_id=parent)
    messages: dict[str, JsonDict] = {}
    for record in records:
        _change(messages, record, session, source)
        if source.chars > MAX_DOCUMENT_CHARS:
            raise InputError(f"the chat is larger than {MAX_DOCUMENT_CHARS // 1_000_000} MB")
    yield from session.read(messages.values(), source, lambda message: _take(session, message))


def transcripts_of(root: Path | None) -> list[Path]:
    """Return all chats, or those of a project: its folder's name is its path's hash, or a file in it has the path."""
    (folder,) = map(Path, HOST.folders())

    def is_meant(project: Path) -> bool:
        named = project / ".project_root"
        return (
            root is None
            or project.name == sha256(str(root).encode()).hexdigest()
            or (named.is_file() and named.read_text("utf-8", "replace").strip() == str(root))
        )

    projects = filter(is_meant, folder.glob("*"))
    return [path for each in projects for path in (each / _CHATS).glob("session-*.json*")]


def subagent_files(transcript: Path) -> list[Path]:
    """Return the chats of a session's subagents: their folder is the session's id, whose start ends the chat's name."""
    beside, begins = transcript.parent, transcript.name.partition(".")[0].rpartition("-")[2]
    folders_of = beside.glob(f"{begins}*") if beside.name == _CHATS and _ID.fullmatch(begins) else ()
    return sorted(path for folder in folders_of for path in files_in(folder, "*.json*"))


def _change(messages: dict[str, JsonDict], record: JsonDict, session: Session, source: Records) -> None:
    added: list[JsonDict] = []
    if isinstance(back_to := record.get("$rewindTo"), str):
        ids = list(messages)
        for dropped in ids[ids.index(back_to) if back_to in messages else 0 :]:
            del messages[dropped]
    elif isinstance(record.get("$set"), dict):
        header = record.object("$set")
        if isinstance(header.get("messages"), list):
            messages.clear()
            added = header.objects("messages")
    elif is_gemini_cli(record):
        named = record.text("sessionId") or None
        if record.get("kind") == "subagent":
            session.agent_id = named
        else:
            session.session_id = session.session_id or named
        added = record.objects("messages")
    elif "type" in record:
        added = [record]
    else:
        source.skipped += 1
    for message in added:
        messages[message.text("id") or f"message-{len(messages)}"] = message


def _take(session: Session, message: JsonDict) -> bool:
    session.at = message.time("timestamp")
    content = message.get("content", message.get("parts"))
    text = as_object(content).text("text") or all_text(content)
    match message.get("type"):
        case "user" if text.lstrip().startswith("<session_context>"):
            session.note(text)
        case "user":
            session.prompt(_HOOKED.sub("", text))
            session.note("\n".join(map(unescape, _HOOKED.findall(text))))
        case "gemini" | "model":
            for thought in message.objects("thoughts"):
                session.say(thought.text("description"), thought=True)
            session.say(text)
            for call in message.objects("toolCalls"):
                session.at = message.time("timestamp")
                call_id = session.call(call.text("name"), call.get("args"), call.text("id"))
                if "result" in call or call.get("status") in ("success", "error", "cancelled"):
                    _result(session, call_id, call)
        case "error":
            session.stop(text, failed=True)
        case "info" if text.startswith("Request cancelled"):
            session.stop(text)
        case "info" | "warning":
            pass
        case _:
            return False
    return True


def _result(session: Session, call_id: str, call: JsonDict) -> None:
    """Take a result. The status only says that the tool ran; a command's exit code is in its text."""
    session.at, status = call.time("timestamp"), call.get("status")
    text = "\n".join(filter(None, map(_text_in, call.array("result")))) or text_or_json(call.get("resultDisplay"))
    code, is_error = None, {"success": False, "error": True}.get(as_text(status))
    session.note("\n".join(map(unescape, _HOOKED.findall(text))))
    text = _HOOKED.sub("", text)
    if call.get("name") == SHELL and status == "success":
        text = _FRAME.sub("", text)
        tail = text[-_TAIL_CHARS:]
        codes = _EXIT_CODE.findall(tail)
        in_background = _BACKGROUND.match(text) is not None
        code = int(codes[-1]) if codes else (None if in_background else 0)  # newer versions name it only if not 0
        text, is_error = text[:-_TAIL_CHARS] + _STATE.sub("", tail), None
    session.result(call_id, text, is_error=is_error, exit_code=code, interrupted=status == "cancelled")


def _text_in(part: object) -> str:
    response = as_object(part).object("functionResponse").object("response")
    output = response.get("output", response.get("error"))
    return text_or_json(output) if output is not None else as_object(part).text("text")


TRANSCRIPTS = Transcripts(is_gemini_cli, read_session, transcripts_of, subagent_files)
