"""How candidates are put in order: fusion, the bank's score, diversity, the words they cover.

Pure functions of numbers: it knows nothing of storage, embedders or memory items.
"""

import heapq
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from operator import mul
from typing import Any

BM25_K1, BM25_B = 0.9, 0.6
"""Robust over conversation, tool descriptions and code; more of `b` helps code, less helps conversation."""

_USUAL_RATIO = 0.8
"""How far the best cosine of a pool stands out, by how far the best BM25 does: the mean over six sets, from 0.60 in
conversations to 0.95 in notes of coding work."""

_DAY_S = 86_400.0
_BACKGROUND_DOCUMENTS = 1000
_BACKGROUND_FREQUENCY = 5


def scaled_fusion(
    cosines: Sequence[float | None], keywords: Sequence[float | None], ideal_keyword: float, vector_weight: float
) -> list[float]:
    """Return the relevance 0…1 of each candidate: the weighted mean of both legs, a leg counting for what it found.

    A convex combination (Bruch, Gai, Ingber 2023) with other bounds. Min-max normalization calls a leg's best candidate
    1, be it a document with every word of the query or one that shares its most common word. Here a value is divided by
    the geometric mean of the greatest in the pool and the greatest there could be (`ideal_keyword`: the BM25 of a text
    full of every word; a cosine of 1, measured from the least in the pool). So a leg whose best is poor moves the order
    less, and for one query the keywords decide, for another the vectors, with one weight. A leg that gave nothing at
    all has none.
    """
    best = max((keyword for keyword in keywords if keyword is not None), default=0.0)
    present = [cosine for cosine in cosines if cosine is not None]
    if not present:
        vector_weight = 0.0
    if best <= 0.0:
        vector_weight, best = 1.0, 1.0
    low = min(present, default=0.0)
    reach = math.sqrt(max(present, default=1.0) - low) * math.sqrt(max(0.0, 1.0 - low))
    ideal = math.sqrt(best) * math.sqrt(max(best, ideal_keyword))
    return [
        vector_weight * (0.0 if cosine is None else (cosine - low) / reach if reach > 0.0 else 1.0)
        + (1.0 - vector_weight) * max(0.0, keyword or 0.0) / ideal
        for cosine, keyword in zip(cosines, keywords, strict=True)
    ]


def query_vector_weight(
    cosines: Sequence[float | None], keywords: Sequence[float | None], vector_weight: float
) -> float:
    """Return the share of the vector leg for one query, from the usual one: a leg counts for how its best stands out.

    That is by how many standard deviations the best of the pool is over its mean, squared. Where many share the query's
    words alike, the words do not tell which is meant, and where one alone has them, they do; so for the vectors. The
    spread of a search's scores predicts how good it is (Shtok, Kurland, Carmel and others 2012). 0 and 1 stay.
    """
    by_vectors = vector_weight * _standing_out([each for each in cosines if each is not None]) ** 2
    by_words = (1.0 - vector_weight) * (_USUAL_RATIO * _standing_out([each or 0.0 for each in keywords])) ** 2
    whole = by_vectors + by_words
    return by_vectors / whole if whole > 0.0 else vector_weight


def _standing_out(values: Sequence[float]) -> float:
    """Return by how many standard deviations the greatest is over the mean; 0 where all are the same."""
    mean = math.fsum(values) / len(values) if values else 0.0
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values)) if values else 0.0
    return (max(values) - mean) / spread if spread > 0.0 else 0.0


def ideal_keyword_score(documents: int, document_frequency: Mapping[str, int]) -> float:
    """Return the BM25 that no text can exceed: that of one full of every query token, those that stand nowhere too."""
    counts = (min(count, documents) for count in document_frequency.values())
    return (BM25_K1 + 1) * math.fsum(math.log(1 + (documents - count + 0.5) / (count + 0.5)) for count in counts)


def reciprocal_rank_fusion(
    cosines: Sequence[float | None], keywords: Sequence[float | None], rank_constant: int
) -> list[float]:
    """Return Σ 1 / (rank_constant + rank) over both legs, scaled so that first in both is 1.

    Cormack, Clarke, Büttcher (2009). What a leg did not find has no rank in it.
    """
    best = 2.0 / (rank_constant + 1)
    sums = [0.0] * len(cosines)
    for leg in (cosines, keywords):
        found = [(value, index) for index, value in enumerate(leg) if value is not None]
        for rank, (_, index) in enumerate(sorted(found, key=lambda pair: -pair[0]), start=1):
            sums[index] += 1.0 / (rank_constant + rank) / best
    return sums


