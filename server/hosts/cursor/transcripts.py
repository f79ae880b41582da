"""The transcripts of Cursor: where they are, and the lines or blobs of a chat as trajectories, one for each task."""

import io
import re
from collections.abc import Iterator
from pathlib import Path

from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.server.hosts.cursor.host import HOST, STORE, project_names
from swarm_memory.server.hosts.databases import open_database
from swarm_memory.server.hosts.host import Origin, Transcripts
from swarm_memory.server.hosts.records import (
    JsonDict,
    Records,
    all_text,
    as_list,
    as_object,
    as_text,
    files_in,
    parsed,
    text_or_json,
)
from swarm_memory.server.hosts.session import Session, read_answer

_TABLES = frozenset({"blobs", "meta"})
_SUBAGENTS = "subagents"
_SHELLS = frozenset({"Bash", "Shell", "run_terminal_cmd", "run_terminal_command_v2"})
_TYPED = re.compile(r"<user_query>(.*?)</user_query>", re.S)
_CONTEXT = re.compile(r"\s*<[a-z_]{1,40}(?:\s[^>\n]{0,200})?>")
_ROLES = ("system", "user", "assistant", "tool")


def is_cursor(record: JsonDict) -> bool:
    """Whether a record is a line of an agent transcript: a role and a message, but no type."""
    return record.get("role") in _ROLES and "content" in record.object("message") and "type" not in record


def read_session(lines: Iterator[JsonDict], origin: Origin) -> Iterator[Trajectory]:
    """Yield one trajectory for each task; a subagent's file is one task."""
    path = origin.path
    session = Session("cursor", origin.session_id, fallback_id=origin.stem)
    if path is not None and path.parent.name == _SUBAGENTS:
        session.agent_id, session.fallback_id = origin.stem, path.parent.parent.name
    return session.read(lines, origin.records, lambda line: _take(session, line, origin.records))


def read_store(path: Path, session_id: str | None = None) -> Iterator[Trajectory]:
    """Yield the tasks of a chat's database: its messages are the JSON blobs; the others are Cursor's own graph."""
    source, session = Records(io.StringIO()), Session("cursor", fallback_id=path.parent.name)
    with open_database(path, _TABLES) as database:

        def messages() -> Iterator[JsonDict]:
            for row in database.rows("SELECT rowid AS number FROM blobs ORDER BY rowid"):
                blob = database.value("SELECT data FROM blobs WHERE rowid = ?", row.count("number"))
                text = blob.decode("utf-8", "replace") if isinstance(blob, bytes) else as_text(blob)
                source.skipped += blob is None
                if text.startswith("{") and (message := as_object(parsed(text))):
                    yield message

        about = as_text(database.value("SELECT value FROM meta WHERE key = ?", "0"))
        if re.fullmatch(r"(?:[0-9a-f]{2})+", about, re.I):
            about = bytes.fromhex(about).decode("utf-8", "replace")
        session.session_id = session_id or as_object(parsed(about)).text("agentId") or None
        yield from session.read(messages(), source, lambda message: _take(session, message, source))


def transcripts_of(root: Path | None) -> list[Path]:
    """Return the chats of all projects, or of one; for a chat in both forms, the database: it has the results too."""
    chats, projects = map(Path, HOST.folders())
    named = ("*", "*") if root is None else project_names(str(root))
    stores = list(chats.glob(f"{named[0]}/*/{STORE}"))
    stored = {path.parent.name for path in stores}
    lines = projects.glob(f"{named[1]}/agent-transcripts/*/*.jsonl")
    return [*stores, *(path for path in lines if path.stem == path.parent.name and path.stem not in stored)]


def subagent_files(transcript: Path) -> list[Path]:
    """Return the files of a chat's subagents, which are in `subagents/` next to it."""
    is_chat = transcript.stem == transcript.parent.name
    return files_in(transcript.parent / _SUBAGENTS, "*.jsonl") if is_chat else []


def _take(session: Session, record: JsonDict, source: Records) -> bool:
    message = record.object("message") or record
    role = record.text("role")
    session.at = None
    if record.get("type") == "turn_ended":
        if record.get("status") in ("aborted", "cancelled"):
            session.stop("[stopped by the user]")
        elif record.get("status") == "error":
            session.stop(record.text("error") or "the turn ended with an error", failed=True)
        return True
    if role not in _ROLES or "content" not in message:
        return False
    session.at, content = record.millis("createdAt"), message["content"]
    for block in map(as_object, as_list(content) or [{"type": "text", "text": content}]):
        if role != "user":
            source.skipped += not _block(session, block, role)
        elif _kind(block) == "tool_result":
            _result(session, block)
    if role == "user":
        text = all_text(content)
        typed = _TYPED.findall(text)
        if typed or not _CONTEXT.match(text):  # else the editor added it to what was typed
            session.prompt("\n".join(typed).strip() or text)
        session.note(text)
    return True


def _kind(block: JsonDict) -> str:
    return block.text("type").replace("-", "_")


def _block(session: Session, block: JsonDict, role: str) -> bool:
    match _kind(block):
        case "text" if role == "assistant":
            session.say(block.text("text"))
        case "reasoning" | "thinking":
            session.say(block.text("text", "thinking"), thought=True)
        case "tool_use" | "tool_call":
            given = block.get("input", block.get("args", block.get("arguments")))
            session.call(block.text("name", "toolName"), given, block.text("id", "toolCallId"))
        case "tool_result":
            _result(session, block)
        case "text" | "redacted_reasoning" | "image":
            pass
        case _:
            return False
    return True


def _result(session: Session, block: JsonDict) -> None:
    """Take a result, by default of the oldest open call; a command's exit code is only in its text."""
    named = block.text("toolCallId", "tool_use_id")
    call_id, text = named or session.open_call(), text_or_json(block.get("content", block.get("result")))
    is_error, code = block.flag("isError", "is_error"), None
    if session.tools.get(call_id) in _SHELLS:
        text, code, failed = read_answer(text)
        is_error = failed if is_error is None else is_error
    session.result(call_id, text, is_error=is_error, exit_code=code)


TRANSCRIPTS = Transcripts(is_cursor, read_session, transcripts_of, subagent_files, STORE, read_store)
