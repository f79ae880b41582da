"""What wants a person's decision, with the reason: memories in quarantine, contradicting, unverified, or failing."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Literal, NamedTuple, get_args

from swarm_memory.schema.base import counted
from swarm_memory.schema.memory import MemoryItem
from swarm_memory.tools.guard.trust import unverified
from swarm_memory.tools.memories.decide import standing
from swarm_memory.tools.ports.memories import MemoryFilter
from swarm_memory.tools.toolbox import Toolbox

DeskKind = Literal["quarantined", "contradicting", "unverified", "failing"]
"""Contradicting are pairs, failing the user's own words with which tasks fail."""

KINDS: tuple[DeskKind, ...] = get_args(DeskKind)

MOST_SHOWN_TO_AGENTS = 500
"""Unverified memories are looked for among so many, the most shown ones: it is these that matter."""

MOST_WAITING = 1_000
"""So many of a kind are counted and shown: a person decides no more in a day."""

LATEST = 20
"""Decisions that can be taken back at a click."""


class Card(NamedTuple):
    """One thing to decide."""

    kind: DeskKind
    item: MemoryItem
    reason: str
    """Why it lies here, with its figures."""
    other: MemoryItem | None = None
    """What it contradicts."""


class Taken(NamedTuple):
    """A decision that can be taken back."""

    id: str
    what: str
    at: datetime
    items: tuple[MemoryItem, ...]


async def desk_counts(toolbox: Toolbox) -> Counter[DeskKind]:
    """Return how much waits for a decision, by kind. Raises `StorageError`."""
    return Counter(card.kind for card in await _waiting(toolbox))


async def desk(
    toolbox: Toolbox, wanted: DeskKind | None = None, *, limit: int = 20, offset: int = 0
) -> tuple[Counter[DeskKind], DeskKind, list[Card]]:
    """Return how much waits, and what waits of one kind; by default of the first of which something does.

    The newest come first, of unverified ones the most shown. Raises `StorageError`.
    """
    waiting = await _waiting(toolbox)
    kind: DeskKind = wanted or (waiting[0].kind if waiting else KINDS[0])
    cards = [card for card in waiting if card.kind == kind]
    return Counter(card.kind for card in waiting), kind, cards[offset : offset + limit]


async def latest_decisions(toolbox: Toolbox) -> list[Taken]:
    """Return the newest decisions that can be taken back, newest first. Raises `StorageError`."""
    decided = standing(await toolbox.store.review.decisions(toolbox.scope.readable()))
    newest = list(reversed(decided.items()))[:LATEST]
    items = await _items(toolbox, [str(event.subject_id) for _, events in newest for event in events])
    return [
        Taken(
            decision_id,
            str(events[0].data["decision"]),
            events[0].at,
            tuple(items[each] for event in events if (each := str(event.subject_id)) in items),
        )
        for decision_id, events in newest
    ]


async def _waiting(toolbox: Toolbox) -> list[Card]:
    """Return all that waits, in the order of `KINDS`."""
    shown = await toolbox.store.review.most_shown(toolbox.scope.readable(), MOST_SHOWN_TO_AGENTS)
    doubtful = await unverified(toolbox, shown)
    doubted = (await toolbox.store.trials(toolbox.scope)).doubted  # to keep one counts it from the start
    said = await _items(toolbox, list(doubted))
    return [
        *await _quarantined(toolbox),
        *await _contradicting(toolbox),
        *(Card("unverified", item, _why_unverified(item)) for item in shown if item.id in doubtful),
        *(Card("failing", item, doubted[each]) for each, item in said.items() if item.status == "active"),
    ]


async def _items(toolbox: Toolbox, ids: Sequence[str]) -> dict[str, MemoryItem]:
    found = await toolbox.store.get_memories(toolbox.scope.readable(), list(dict.fromkeys(ids)))
    return {item.id: item for item in found}


async def _quarantined(toolbox: Toolbox) -> list[Card]:
    """Return what is in quarantine, each with the active memory that it contradicts, if any."""
    which = MemoryFilter(("quarantined",), limit=MOST_WAITING)
    found = await toolbox.store.list_memories(toolbox.readable, which)
    against: dict[str, str] = {}
    for link in await toolbox.store.memory_links(toolbox.scope.readable(), [item.id for item in found]):
        if link.relation == "contradicts":
            against |= {link.src_id: link.dst_id, link.dst_id: link.src_id}
    others = await _items(toolbox, list(against.values()))
    active = {item.id: item for item in others.values() if item.status == "active"}
    return [
        Card("quarantined", item, item.status_reason or "no reason was given", active.get(against.get(item.id, "")))
        for item in found
    ]


async def _contradicting(toolbox: Toolbox) -> list[Card]:
    """Return the pairs that contradict each other, but for those that were decided to stay."""
    scopes = toolbox.scope.readable()
    kept: set[frozenset[str]] = set()
    for events in standing(await toolbox.store.review.decisions(scopes)).values():
        pairs = (event.data.get("pair") for event in events if event.data.get("decision") == "keep")
        kept.update(frozenset(map(str, pair)) for pair in pairs if isinstance(pair, list))
    links = await toolbox.store.review.contradicting(scopes, MOST_WAITING)
    both = {frozenset((link.src_id, link.dst_id)): link for link in reversed(links)}
    waiting = [link for pair, link in reversed(both.items()) if pair not in kept]
    items = await _items(toolbox, [each for link in waiting for each in (link.src_id, link.dst_id)])
    return [
        Card("contradicting", items[link.src_id], f"their advice is opposite, by {link.weight:.0%}", items[link.dst_id])
        for link in waiting
        if items.keys() >= {link.src_id, link.dst_id}
    ]


def _why_unverified(item: MemoryItem) -> str:
    source = item.provenance
    origin = (
        f"an import ({source.imported_from})"
        if source.imported_from
        else {"model": "a model", "agent": "an agent"}.get(source.distiller, f"{source.judge or 'no'} judgement")
    )
    why = "; the agent had been shown a step of it before" if source.repeats_shown else ""
    return f"shown {counted(item.usage_count, 'time')}, and only {origin} vouches for it{why}"
