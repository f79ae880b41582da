"""Which guardrails a way out makes out of date: those that say that none was seen, of the same program and symptom.

Only what was drawn here from calls is compared: a guardrail that a user, an agent or a model wrote says more than that.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from swarm_memory.schema.memory import MemoryItem, MemoryLink
from swarm_memory.tools.distill.lessons import GUARDRAIL, PROVEN_REPAIR
from swarm_memory.tools.ports.bank import MemoryFilter
from swarm_memory.tools.ports.upkeep import UpkeepBatch, UpkeepChange, UpkeepItem
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.failures import error_key

MIN_SHARED_WORDS = 0.5
"""So much of the words of both symptoms is the same (Jaccard), beside the kind of error: a kind may hold several."""

MAX_GUARDRAILS = 50
"""Of one kind of error so many, the newest, are looked at for a new way out."""

_WHEN = re.compile(r'Of use when `(?P<program>[^`]+)` (?:ends|fails) with "(?P<symptom>[^"]+)"\.')


class Symptom(NamedTuple):
    """When a memory is of use."""

    program: str
    """The command or the tool that failed."""
    key: tuple[str, str]
    """The kind of error and its subject."""
    words: frozenset[str]


def symptom_of(item: MemoryItem) -> Symptom | None:
    """Return the symptom that an item names; None for one that names none or was not drawn from calls here."""
    found = _WHEN.match(item.description)
    source = item.provenance
    if found is None or source.distiller != "extractive" or source.imported_from is not None:
        return None
    words = re.findall(r"[^\W\d_]{2,}", found["symptom"].lower())
    return Symptom(found["program"], error_key(found["symptom"]), frozenset(words))


def is_way_out(item: MemoryItem) -> bool:
    """Whether an item tells what was seen to get past its error."""
    return PROVEN_REPAIR in item.tags and item.status == "active" and symptom_of(item) is not None


def is_superseded(guardrail: MemoryItem, repair: MemoryItem) -> bool:
    """Whether a way out makes an earlier guardrail out of date: the same program failed with the same symptom."""
    if GUARDRAIL not in guardrail.tags or PROVEN_REPAIR in guardrail.tags or not is_way_out(repair):
        return False
    ours, theirs = symptom_of(guardrail), symptom_of(repair)
    if guardrail.created_at > repair.created_at or ours is None or theirs is None or ours[:2] != theirs[:2]:
        return False
    return len(ours.words & theirs.words) >= MIN_SHARED_WORDS * len(ours.words | theirs.words)


def change_of(seen: UpkeepItem, repair_id: str) -> UpkeepChange:
    """Return the archiving of a guardrail; it is not done where the way out is active no more."""
    reason = f"superseded by {repair_id}: a way out was found"
    return UpkeepChange(seen=seen, confidence=seen.confidence, status="archived", reason=reason, needs=repair_id)


def link_of(guardrail_id: str, repair_id: str) -> MemoryLink:
    """Return the link that says so."""
    return MemoryLink(src_id=repair_id, dst_id=guardrail_id, relation="refines", weight=1.0)


async def supersede_guardrails(toolbox: Toolbox, items: Iterable[MemoryItem], run_id: str) -> tuple[str, ...]:
    """Archive the earlier guardrails that new items make out of date, and return their ids.

    It is a batch of the run that stored the items: taking that run back restores them. Raises `StorageError`.
    """
    found = {
        guardrail.id: repair.id
        for repair in items
        if is_way_out(repair)
        for guardrail in await _guardrails_like(toolbox, repair)
        if is_superseded(guardrail, repair)
    }
    if not found:
        return ()
    embedder = toolbox.embedder
    seen = await toolbox.store.upkeep_items_of(toolbox.scope, embedder.name, embedder.dimensions, list(found))
    joined = {(link.src_id, link.dst_id) for link in await toolbox.store.memory_links(toolbox.scope, list(found))}
    changes = [change_of(item, found[item.id]) for item in seen if (found[item.id], item.id) not in joined]
    if not changes:
        return ()
    links = tuple(link_of(change.seen.id, found[change.seen.id]) for change in changes)
    batch = UpkeepBatch(run_id, toolbox.clock.now(), tuple(changes), links)
    return (await toolbox.store.write_upkeep(toolbox.scope, batch)).changed


async def _guardrails_like(toolbox: Toolbox, repair: MemoryItem) -> Sequence[MemoryItem]:
    wanted = MemoryFilter(tags=(GUARDRAIL,), domain=repair.domain, limit=MAX_GUARDRAILS)
    return await toolbox.store.list_memories((toolbox.scope,), wanted)


def superseded_pairs(pairs: Iterable[tuple[MemoryItem, MemoryItem]]) -> Iterator[tuple[str, str]]:
    """Yield (guardrail, way out) by their ids, of near memories in any order."""
    for one, other in pairs:
        for guardrail, repair in ((one, other), (other, one)):
            if is_superseded(guardrail, repair):
                yield guardrail.id, repair.id
