"""Calibrate what retrieval goes by for an embedder, on a bank of the user's own: what fits, fusion, duplicates."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING

from swarm_memory.schema.base import MEMORY, Scope, new_id
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.memory import MemoryItem
from swarm_memory.tools.ports.memories import MemoryFilter, SearchQuery, SearchResult
from swarm_memory.tools.retrieve.embed import prepare
from swarm_memory.tools.retrieve.fit import GROWTH, WORDS, bank_size, best_of
from swarm_memory.tools.retrieve.query import vectors_of
from swarm_memory.tools.retrieve.rank import (
    cosine,
    coverage,
    ideal_keyword_score,
    query_vector_weight,
    scaled_fusion,
    token_weights,
)
from swarm_memory.tools.text.tokens import query_tokens
from swarm_memory.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from swarm_memory.server.storage.bank import Bank

LEAST_PAIRS, MOST_MEMORIES = 30, 400
MAY_PASS = 0.10
"""The share of foreign queries that may get something."""

_POOL = 50
_WEIGHTS = tuple(step / 20 for step in range(2, 19))
_MADS = 4.0
_MAD_TO_DEVIATION = 1.4826


_Searched = tuple[SearchResult, Sequence[float | None], Sequence[str]]
"""What a search gave, the cosines that decide the order, and its tokens."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Values for the settings of the same names under `retrieve`, and what they rest on."""

    embedder: str
    memories: int
    """Whose contents were searched."""
    queries: int
    """Titles and descriptions that were asked."""
    min_cosine: float
    vector_weight: float
    duplicate_threshold: float
    fitting: float
    """The share 0…1 of the queries that get something with this `min_cosine`."""
    foreign: float
    """The same of the queries about other things."""
    first: float
    """The mean reciprocal rank of the right memory with this `vector_weight`; of the usual one in `first_before`."""
    first_before: float


def foreign_queries() -> tuple[str, ...]:
    """Return queries about what hardly any bank is about: nothing should be found for them."""
    text = files("swarm_memory.tools.retrieve").joinpath("data", "foreign_queries.txt").read_text(encoding="utf-8")
    return tuple(text.splitlines())


async def calibrate(toolbox: Toolbox, scratch: "Bank") -> Calibration:
    """Return what suits the embedder on this bank; nothing is written to it.

    The contents of its newest memories are put into the empty store `scratch` and asked for by their titles or
    descriptions, and by queries that have nothing to do with them. Raises `InputError` for a bank of too few memories
    whose title says something else than their content, `ModelError`, `StorageError`.
    """
    which = MemoryFilter(limit=MOST_MEMORIES)
    items = await toolbox.store.list_memories(toolbox.scope.readable(), which)
    pairs = [(text, item) for item in items if (text := _asked(item))]
    if len(pairs) < LEAST_PAIRS:
        raise InputError(
            f"calibrate needs {LEAST_PAIRS} memories whose title or description is not their content: here are "
            f"{len(pairs)}; the embedder's own values stay"
        )
    own = replace(toolbox, store=scratch, scope=Scope(project="calibration"))
    contents = [_content_alone(item, own.scope) for item in items]
    prepared = await prepare(own, contents)
    await scratch.add_memories(prepared, own.embedder.name)
    id_of = {item.id: content.id for item, content in zip(items, contents, strict=True)}
    asked = [(await _searched(own, text), id_of[item.id]) for text, item in pairs]
    strange = [await _searched(own, text) for text in foreign_queries()]
    min_cosine, fitting, foreign = _threshold([searched for searched, _ in asked], strange)
    usual = toolbox.embedder.fusion_weight
    ranked = {weight: _mean_rank(asked, weight) for weight in {*_WEIGHTS, usual}}
    best = max(ranked.values())
    weight = min((each for each, rank in ranked.items() if rank >= best - 0.01), key=lambda each: abs(each - usual))
    vectors = [each.vector for each in prepared if each.vector is not None]
    return Calibration(
        embedder=toolbox.embedder.name,
        memories=len(items),
        queries=len(pairs),
        min_cosine=min_cosine,
        vector_weight=weight,
        duplicate_threshold=_duplicates(vectors),
        fitting=fitting,
        foreign=foreign,
        first=ranked[weight],
        first_before=ranked[usual],
    )


def _asked(item: MemoryItem) -> str | None:
    """Return what a memory is asked for by: words that are not its content's beginning."""
    content = item.content.casefold()
    texts = (item.description, item.title)
    return next((text for text in texts if text and text.casefold().strip(" .") not in content), None)


def _content_alone(item: MemoryItem, scope: Scope) -> MemoryItem:
    return item.model_copy(update={"id": new_id(MEMORY), "scope": scope, "title": "", "description": ""})


async def _searched(own: Toolbox, text: str) -> _Searched:
    tokens = query_tokens(text)
    vectors = await vectors_of(own, text, [])
    query = SearchQuery((own.scope,), own.embedder.name, vectors.whole, tokens, _POOL, views=vectors.views)
    return *vectors.compared(await own.store.search(query)), tokens


def _threshold(fitting: Sequence[_Searched], foreign: Sequence[_Searched]) -> tuple[float, float, float]:
    """Return the least `min_cosine` that lets so few foreign queries pass, and the shares of both that then do.

    Where both are far apart it lies in the middle between them.
    """

    def found(each: _Searched) -> float:
        result, _, tokens = each
        weights = token_weights(tokens, result.documents, result.document_frequency)
        nearest, covered = best_of(result, partial(coverage, weights))
        return (nearest or 0.0) + WORDS * covered - GROWTH * bank_size(result.documents)

    right, strange = sorted(map(found, fitting)), sorted(map(found, foreign))
    low = strange[math.ceil((1 - MAY_PASS) * len(strange)) - 1]
    high = right[int(0.05 * len(right))]
    value = round(min(1.0, max(0.01, (low + high) / 2 if high > low else low)) + 0.0005, 3)
    return value, _share(right, value), _share(strange, value)


def _share(values: Sequence[float], least: float) -> float:
    return sum(value >= least for value in values) / len(values)


def _mean_rank(asked: Sequence[tuple[_Searched, str]], weight: float) -> float:
    """Return the mean reciprocal rank of the right memory."""
    total = 0.0
    for (result, cosines, _), right in asked:
        candidates = result.candidates
        ideal = ideal_keyword_score(result.documents, result.document_frequency)
        keywords = [each.keyword for each in candidates]
        fused = scaled_fusion(cosines, keywords, ideal, query_vector_weight(cosines, keywords, weight))
        scores = dict(zip((each.id for each in candidates), fused, strict=True))
        if right in scores:
            total += 1 / (1 + sum(score > scores[right] for score in scores.values()))
    return total / len(asked)


def _duplicates(vectors: Sequence[Sequence[float]]) -> float:
    """Return the cosine that hardly any memory's nearest neighbour reaches that says something else.

    The median of the nearest neighbours' cosines and four robust deviations more, for in a bank most differ.
    """
    nearest = [max(cosine(each, other) for other in vectors if other is not each) for each in vectors]
    middle = statistics.median(nearest)
    deviation = _MAD_TO_DEVIATION * statistics.median(abs(value - middle) for value in nearest)
    return round(min(0.97, max(0.5, middle + _MADS * deviation)), 2)
