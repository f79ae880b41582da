"""The transcripts of OpenCode: sessions of its database, or of `opencode export`, by tasks."""

import io
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.server.hosts.databases import Database, is_database, open_database
from swarm_memory.server.hosts.host import Origin, Transcripts
from swarm_memory.server.hosts.opencode.host import folders
from swarm_memory.server.hosts.records import (
    JsonObject,
    Records,
    as_code,
    as_list,
    as_millis,
    as_object,
    as_text,
    parsed,
    text_of,
)
from swarm_memory.server.hosts.session import Session

_TABLES = frozenset({"session", "message", "part"})
_LISTED = "SELECT id FROM {} WHERE {} = ? ORDER BY time_created, id"
_SHELLS = frozenset({"bash", "shell"})
_SILENT = frozenset(
    {"step-start", "step-finish", "snapshot", "patch", "file", "agent", "subtask", "compaction", "retry"}
)
_REFUSED = ("rejected permission", "dismissed this question", "Tool execution aborted")
_CUT_OFF = "terminated command after exceeding timeout"


def is_opencode(record: JsonObject) -> bool:
    """Tell whether a record is a whole session: `info`, and `messages` of `info` and `parts`."""
    first = as_object(next(iter(as_list(record.get("messages"))), None))
    return isinstance(record.get("info"), dict) and ("info" in first or record.get("messages") == [])


def read_exported(records: Iterator[JsonObject], origin: Origin) -> Iterator[Trajectory]:
    """Yield the tasks of each session in order; one with a parent is a subagent's: one task."""
    given = Session("opencode", origin.session_id, fallback_id=origin.stem)
    for record in records:
        if is_opencode(record):
            messages = map(as_object, as_list(record["messages"]))
            yield from _read_session(as_object(record["info"]), messages, origin.records, given)
        else:
            origin.records.skipped += 1


def read_store(path: Path, session_id: str | None = None) -> Iterator[Trajectory]:
    """Yield the tasks of each session that a database holds, as `read_exported`, or of one and its subagents."""
    source, given = Records(io.StringIO()), Session("opencode")
    with open_database(path, _TABLES) as database:
        for row in database.rows("SELECT * FROM session ORDER BY time_created, id"):
            if session_id not in (None, row["id"], row.get("parent_id")):
                continue
            info = {"id": row["id"], "parentID": row.get("parent_id"), "revert": parsed(row.get("revert"))}
            yield from _read_session(info, _messages(database, as_text(row["id"]), source), source, given)


def transcripts_of(root: Path | None) -> list[Path]:
    """Return the databases, each of which holds the sessions of all projects, so of one project there is none."""
    return [path for folder in map(Path, folders()) for path in folder.glob("opencode*.db")] if root is None else []


def is_store(path: Path) -> bool:
    """Tell whether a file is a database of OpenCode: each of its channels has one."""
    return path.name.startswith("opencode") and is_database(path)


def _messages(database: Database, session_id: str, source: Records) -> Iterator[JsonObject]:
    for row in database.rows(_LISTED.format("message", "session_id"), (session_id,)):
        parts = database.rows(_LISTED.format("part", "message_id"), (as_text(row["id"]),))
        yield {
            "info": _data(database, "message", row, source),
            "parts": [_data(database, "part", part, source) for part in parts],
        }


def _data(database: Database, table: str, row: JsonObject, source: Records) -> JsonObject:
    data = as_object(parsed(database.value(f"SELECT data FROM {table} WHERE id = ?", as_text(row["id"]))))  # noqa: S608
    source.skipped += not data
    return {**data, "id": row["id"]}


def _read_session(
    info: JsonObject, messages: Iterable[JsonObject], source: Records, given: Session
) -> Iterator[Trajectory]:
    """Yield the tasks of one session, without what the user has taken back. `given` holds what all of them share."""
    own, parent = as_text(info.get("id")), as_text(info.get("parentID"))
    named = given.session_id or parent or own or given.fallback_id
    session = Session("opencode", named, own if parent else None, counted=given.counted)
    undone = as_text(as_object(info.get("revert")).get("messageID"))
    standing = _until(messages, undone)
    yield from session.read(standing, source, lambda message: _take(session, message, source))
    given.counted = session.counted


def _until(messages: Iterable[JsonObject], undone: str) -> Iterator[JsonObject]:
    for message in messages:
        if undone and as_object(message.get("info")).get("id") == undone:
            return
        yield message


def _take(session: Session, message: JsonObject, source: Records) -> bool:
    info, parts = as_object(message.get("info")), list(map(as_object, as_list(message.get("parts"))))
    at = as_millis(as_object(info.get("time")).get("created"))
    if info.get("role") == "user":
        texts = [part for part in parts if part.get("type") == "text"]
        typed = [as_text(part.get("text")) for part in texts if not (part.get("synthetic") or part.get("ignored"))]
        session.prompt("\n".join(typed), at)
        for part in texts:
            session.note(as_text(part.get("text")))
        return True
    if info.get("role") != "assistant":
        return False
    if info.get("summary") is not True:  # what compaction wrote is no work on the task
        for part in parts:
            source.skipped += not _part(session, part, at)
    _end(session, info, at)
    return True


def _part(session: Session, part: JsonObject, at: datetime | None) -> bool:
    kind = as_text(part.get("type"))
    if kind in ("text", "reasoning"):
        if not part.get("synthetic"):
            session.say(as_text(part.get("text")), at, thought=kind == "reasoning")
    elif kind == "tool":
        _tool(session, part, as_object(part.get("state")), at)
    return kind in ("text", "reasoning", "tool") or kind in _SILENT


def _tool(session: Session, part: JsonObject, state: JsonObject, at: datetime | None) -> None:
    """Take a call and its result: `completed` only says that the tool ran, a command's exit code stands beside it."""
    name, status, time = as_text(part.get("tool")), state.get("status"), as_object(state.get("time"))
    call_id = session.call(name, state.get("input"), as_text(part.get("callID")), as_millis(time.get("start")) or at)
    if status not in ("completed", "error"):
        return
    error = as_text(state.get("error"))
    text, code, is_error = text_of(state.get("output")) or error, None, status == "error" or None
    if name in _SHELLS:
        code = as_code(as_object(state.get("metadata")).get("exit"))
        is_error = is_error or (_CUT_OFF in text[-500:]) or None
    elif status == "completed":
        is_error = False
    session.result(
        call_id,
        text,
        as_millis(time.get("end")) or at,
        is_error=is_error,
        exit_code=code,
        interrupted=any(words in error for words in _REFUSED),
    )


def _end(session: Session, info: JsonObject, at: datetime | None) -> None:
    """Take how a message broke off."""
    if error := as_object(info.get("error")):
        stopped = error.get("name") == "MessageAbortedError"
        reason = as_text(as_object(error.get("data")).get("message")) or as_text(error.get("name"))
        session.stop(f"[stopped: {reason}]" if stopped else reason, at, failed=not stopped)


TRANSCRIPTS = Transcripts(is_opencode, read_exported, transcripts_of, is_store=is_store, read_store=read_store)
