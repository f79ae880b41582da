"""Whether a memory still applies: what it names of the project, and was there once, is there, has moved or is gone.

What it names are files, scripts and packages. Only what is there when it is made is noted: it may
name what is yet to be made, or an example; but what was there and is gone has changed since.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, cast

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.memory import MemoryItem
from swarm_memory.tools.ports.journal import Event
from swarm_memory.tools.ports.memories import MemoryFilter
from swarm_memory.tools.text.cleaning import lazy
from swarm_memory.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from swarm_memory.server.project.folder import ProjectFolder

MOVED = "reasoning_memory.moved"
"""The event of files that a memory names and that are elsewhere now."""

CHECK_ANCHORS = "check_anchors"
"""The kind of the job, and its key: a project has one, which queues the next one."""

EVERY = timedelta(days=1)
LOOK_S = 0.05
"""A project's folder that does not answer so long, on a network maybe, says nothing."""

MOST, MOST_NAMED = 10_000, 20
"""So many of the newest memories are looked at; so many anchors are noted of one memory."""

_FILE = "file:"
_PATH = lazy(r"(?<![\w./@:~-])(?:\./)?([\w@.+-]+(?:/[\w@.+-]+)*)/?(?![\w/])")
_SCRIPT = lazy(r"\b(?:((?:npm|pnpm|yarn|bun) run|make|just|task|poe) ([A-Za-z][\w:.-]*))")
_CODE = lazy(r"`([^`\n]{1,200})`")
_PACKAGE = lazy(r"@?[A-Za-z][\w.-]*(?:/[\w.-]+)?")


class Staleness(NamedTuple):
    """How much of what a memory names is left in the project."""

    named: int
    gone: tuple[str, ...] = ()
    """Without those that moved."""
    moved: Mapping[str, str] = {}
    """Where files are now, by their former paths."""

    @property
    def share_gone(self) -> float:
        """From 0 to 1."""
        return len(self.gone) / self.named

    @property
    def note(self) -> str:
        """What is said of it beside the memory."""
        parts = [f"{old} is now {new}" for old, new in self.moved.items()]
        if self.gone:
            parts.append(f"{self.names_gone} {'is' if len(self.gone) == 1 else 'are'} no more in this project")
        return "; ".join(parts)

    @property
    def names_gone(self) -> str:
        return ", ".join(anchor.partition(":")[2] for anchor in self.gone)


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
    files = _files(each for anchors in found.values() for each in anchors)
    passing = {_FILE + file for file in files - await project.lasting(files)}
    kept = {item_id: tuple(each for each in anchors if each not in passing) for item_id, anchors in found.items()}
    if any(kept.values()):
        waiting = await toolbox.store.find_job(toolbox.scope, CHECK_ANCHORS, CHECK_ANCHORS)
        if waiting is None or waiting.ended_at is not None:
            await toolbox.queue(CHECK_ANCHORS, CHECK_ANCHORS, after=EVERY)
    sources = {item.id: item.provenance.model_copy(update={"anchors": kept[item.id]}) for item in own}
    return [item.model_copy(update={"provenance": sources.get(item.id, item.provenance)}) for item in items]


async def staleness_of(toolbox: Toolbox, items: Sequence[MemoryItem]) -> dict[str, Staleness]:
    """Return of those memories of which something is gone, or has moved, what; by id. Raises `StorageError`.

    Where the folder does not answer in 50 ms nothing is gone. Where a file went is known once the daily look saw it.
    """
    project = toolbox.project
    named = {item.id: item.provenance.anchors for item in items if item.scope == toolbox.scope}
    if project is None or not any(named.values()):
        return {}
    missing = await project.looked(lambda: _missing(project, named), LOOK_S) or {}
    known = await toolbox.store.memory_histories((toolbox.scope,), list(missing), (MOVED,)) if missing else {}
    noted = [cast("dict[str, str]", events[-1].data["moved"]) for events in known.values() if events]
    moves = {_FILE + old: new for moved in noted for old, new in moved.items() if project.has(_FILE + new)}
    return {
        each: Staleness(
            len(named[each]),
            tuple(anchor for anchor in gone if anchor not in moves),
            {anchor.removeprefix(_FILE): moves[anchor] for anchor in gone if anchor in moves},
        )
        for each, gone in missing.items()
    }


def _missing(project: "ProjectFolder", named: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return of each memory of which something is not there what that is, wherever it went."""
    gone = {each: [anchor for anchor in anchors if not project.has(anchor)] for each, anchors in named.items()}
    return {each: anchors for each, anchors in gone.items() if anchors}


def _files(anchors: Iterable[str]) -> set[str]:
    """Return the paths of the anchors that are files."""
    return {anchor.removeprefix(_FILE) for anchor in anchors if anchor.startswith(_FILE)}


async def check_anchors(toolbox: Toolbox) -> int:
    """Note where files went, by Git, that memories of the project name; return how many memories name anything.

    Raises `InputError` without a folder, `StorageError`.
    """
    import anyio.to_thread

    store, scope, project = toolbox.store, toolbox.scope, toolbox.project
    if project is None:
        raise InputError("there is no folder of the project to look at")
    named = {item.id: item.provenance.anchors for item in await store.list_memories((scope,), MemoryFilter(limit=MOST))}
    missing = await anyio.to_thread.run_sync(_missing, project, named)
    moves = await project.moved(_files(anchor for gone in missing.values() for anchor in gone))
    known = await store.memory_histories((scope,), list(missing), (MOVED,))
    for memory_id, gone in missing.items():
        moved = {file: moves[file] for file in sorted(_files(gone)) if file in moves}
        if moved and not (known[memory_id] and known[memory_id][-1].data["moved"] == moved):
            await store.add_event(scope, Event(MOVED, toolbox.clock.now(), memory_id, {"moved": {**moved}}))
    return sum(map(bool, named.values()))


def anchors_of(item: MemoryItem, project: "ProjectFolder") -> list[str]:
    """Return what a memory's title and content name that is in the project now; of a fix what it says to do.

    What failed, and what did not help, may be there still when what ended the error is gone.
    """
    text = (item.use == "way_out" and "\n".join(item.actions)) or item.advice
    return list(islice((anchor for anchor in dict.fromkeys(_named(text)) if project.has(anchor)), MOST_NAMED))


def _named(text: str) -> Iterator[str]:
    """Yield all that may be one; most of it is not. Of packages only what stands within code."""
    for path in _PATH.findall(text):
        name = path.rstrip(".")
        if ("/" in name or "." in name) and len(name) <= 200 and ".." not in name.split("/"):
            yield f"file:{name}"
    yield from (f"script:{runner} {name.rstrip('.:')}" for runner, name in _SCRIPT.findall(text))
    for name in _PACKAGE.findall("\n".join(_CODE.findall(text))):
        yield from (f"package:{name.rstrip('.')}", f"package:{name.split('.')[0]}")
