"""What wants a person's decision, with the reason: memories in quarantine, contradicting, stale, unverified, promoted
in vain.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple, get_args

from swarm_memory.schema.base import counted
from swarm_memory.schema.memory import MemoryItem, MemoryLink
from swarm_memory.tools.consolidate.aging import faded
from swarm_memory.tools.guard.trust import unverified
from swarm_memory.tools.memories.decide import standing
from swarm_memory.tools.memories.edit import list_memories
from swarm_memory.tools.ports.journal import Event
from swarm_memory.tools.ports.memories import MemoryFilter
from swarm_memory.tools.ports.upkeep import UpkeepItem
from swarm_memory.tools.promote.paying import not_paying
from swarm_memory.tools.retrieve.rank import recency
from swarm_memory.tools.toolbox import Toolbox

DeskKind = Literal["quarantined", "contradicting", "stale", "unverified", "promoted", "failing"]
KINDS: tuple[DeskKind, ...] = get_args(DeskKind)

MOST_TOLD = 500
"""Among so many memories, those that were told most often, unverified ones are looked for: it is these that matter."""

MOST_SHOWN = 1_000
"""So many stale ones, or pairs, are counted and shown: a person decides no more in a day."""

LATEST = 20
"""Decisions that can be taken back at a click."""


class Card(NamedTuple):
    """One thing to decide."""

    kind: DeskKind
    item: MemoryItem
    reason: str
    """Why it lies here, with its figures."""
    other: MemoryItem | None = None
    """What it stands against."""
    confidence: float | None = None
    """What is left of a stale one's."""


class DeskCounts(NamedTuple):
    """How many things wait, by kind."""

    quarantined: int
    contradicting: int
    """Pairs."""
    stale: int
    unverified: int
    """Among the 500 that were told most often."""
    promoted: int
    """Those that no longer earn their place in a skill or a file of rules."""
    failing: int
    """The user's own words with which tasks fail."""

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self)

    @property
    def first(self) -> DeskKind:
        """The first kind of which something waits; the first of all where nothing does."""
        waiting: list[DeskKind] = [kind for kind, count in zip(KINDS, self, strict=True) if count]
        return waiting[0] if waiting else KINDS[0]


class Taken(NamedTuple):
    """A decision that can be taken back."""

    id: str
    what: str
    at: datetime
    items: tuple[MemoryItem, ...]


async def desk_counts(toolbox: Toolbox) -> DeskCounts:
    """Return how much waits for a decision. Raises `StorageError`."""
    return (await _waiting(toolbox)).counts


async def desk(
    toolbox: Toolbox, wanted: DeskKind | None = None, *, limit: int = 20, offset: int = 0
) -> tuple[DeskCounts, DeskKind, list[Card]]:
    """Return how much waits, and what waits of one kind; by default of the first of which something does.

    The newest come first, of stale ones the least sure, of unverified ones the most told. Raises `StorageError`.
    """
    waiting, page = await _waiting(toolbox), slice(offset, offset + limit)
    counts = waiting.counts
    kind = wanted or counts.first
    if kind == "quarantined":
        cards = await _held(toolbox, limit, offset)
    elif kind == "unverified":
        cards = [_untested(item) for item in waiting.unverified[page]]
    elif kind in ("promoted", "failing"):
        reasons = dict({"promoted": waiting.promoted, "failing": waiting.failing}[kind][page])
        items = await _items(toolbox, list(reasons))
        cards = [Card(kind, items[each], why) for each, why in reasons.items() if each in items]
    elif kind == "stale":
        stale = waiting.stale[page]
        items = await _items(toolbox, [each.id for each, _ in stale])
        cards = [_faded(toolbox, items[each.id], left) for each, left in stale if each.id in items]
    else:
        pairs = waiting.pairs[page]
        items = await _items(toolbox, [each for link in pairs for each in (link.src_id, link.dst_id)])
        cards = [
            Card(kind, items[link.src_id], f"their advice is opposite, by {link.weight:.0%}", items[link.dst_id])
            for link in pairs
            if {link.src_id, link.dst_id} <= items.keys()
        ]
    return counts, kind, cards


class _Waiting(NamedTuple):
    """What waits."""

    quarantined: int
    pairs: list[MemoryLink]
    stale: list[tuple[UpkeepItem, float]]
    unverified: list[MemoryItem]
    promoted: list[tuple[str, str]]
    """Ids, and why."""
    failing: list[tuple[str, str]]

    @property
    def counts(self) -> DeskCounts:
        lists = (self.pairs, self.stale, self.unverified, self.promoted, self.failing)
        return DeskCounts(self.quarantined, *map(len, lists))


async def _waiting(toolbox: Toolbox) -> _Waiting:
    kept = await _kept(toolbox)
    return _Waiting(
        await toolbox.store.review.quarantined(toolbox.scope.readable()),
        await _pairs(toolbox, kept),
        await _stale(toolbox, kept),
        await _unverified(toolbox),
        await _promoted(toolbox, kept),
        await _failing(toolbox),
    )


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


class _Kept(NamedTuple):
    """What was decided to stay."""

    stale: dict[str, datetime]
    """Since when, by id."""
    pairs: set[frozenset[str]]
    promoted: set[str]


