"""Which memories another one makes superfluous: it says the same, or tells the way out that a guardrail lacked."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from swarm_memory.schema.memory import WAY_OUT, MemoryItem, MemoryLink, Outcome
from swarm_memory.tools.consolidate.pairs import Survey, duplicate_threshold, read_pairs
from swarm_memory.tools.distill.drafts import GUARDRAIL
from swarm_memory.tools.ports.memories import MemoryFilter
from swarm_memory.tools.ports.trajectories import TriedWay
from swarm_memory.tools.ports.upkeep import UpkeepBatch, UpkeepChange, UpkeepItem
from swarm_memory.tools.retrieve.preamble import helps
from swarm_memory.tools.text.opposition import is_negated, is_turned, opposition
from swarm_memory.tools.text.tokens import tokenize
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.failures import error_key

MIN_SHARED_WORDS = 0.40
"""Share of the stems of two memories that must be the same (Jaccard): neighbours in one subject share fewer, and
vectors of a language that the embedder does not know are near each other whatever they say."""

MIN_SHARED_SYMPTOM = 0.5
"""So much of the words of both symptoms is the same (Jaccard), beside the kind of error: a kind may hold several."""

MAX_GUARDRAILS = 50
"""Of one kind of error so many, the newest, are looked at for a new way out."""

_WHEN = re.compile(r'Of use when `(?P<program>[^`]+)` (?:ends|fails) with "(?P<symptom>[^"]+)"\.')
_NAME, _NUMBER = re.compile(r"`([^`]+)`"), re.compile(r"\d+(?:\.\d+)*")


class Duplicate(NamedTuple):
    """A memory and the better one that says the same."""

    item: UpkeepItem
    kept: UpkeepItem
    similarity: float


@dataclass(frozen=True, slots=True)
class Gist:
    """What tells two near memories apart."""

    outcome: Outcome
    title: str
    names: frozenset[str]
    numbers: frozenset[str]
    words: frozenset[str]
    negated: bool
    """Whether the title advises against something."""
    text: str


async def find_duplicates(toolbox: Toolbox, survey: Survey) -> list[Duplicate]:
    """Return what is to be archived, each with the kept memory that it is near to itself: no chains.

    Memories are taken by rank; one that is near enough to a kept one, and the same by `is_same`, goes. What a link
    joins already is left alone: somebody restored it, or it is known to be another matter. A memory that others were
    archived for stays, and so does what the user said.
    """
    threshold, contradiction = duplicate_threshold(toolbox), toolbox.settings.consolidate.contradiction_threshold
    pairs = [
        pair
        for pair in survey.pairs
        if pair.cosine >= threshold
        and survey.ids(pair)[1] not in survey.kept_before
        and survey.items[pair.second].standing <= 0
        and not survey.is_linked(pair)
    ]
    gone: set[str] = set()
    found: list[Duplicate] = []
    async for part, gists in read_pairs(toolbox, survey, pairs, gist_of, lambda item: item.id not in gone):
        for first, second, cosine in part:
            item, better = survey.items[second], survey.items[first]
            one, other = gists.get(item.id), gists.get(better.id)
            if one is None or other is None or not gone.isdisjoint((item.id, better.id)):
                continue
            if is_same(one, other, contradiction):
                gone.add(item.id)
                found.append(Duplicate(item, better, round(cosine, 4)))
    return found


def is_same(one: Gist, other: Gist, contradiction_threshold: float) -> bool:
    """Whether two memories whose vectors are near say the same.

    Both are strategies or both guardrails, they share words, their titles name the same commands and no different
    numbers, both advise something or both advise against it, their titles hold no antonyms, and no instruction of one
    is the opposite of one of the other. Consolidation and learning both decide by this and by `duplicate_threshold`.
    """
    shared = len(one.words & other.words) / max(1, len(one.words | other.words))
    return (
        one.outcome == other.outcome
        and one.names == other.names
        and one.negated == other.negated
        and not is_turned(one.title, other.title)
        and not (one.numbers and other.numbers and one.numbers.isdisjoint(other.numbers))
        and shared >= MIN_SHARED_WORDS
        and opposition(one.text, other.text) < contradiction_threshold
    )


def outcome_of(item: MemoryItem) -> Outcome:
    """Return whether a memory is compared as a strategy or as a guardrail.

    A way out of an error that was seen to work is a strategy also where the rest of its task failed: several rollouts
    and a single failed task that found the same one say the same.
    """
    return "Success" if is_way_out(item) else item.outcome


def gist_of(item: MemoryItem) -> Gist:
    """Return what is compared of a memory."""
    return Gist(
        outcome=outcome_of(item),
        title=item.title,
        names=frozenset(name.lower() for name in _NAME.findall(item.title)),
        numbers=frozenset(_NUMBER.findall(item.title)),
        words=frozenset(tokenize(item.embedding_text)),
        negated=is_negated(item.title),
        text=item.advice,
    )


class Symptom(NamedTuple):
    """When a memory is of use."""

    program: str
    """The command or the tool that failed."""
    key: tuple[str, str]
    """The kind of error and its subject."""
    words: frozenset[str]


def symptom_of(item: MemoryItem) -> Symptom | None:
    """Return the symptom that an item names; None for one that names none or was not drawn from calls here."""
    source = item.provenance
    return symptom_in(item) if source.distiller == "extractive" and source.imported_from is None else None


def symptom_in(item: MemoryItem) -> Symptom | None:
    """Return the symptom that an item names, wherever it is from."""
    found = _WHEN.match(item.description)
    if found is None:
        return None
    words = re.findall(r"[^\W\d_]{2,}", found["symptom"].lower())
    return Symptom(found["program"], error_key(found["symptom"]), frozenset(words))


def is_way_out(item: MemoryItem) -> bool:
    """Whether an item tells what was seen to get past its error."""
    return WAY_OUT in item.tags and item.status == "active" and symptom_of(item) is not None


def is_superseded(guardrail: MemoryItem, repair: MemoryItem) -> bool:
    """Whether a fix makes an earlier guardrail out of date: the same program failed with the same symptom."""
    if guardrail.provenance.is_users_word or not is_way_out(repair):
        return False
    if GUARDRAIL not in guardrail.tags or WAY_OUT in guardrail.tags:
        return False
    ours, theirs = symptom_of(guardrail), symptom_of(repair)
    if guardrail.created_at > repair.created_at or ours is None or theirs is None or ours[:2] != theirs[:2]:
        return False
    return len(ours.words & theirs.words) >= MIN_SHARED_SYMPTOM * len(ours.words | theirs.words)


def change_of(seen: UpkeepItem, repair: MemoryItem) -> UpkeepChange:
    """Return the archiving of a guardrail; it is not done where what superseded it is active no more."""
    reason, repair_id = f"superseded by {repair.id}: a way out was found", repair.id
    return UpkeepChange(seen=seen, confidence=seen.confidence, status="archived", reason=reason, needs=repair_id)


def link_of(guardrail_id: str, repair_id: str) -> MemoryLink:
    """Return the link that says so."""
    return MemoryLink(src_id=repair_id, dst_id=guardrail_id, relation="refines", weight=1.0)


async def supersede_guardrails(toolbox: Toolbox, items: Iterable[MemoryItem], run_id: str) -> tuple[str, ...]:
    """Archive the earlier guardrails that new items make out of date, and return their ids.

    It is a batch of the run that stored the items: taking that run back restores them. Raises `StorageError`.
    """
    found = {
        guardrail.id: repair
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
    changes = [change_of(item, found[item.id]) for item in seen if (found[item.id].id, item.id) not in joined]
    if not changes:
        return ()
    links = tuple(link_of(change.seen.id, found[change.seen.id].id) for change in changes)
    batch = UpkeepBatch(run_id, toolbox.clock.now(), tuple(changes), links)
    return (await toolbox.store.write_upkeep(toolbox.scope, batch)).changed


async def supersede_ways(toolbox: Toolbox, tried: Sequence[TriedWay], run_id: str) -> tuple[str, ...]:
    """Archive ways past an error that were in vain more often than not, where another one ended it; return their ids.

    Of those that a task showed to be in vain. As with guardrails: taking back the run restores them. Raises
    `StorageError`.
    """
    in_vain = {(way.signature, way.memory_id) for way in tried if not way.worked and way.signature}
    found: dict[str, str] = {}
    for signature in dict.fromkeys(signature for signature, _ in in_vain):
        known = await toolbox.store.known_ways(toolbox.scope, [signature])
        best = next((way.memory_id for way in known if helps(way.worked, way.tried)), None)
        stale = [way for way in known if (signature, way.memory_id) in in_vain and 2 * way.worked < way.tried]
        found |= {way.memory_id: best for way in stale if best is not None}
    if not found:
        return ()
    items = await toolbox.store.get_memories((toolbox.scope,), list(found))
    joined = {(link.src_id, link.dst_id) for link in await toolbox.store.memory_links(toolbox.scope, list(found))}
    own = [item.id for item in items if not item.provenance.is_users_word and (found[item.id], item.id) not in joined]
    embedder = toolbox.embedder
    seen = await toolbox.store.upkeep_items_of(toolbox.scope, embedder.name, embedder.dimensions, own) if own else []
    if not seen:
        return ()
    why = "it was in vain more often than not, and this ended the same error"
    changes = tuple(
        UpkeepChange(
            seen=each,
            confidence=each.confidence,
            status="archived",
            reason=f"superseded by {found[each.id]}: {why}",
            needs=found[each.id],
        )
        for each in seen
    )
    links = tuple(link_of(each.id, found[each.id]) for each in seen)
    return (
        await toolbox.store.write_upkeep(toolbox.scope, UpkeepBatch(run_id, toolbox.clock.now(), changes, links))
    ).changed


async def _guardrails_like(toolbox: Toolbox, repair: MemoryItem) -> Sequence[MemoryItem]:
    wanted = MemoryFilter(tags=(GUARDRAIL,), domain=repair.domain, limit=MAX_GUARDRAILS)
    return await toolbox.store.list_memories((toolbox.scope,), wanted)
