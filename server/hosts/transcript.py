"""Reads a transcript as trajectories; its format is detected from the content."""

import itertools
from collections.abc import Iterator
from pathlib import Path

from swarm_memory.schema.errors import InputError, NotFoundError
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.server.hosts.databases import is_host_database
from swarm_memory.server.hosts.host import Origin, hosts
from swarm_memory.server.hosts.messages import MESSAGES, OBJECTS
from swarm_memory.server.hosts.records import Source, open_source

ACCEPTED = (
    "accepted: a transcript of Claude Code or another agent, a list of messages with role and content (a JSON array, "
    'an object with "messages", or one message per line), or objects {id, task, steps: [{role, content}]}'
)


def read_trajectories(
    source: Source, task_id: str | None = None, *, session_id: str | None = None, subagents: bool = True
) -> Iterator[Trajectory]:
    """Yield the trajectories of a file or stream in order, one at a time in memory; with a `task_id` only that one.

    An agent's session has one for each task, with the ids `<session>:1`, `<session>:2` …, and then, with `subagents`
    and a path, one for each file of its subagents (`<session>:agent-<id>`). A message list has one, and so has each
    object with steps. `session_id` overrides the one in the file; `task_id` may be just the part after the session id.
    Lines that cannot be read are counted in `skipped_lines` of the trajectory that was being read at that point.

    Raises `InputError` (no such file, an unknown format, a document too large for memory), `NotFoundError` (no task).
    """
    if task_id is None:
        yield from _read(source, session_id, subagents=subagents)
        return
    found: list[str] = []
    for trajectory in _read(source, session_id, subagents="agent-" in task_id):
        if task_id in (trajectory.task_id, trajectory.task_id.rpartition(":")[2]):
            yield trajectory
            return
        found.append(trajectory.task_id)
    known = ", ".join(found[:5]) + (f" … ({len(found)} in all)" if len(found) > 5 else "")
    raise NotFoundError(f"the transcript has no task {task_id!r}; " + (f"it has {known}" if found else "it has none"))


def _read(source: Source, session_id: str | None, *, subagents: bool) -> Iterator[Trajectory]:
    known = [each.transcripts for each in hosts()]
    path = Path(source) if isinstance(source, str | Path) else None
    for each in known:
        if path is not None and each.read_store is not None and path.match(each.stores) and is_host_database(path):
            yield from each.read_store(path, session_id)
            return
    with open_source(source) as records:
        stream = iter(records)
        for record in stream:
            form = next((each for each in (*known, OBJECTS, MESSAGES) if each.is_one(record)), None)
            if form is not None:
                break
            records.skipped += 1
        else:
            raise InputError(f"not a known kind of transcript; {ACCEPTED}")
        yield from form.read(itertools.chain([record], stream), Origin(records, path, session_id))
    for file in form.subagents(path) if subagents and path is not None else ():
        yield from _read(file, session_id, subagents=False)
