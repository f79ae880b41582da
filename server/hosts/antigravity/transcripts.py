"""The transcripts of Antigravity: where they lie, and the log of a conversation as trajectories for its tasks."""

import re
from collections.abc import Iterator
from pathlib import Path

from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.server.hosts.antigravity.host import HOST
from swarm_memory.server.hosts.host import Origin, Transcripts
from swarm_memory.server.hosts.records import Record, parsed
from swarm_memory.server.hosts.session import Session, read_answer

_TYPED = re.compile(r"<USER_REQUEST>(.*?)</USER_REQUEST>", re.S)
_TASK = re.compile(r"[Tt]ask id:? ?\"?([\w./-]{1,200})\"?")
_LOG = ".system_generated/logs/transcript.jsonl"
_SHELL = "run_command"
_HEAD = re.compile(r"\A(?:(?:Created|Completed) At: [^\n]{1,60}\n){1,2}\s*")


def is_antigravity(record: Record) -> bool:
    """Tell whether a record is a step of an Antigravity conversation."""
    return "step_index" in record and bool(record.text("type")) and bool(record.text("source"))


def read_session(steps: Iterator[Record], origin: Origin) -> Iterator[Trajectory]:
    """Yield one trajectory for each task. Calls have no ids: a step of the model answers the oldest open one."""
    waiting: dict[str, str] = {}
    above = origin.path.parts[:-3] if origin.path is not None and origin.path.match(_LOG) else ()
    session = Session("antigravity", origin.session_id, fallback_id=above[-1] if above else origin.stem)
    return session.read(steps, origin.records, lambda step: _take(session, step, waiting))


def transcripts_of(root: Path | None) -> list[Path]:
    """Return the logs of all conversations. They do not name their project: of one there is none."""
    return [path for folder in HOST.folders() for path in Path(folder).glob(f"*/{_LOG}")] if root is None else []


def _take(session: Session, record: Record, waiting: dict[str, str]) -> bool:
    """Take a step. `waiting` holds the calls that run in the background, by the id of their task."""
    text, session.at = record.text("content"), record.time("created_at")
    match record.text("source"), record.text("type"):
        case "USER_EXPLICIT", "USER_INPUT":
            session.prompt("\n".join(_TYPED.findall(text)).strip() or text)
            session.note(text)
        case "MODEL", "PLANNER_RESPONSE":
            session.say(record.text("thinking"), thought=True)
            session.say(text)
            for call in record.objects("tool_calls"):
                given = call.object("args")
                read = {key: each if (value := parsed(each)) is None else value for key, each in given.items()}
                session.call(call.text("name").removeprefix("default_api:"), read, "")
        case "MODEL", kind if kind and text:
            _result(session, record, text, waiting)
        case _, "SYSTEM_MESSAGE":
            session.note(text)
            found = _TASK.search(text[:500])
            if found and found[1] in waiting and "finished" in text[:1000]:
                session.result(waiting.pop(found[1]), text, exit_code=read_answer(text).exit_code)
        case "SYSTEM" | "USER_IMPLICIT", _:
            session.note(text)
        case _:
            return False
    return True


def _result(session: Session, record: Record, text: str, waiting: dict[str, str]) -> None:
    kind, status = record.text("type"), record.text("status")
    call_id = session.open_call(waiting.values()) or session.call(kind.lower(), None, "")
    task = _TASK.search(text[:500]) if status == "RUNNING" else None
    if task:
        waiting[task[1]] = call_id
        return
    text, code = _HEAD.sub("", text, count=1), None
    is_error = True if status == "ERROR" else None
    if kind == _SHELL.upper() or session.tools.get(call_id) == _SHELL:
        text, code, _ = read_answer(text)
    elif status == "DONE":
        is_error = False
    session.result(call_id, text, is_error=is_error, exit_code=code, interrupted=status.startswith("CANCEL"))


TRANSCRIPTS = Transcripts(is_antigravity, read_session, transcripts_of)
