"""Memories in groups by their subject: what they share of domain, tags and meaning, without a model."""

from collections.abc import Collection, Sequence

from swarm_memory.schema.memory import MemoryItem
from swarm_memory.tools.toolbox import Toolbox

LEAST_LIKENESS = 0.45
"""Groups whose memories are on average less alike stay apart, as long as there is room for both."""

SAME_DOMAIN, SAME_ROOT, SHARED_TAGS = 0.35, 0.2, 0.3
"""What is added to the cosine of two memories: of one domain (`python.testing`), of one root (`python`), and for the
share of tags that they have in common."""


async def subjects_of(
    toolbox: Toolbox, items: Sequence[MemoryItem], seeds: Sequence[Collection[str]], most: int, most_in_one: int
) -> list[list[MemoryItem]]:
    """Return the memories in groups, those of `seeds` (ids) first and in their order; the likest are joined first.

    Groups of seeds are never joined. There are at most `most` groups where `most_in_one` of a group allows it.
    Average linkage. Raises `StorageError`.
    """
    like = await _likeness(toolbox, items)
    places = {item.id: place for place, item in enumerate(items)}
    groups = [[places[each] for each in seed if each in places] for seed in seeds]
    fixed = {each for group in groups for each in group}
    seeded = len(groups)
    groups += [[place] for place in range(len(items)) if place not in fixed]
    while True:
        pairs = (
            (_average(like, groups[one], groups[other]), -one, -other)
            for other in range(seeded, len(groups))
            for one in range(other)
            if len(groups[one]) + len(groups[other]) <= most_in_one
        )
        likeness, one, other = max(pairs, default=(0.0, 0, 0))
        if one == other or (likeness < LEAST_LIKENESS and len(groups) <= most):
            return [[items[place] for place in group] for group in groups]
        groups[-one] += groups.pop(-other)


def _average(like: Sequence[Sequence[float]], one: Sequence[int], other: Sequence[int]) -> float:
    return sum(like[first][second] for first in one for second in other) / (len(one) * len(other))


async def _likeness(toolbox: Toolbox, items: Sequence[MemoryItem]) -> list[list[float]]:
    like = [[_shared(one, other) for other in items] for one in items]
    embedder, directions = toolbox.embedder, dict[str, bytes]()
    for scope in toolbox.readable:
        ids = [item.id for item in items if item.scope == scope]
        for each in await toolbox.store.upkeep_items_of(scope, embedder.name, embedder.dimensions, ids) if ids else ():
            directions |= {} if each.direction is None else {each.id: each.direction}
    import numpy

    places = [place for place, item in enumerate(items) if item.id in directions]
    if places:
        rows = [numpy.frombuffer(directions[items[place].id], embedder.quantization) for place in places]
        vectors = numpy.array(rows, numpy.float32)
        vectors /= numpy.linalg.norm(vectors, axis=1, keepdims=True)
        for one, cosines in zip(places, (vectors @ vectors.T).tolist(), strict=True):
            for other, cosine in zip(places, cosines, strict=True):
                like[one][other] += cosine
    return like


def _shared(one: MemoryItem, other: MemoryItem) -> float:
    tags, others = set(one.tags), set(other.tags)
    shared = SHARED_TAGS * len(tags & others) / len(tags | others) if tags and others else 0.0
    if not (one.domain and other.domain):
        return shared
    if one.domain == other.domain:
        return shared + SAME_DOMAIN
    return shared + SAME_ROOT * (one.domain.partition(".")[0] == other.domain.partition(".")[0])
