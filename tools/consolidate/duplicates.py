"""Which memories say the same as a better one. How near they stand is known already; nothing is written here."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from swarm_memory.schema.memory import MemoryItem, Outcome
from swarm_memory.tools.consolidate.neighbours import Pair
from swarm_memory.tools.consolidate.opposites import is_negated, is_turned, opposition
from swarm_memory.tools.consolidate.pairs import Survey, duplicate_threshold, in_parts
from swarm_memory.tools.consolidate.superseding import is_way_out
from swarm_memory.tools.consolidate.texts import PAIRS_AT_ONCE, Texts
from swarm_memory.tools.ports.upkeep import UpkeepItem
from swarm_memory.tools.text.tokens import tokenize
from swarm_memory.tools.toolbox import Toolbox

MIN_SHARED_WORDS = 0.40
"""Share of the stems of two memories that must be the same (Jaccard): neighbours in one subject share fewer, and
vectors of a language that the embedder does not know are near each other whatever they say."""

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
    archived for stays.
    """
    threshold = duplicate_threshold(toolbox)
    pairs = [pair for pair in survey.pairs if pair.cosine >= threshold and not _is_settled(survey, pair)]
    kept = [True] * len(survey.items)
    found: list[Duplicate] = []
    texts = Texts(toolbox, gist_of)
    for part in in_parts(pairs, PAIRS_AT_ONCE):
        gists = await texts.read(survey.items[place].id for pair in part for place in pair[:2] if kept[place])
        for first, second, cosine in part:
            item, better = survey.items[second], survey.items[first]
            if kept[first] and kept[second] and _are_same(gists, item, better, toolbox):
                kept[second] = False
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
        text=f"{item.title}\n{item.content}",
    )


def _are_same(gists: Mapping[str, Gist], item: UpkeepItem, better: UpkeepItem, toolbox: Toolbox) -> bool:
    one, other = gists.get(item.id), gists.get(better.id)
    if one is None or other is None:
        return False
    return is_same(one, other, toolbox.settings.consolidate.contradiction_threshold)


def _is_settled(survey: Survey, pair: Pair) -> bool:
    first, second = survey.items[pair.first].id, survey.items[pair.second].id
    return second in survey.kept_before or (first, second) in survey.linked or (second, first) in survey.linked
