"""Which memories stand near each other: all with all, or only the new ones with the bank; and their texts."""

import asyncio
from array import array
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from threading import Event as Flag
from typing import Literal, NamedTuple, TypeVar

from swarm_memory.schema.memory import MemoryItem, MemoryLink
from swarm_memory.schema.settings import RetrieveSettings
from swarm_memory.tools.ports.upkeep import UpkeepItem, UpkeepState
from swarm_memory.tools.retrieve.rank import HALF_LIFE_DAYS, recency
from swarm_memory.tools.toolbox import Toolbox

CANDIDATE_FLOOR, CANDIDATE_FLOOR_LARGE = 0.70, 0.80
"""Nearer pairs may contradict each other; the second holds where a whole large bank is compared at once."""

LARGE = 6_000
"""Memories of a large bank: below the second floor it has too many pairs to look at."""

ALL_FROM = 500
"""With so many new memories the whole bank is compared at once, which is then faster."""

NEAREST, BEST = 24, 8
MAX_PARTNERS = NEAREST + BEST
"""Of each memory at most so many partners of better rank are given: the nearest, and those of best rank, so that in a
crowd everyone is compared with the one that leads it."""

SATURATION = 5
"""So many uses make half of the use's part of the score."""

PAIRS_AT_ONCE, IDS_AT_ONCE = 50, 50
"""Pairs whose texts are asked for together; items fetched by one call: nobody waits for more of them at once."""

_PAGE = 250
_ROWS_AT_ONCE = 512
_MAX_KEPT = 20_000
"""Texts."""

Progress = Callable[[int, int], None]
T = TypeVar("T")


class Pair(NamedTuple):
    """Two memories by their places: `first` ranks before `second`."""

    first: int
    second: int
    cosine: float


@dataclass(frozen=True, slots=True)
class Survey:
    """Memories in the order of their rank, best first, and their near pairs."""

    items: tuple[UpkeepItem, ...]
    pairs: tuple[Pair, ...]
    compared: int
    """Memories whose neighbours were looked for."""
    full: bool
    linked: frozenset[tuple[str, str]]
    """Pairs of ids (src, dst) that some link joins already."""
    kept_before: frozenset[str]
    """Memories that others were archived as duplicates of."""
    without_vector: int

    def ids(self, pair: Pair) -> tuple[str, str]:
        """Return the ids of a pair's memories, the one of better rank first."""
        return self.items[pair.first].id, self.items[pair.second].id

    def is_linked(self, pair: Pair) -> bool:
        """Whether some link joins a pair already, in either direction."""
        first, second = self.ids(pair)
        return (first, second) in self.linked or (second, first) in self.linked


class _Stopped(Exception):
    """Raised in the thread that compares when nobody waits for it any longer."""


async def survey(toolbox: Toolbox, state: UpkeepState, *, full: bool, on_progress: Progress) -> Survey:
    """Return the near pairs of the whole scope, or of what is new in it. Raises `StorageError`."""
    found = await _items_after(toolbox, 0 if full else state.consolidated)
    if not full and len(found) > ALL_FROM:
        full, found = True, await _items_after(toolbox, 0)
    items = [item for item in found if item.direction is not None]
    links = await links_of(toolbox, [item.id for item in items])
    if full:
        ranked = _ranked(toolbox, items, links)
        pairs = await _compare_all(toolbox, ranked, on_progress)
    else:
        near = await _nearest(toolbox, items, on_progress)
        others = await _items_of(toolbox, {other for _, other in near} - {item.id for item in items})
        links += await links_of(toolbox, [item.id for item in others])
        ranked = _ranked(toolbox, [*items, *others], links)
        pairs = _in_order(near, {item.id: place for place, item in enumerate(ranked)})
    return Survey(
        items=tuple(ranked),
        pairs=tuple(pairs),
        compared=len(items),
        full=full,
        linked=frozenset((link.src_id, link.dst_id) for link in links),
        kept_before=_kept_before(links),
        without_vector=len(found) - len(items),
    )


def duplicate_threshold(toolbox: Toolbox) -> float:
    """Return the cosine from which two memories may say the same: the setting, else the embedder's calibrated value."""
    own = toolbox.settings.retrieve.duplicate_threshold
    return toolbox.embedder.duplicate_cosine if own is None else own


def keep_score(item: UpkeepItem, now: datetime, settings: RetrieveSettings) -> float:
    """Return the bank's score 0…1 of an item without a query: use takes the place of relevance.

    alpha · uses / (uses + 5) + beta · recency + gamma · confidence; recency is counted from the last use.
    """
    age_s = (now - (item.last_used or item.created_at)).total_seconds()
    return (
        settings.alpha * item.usage_count / (item.usage_count + SATURATION)
        + settings.beta * recency(age_s, HALF_LIFE_DAYS)
        + settings.gamma * item.confidence
    )


