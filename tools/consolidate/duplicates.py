"""Which memories another one makes superfluous: it says the same, or ended an error that the former fix did not."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from swarm_memory.schema.memory import WAY_OUT, MemoryItem, MemoryLink, Merged, Outcome
from swarm_memory.tools.consolidate.pairs import AT_ONCE, Survey, duplicate_threshold, in_parts, texts_of
from swarm_memory.tools.ports.trajectories import TriedFix
from swarm_memory.tools.ports.upkeep import UpkeepBatch, UpkeepChange
from swarm_memory.tools.retrieve.preamble import helps
from swarm_memory.tools.text.opposition import CONTRADICTS, is_negated, is_turned, opposition
from swarm_memory.tools.text.tokens import tokenize
from swarm_memory.tools.toolbox import Toolbox

MIN_SHARED_WORDS = 0.40
"""Share of the stems of two memories that must be the same (Jaccard): neighbours in one subject share fewer, and
vectors of a language that the embedder does not know are near each other whatever they say."""

_NAME, _NUMBER = re.compile(r"`([^`]+)`"), re.compile(r"\d+(?:\.\d+)*")


@dataclass(frozen=True, slots=True)
class Gist:
    """By what two near memories are compared."""

    outcome: Outcome
    title: str
    names: frozenset[str]
    numbers: frozenset[str]
    words: frozenset[str]
    negated: bool
    """Whether the title advises against something."""
    text: str


async def find_duplicates(toolbox: Toolbox, survey: Survey) -> list[Merged]:
    """Return which memories are duplicates, to be archived, each with the one that is kept and near to it: no chains.

    Memories are taken by rank; one that is near enough to a kept one, and the same by `is_same`, goes. What a link
    joins already is left alone: somebody restored it, or it is known to be another matter. A memory that others were
    archived for stays, and so does what the user said.
    """
    threshold = duplicate_threshold(toolbox)
    pairs = [
        pair
        for pair in survey.pairs
        if pair.cosine >= threshold and pair.other.id not in survey.kept_before and pair.other.standing <= 0
    ]
    texts = await texts_of(toolbox, pairs)

    @cache
    def gist(memory_id: str) -> Gist:
        return gist_of(texts[memory_id])

    found: dict[str, Merged] = {}
    for part in in_parts(pairs, AT_ONCE):
        await toolbox.give_way()
        for better, other, cosine in part:
            is_open = found.keys().isdisjoint((better.id, other.id)) and texts.keys() >= {better.id, other.id}
            if is_open and is_same(gist(other.id), gist(better.id)):
                found[other.id] = Merged(id=other.id, kept=better.id, similarity=round(cosine, 4))
    return list(found.values())


def is_same(one: Gist, other: Gist) -> bool:
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
        and opposition(one.text, other.text) < CONTRADICTS
    )


def outcome_of(item: MemoryItem) -> Outcome:
    """Return whether a memory is compared as a strategy or as a guardrail.

    A fix that was seen to work here is a strategy also where the rest of its task failed: several rollouts and a single
    failed task that found the same one say the same.
    """
    source = item.provenance
    is_seen = source.distiller == "extractive" and source.imported_from is None
    return "Success" if WAY_OUT in item.tags and item.status == "active" and is_seen else item.outcome


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


async def supersede_ways(toolbox: Toolbox, tried: Sequence[TriedFix], run_id: str) -> tuple[str, ...]:
    """Archive fixes that were in vain more often than not, where another one ended the error; return their ids.

    Of those that a task showed to be in vain. It is a batch of the run that learned: taking that back restores them.
    Raises `StorageError`.
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
    links = tuple(MemoryLink(src_id=found[each.id], dst_id=each.id, relation="refines", weight=1.0) for each in seen)
    batch = UpkeepBatch(run_id, toolbox.clock.now(), changes, links)
    return (await toolbox.store.write_upkeep(toolbox.scope, batch)).changed
