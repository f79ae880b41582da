"""Whether a memory still applies: what it names of the project, and was there once, is there, has moved or is gone."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from pydantic import JsonValue

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.memory import MemoryItem
from swarm_memory.tools.anchors.names import anchors_of
from swarm_memory.tools.ports.journal import Event
from swarm_memory.tools.ports.memories import MemoryFilter
from swarm_memory.tools.toolbox import Toolbox

if TYPE_CHECKING:  # all ports hang on it, and a person waits for a hook
    from swarm_memory.tools.ports.store import Project

GONE, BACK = "reasoning_memory.gone", "reasoning_memory.back"
"""Events: something that the memory names is there no more, or all of it is there again."""

CHECK_ANCHORS = "check_anchors"
"""The kind of the job, and its key: a project has one, which queues the next one."""

EVERY = timedelta(days=1)
LOOK_S = 0.05
"""A project's folder that does not answer so long, on a network maybe, says nothing."""

_PAGE = 200


class Footing(NamedTuple):
    """How much of what a memory names is left in the project."""

    named: int
    gone: tuple[str, ...]
    """Without those that moved."""
    moved: Mapping[str, str] = {}
    """Where files are now, by their former paths."""
    is_known: bool = True
    """False: nobody has asked Git yet where it went."""

    @property
    def share_gone(self) -> float:
        """From 0 to 1."""
        return len(self.gone) / self.named

    @property
    def told(self) -> str:
        """What is told of it beside the memory; empty where all is there."""
        moved = [f"{old} is now {new}" for old, new in self.moved.items()]
        gone = (
            [f"{self.names_gone} {'is' if len(self.gone) == 1 else 'are'} no more in this project"] if self.gone else []
        )
        return "; ".join([*moved, *gone])

    @property
    def names_gone(self) -> str:
        return _names(self.gone)


async def anchored(toolbox: Toolbox, items: Sequence[MemoryItem]) -> list[MemoryItem]:
    """Return new or changed memories with a note of what they name that is in the project now; a daily look begins.

    A global one belongs to no project. Raises `StorageError`.
    """
    import anyio.to_thread

    project = toolbox.project
    if project is None:
        return [*items]
    own = [item for item in items if item.scope == toolbox.scope]
    found = await anyio.to_thread.run_sync(lambda: {item.id: anchors_of(item, project) for item in own})
    files = {file for anchors in found.values() for each in anchors if (file := _file(each))}
    lasting = await project.lasting(files) if files else frozenset[str]()
    noted = [_with_anchors(item, found[item.id], lasting) if item.id in found else item for item in items]
    if any(item.provenance.anchors for item in noted):
        await queue_check(toolbox)
    return noted


def _with_anchors(item: MemoryItem, anchors: Sequence[str], lasting: frozenset[str]) -> MemoryItem:
    kept = tuple(each for each in anchors if (file := _file(each)) is None or file in lasting)
    if kept == item.provenance.anchors:
        return item
    return item.model_copy(update={"provenance": item.provenance.model_copy(update={"anchors": kept})})


async def footings(toolbox: Toolbox, items: Sequence[MemoryItem]) -> dict[str, Footing]:
    """Return of those memories of which something is gone, or has moved, what; by id. Raises `StorageError`.

    Where the folder does not answer in 50 ms nothing is gone.
    """
    project = toolbox.project
    own = [item for item in items if item.provenance.anchors and item.scope == toolbox.scope]
    if project is None or not own:
        return {}
    missing = await project.looked(partial(_missing, project, own), LOOK_S)
    if not missing:
        return {}
    known = await toolbox.store.memory_histories((toolbox.scope,), list(missing), (GONE,))
    return {
        memory_id: _footing(named, gone, _moves(known[memory_id], project))._replace(is_known=bool(known[memory_id]))
        for memory_id, (named, gone) in missing.items()
    }


def _missing(project: "Project", items: Sequence[MemoryItem]) -> dict[str, tuple[int, list[str]]]:
    """Return of each memory of which something is not there how much it names, and what is not there."""
    missing: dict[str, tuple[int, list[str]]] = {}
    for item in items:
        anchors = item.provenance.anchors
        if gone := [anchor for anchor in anchors if not project.has(anchor)]:
            missing[item.id] = len(anchors), gone
    return missing


def _footing(named: int, gone: Sequence[str], moves: Mapping[str, str]) -> Footing:
    moved = {file: moves[file] for anchor in gone if (file := _file(anchor)) is not None and file in moves}
    return Footing(named, tuple(anchor for anchor in gone if _file(anchor) not in moved), moved)


