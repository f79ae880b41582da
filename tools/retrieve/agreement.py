"""Two memories that contradict each other never come back together; the ways past one error do."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from swarm_memory.schema.base import TEAM, is_teams
from swarm_memory.schema.memory import MemoryItem, ScoredMemory
from swarm_memory.tools.ports.memories import SearchResult
from swarm_memory.tools.retrieve.preamble import MAX_WAYS, helps
from swarm_memory.tools.text.opposition import opposition
from swarm_memory.tools.toolbox import Toolbox


async def told_once(toolbox: Toolbox, result: SearchResult) -> SearchResult:
    """Return what a search found without own memories that one of the team's among them says too.

    The user's own word stays, and the team's goes. Raises `StorageError`.
    """
    found = {candidate.id: candidate for candidate in result.candidates}
    shared = [each for each, candidate in found.items() if candidate.project.startswith(TEAM)] if toolbox.team else []
    gone = await _told_twice(toolbox, shared, {each: candidate.standing for each, candidate in found.items()})
    return result._replace(candidates=tuple(each for each in result.candidates if each.id not in gone))


async def listed_once(toolbox: Toolbox, items: Sequence[MemoryItem]) -> list[MemoryItem]:
    """Return memories, as `told_once` what a search found. Raises `StorageError`."""
    standing = {item.id: item.provenance.standing for item in items}
    gone = await _told_twice(toolbox, [item.id for item in items if is_teams(item.scope)], standing)
    return [item for item in items if item.id not in gone]


async def _told_twice(toolbox: Toolbox, shared: Sequence[str], standing: Mapping[str, int]) -> set[str]:
    """Return which ids say only what another one of those with a `standing` says."""
    own = await toolbox.store.team.own_same(shared) if shared else {}
    return {
        shared_id if standing[own_id] > 0 else own_id
        for shared_id, own_ids in own.items()
        for own_id in own_ids
        if own_id in standing
    }


async def team_counts(toolbox: Toolbox, items: Sequence[MemoryItem]) -> dict[str, tuple[int, int, int]]:
    """Return of those that the team shares in how many tasks they worked and were tried, and for how many people.

    Raises `StorageError`.
    """
    ids = [each.id for each in items if is_teams(each.scope)]
    known = await toolbox.store.team.sharing(ids) if ids else {}
    evidence = {each: sharing.evidence for each, sharing in known.items()}
    return {each: (found.worked, found.tried, found.people) for each, found in evidence.items()}


async def with_counts(toolbox: Toolbox, found: Sequence[ScoredMemory]) -> tuple[ScoredMemory, ...]:
    """Return the found ones, those of the team with how often they worked, and for how many people.

    Raises `StorageError`.
    """
    names = ("worked", "tried", "people")
    counts = await team_counts(toolbox, [each.item for each in found])
    told: dict[str, dict[str, int]] = {each: dict(zip(names, numbers, strict=True)) for each, numbers in counts.items()}
    return tuple(each.model_copy(update=told.get(each.item.id, {})) for each in found)


async def without_contradictions(toolbox: Toolbox, found: Sequence[ScoredMemory]) -> tuple[ScoredMemory, ...]:
    """Return the found ones, in their order, without those that a surer or newer one among them contradicts.

    The one that stays names them. They contradict each other where a link says so, or where their words do
    (`text.opposition`, at least `consolidate.contradiction_threshold`). Raises `StorageError`.
    """
    if len(found) < 2:
        return tuple(found)
    contradict = await _contradictions(toolbox, found)
    kept: list[ScoredMemory] = []
    refused: dict[str, list[str]] = {}
    for each in sorted(found, key=lambda each: _standing(each.item), reverse=True):
        against = next((other for other in kept if contradict(each.item, other.item)), None)
        if against is None:
            kept.append(each)
        else:
            refused.setdefault(against.item.id, []).append(each.item.title)
    if not refused:
        return tuple(found)
    stay = {each.item.id: tuple(refused.get(each.item.id, ())) for each in kept}
    return tuple(each.model_copy(update={"contradicts": stay[each.item.id]}) for each in found if each.item.id in stay)


async def with_other_ways(toolbox: Toolbox, found: Sequence[ScoredMemory], wanted: int) -> tuple[ScoredMemory, ...]:
    """Return at most `wanted`: the found ones, each way out with how often it worked, and behind it up to two others.

    The others ended the same errors, and come surest first. Where none of an error's helped more often than not, none
    is returned. Raises `StorageError`.
    """
    ids = [each.item.id for each in found if each.item.use == "way_out"]
    ways = await toolbox.store.ways_beside(toolbox.scope, ids) if ids else []
    if not ways:
        return tuple(found)
    items = {
        item.id: item
        for item in await toolbox.store.get_memories(
            toolbox.readable, list({way.memory_id for way in ways if way.memory_id not in ids})
        )
    }
    ended: dict[str, set[str]] = {}
    for way in ways:
        ended.setdefault(way.memory_id, set()).add(way.signature)
    helped = {way.signature for way in ways if helps(way.worked, way.tried)}
    ranked: dict[str, ScoredMemory] = {}
    for each in found:
        if each.item.id in ended and ended[each.item.id].isdisjoint(helped):
            continue
        ranked.setdefault(each.item.id, each)
        others = dict.fromkeys(way.memory_id for way in ways if way.signature in ended.get(each.item.id, ()))
        for other in [other for other in others if other in items][: MAX_WAYS - 1]:
            ranked.setdefault(other, each.model_copy(update={"item": items[other]}))
    counts = {way.memory_id: {"worked": way.worked, "tried": way.tried, "people": way.people} for way in reversed(ways)}
    return tuple(each.model_copy(update=counts.get(each.item.id, {})) for each in list(ranked.values())[:wanted])


async def _contradictions(toolbox: Toolbox, found: Sequence[ScoredMemory]) -> Callable[[MemoryItem, MemoryItem], bool]:
    threshold = toolbox.settings.consolidate.contradiction_threshold
    linked = set(map(frozenset, await toolbox.store.contradictions_among([each.item.id for each in found])))

    def contradict(one: MemoryItem, other: MemoryItem) -> bool:
        return frozenset((one.id, other.id)) in linked or opposition(one.advice, other.advice) >= threshold

    return contradict


def _standing(item: MemoryItem) -> tuple[int, float, datetime, str]:
    """The user's own word first; then the surer one, in tenths, for less is no difference; then the newer one."""
    return item.provenance.standing, round(item.confidence, 1), item.created_at, item.id
