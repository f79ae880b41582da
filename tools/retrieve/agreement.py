"""What of memories that belong together is given: one of two that contradict each other, fixes that mostly worked."""

from collections.abc import Sequence
from datetime import datetime

from swarm_memory.schema.base import TEAM, is_teams
from swarm_memory.schema.memory import MemoryItem, ScoredMemory
from swarm_memory.tools.ports.memories import SearchResult
from swarm_memory.tools.retrieve.preamble import helps
from swarm_memory.tools.text.opposition import CONTRADICTS, opposition
from swarm_memory.tools.toolbox import Toolbox


async def without_repeats(toolbox: Toolbox, result: SearchResult) -> SearchResult:
    """Return what a search found without own memories that one of the team's among them says too.

    The user's own word stays, and the team's goes. Raises `StorageError`.
    """
    found = {candidate.id: candidate for candidate in result.candidates}
    shared = [each for each, candidate in found.items() if candidate.project.startswith(TEAM)] if toolbox.team else []
    links = await toolbox.store.memory_links(toolbox.team, shared) if shared else []
    gone = {
        link.dst_id if found[link.src_id].standing > 0 else link.src_id
        for link in links
        if link.relation == "duplicate_of" and link.dst_id in shared and link.src_id in found
    }
    return result._replace(candidates=tuple(each for each in result.candidates if each.id not in gone))


async def team_counts(toolbox: Toolbox, items: Sequence[MemoryItem]) -> dict[str, tuple[int, int, int]]:
    """Return of those that the team shares in how many tasks they worked and were tried, and for how many people.

    Raises `StorageError`.
    """
    ids = [each.id for each in items if is_teams(each.scope)]
    known = await toolbox.store.team.sharing(ids) if ids else {}
    evidence = {each: sharing.evidence for each, sharing in known.items()}
    return {each: (found.worked, found.tried, found.people) for each, found in evidence.items()}


async def without_contradictions(toolbox: Toolbox, found: Sequence[ScoredMemory]) -> tuple[ScoredMemory, ...]:
    """Return the found ones, in their order, without those that a surer or newer one among them contradicts.

    The one that stays names them. They contradict each other where a link says so, or where their words do
    (`text.opposition`). Raises `StorageError`.
    """
    stay = await first_of_opposites(toolbox, sorted((each.item for each in found), key=_precedence, reverse=True))
    return tuple(
        each.model_copy(update={"contradicts": tuple(stay[each.item.id])}) if stay[each.item.id] else each
        for each in found
        if each.item.id in stay
    )


async def first_of_opposites(
    toolbox: Toolbox, items: Sequence[MemoryItem], *, by_words: bool = True
) -> dict[str, list[str]]:
    """Return the ids of those that stay: of two that contradict each other the first; with the titles of the others.

    They do where a link says so, and `by_words` where their words do. Raises `StorageError`.
    """
    linked = set[frozenset[str]]()
    if len(items) > 1:
        links = await toolbox.store.memory_links(toolbox.readable, [item.id for item in items])
        linked = {frozenset((link.src_id, link.dst_id)) for link in links if link.relation == "contradicts"}
    kept: list[MemoryItem] = []
    stay: dict[str, list[str]] = {}
    for item in items:
        opposed = (
            each
            for each in kept
            if frozenset((each.id, item.id)) in linked
            or (by_words and opposition(each.advice, item.advice) >= CONTRADICTS)
        )
        if (against := next(opposed, None)) is None:
            kept.append(item)
            stay[item.id] = []
        else:
            stay[against.id].append(item.title)
    return stay


async def with_fix_counts(toolbox: Toolbox, found: Sequence[ScoredMemory]) -> tuple[ScoredMemory, ...]:
    """Return the found ones, each fix with how often it worked, without those that mostly did not.

    Raises `StorageError`.
    """
    ids = [each.item.id for each in found if each.item.use == "way_out"]
    known = await toolbox.store.known_fixes(toolbox.scope, beside=ids) if ids else []
    counts = {way.memory_id: way for way in reversed(known) if way.memory_id in ids}  # of several errors the surest
    kept: list[ScoredMemory] = []
    for each in found:
        way = counts.get(each.item.id)
        if way is None:
            kept.append(each)
        elif helps(way.worked, way.tried):
            kept.append(each.model_copy(update={"worked": way.worked, "tried": way.tried, "people": way.people}))
    return tuple(kept)


def _precedence(item: MemoryItem) -> tuple[int, float, datetime, str]:
    """The user's own word first; then the surer one, in tenths, for less is no difference; then the newer one."""
    return item.provenance.standing, round(item.confidence, 1), item.created_at, item.id
