"""Two memories that contradict each other never come back together."""

from collections.abc import Callable, Sequence
from datetime import datetime

from swarm_memory.schema.memory import MemoryItem, ScoredMemory
from swarm_memory.tools.text.opposition import opposition
from swarm_memory.tools.toolbox import Toolbox


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
    stay = {each.item.id: tuple(refused.get(each.item.id, ())) for each in kept}
    return tuple(each.model_copy(update={"contradicts": stay[each.item.id]}) for each in found if each.item.id in stay)


async def _contradictions(toolbox: Toolbox, found: Sequence[ScoredMemory]) -> Callable[[MemoryItem, MemoryItem], bool]:
    threshold = toolbox.settings.consolidate.contradiction_threshold
    linked = set(map(frozenset, await toolbox.store.contradictions_among([each.item.id for each in found])))

    def contradict(one: MemoryItem, other: MemoryItem) -> bool:
        return frozenset((one.id, other.id)) in linked or opposition(one.advice, other.advice) >= threshold

    return contradict


def _standing(item: MemoryItem) -> tuple[int, float, datetime, str]:
    """The user's own word first; then the surer one, in tenths, for less is no difference; then the newer one."""
    return item.provenance.standing, round(item.confidence, 1), item.created_at, item.id