def _file(anchor: str) -> str | None:
    """Return the path of an anchor that is a file."""
    kind, _, name = anchor.partition(":")
    return name if kind == "file" else None


def _moves(events: Sequence[Event], project: "Project") -> dict[str, str]:
    """Return where files went, as it was noted last, and still holds."""
    noted: Any = events[-1].data.get("moved") if events else None
    moves = cast("dict[str, str]", noted) if isinstance(noted, dict) else {}
    return {old: new for old, new in moves.items() if project.has(f"file:{new}")}


async def queue_check(toolbox: Toolbox, *, now: bool = False, again: bool = False) -> None:
    """Queue the daily look at all memories that name something, where none waits.

    `now`: one found that something is gone. `again`: the one that runs queues the next.
    """
    former = await toolbox.store.find_job(toolbox.scope, CHECK_ANCHORS, CHECK_ANCHORS)
    if now or again or former is None or former.ended_at is not None:
        await toolbox.queue(CHECK_ANCHORS, CHECK_ANCHORS, after=timedelta(0) if now else EVERY)


class Checked(NamedTuple):
    """What a look at all memories gave."""

    anchored: int
    """Memories that name something."""
    gone: int
    """Of these: of which something is gone, or has moved."""
    changed: int
    """Memories of which that was not known yet."""


async def check_anchors(toolbox: Toolbox) -> Checked:
    """Note of every memory of the project what of its anchors is gone, where it went, or that all is back."""
    total = gone = changed = offset = 0
    while page := await toolbox.store.list_memories((toolbox.scope,), MemoryFilter(limit=_PAGE, offset=offset)):
        offset += len(page)
        await toolbox.give_way()
        own = [item for item in page if item.provenance.anchors]
        total += len(own)
        seen = await _looked_up(toolbox, own)
        gone += len(seen)
        changed += await _noted(toolbox, own, seen)
    return Checked(total, gone, changed)


async def _looked_up(toolbox: Toolbox, items: Sequence[MemoryItem]) -> dict[str, Footing]:
    """Return the footing of those of which something is not there, with what Git says of where it went."""
    project = toolbox.project
    if project is None:
        raise InputError("there is no folder of the project to look at")
    import anyio.to_thread

    missing = await anyio.to_thread.run_sync(_missing, project, items)
    files = {file for _, gone in missing.values() for anchor in gone if (file := _file(anchor))}
    moves: Mapping[str, str] = await project.moved(files) if files else {}
    return {memory_id: _footing(named, gone, moves) for memory_id, (named, gone) in missing.items()}


async def _noted(toolbox: Toolbox, items: Sequence[MemoryItem], seen: Mapping[str, Footing]) -> int:
    """Write what is not known yet; return how many events that took."""
    known = await toolbox.store.memory_histories((toolbox.scope,), [item.id for item in items], (GONE, BACK))
    events: list[Event] = []
    for item in items:
        last = known[item.id][-1] if known[item.id] else None
        footing = seen.get(item.id)
        if footing is not None:
            data: dict[str, JsonValue] = {"gone": [*footing.gone], "moved": dict(footing.moved)}
            if last is None or last.kind == BACK or dict(last.data) != data:
                events.append(Event(GONE, toolbox.clock.now(), item.id, data))
        elif last is not None and last.kind == GONE:
            events.append(Event(BACK, toolbox.clock.now(), item.id))
    for event in events:
        await toolbox.store.add_event(toolbox.scope, event)
    return len(events)


class Gone(NamedTuple):
    """Since when a memory has not applied, as far as was looked, and what is gone."""

    since: datetime
    names: str


async def gone_for(toolbox: Toolbox, least: timedelta, most: int) -> dict[str, Gone]:
    """Return which memories have not applied for so long, by id. What only moved applies."""
    back = {event.subject_id: event.at for event in await toolbox.store.events_of_kind(toolbox.scope, BACK, most)}
    since: dict[str, Gone] = {}
    for event in await toolbox.store.events_of_kind(toolbox.scope, GONE, most):
        subject, names = event.subject_id, event.data.get("gone")
        if subject is None or event.at <= back.get(subject, event.at - EVERY):
            continue
        if isinstance(names, list) and names:
            since[subject] = Gone(event.at, _names(map(str, names)))
    return {subject: gone for subject, gone in since.items() if toolbox.clock.now() - gone.since >= least}


def _names(anchors: Iterable[str]) -> str:
    return ", ".join(anchor.partition(":")[2] for anchor in anchors)
