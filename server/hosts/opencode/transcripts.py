"""The transcripts of OpenCode: sessions from its database or from `opencode export`, one trajectory per task."""

import io
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path

from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.server.hosts.databases import open_database
from swarm_memory.server.hosts.host import Origin, Transcripts
from swarm_memory.server.hosts.opencode.host import HOST
from swarm_memory.server.hosts.records import JsonDict, Records, as_object, parsed, text_or_json
from swarm_memory.server.hosts.session import Session

_TABLES = frozenset({"session", "message", "part"})
_STORES = "opencode*.db"
"""Each of its channels has a database of its own."""

_LISTED = "SELECT id FROM {} WHERE {} = ? ORDER BY time_created, id"
_SHELLS = frozenset({"bash", "shell"})
_SILENT = frozenset(
    {"step-start", "step-finish", "snapshot", "patch", "file", "agent", "subtask", "compaction", "retry"}
)
_REFUSED = ("rejected permission", "dismissed this question", "Tool execution aborted")
_CUT_OFF = "terminated command after exceeding timeout"


def is_opencode(record: JsonDict) -> bool:
    """Whether a record is a whole session: `info`, and `messages` of `info` and `parts`."""
    first = as_object(next(iter(record.array("messages")), None))
    return isinstance(record.get("info"), dict) and ("info" in first or record.get("messages") == [])


def read_exported(records: Iterator[JsonDict], origin: Origin) -> Iterator[Trajectory]:
    """Yield the tasks of each session in order; a session with a parent is a subagent's and is one task."""
    given = Session("opencode", origin.session_id, fallback_id=origin.stem)
    for record in records:
        if is_opencode(record):
            messages = record.objects("messages")
            yield from _read_session(record.object("info"), messages, origin.records, given)
        else:
            origin.records.skipped += 1


def read_store(path: Path, session_id: str | None = None) -> Iterator[Trajectory]:
    """Yield the tasks of each session in a database, as `read_exported` does, or of one session and its subagents."""
    source, given = Records(io.StringIO()), Session("opencode")
    with open_database(path, _TABLES) as database:

        def data(table: str, row: JsonDict) -> JsonDict:
            text = database.value(f"SELECT data FROM {table} WHERE id = ?", row.text("id"))  # noqa: S608
            said = as_object(parsed(text))
            source.skipped += not said
            return JsonDict({**said, "id": row["id"]})

        def messages(session: str) -> Iterator[JsonDict]:
            for row in database.rows(_LISTED.format("message", "session_id"), (session,)):
                parts = database.rows(_LISTED.format("part", "message_id"), (row.text("id"),))
                yield JsonDict(info=data("message", row), parts=[data("part", part) for part in parts])

        for row in database.rows("SELECT * FROM session ORDER BY time_created, id"):
            if session_id in (None, row["id"], row.get("parent_id")):
                info = JsonDict(id=row["id"], parentID=row.get("parent_id"), revert=parsed(row.get("revert")))
                yield from _read_session(info, messages(row.text("id")), source, given)


def transcripts_of(root: Path | None) -> list[Path]:
    """Return the databases; each holds the sessions of all projects, so a single project has none."""
    return list(Path(*HOST.folders()).glob(_STORES)) if root is None else []


def _read_session(
    info: JsonDict, messages: Iterable[JsonDict], source: Records, given: Session
) -> Iterator[Trajectory]:
    """Yield the tasks of one session, without what the user has undone. `given` holds what all sessions share."""
    own, parent = info.text("id"), info.text("parentID")
    named = given.session_id or parent or own or given.fallback_id
    session = Session("opencode", named, own if parent else None, counted=given.counted)
    undone = info.object("revert").text("messageID")
    standing = takewhile(lambda message: not undone or message.object("info").get("id") != undone, messages)
    yield from session.read(standing, source, lambda message: _take(session, message, source))
    given.counted = session.counted


def _take(session: Session, message: JsonDict, source: Records) -> bool:
    info, parts = message.object("info"), message.objects("parts")
    at = info.object("time").millis("created")
    session.at = at
    if info.get("role") == "user":
        texts = [part for part in parts if part.get("type") == "text"]
        typed = [part.text("text") for part in texts if not (part.get("synthetic") or part.get("ignored"))]
        session.prompt("\n".join(typed))
        for part in texts:
            session.note(part.text("text"))
        return True
    if info.get("role") != "assistant":
        return False
    for part in parts if info.get("summary") is not True else ():  # what compaction wrote is not work on the task
        session.at, kind = at, part.text("type")
        if kind == "tool":
            _tool(session, part, part.object("state"))
        elif kind not in ("text", "reasoning"):
            source.skipped += kind not in _SILENT
        elif not part.get("synthetic"):
            session.say(part.text("text"), thought=kind == "reasoning")
    session.at = at
    if error := info.object("error"):
        stopped = error.get("name") == "MessageAbortedError"
        reason = error.object("data").text("message") or error.text("name")
        session.stop(f"[stopped: {reason}]" if stopped else reason, failed=not stopped)
    return True


def _tool(session: Session, part: JsonDict, state: JsonDict) -> None:
    """Take a call and its result. `completed` only says that the tool ran; a command's exit code is in the metadata."""
    name, status, time, at = part.text("tool"), state.get("status"), state.object("time"), session.at
    session.at = time.millis("start") or at
    call_id = session.call(name, state.get("input"), part.text("callID"))
    if status not in ("completed", "error"):
        return
    error = state.text("error")
    text, code, is_error = text_or_json(state.get("output")) or error, None, status == "error" or None
    if name in _SHELLS:
        code = state.object("metadata").code("exit")
        is_error = is_error or (_CUT_OFF in text[-500:]) or None
    elif status == "completed":
        is_error = False
    session.at = time.millis("end") or at
    refused = any(words in error for words in _REFUSED)
    session.result(call_id, text, is_error=is_error, exit_code=code, interrupted=refused)


TRANSCRIPTS = Transcripts(is_opencode, read_exported, transcripts_of, stores=_STORES, read_store=read_store)