async def _kept(toolbox: Toolbox) -> _Kept:
    stale: dict[str, datetime] = {}
    pairs: set[frozenset[str]] = set()
    promoted: set[str] = set()
    for events in standing(await toolbox.store.review.decisions(toolbox.scope.readable())).values():
        for event in events:
            if event.data.get("decision") != "keep":
                continue
            if event.data.get("why") == "stale":
                stale[str(event.subject_id)] = event.at
            if event.data.get("why") == "promoted":
                promoted.add(str(event.subject_id))
            pairs.add(_pair(event))
    return _Kept(stale, pairs, promoted)


def _pair(event: Event) -> frozenset[str]:
    pair = event.data.get("pair")
    return frozenset(map(str, pair)) if isinstance(pair, list) else frozenset()


async def _items(toolbox: Toolbox, ids: Sequence[str]) -> dict[str, MemoryItem]:
    return {
        item.id: item for item in await toolbox.store.get_memories(toolbox.scope.readable(), list(dict.fromkeys(ids)))
    }


async def _held(toolbox: Toolbox, limit: int, offset: int) -> list[Card]:
    """Return what is in quarantine, each beside the active memory that it contradicts, if any."""
    found = await list_memories(toolbox, MemoryFilter(("quarantined",), limit=limit, offset=offset))
    against: dict[str, str] = {}
    for scope in toolbox.scope.readable():
        for link in await toolbox.store.memory_links(scope, [item.id for item in found]):
            if link.relation == "contradicts":
                against |= {link.src_id: link.dst_id, link.dst_id: link.src_id}
    others = await _items(toolbox, list(against.values()))
    active = {each: other for each, name in against.items() if (other := others.get(name)) and other.status == "active"}
    return [
        Card("quarantined", item, item.status_reason or "no reason was given", active.get(item.id)) for item in found
    ]


async def _pairs(toolbox: Toolbox, kept: _Kept) -> list[MemoryLink]:
    links = await toolbox.store.review.contradicting(toolbox.scope.readable(), MOST_SHOWN)
    both = {frozenset((link.src_id, link.dst_id)): link for link in reversed(links)}
    return [link for pair, link in reversed(both.items()) if pair not in kept.pairs]


async def _stale(toolbox: Toolbox, kept: _Kept) -> list[tuple[UpkeepItem, float]]:
    """Return what was not used for `prune_age_days` and has faded below `min_confidence_keep`, with what is left.

    Upkeep archives by itself what nobody ever used; what somebody kept waits until it was used again.
    """
    settings, now = toolbox.settings.consolidate, toolbox.clock.now()
    before, half_life = now - timedelta(days=settings.prune_age_days), settings.confidence_half_life_days
    found: list[tuple[UpkeepItem, float]] = []
    told_by_files = toolbox.promoted(None)
    for scope in toolbox.scope.readable():
        aging = (await toolbox.store.upkeep_state(scope)).aging
        since = None if aging is None else aging.at
        left = 0.0 if since is None else recency((now - since).total_seconds(), half_life)
        below = min(1.0, settings.min_confidence_keep / left) if left > 0 else 1.0
        for item in await toolbox.store.review.idle(scope, before, below, MOST_SHOWN):
            confidence, kept_at = faded(item, since, now, half_life), kept.stale.get(item.id)
            is_kept = kept_at is not None and kept_at > (item.last_used or item.created_at)
            if confidence < settings.min_confidence_keep and not is_kept and item.id not in told_by_files:
                found.append((item, confidence))
    return sorted(found, key=lambda pair: (pair[1], pair[0].id))


async def _unverified(toolbox: Toolbox) -> list[MemoryItem]:
    told = await toolbox.store.review.most_told(toolbox.scope.readable(), MOST_TOLD)
    doubtful = await unverified(toolbox, told)
    return [item for item in told if item.id in doubtful]


async def _promoted(toolbox: Toolbox, kept: _Kept) -> list[tuple[str, str]]:
    where = toolbox.promoted(None)
    found = await not_paying(toolbox, where)
    how = "`swarm-memory promote --demote` takes it out"
    return [(each, f"in {where[each]}; {why}; {how}") for each, why in found.items() if each not in kept.promoted]


async def _failing(toolbox: Toolbox) -> list[tuple[str, str]]:
    """Return the user's own words with which tasks fail; to keep one counts it from the start."""
    doubted = (await toolbox.store.trials(toolbox.scope)).doubted
    items = await _items(toolbox, list(doubted))
    return [(each, why) for each, why in doubted.items() if each in items and items[each].status == "active"]


def _untested(item: MemoryItem) -> Card:
    source = item.provenance
    origin = (
        f"an import ({source.imported_from})"
        if source.imported_from
        else {"model": "a model", "agent": "an agent"}.get(source.distiller, f"{source.judge or 'no'} judgement")
    )
    why = "; a step of it was told to the agent before" if source.hearsay else ""
    return Card("unverified", item, f"told {counted(item.usage_count, 'time')}, and only {origin} vouches for it{why}")


def _faded(toolbox: Toolbox, item: MemoryItem, confidence: float) -> Card:
    days = (toolbox.clock.now() - (item.last_used or item.created_at)) / timedelta(days=1)
    least = toolbox.settings.consolidate.min_confidence_keep
    idle = f"not told for {counted(round(days), 'day')}"
    reason = f"{idle}; its confidence has faded to {confidence:.2f}, and {least:.2f} is worth keeping"
    return Card("stale", item, reason, confidence=confidence)
