"""How a transcript becomes trajectories: the format is found from the content."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from swarm_memory.schema.base import digest
from swarm_memory.schema.errors import InputError, NotFoundError
from swarm_memory.schema.settings import LearnSettings
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.server.hosts.host import Origin, Transcripts, hosts
from swarm_memory.server.hosts.messages import has_steps, is_message, read_list, read_object
from swarm_memory.server.hosts.records import JsonObject, Records, Source, open_source
from swarm_memory.server.hosts.spans.transcripts import TRANSCRIPTS as SPANS

ACCEPTED = (
    "accepted are a Claude Code transcript or another agent's, spans of OpenTelemetry (OTLP JSON), a list of messages "
    'with role and content (a JSON array, an object with "messages", or one message a line), and objects {id, task, '
    "steps: [{role, content}]} (JSON or JSONL)"
)


def read_trajectories(
    source: Source, *, session_id: str | None = None, limits: LearnSettings | None = None, subagents: bool = True
) -> Iterator[Trajectory]:
    """Yield the trajectories of a file or stream in order, one at a time in memory.

    An agent's session gives one for each task, with the ids `<session>:1`, `<session>:2` …, and then, with `subagents`
    and a path, one for each file of its subagents (`<session>:agent-<id>`). A message list gives one; of objects with
    steps each gives one. `session_id` is taken before the one in the file. Lines that cannot be read are
    counted in `skipped_lines` of the trajectory that was read when they came.

    Raises `InputError`: no such file, a format that is not known, a document too large for memory.
    """
    path = Path(source) if isinstance(source, str | Path) else None
    limits = limits or LearnSettings()
    if path is not None and (store := _store_reader(path)):
        yield from store(path, limits, session_id)
        return
    reading = _Reading(path, session_id, limits)
    with open_source(source) as records:
        yield from reading.read(records)
    if subagents and path is not None and reading.host is not None:
        for file in reading.host.subagents(path):
            yield from read_trajectories(file, session_id=session_id, limits=limits, subagents=False)


def _store_reader(path: Path) -> Callable[[Path, LearnSettings, str | None], Iterator[Trajectory]] | None:
    return next((each.transcripts.read_store for each in hosts() if each.transcripts.is_store(path)), None)


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


@dataclass(slots=True)
class _Reading:
    path: Path | None
    session_id: str | None
    limits: LearnSettings
    host: Transcripts | None = None
    """Whose transcript it is, once that is known."""

    def read(self, records: Records) -> Iterator[Trajectory]:
        """Yield what the records hold; the first one that is known decides the format."""
        stream = iter(records)
        formats = ((has_steps, self._objects), (is_message, self._message_list))
        for record in stream:
            known = itertools.chain((each.transcripts for each in hosts()), (SPANS,))
            self.host = next((each for each in known if each.is_one(record)), None)
            if self.host is not None:
                origin = Origin(records, self.limits, self.path, self.session_id)
                yield from self.host.read(itertools.chain([record], stream), origin)
                return
            for is_one, parsed in formats:
                if is_one(record):
                    yield from parsed(itertools.chain([record], stream), records)
                    return
            records.skipped += 1
        raise InputError(f"no transcript that is known: it holds {records.describe()}; {ACCEPTED}")

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
        return None if self.path is None else self.path.name.partition(".")[0]
