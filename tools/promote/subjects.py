"""Memories in groups by their subject: what they share of domain, tags and meaning, without a model; and its name."""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from swarm_memory.schema.memory import MemoryItem
from swarm_memory.tools.promote.marks import PREFIX
from swarm_memory.tools.toolbox import Toolbox

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

LEAST_LIKENESS = 0.45
"""A memory that is on average less alike to a group stays out of it, as long as there is room for another group."""

SAME_DOMAIN, SAME_ROOT, SHARED_TAGS = 0.35, 0.2, 0.3
"""What is added to the cosine of two memories: of one domain (`python.testing`), of one root (`python`), and for the
share of tags that they have in common."""

_WORD = re.compile(r"[a-z]+")


async def subjects_of(
    toolbox: Toolbox, items: Sequence[MemoryItem], seeds: Sequence[Collection[str]], most: int, most_in_one: int
) -> list[list[MemoryItem]]:
    """Return the memories in groups, those of `seeds` (ids) first and in their order.

    Each other one joins the group that it is on average the most alike to, or begins one. There are at most `most`
    groups where `most_in_one` of a group allows it. Raises `StorageError`.
    """
    like = await _likeness(toolbox, items)
    places = {item.id: place for place, item in enumerate(items)}
    groups = [[places[each] for each in seed if each in places] for seed in seeds]
    seeded = {place for group in groups for place in group}
    for place in (each for each in range(len(items)) if each not in seeded):
        open_ones = ((float(like[place, group].mean()), group) for group in groups if 0 < len(group) < most_in_one)
        likeness, best = max(open_ones, key=lambda each: each[0], default=(0.0, None))
        if best is None or (likeness < LEAST_LIKENESS and len(groups) < most):
            groups.append([place])
        else:
            best.append(place)
    return [[items[place] for place in group] for group in groups]


async def _likeness(toolbox: Toolbox, items: Sequence[MemoryItem]) -> "NDArray[numpy.float32]":
    import numpy

    embedder, vectors = toolbox.embedder, numpy.zeros((len(items), toolbox.embedder.dimensions), numpy.float32)
    places = {item.id: place for place, item in enumerate(items)}
    for scope in toolbox.readable:
        ids = [item.id for item in items if item.scope == scope]
        for each in await toolbox.store.upkeep_items(scope, embedder, ids) if ids else ():
            if each.direction is not None:
                vector = numpy.frombuffer(each.direction, embedder.quantization).astype(numpy.float32)
                vectors[places[each.id]] = vector / numpy.linalg.norm(vector)
    shared = [[_shared(one, other) for other in items] for one in items]
    return vectors @ vectors.T + numpy.array(shared, numpy.float32)


def _shared(one: MemoryItem, other: MemoryItem) -> float:
    tags, others = set(one.tags), set(other.tags)
    shared = SHARED_TAGS * len(tags & others) / len(tags | others) if tags and others else 0.0
    if not (one.domain and other.domain):
        return shared
    if one.domain == other.domain:
        return shared + SAME_DOMAIN
    return shared + SAME_ROOT * (one.domain.partition(".")[0] == other.domain.partition(".")[0])


def name_of(items: Sequence[MemoryItem], taken: Collection[str]) -> str:
    """Return the name of a new skill: the words of our list that most of its memories have; none that is taken."""
    base = PREFIX + ("-".join(words_for(items)) or "here")
    numbered = (base if number == 1 else f"{base}-{number}" for number in range(1, len(taken) + 2))
    return next(each for each in numbered if each not in taken)


def words_for(items: Sequence[MemoryItem]) -> list[str]:
    """Return the one or two words of our list that these memories are about."""
    weights: Counter[str] = Counter()
    for item in items:
        found: dict[str, int] = {}
        for text, weight in ((item.title, 1), (" ".join(item.tags), 2), (item.domain or "", 3)):
            for word in _WORD.findall(text.lower()):
                if word in _known_words() or (weight > 1 and f"{word}*" in _known_words()):
                    found[word] = weight
        weights.update(found)
    best = sorted(weights, key=lambda word: (-weights[word], word))[:2]
    return [word for word in best if 2 * weights[word] >= weights[best[0]]]


@cache
def _known_words() -> frozenset[str]:
    text = (Path(__file__).parent / "data" / "subjects.txt").read_text(encoding="utf-8")
    return frozenset(text.partition("\n")[2].split())
