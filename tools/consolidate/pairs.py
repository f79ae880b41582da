"""Which memories are near each other, all with all or the new ones with the bank; and which are superfluous because
another one says the same, or ended an error that the former fix did not.
"""

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from operator import methodcaller
from threading import Event as Flag
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from swarm_memory.schema.memory import FIX, MemoryItem, MemoryLink, Merged, Outcome
from swarm_memory.schema.settings import RetrieveSettings
from swarm_memory.tools.ports.records import TriedFix, UpkeepBatch, UpkeepChange, UpkeepItem, UpkeepState
from swarm_memory.tools.retrieve.preamble import helps
from swarm_memory.tools.retrieve.rank import HALF_LIFE_DAYS, recency
from swarm_memory.tools.text.opposition import CONTRADICTS, has_antonyms, is_negated, opposition
from swarm_memory.tools.text.tokens import tokenize
from swarm_memory.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from numpy.typing import NDArray

CANDIDATE_FLOOR, CANDIDATE_FLOOR_LARGE = 0.70, 0.80
"""Pairs with this cosine or more may contradict each other; the second applies when a large bank is compared whole."""

LARGE = 6_000
"""More memories than this are a large bank: below the second floor it has too many pairs to examine."""

NEAREST, BEST = 24, 8
MAX_PARTNERS = NEAREST + BEST
"""At most this many partners are returned for each memory: the nearest, and those of best rank, so that in a crowd
every memory is compared with the one that leads it."""

SATURATION = 5
"""The number of uses that earns half of the score's maximum for use."""

AT_ONCE = 50
"""How many texts are read, or pairs are compared, before others get their turn."""

_PAGE, _ROWS_AT_ONCE, _COLUMNS_AT_ONCE, _CACHED_TEXTS = 250, 256, 1024, 2048

PAIR = [("first", "i4"), ("second", "i4"), ("cosine", "f4")]
"""Two vectors by their indexes, of which `first` ranks before `second`: a large bank has some 200,000 pairs."""

OnProgress = Callable[[int, int], None]
T = TypeVar("T")


class Near(NamedTuple):
    """Two memories that are near each other, the one of better rank first."""

    better: UpkeepItem
    other: UpkeepItem
    cosine: float

    @property
    def ids(self) -> tuple[str, str]:
        return self.better.id, self.other.id


@dataclass(frozen=True, slots=True)
class Survey:
    """The bank before a run: all active memories in the order of their rank, best first, and their near pairs."""

    items: tuple[UpkeepItem, ...]
    known: tuple[UpkeepItem, ...]
    """Those that have a vector."""
    pairs: "NDArray[Any]"
    """Indexes of `known`, as `near_pairs` returns them, without the pairs that are already linked."""
    compared: int
    """How many memories had their neighbours searched for."""
    kept_before: frozenset[str]
    """Memories that others were archived as duplicates of."""
    without_vector: int
    """How many new memories could not be compared."""

    def parts(self, pairs: "NDArray[Any]") -> Iterator[list[Near]]:
        """Yield some of the pairs with their items, `AT_ONCE` in each part."""
        for start in range(0, len(pairs), AT_ONCE):
            part = pairs[start : start + AT_ONCE].tolist()
            yield [Near(self.known[first], self.known[second], cosine) for first, second, cosine in part]

    async def texts_of(self, toolbox: Toolbox, pairs: "NDArray[Any]", read: Callable[[MemoryItem], T]) -> dict[str, T]:
        """Return what `read` takes from each memory of the pairs that still exists, by id. Raises `StorageError`."""
        found: dict[str, T] = {}
        places: set[int] = {*pairs["first"].tolist(), *pairs["second"].tolist()}
        for ids in in_parts([self.known[place].id for place in sorted(places)], AT_ONCE):
            await toolbox.give_way()
            found |= {item.id: read(item) for item in await toolbox.store.get_memories((toolbox.scope,), ids)}
        return found


class _Stopped(Exception):
    """Raised in the comparing thread when nobody waits for it any longer."""


