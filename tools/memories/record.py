"""All that is known about one memory: the steps it was distilled from, the tasks to which it was shown and what came of
that, its versions.
"""

import asyncio
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from swarm_memory.schema.memory import MemoryItem, MemoryLink
from swarm_memory.schema.trajectory import Verdict
from swarm_memory.tools.memories.manage import get_memories, with_authors
from swarm_memory.tools.ports.records import BankEvent, Showing
from swarm_memory.tools.tasks.transcript import TranscriptStep, transcript_steps
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.reading import read

MAX_INJECTIONS = 200
BESIDE = 1
"""How many steps before and after each step that a memory was distilled from are also shown."""


class Version(NamedTuple):
    """The texts that the memory had, until a moment."""

    texts: Mapping[str, Any]
    """As they are kept: title, description, content, tags, domain."""
    until: datetime | None = None
    """None: it has them now."""
    reason: str | None = None
    """Why it was changed then."""


class Source(NamedTuple):
    """The task that a memory was distilled from."""

    trajectory_id: str
    task_id: str
    task: str
    verdict: Verdict | None
    parts: tuple[TranscriptStep, ...]
    """The steps of the evidence, and those next to them, in order."""


class MemoryRecord(NamedTuple):
    """One memory with all that is known about it."""

    item: MemoryItem
    source: Source | None
    """None: it came from no task, or the task's record is gone."""
    injections: tuple[Showing, ...]
    """Newest first, at most 200."""
    versions: tuple[Version, ...]
    """Oldest first; the last is what it says now."""
    history: tuple[BankEvent, ...]
    """Oldest first."""
    links: tuple[tuple[MemoryLink, MemoryItem], ...]
    """Each with the other memory."""


async def memory_record(toolbox: Toolbox, memory_id: str) -> MemoryRecord:
    """Return all that is known about a memory. Raises as `get_memories`."""
    (item,) = await with_authors(toolbox, await get_memories(toolbox, [memory_id]))
    readable = toolbox.readable
    history = await toolbox.store.memory_history(readable, memory_id)
    links = await toolbox.store.memory_links((item.scope,), [memory_id])
    others = [link.dst_id if link.src_id == memory_id else link.src_id for link in links]
    known = {each.id: each for each in await toolbox.store.get_memories(readable, others)} if others else {}
    versions: list[Version] = []
    for event in history:
        former, reason = event.data.get("pattern_data"), event.data.get("reason")
        if isinstance(former, str):
            versions.append(Version(json.loads(former), event.at, reason if isinstance(reason, str) else None))
    return MemoryRecord(
        item=item,
        source=await _source(toolbox, item),
        injections=tuple(await toolbox.store.review.showings(readable, memory_id, MAX_INJECTIONS)),
        versions=(*versions, Version(item.model_dump())),
        history=tuple(history),
        links=tuple((link, known[other]) for link, other in zip(links, others, strict=True) if other in known),
    )


async def _source(toolbox: Toolbox, item: MemoryItem) -> Source | None:
    origin = item.provenance
    if origin.trajectory_id is None:
        return None
    found = await toolbox.store.get_trajectory(toolbox.scope, origin.trajectory_id)
    if found is None:
        return None
    trajectory, verdict = found
    shown = await asyncio.to_thread(lambda: list(transcript_steps(read(trajectory), origin.evidence)))
    marked = [place for place, part in enumerate(shown) if part.is_evidence]
    parts = tuple(part for place, part in enumerate(shown) if any(abs(place - each) <= BESIDE for each in marked))
    return Source(origin.trajectory_id, trajectory.task_id, trajectory.task, verdict, parts)
