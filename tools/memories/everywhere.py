"""What held in several projects of the user's is told in all of them, with what it did in each; and taken back."""

from collections.abc import Sequence
from typing import NamedTuple

from swarm_memory.schema.base import GLOBAL_PROJECT, TEAM, counted
from swarm_memory.schema.errors import NotFoundError
from swarm_memory.schema.memory import MemoryItem
from swarm_memory.tools.consolidate.duplicates import gist_of, is_same
from swarm_memory.tools.consolidate.pairs import duplicate_threshold
from swarm_memory.tools.guard.gate import suspects
from swarm_memory.tools.memories.decide import merge, promote, standing, undo
from swarm_memory.tools.memories.edit import get_memories, list_memories
from swarm_memory.tools.ports.memories import MemoryFilter, StoredMemory
from swarm_memory.tools.promote.documents import figures_of
from swarm_memory.tools.retrieve.embed import prepare
from swarm_memory.tools.toolbox import Toolbox

MOST_LOOKED_AT = 200
"""Of the project's memories so many, the newest, are looked for in the others."""

_NEAREST = 5


class Held(NamedTuple):
    """A memory in one project, and what came of it there."""

    project: str
    memory_id: str
    told: int
    succeeded: int
    failed: int

    @property
    def says(self) -> str:
        """The same in words."""
        ended = self.succeeded + self.failed
        outcomes = f", {self.succeeded} of {counted(ended, 'task')} succeeded" if ended else ""
        return f"{self.project}: told {counted(self.told, 'time')}{outcomes}"


class Candidate(NamedTuple):
    """A memory of the project that can be told in all of them."""

    item: MemoryItem
    held: tuple[Held, ...]
    """Where it stands, its own project first: there it did not fail more often than it succeeded."""


async def held_in_several(toolbox: Toolbox, ids: Sequence[str] = ()) -> list[Candidate]:
    """Return the active memories of the project that other projects of the bank hold too; of `ids` each, held or not.

    Raises as `get_memories`.
    """
    if ids:
        items = await get_memories(toolbox, ids)
    else:
        items = await list_memories(toolbox, MemoryFilter(limit=MOST_LOOKED_AT))
        fit = [item for item in items if item.scope == toolbox.scope and item.use != "open_problem"]
        items = [item for item in fit if item.provenance.standing >= 0 and not suspects([item])]
    projects = (await toolbox.store.review.facets(toolbox.scope.readable())).projects
    others = [
        name for name in projects if name not in (GLOBAL_PROJECT, toolbox.scope.project) and not name.startswith(TEAM)
    ]
    found: list[Candidate] = []
    for stored in await prepare(toolbox, items) if items else ():
        held = [await _held(toolbox, stored.item)]
        for project in others:
            held += await _alike(toolbox.in_project(project), stored)
        good = [each for each in held if each.failed <= each.succeeded]
        if ids or (len(good) > 1 and good[0] is held[0]):
            found.append(Candidate(stored.item, tuple(held if ids else good)))
    return found


async def lift(toolbox: Toolbox, candidate: Candidate) -> None:
    """Tell a memory in every project; those that say the same elsewhere are archived for it. Raises as `promote`."""
    evidence = {each.project: each.says for each in candidate.held}
    item = candidate.item
    await promote(toolbox, item.id, evidence)
    for each in candidate.held:
        if each.memory_id != item.id:
            await merge(toolbox.in_project(each.project), item.id, each.memory_id)


async def take_back(toolbox: Toolbox, memory_id: str) -> list[str]:
    """Have a memory be of its project again, and those that were archived for it be told; return their ids.

    Raises `NotFoundError` where it was not lifted from this project, and as `undo`.
    """
    decided = standing(await toolbox.store.review.decisions(toolbox.scope.readable()))
    lifted = [
        (decision_id, event)
        for decision_id, events in decided.items()
        for event in events
        if event.subject_id == memory_id and event.data.get("decision") == "promote"
    ]
    if not lifted:
        raise NotFoundError(f"{memory_id} was not promoted to the user: nothing was taken back")
    decision_id, event = lifted[-1]
    projects = event.data.get("projects")
    restored: list[str] = []
    for project in projects if isinstance(projects, dict) else ():
        there = toolbox.in_project(project)
        for merge_id, events in standing(await there.store.review.decisions((there.scope,))).items():
            pair = events[0].data.get("pair")
            if isinstance(pair, list) and pair[:1] == [memory_id] and events[0].data.get("decision") == "merge":
                await undo(there, merge_id)
                restored += [str(each) for each in pair[1:]]
    await undo(toolbox, decision_id)
    return restored


async def _held(toolbox: Toolbox, item: MemoryItem) -> Held:
    figures = (await figures_of(toolbox, [item]))[item.id]
    labels = list(figures.outcomes.values())
    return Held(item.scope.project, item.id, figures.told, labels.count("Success"), labels.count("Failure"))


async def _alike(toolbox: Toolbox, stored: StoredMemory) -> list[Held]:
    """Return the memory of a project that says the same as one of another project; none without a vector."""
    if stored.vector is None:
        return []
    near = await toolbox.store.nearest((toolbox.scope,), toolbox.embedder.name, stored.vector, _NEAREST)
    ids = [each for each, cosine in near if cosine >= duplicate_threshold(toolbox)]
    copies = await toolbox.store.get_memories((toolbox.scope,), ids) if ids else []
    threshold, gist = toolbox.settings.consolidate.contradiction_threshold, gist_of(stored.item)
    same = (each for each in copies if is_same(gist, gist_of(each), threshold))
    return [await _held(toolbox, each) for each in list(same)[:1]]
