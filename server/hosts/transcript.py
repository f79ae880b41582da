"""How a transcript becomes trajectories: the format is found from the content."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from swarm_memory.schema.base import digest
from swarm_memory.schema.errors import InputError, NotFoundError
from swarm_memory.schema.settings import LearnSettings
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.server.hosts.claude_code import is_claude_code, read_session
from swarm_memory.server.hosts.messages import has_steps, is_message, read_list, read_object
from swarm_memory.server.hosts.records import JsonObject, Records, Source, as_text, open_source

ACCEPTED = (
    "accepted are a Claude Code transcript (JSONL), a list of messages with role and content (a JSON array, an object "
    'with "messages", or one message a line), and objects {id, task, steps: [{role, content}]} (JSON or JSONL)'
)

_AGENT_FILE = "agent-"
_HEAD_LINES = 200


def read_trajectories(
    source: Source, *, session_id: str | None = None, limits: LearnSettings | None = None, subagents: bool = True
) -> Iterator[Trajectory]:
    """Yield the trajectories of a file or stream in order, one at a time in memory.

    A Claude Code session gives one for each task, with the ids `<session>:1`, `<session>:2` …, and then, with
    `subagents` and a path, one for each of its subagent files (`<session>:agent-<id>`). A message list gives one; of
    objects with steps each gives one. `session_id` is taken before the one in the file. Lines that cannot be read are
    counted in `skipped_lines` of the trajectory that was read when they came.

    Raises `InputError`: no such file, a format that is not known, a document too large for memory.
    """
    reading = _Reading(source, session_id, limits or LearnSettings())
    with open_source(source) as records:
        yield from reading.read(records)
    if subagents and isinstance(source, str | Path):
        for path in subagent_files(Path(source)):
            yield from read_trajectories(path, session_id=session_id, limits=limits, subagents=False)


def read_task(
    source: Source, task_id: str | int, *, session_id: str | None = None, limits: LearnSettings | None = None
) -> Trajectory:
    """Return one trajectory: by the number of the task in its session, or by its task id.

    Raises `NotFoundError` where the source has no such task, and as `read_trajectories`.
    """
    wanted = str(task_id)
    found: list[str] = []
    for trajectory in read_trajectories(source, session_id=session_id, limits=limits, subagents="agent-" in wanted):
        if wanted in (trajectory.task_id, trajectory.task_id.rpartition(":")[2]):
            return trajectory
        found.append(trajectory.task_id)
    known = ", ".join(found[:5]) + (f" … ({len(found)} in all)" if len(found) > 5 else "")
    raise NotFoundError(f"the transcript has no task {wanted!r}; " + (f"it has {known}" if found else "it has none"))


def read_asked(
    source: Source, task_id: str | None, *, session_id: str | None = None, limits: LearnSettings | None = None
) -> Iterator[Trajectory]:
    """Yield all as `read_trajectories`, or with a task id that one as `read_task` finds it."""
    if task_id is None:
        yield from read_trajectories(source, session_id=session_id, limits=limits)
    else:
        yield read_task(source, task_id, session_id=session_id, limits=limits)


def subagent_files(transcript: Path) -> list[Path]:
    """Return the files of a session's subagents, which stand in `<session>/subagents/` beside its transcript.

    A symbolic link is not followed, on the way there or at its end: it may lead anywhere.
    """
    session = transcript.parent / transcript.stem
    folder = session / "subagents"
    if session.is_symlink() or folder.is_symlink():
        return []
    return sorted(path for path in folder.glob(f"{_AGENT_FILE}*.jsonl") if path.is_file() and not path.is_symlink())


@dataclass(frozen=True, slots=True)
class _Reading:
    source: Source
    session_id: str | None
    limits: LearnSettings

    def read(self, records: Records) -> Iterator[Trajectory]:
        """Yield what the records hold; the first one that is known decides the format."""
        stream = iter(records)
        formats = ((is_claude_code, self._session), (has_steps, self._objects), (is_message, self._message_list))
        for record in stream:
            for is_one, parsed in formats:
                if is_one(record):
                    yield from parsed(itertools.chain([record], stream), records)
                    return
            records.skipped += 1
        name = repr(str(self.source)) if isinstance(self.source, str | Path) else "the stream"
        raise InputError(f"no transcript was found in {name}: it holds {records.describe()}; {ACCEPTED}")

    def _session(self, lines: Iterator[JsonObject], records: Records) -> Iterator[Trajectory]:
        """Read a session, or a subagent's part of one: its lines are marked, and it stands in a file of its own."""
        head: list[JsonObject] = []
        for line in lines:
            head.append(line)
            if line.get("type") in ("user", "assistant") or len(head) >= _HEAD_LINES:
                break
        agent_id = self._agent_id(head[-1])
        yield from read_session(
            itertools.chain(head, lines), records, self.limits, session_id=self._session_id(head), agent_id=agent_id
        )

    def _agent_id(self, line: JsonObject) -> str | None:
        stem = self._stem()
        if stem is not None and not stem.startswith(_AGENT_FILE):
            return None
        named = as_text(line.get("agentId")) if line.get("isSidechain") is True else ""
        return named or (stem.removeprefix(_AGENT_FILE) if stem is not None else None)

    def _session_id(self, head: list[JsonObject]) -> str | None:
        if self.session_id:
            return self.session_id
        named = next(filter(None, (as_text(line.get("sessionId")) for line in head)), None)
        return named or self._stem()

    def _objects(self, objects: Iterator[JsonObject], records: Records) -> Iterator[Trajectory]:
        counted = 0
        for number, record in enumerate(objects, start=1):
            if not has_steps(record):
                records.skipped += 1
                continue
            name = self._fallback_id(record, number)
            draft = read_object(record, self.limits, task_id=name, session_id=self.session_id)
            yield draft.finished(records.skipped - counted)
            counted = records.skipped

    def _fallback_id(self, record: JsonObject, number: int) -> str:
        """Return an id that the same record gets again: from the file and its place, else from what it holds."""
        stem = self.session_id or self._stem()
        return f"{stem}:{number}" if stem else f"trajectory-{digest(record)[:16]}"

    def _message_list(self, messages: Iterator[JsonObject], records: Records) -> Iterator[Trajectory]:
        named = self.session_id or self._stem()
        said = filter(is_message, messages)
        draft = read_list(said, self.limits, task_id=named or "messages", session_id=self.session_id)
        if named is None:
            draft.task_id = f"messages-{digest(draft.task)[:16]}"
        yield draft.finished(records.skipped)

    def _stem(self) -> str | None:
        return Path(self.source).name.partition(".")[0] if isinstance(self.source, str | Path) else None