def in_parts(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield consecutive parts of at most `size` values."""
    for start in range(0, len(values), size):
        yield values[start : start + size]


async def read_pairs(
    toolbox: Toolbox,
    survey: Survey,
    pairs: Sequence[Pair],
    of: Callable[[MemoryItem], T],
    is_open: Callable[[UpkeepItem], bool] = lambda item: True,
) -> AsyncIterator[tuple[Sequence[Pair], Mapping[str, T]]]:
    """Yield the pairs, so many at once, with what `of` makes of their memories, by id; at most 20,000 are kept.

    Memories that are not there any more have none, nor have those that are not open. Raises `StorageError`.
    """
    kept: dict[str, T] = {}
    for part in in_parts(pairs, PAIRS_AT_ONCE):
        items = (survey.items[place] for pair in part for place in pair[:2])
        wanted = dict.fromkeys(item.id for item in items if is_open(item))
        await toolbox.give_way()
        if len(kept) + len(wanted) > _MAX_KEPT:
            kept = {}
        for ids in in_parts([each for each in wanted if each not in kept], IDS_AT_ONCE):
            for item in await toolbox.store.get_memories((toolbox.scope,), ids):
                kept[item.id] = of(item)
            await toolbox.give_way()
        yield part, kept


async def links_of(toolbox: Toolbox, ids: Sequence[str]) -> list[MemoryLink]:
    """Return every link from or to one of the memories. Raises `StorageError`."""
    found: list[MemoryLink] = []
    for part in in_parts(ids, IDS_AT_ONCE):
        await toolbox.give_way()
        found += await toolbox.store.memory_links((toolbox.scope,), part)
    return found


def _kept_before(links: Sequence[MemoryLink]) -> frozenset[str]:
    return frozenset(link.dst_id for link in links if link.relation == "duplicate_of")


def _ranked(toolbox: Toolbox, items: Sequence[UpkeepItem], links: Sequence[MemoryLink]) -> list[UpkeepItem]:
    """Return items by rank: what the user said, those that stand for duplicates already, then by the bank's score.

    Of the same score the older ones come first.
    """
    now, settings, kept = toolbox.clock.now(), toolbox.settings.retrieve, _kept_before(links)
    return sorted(
        items, key=lambda item: (-item.standing, item.id not in kept, -keep_score(item, now, settings), item.position)
    )


async def _items_after(toolbox: Toolbox, after: int) -> list[UpkeepItem]:
    found = list[UpkeepItem]()
    while page := await toolbox.store.upkeep_items(toolbox.scope, toolbox.embedder, after=after, limit=_PAGE):
        found += page
        after = page[-1].position
        await toolbox.give_way()
    return found


async def _items_of(toolbox: Toolbox, ids: set[str]) -> list[UpkeepItem]:
    found = list[UpkeepItem]()
    for chunk in in_parts(sorted(ids), IDS_AT_ONCE):
        found += await toolbox.store.upkeep_items(toolbox.scope, toolbox.embedder, chunk)
    return [item for item in found if item.direction is not None]


async def _compare_all(toolbox: Toolbox, items: Sequence[UpkeepItem], on_progress: Progress) -> list[Pair]:
    """Compare all with all on a thread, which ends soon after its caller is cancelled."""
    loop, stop = asyncio.get_running_loop(), Flag()

    def report(done: int, total: int) -> None:
        if stop.is_set():
            raise _Stopped
        loop.call_soon_threadsafe(on_progress, done, total)

    floor = CANDIDATE_FLOOR_LARGE if len(items) > LARGE else CANDIDATE_FLOOR
    directions = [item.direction or b"" for item in items]
    try:
        return await asyncio.to_thread(near_pairs, directions, toolbox.embedder.quantization, floor, report)
    finally:
        stop.set()


def near_pairs(
    directions: Sequence[bytes], element: Literal["int8", "float32"], floor: float, on_progress: Progress
) -> list[Pair]:
    """Return pairs with a cosine of `floor` (above 0) or more, by `second`, of each the nearest first.

    `directions` are vectors of one length above 0, best rank first, in the bytes the store keeps. Of each vector at
    most `MAX_PARTNERS` partners are given. `on_progress` is called with (done, total) and may raise to stop.
    """
    import numpy

    if len(directions) < 2:
        return []
    stored = numpy.frombuffer(b"".join(directions), dtype="i1" if element == "int8" else "f4")
    unit = stored.reshape(len(directions), -1).astype("f4")
    unit /= numpy.linalg.norm(unit, axis=1, keepdims=True)
    found: list[Pair] = []
    for start in range(0, len(unit), _ROWS_AT_ONCE):
        end = min(len(unit), start + _ROWS_AT_ONCE)
        for second, cosines in enumerate(unit[start:end] @ unit[:end].T, start):
            near = numpy.flatnonzero(cosines[:second] >= floor)
            nearest = near[numpy.argsort(-cosines[near], kind="stable")][:NEAREST].tolist()
            leading = [first for first in near[:BEST].tolist() if first not in nearest]
            found += [Pair(first, second, min(1.0, float(cosines[first]))) for first in [*nearest, *leading]]
        on_progress(end, len(unit))
    return found


async def _nearest(
    toolbox: Toolbox, items: Sequence[UpkeepItem], on_progress: Progress
) -> dict[tuple[str, str], float]:
    """Return the cosine of each item to its neighbours in the bank, by both ids."""
    found: dict[tuple[str, str], float] = {}
    for number, item in enumerate(items, 1):
        vector = array("b" if toolbox.embedder.quantization == "int8" else "f", item.direction or b"")
        length = sum(number * number for number in vector) ** 0.5
        unit = array("f", [number / length for number in vector])
        near = await toolbox.store.nearest((toolbox.scope,), toolbox.embedder.name, unit, MAX_PARTNERS + 1)
        for other, cosine in near:
            if other != item.id and cosine >= CANDIDATE_FLOOR and (other, item.id) not in found:
                found[item.id, other] = min(1.0, cosine)
        on_progress(number, len(items))
    return found


def _in_order(near: dict[tuple[str, str], float], places: dict[str, int]) -> list[Pair]:
    pairs = (
        Pair(min(places[one], places[other]), max(places[one], places[other]), cosine)
        for (one, other), cosine in near.items()
        if one in places and other in places
    )
    return sorted(pairs, key=lambda pair: (pair.second, -pair.cosine, pair.first))
