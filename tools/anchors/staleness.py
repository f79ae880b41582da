"""Whether a memory still applies: whether what it names, and was once in the project, is still there.

A memory names files, scripts and packages. Only those that are there when it is made are noted: it may
name what is yet to be made, or an example; but what was there and is gone has changed since.
"""

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import anyio
import anyio.to_thread

from swarm_memory.schema.memory import MemoryItem
from swarm_memory.tools.credit.outcome import ADVERSE, SENTENCE
from swarm_memory.tools.text.tokens import SCRIPT, packages_in, paths_in
from swarm_memory.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from swarm_memory.server.project.folder import ProjectFolder

LOOK_S = 0.05
"""Seconds to wait for a project's folder, which may be on a network; without an answer nothing counts as gone."""

MOST_NAMED = 20
"""At most this many anchors are noted for one memory."""

_FILE = "file:"


class Staleness(NamedTuple):
    """How much of what a memory names is left in the project."""

    named: int
    gone: tuple[str, ...]

    @property
    def share_gone(self) -> float:
        """From 0 to 1."""
        return len(self.gone) / self.named

    @property
    def note(self) -> str:
        """The remark about it that is shown with the memory."""
        return f"{self.names_gone} {'is' if len(self.gone) == 1 else 'are'} no longer in this project"

    @property
    def names_gone(self) -> str:
        return ", ".join(anchor.partition(":")[2] for anchor in self.gone)


async def set_anchors(toolbox: Toolbox, items: Sequence[MemoryItem]) -> list[MemoryItem]:
    """Return new or changed memories with a note of what they name that is in the project now.

    A file that Git does not track is not noted: it may be gone tomorrow. A global memory belongs to no project.
    """
    project = toolbox.project
    if project is None:
        return [*items]
    own = [item for item in items if item.scope == toolbox.scope and _named(item)]
    found = await anyio.to_thread.run_sync(lambda: {item.id: anchors_of(item, project) for item in own}) if own else {}
    files = {each.removeprefix(_FILE) for anchors in found.values() for each in anchors if each.startswith(_FILE)}
    passing = {_FILE + file for file in files - await project.tracked_by_git(files)}
    kept = {item_id: tuple(each for each in anchors if each not in passing) for item_id, anchors in found.items()}
    sources = {item.id: item.provenance.model_copy(update={"anchors": kept[item.id]}) for item in own}
    return [item.model_copy(update={"provenance": sources.get(item.id, item.provenance)}) for item in items]


async def staleness_of(toolbox: Toolbox, items: Sequence[MemoryItem]) -> dict[str, Staleness]:
    """Return, by id, the staleness of those memories that name something that is gone.

    If the folder does not answer within 50 ms, nothing counts as gone.
    """
    project = toolbox.project
    named = {item.id: item.provenance.anchors for item in items if item.scope == toolbox.scope}
    if project is None or not any(named.values()):
        return {}

    def look() -> dict[str, Staleness]:
        gone = {each: tuple(a for a in anchors if not project.has(a)) for each, anchors in named.items()}
        return {each: Staleness(len(named[each]), anchors) for each, anchors in gone.items() if anchors}

    with anyio.move_on_after(LOOK_S):
        return await anyio.to_thread.run_sync(look, abandon_on_cancel=True)
    return {}


async def still_applying(toolbox: Toolbox, items: Sequence[MemoryItem]) -> list[MemoryItem]:
    """Return the items without those of which anything is gone from the project; what the user said stays."""
    stale = await staleness_of(toolbox, items) if items else {}
    return [each for each in items if each.id not in stale or each.provenance.priority > 0]


def anchors_of(item: MemoryItem, project: "ProjectFolder") -> list[str]:
    """Return what a memory's title and content name that is in the project now; for a fix, only what it says to do.

    What failed, or did not help, may still be there when what ended the error is gone, or may be gone itself.
    """
    return list(islice((anchor for anchor in _named(item) if project.has(anchor)), MOST_NAMED))


def _named(item: MemoryItem) -> dict[str, None]:
    advising = (each for each in SENTENCE.split(item.advice) if not ADVERSE.search(each))
    text = (item.use == "fix" and "\n".join(item.actions)) or "\n".join(advising)
    files = (_FILE + path.rstrip("/") for path in paths_in(text) if ".." not in path.split("/"))
    scripts = (f"script:{script}" for script in SCRIPT.findall(text))
    return dict.fromkeys((*files, *scripts, *(f"package:{package}" for package in packages_in(text))))