async def survey(toolbox: Toolbox, state: UpkeepState, *, full: bool, on_progress: OnProgress) -> Survey:
    """Read the scope, and compare what is new with the rest or, with `full`, all with all. Raises `StorageError`."""
    every, after = list[UpkeepItem](), 0
    while page := await toolbox.store.upkeep_items(toolbox.scope, toolbox.embedder, after=after, limit=_PAGE):
        every, after = [*every, *page], page[-1].position
        await toolbox.give_way()
    links = await links_of(toolbox, [item.id for item in every])
    kept_before = frozenset(link.dst_id for link in links if link.relation == "duplicate_of")
    now, settings = toolbox.clock.now(), toolbox.settings.retrieve

    def rank(item: UpkeepItem) -> tuple[int, bool, float, int]:
        """The user's words first, then what stands for duplicates already, then by the bank's score, then the older."""
        return -item.priority, item.id not in kept_before, -keep_score(item, now, settings), item.position

    ranked = sorted(every, key=rank)
    known = [item for item in ranked if item.direction is not None]
    new = [full or item.position > state.consolidated for item in known]
    pairs = await _compared(toolbox, known, new, on_progress)
    places = {item.id: place for place, item in enumerate(known)}
    ends = [(places.get(link.src_id), places.get(link.dst_id)) for link in links]
    linked = {tuple(sorted((one, other))) for one, other in ends if one is not None and other is not None}
    if linked:
        pairs = pairs[[(first, second) not in linked for first, second, _ in map(methodcaller("item"), pairs)]]
    return Survey(
        items=tuple(ranked),
        known=tuple(known),
        pairs=pairs,
        compared=sum(new),
        kept_before=kept_before,
        without_vector=sum(item.direction is None and (full or item.position > state.consolidated) for item in every),
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


async def links_of(toolbox: Toolbox, ids: Sequence[str]) -> list[MemoryLink]:
    """Return every link from or to one of the memories. Raises `StorageError`."""
    found: list[MemoryLink] = []
    for part in in_parts(ids, _PAGE):
        await toolbox.give_way()
        found += await toolbox.store.memory_links((toolbox.scope,), part)
    return found


async def _compared(
    toolbox: Toolbox, items: Sequence[UpkeepItem], new: Sequence[bool], on_progress: OnProgress
) -> "NDArray[Any]":
    """Compare in a thread, which ends soon after its caller is cancelled."""
    loop, stop = asyncio.get_running_loop(), Flag()

    def report(done: int, total: int) -> None:
        if stop.is_set():
            raise _Stopped
        loop.call_soon_threadsafe(on_progress, done, total)

    floor = CANDIDATE_FLOOR_LARGE if sum(new) > LARGE else CANDIDATE_FLOOR
    directions = [item.direction or b"" for item in items]
    try:
        return await asyncio.to_thread(near_pairs, directions, toolbox.embedder.quantization, floor, report, new)
    finally:
        stop.set()


def near_pairs(
    directions: Sequence[bytes],
    element: Literal["int8", "float32"],
    floor: float,
    on_progress: OnProgress,
    new: Sequence[bool] | None = None,
) -> "NDArray[Any]":
    """Return pairs, as `PAIR` says, with a cosine of `floor` (above 0) or more, by `second`, then nearest first.

    `directions` are vectors of one length above 0, best rank first, as the bytes that the store keeps. Each `new` one
    (None: all are new) is compared with those that are not new, and with the new ones of better rank; at most
    `MAX_PARTNERS` partners are returned for each. `on_progress` is called with (done, total) and may raise to stop.
    """
    import numpy

    found = numpy.empty(0, PAIR)
    if len(directions) < 2:
        return found
    stored = numpy.frombuffer(b"".join(directions), dtype="i1" if element == "int8" else "f4")
    stored = stored.reshape(len(directions), -1)

    def normalized_rows(rows: "slice | NDArray[Any]") -> "NDArray[Any]":
        part = stored[rows].astype("f4")  # a part at a time: all of a large bank would take four times its vectors
        return part / numpy.linalg.norm(part, axis=1, keepdims=True)

    fresh = numpy.ones(len(stored), dtype=bool) if new is None else numpy.array(new, dtype=bool)
    rows, all_fresh = numpy.flatnonzero(fresh), bool(fresh.all())
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        block = rows[start : start + _ROWS_AT_ONCE]
        width = int(block[-1]) if all_fresh else len(stored)  # where all are new, only those of better rank count
        own, products = normalized_rows(block), numpy.empty((len(block), width), dtype="f4")
        for at in range(0, width, _COLUMNS_AT_ONCE):
            products[:, at : at + _COLUMNS_AT_ONCE] = (
                own @ normalized_rows(slice(at, min(at + _COLUMNS_AT_ONCE, width))).T
            )
        partners = [found]
        for place, cosines in zip(block.tolist(), products, strict=True):
            is_partner = (cosines >= floor) & ((numpy.arange(width) < place) | ~fresh[:width])
            near = numpy.flatnonzero(is_partner)
            nearest = near[numpy.argsort(-cosines[near], kind="stable")][:NEAREST]
            others = numpy.union1d(nearest, near[:BEST])
            pairs = numpy.empty(len(others), PAIR)
            pairs["first"], pairs["second"] = numpy.minimum(place, others), numpy.maximum(place, others)
            pairs["cosine"] = numpy.minimum(1, cosines[others])
            partners.append(pairs)
        found = numpy.concatenate(partners)
        on_progress(start + len(block), len(rows))
    return found[numpy.lexsort((found["first"], -found["cosine"], found["second"]))]


MIN_SHARED_WORDS = 0.40
"""Share of the stems of two memories that must be the same (Jaccard): neighbours in one subject share fewer, and
vectors of a language that the embedder does not know are near each other whatever they say."""

_NAME, _NUMBER = re.compile(r"`([^`]+)`"), re.compile(r"\d+(?:\.\d+)*")


async def find_duplicates(toolbox: Toolbox, survey: Survey) -> list[Merged]:
    """Return the duplicates to be archived, each with the near memory that is kept in its place; there are no chains.

    Memories are taken by rank; one that is near enough to a kept one, and the same by `is_same`, is archived. Pairs
    already linked are left alone: somebody restored one, or they are known to be different matters. A memory that
    others were archived for stays, and so does what the user said.
    """
    threshold = duplicate_threshold(toolbox)
    pairs = survey.pairs[survey.pairs["cosine"] >= threshold]
    texts = await survey.texts_of(toolbox, pairs, lambda item: item)
    words = lru_cache(_CACHED_TEXTS)(words_of)  # each text is compared with many
    found: dict[str, Merged] = {}
    for part in survey.parts(pairs):
        await toolbox.give_way()
        for better, other, cosine in part:
            may_go = other.id not in survey.kept_before and other.priority <= 0
            is_open = found.keys().isdisjoint((better.id, other.id)) and texts.keys() >= {better.id, other.id}
            if may_go and is_open and is_same(texts[other.id], texts[better.id], words):
                found[other.id] = Merged(id=other.id, kept=better.id, similarity=round(cosine, 4))
    return list(found.values())


def words_of(text: str) -> frozenset[str]:
    """Return the stems of a text."""
    return frozenset(tokenize(text))


def is_same(one: MemoryItem, other: MemoryItem, words_of: Callable[[str], frozenset[str]] = words_of) -> bool:
    """Whether two memories whose vectors are near say the same.

    Both are strategies or both guardrails, they share words, their titles name the same commands and no different
    numbers, both advise something or both advise against it, their titles hold no antonyms, and no instruction of one
    is the opposite of one of the other. Consolidation and learning both decide by this and by `duplicate_threshold`.
    """
    words, others = words_of(one.embedding_text), words_of(other.embedding_text)
    names, other_names = ({name.lower() for name in _NAME.findall(each.title)} for each in (one, other))
    numbers, other_numbers = (set(_NUMBER.findall(each.title)) for each in (one, other))
    return (
        real_outcome(one) == real_outcome(other)
        and names == other_names
        and is_negated(one.title) == is_negated(other.title)
        and not (numbers and other_numbers and numbers.isdisjoint(other_numbers))
        and len(words & others) / max(1, len(words | others)) >= MIN_SHARED_WORDS
        and not has_antonyms(one.title, other.title)
        and opposition(one.advice, other.advice) < CONTRADICTS
    )


def retire(seen: UpkeepItem, found: Merged) -> tuple[UpkeepChange, MemoryLink]:
    """Return the change that archives a duplicate, and its link to the memory that is kept."""
    reason = f"duplicate of {found.kept} ({found.similarity:.2f})"
    link = MemoryLink(src_id=found.id, dst_id=found.kept, relation="duplicate_of", weight=found.similarity)
    return UpkeepChange(seen, seen.confidence, "archived", reason, needs=found.kept), link


def real_outcome(item: MemoryItem) -> Outcome:
    """Return the outcome by which a memory is compared, as a strategy or a guardrail.

    A fix that was seen to work here is a strategy even if the rest of its task failed: several rollouts and a single
    failed task that found the same fix say the same.
    """
    source = item.provenance
    is_seen = source.distiller == "extractive" and source.imported_from is None
    return "Success" if FIX in item.tags and item.status == "active" and is_seen else item.outcome


async def supersede_failed_fixes(toolbox: Toolbox, tried: Sequence[TriedFix], run_id: str) -> tuple[str, ...]:
    """Archive fixes that were in vain more often than not, if another one ended the error; return their ids.

    Only fixes that `tried` reports as failed. It is a batch of the learning run, undone with it. Raises `StorageError`.
    """
    in_vain = {(way.signature, way.memory_id) for way in tried if not way.worked and way.signature}
    found: dict[str, str] = {}
    for signature in dict.fromkeys(signature for signature, _ in in_vain):
        known = await toolbox.store.known_fixes(toolbox.scope, [signature])
        best = next((way.memory_id for way in known if helps(way.worked, way.tried)), None)
        stale = [way for way in known if (signature, way.memory_id) in in_vain and 2 * way.worked < way.tried]
        found |= {way.memory_id: best for way in stale if best is not None}
    if not found:
        return ()
    items = await toolbox.store.get_memories((toolbox.scope,), list(found))
    joined = {(link.src_id, link.dst_id) for link in await toolbox.store.memory_links((toolbox.scope,), list(found))}
    own = [item.id for item in items if not item.provenance.is_users_word and (found[item.id], item.id) not in joined]
    seen = await toolbox.store.upkeep_items_of(toolbox.scope, toolbox.embedder, own) if own else []
    if not seen:
        return ()
    why = "it failed more often than not, and this one ended the same error"
    changes, links = list[UpkeepChange](), list[MemoryLink]()
    for each in seen:
        by = found[each.id]
        changes.append(UpkeepChange(each, each.confidence, "archived", f"superseded by {by}: {why}", needs=by))
        links.append(MemoryLink(src_id=by, dst_id=each.id, relation="refines", weight=1.0))
    batch = UpkeepBatch(run_id, toolbox.clock.now(), tuple(changes), tuple(links))
    return (await toolbox.store.write_upkeep(toolbox.scope, batch)).changed