def recency(age_s: float, half_life_days: float) -> float:
    """Return 0.5 ** (age / half-life): 1 when new, ½ after one half-life. An age below 0 counts as 0."""
    return 0.5 ** (max(0.0, age_s) / (half_life_days * _DAY_S))


def unit(value: float) -> float:
    """Return `value` held between 0 and 1; what is not a number becomes 0."""
    if 0.0 <= value <= 1.0:
        return value
    return 1.0 if value > 1.0 else 0.0


def cosine(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the inner product of two vectors of unit length."""
    return sum(map(mul, first, second))


def diversify(
    scores: Sequence[float], vector_of: Callable[[int], Sequence[float] | None], k: int, penalty: float
) -> list[tuple[int, float]]:
    """Choose k candidates: each time the one with the greatest score minus penalty · (greatest cosine to a chosen one).

    Returns (index, subtracted penalty) in the order of choice. Maximal marginal relevance (Carbonell, Goldstein 1998),
    with `penalty` as the weight of the diversity term alone, so that relevance dominates. A cosine below 0 counts as 0,
    and so does one of a candidate without vector; vectors may have any length but 0. The result is exact although few
    vectors are asked for: a penalty can only grow, so a candidate whose known bound is not the greatest need not be
    looked at.
    """

    likeness = _likeness(vector_of)
    chosen: list[tuple[int, float]] = []
    bounds = [(-score, index, 0, 0.0) for index, score in enumerate(scores)]
    heapq.heapify(bounds)
    while bounds and len(chosen) < k:
        _, index, compared, subtracted = heapq.heappop(bounds)
        if compared == len(chosen):
            chosen.append((index, subtracted))
            continue
        nearest = max(likeness(index, other) for other, _ in chosen[compared:])
        subtracted = max(subtracted, penalty * unit(nearest))
        heapq.heappush(bounds, (subtracted - scores[index], index, len(chosen), subtracted))
    return chosen


def _likeness(vector_of: Callable[[int], Sequence[float] | None]) -> Callable[[int, int], float]:
    """Return what gives the cosine of any two, 0 where one has no vector; each vector is read once."""
    read, product = _arithmetic()

    @cache
    def vector(index: int) -> tuple[Any, float] | None:
        numbers = vector_of(index)
        if numbers is None:
            return None
        own = read(numbers)
        return own, math.sqrt(product(own, own))

    def likeness(first: int, second: int) -> float:
        one, other = vector(first), vector(second)
        return 0.0 if one is None or other is None else float(product(one[0], other[0])) / (one[1] * other[1])

    return likeness


def _arithmetic() -> tuple[Callable[[Sequence[float]], Any], Callable[[Any, Any], float]]:
    """Return what reads a vector, and the inner product of two that were read.

    numpy is several times faster and is used where it is loaded already: for a hook its import takes too long.
    """
    if "numpy" not in sys.modules:
        return list, cosine
    import numpy

    return partial(numpy.asarray, dtype="f8"), numpy.dot


def contenders(scores: Sequence[float], fits: Callable[[int], bool], k: int, penalty: float) -> list[int]:
    """Return the indexes, best score first, of all that `diversify` could choose k from among those that fit.

    No penalty is greater than `penalty`, so whoever is farther than that below the k-th best never comes in; `fits` is
    not even asked about them.
    """
    found: list[int] = []
    for index in sorted(range(len(scores)), key=lambda each: -scores[each]):
        if len(found) >= k and scores[index] < scores[found[k - 1]] - penalty:
            break
        if fits(index):
            found.append(index)
    return found


def token_weights(tokens: Iterable[str], documents: int, document_frequency: Mapping[str, int]) -> dict[str, float]:
    """Return the share 0…1 of each query token in what the query says, by inverse document frequency; they sum to 1.

    The bank's counts are added to a background of 1,000 documents with 5 uses of each token, so that in a bank of a few
    items a token is not thought common because one of three holds it.
    """
    total = documents + _BACKGROUND_DOCUMENTS
    idf = {token: math.log(total / (document_frequency.get(token, 0) + _BACKGROUND_FREQUENCY)) for token in tokens}
    whole = sum(idf.values())
    return {token: value / whole for token, value in idf.items()} if whole > 0 else dict.fromkeys(idf, 0.0)


def coverage(weights: Mapping[str, float], words: Iterable[str]) -> float:
    """Return the weighted share 0…1 of the query's tokens that are among an item's distinct words."""
    return unit(sum([weights[word] for word in words if word in weights]))
