"""How candidates are ranked, and which of them fit: fusion, the score, diversity, and what a query needs from the bank.

The constants of what fits were chosen on six banks, and hold for those left out in turn: docs/BENCHMARKS.md.
"""

import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from swarm_memory.schema.base import GLOBAL_PROJECT, TEAM
from swarm_memory.schema.memory import ScoredMemory, ScoreParts
from swarm_memory.schema.settings import RetrieveSettings
from swarm_memory.tools.ports.memories import Candidate, SearchResult
from swarm_memory.tools.text.tokens import names_in, shares_a_name, tokenize
from swarm_memory.tools.toolbox import Toolbox

BM25_K1, BM25_B = 0.9, 0.6
"""Robust across conversation, tool descriptions and code; a greater `b` helps code, a smaller one conversation."""

LEADING = 30
"""How many of each leg's best show how well a query went: the same however many other candidates there are."""

_USUAL_VECTORS, _USUAL_WORDS, _USUAL_COVERAGE = 0.4, 0.5, 0.57
"""How far the best cosine and the best BM25 of a pool usually stand out, and the share of the query's words that the
best text usually has: then a leg has its usual weight. Chosen, with the powers, on one half of six public sets."""

_BACKGROUND_DOCUMENTS, _BACKGROUND_FREQUENCY = 1000, 5
"""Added to the bank's counts: in a bank of a few items a token is not common just because one of three has it."""

WORDS = 0.15
"""Added to the cosine of a memory that has every word of the query; in proportion for fewer words."""

GROWTH = 0.05
"""By how much the nearest memory that has nothing to do with a query is nearer in a bank e times as large."""

USUAL_SIZE, LEAST_SIZE, GREATEST_SIZE = 100, 10, 10_000
"""The bank's size, in memories, that `min_cosine` is meant for, and the bounds to which a bank's size is clamped."""

SURE = 0.19
"""How far above the needed strength a note must be to be shown whole by an unasked retrieval."""

FOLLOWS = 0.7
"""The strength that the others need, as a share of what the best one needs."""

NEAR = 0.5
"""The strength that the others also need, as a share of the best one's: what is not half as near is off topic."""

MIN_COVERAGE = 0.6
"""The idf-weighted share of the query's words that is enough however far the vector is."""

PROJECT_PREFERENCE = 0.05
"""Subtracted from the score of a global item, so that the project's own come first."""

USER_PREFERENCE = 0.3
"""Added to the score of what the user said, and subtracted from the score of what has suspect wording."""

TIME_BOOST = 0.4
"""Added to the score of what was stored at a time that the query names ("last week", "on 3 May")."""

HALF_LIFE_DAYS = 45.0
"""The age at which recency is halved."""

GONE_PENALTY = 0.2
"""Subtracted from the score of a memory when all that it names and was in the project (files, scripts, packages) is
gone; in proportion for a part. When all is gone it is not shown, unless the user said it."""

_MIN_WORDS, _SHARE_OF_WORDS = 3, 0.4
"""A query names an error if it has at least this many of the error's words, and this share of them."""

_QUOTED = re.compile(r'"([^"]{3,300})"')


def leading(cosines: Sequence[float | None], keywords: Sequence[float | None]) -> list[int]:
    """Return the places of the candidates that are among the `LEADING` best of either leg, in order."""
    places: set[int] = set()
    for values in (cosines, keywords):
        found = [(-value, place) for place, value in enumerate(values) if value is not None]
        places.update(place for _, place in sorted(found)[:LEADING])
    return sorted(places)


def scaled_fusion(
    cosines: Sequence[float | None],
    keywords: Sequence[float | None],
    ideal_keyword: float,
    vector_weight: float,
    among: Sequence[int] | None = None,
) -> list[float]:
    """Return the relevance 0…1 of each candidate: the weighted mean of both legs, a leg counting for what it found.

    A convex combination (Bruch, Gai, Ingber 2023) with other bounds. Min-max normalization gives a leg's best candidate
    1, whether it has every word of the query or shares only its most common word. Here a value is divided by the
    geometric mean of the greatest value in the pool and the greatest possible one (`ideal_keyword`: the BM25 of a text
    full of every word; a cosine of 1, measured from the least in the pool). So a leg whose best is poor affects the
    order less: with the same weight, keywords decide one query and vectors another. A leg that found nothing at all
    has no weight. The bounds are taken from the candidates in the places `among`; None: from all.
    """
    places = range(len(cosines)) if among is None else among
    best = max((keyword for place in places if (keyword := keywords[place]) is not None), default=0.0)
    present = [cosine for place in places if (cosine := cosines[place]) is not None]
    if not present:
        vector_weight = 0.0
    if best <= 0.0:
        vector_weight, best = 1.0, 1.0
    low = min(present, default=0.0)
    reach = math.sqrt(max(present, default=1.0) - low) * math.sqrt(max(0.0, 1.0 - low))
    ideal = math.sqrt(best) * math.sqrt(max(best, ideal_keyword))
    return [
        vector_weight * (0.0 if cosine is None else max(0.0, cosine - low) / reach if reach > 0.0 else 1.0)
        + (1.0 - vector_weight) * max(0.0, keyword or 0.0) / ideal
        for cosine, keyword in zip(cosines, keywords, strict=True)
    ]


def query_vector_weight(
    cosines: Sequence[float | None], keywords: Sequence[float | None], covered: float, vector_weight: float
) -> float:
    """Return the vector leg's weight for one query, from the usual one: a leg counts by how far its best stands out.

    If many candidates share the query's words equally, the words do not show which is meant; if only one has them, they
    do. The same holds for vectors: the spread of a search's scores predicts how good it is (Shtok, Kurland, Carmel and
    others 2012). Words also count by the share 0…1 of the query's words that the best text has (`covered`): if the
    query uses other words, the few in common mislead. A weight of 0 or 1 stays.
    """
    stand_out = _standing_out([each for each in cosines if each is not None]) / _USUAL_VECTORS
    by_vectors = vector_weight * stand_out**2
    stand_out = _standing_out([each or 0.0 for each in keywords]) / _USUAL_WORDS
    by_words = (1.0 - vector_weight) * stand_out**3 * (covered / _USUAL_COVERAGE) ** 2
    whole = by_vectors + by_words
    return by_vectors / whole if whole > 0.0 else vector_weight


def _standing_out(values: Sequence[float]) -> float:
    """Return how far the greatest value is above the mean, as a share of the farthest possible; 0 if all are equal."""
    mean = math.fsum(values) / len(values) if values else 0.0
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values)) if values else 0.0
    # √(n - 1) deviations are the farthest possible (Samuelson 1968, "How deviant can you be?"): few compare with many.
    return (max(values) - mean) / spread / math.sqrt(len(values) - 1) if spread > 0.0 else 0.0


def ideal_keyword_score(documents: int, document_frequency: Mapping[str, int]) -> float:
    """Return the BM25 that no text can exceed: that of one full of every query token, even those that occur nowhere."""
    counts = (min(count, documents) for count in document_frequency.values())
    return (BM25_K1 + 1) * math.fsum(math.log(1 + (documents - count + 0.5) / (count + 0.5)) for count in counts)


def score_terms(
    candidate: Candidate, relevance: float, recent: float, near_in_time: float, settings: RetrieveSettings, own: str
) -> dict[str, float]:
    """Return the terms of a candidate's score, by name; the score is their sum.

    They are relevance, recency and reliability, weighted; what the user's word adds or suspect wording subtracts; how
    near it is (0…1) to a time that the query names; and what is subtracted from an item of every project in favor of
    the project `own`. Staleness and a reranker add further terms (`retrieve`), and diversity is subtracted last.
    """
    uses = candidate.usage_count  # 0: ½; many: near 1, as in section 10 of Ruflo's outline of ReasoningBank
    reliable = candidate.confidence if settings.reliability == "confidence" else (1 + uses) / (2 + uses)
    is_of_all = candidate.project in (GLOBAL_PROJECT, f"{TEAM}{GLOBAL_PROJECT}") and candidate.project != own
    return {
        "relevance": settings.alpha * relevance,
        "recency": settings.beta * recent,
        settings.reliability: settings.gamma * reliable,
        "suspect wording" if candidate.priority < 0 else "the user's word": (USER_PREFERENCE * candidate.priority),
        "time named in the query": TIME_BOOST * near_in_time,
        "of every project": -PROJECT_PREFERENCE if is_of_all else 0.0,
    }


def recency(age_s: float, half_life_days: float) -> float:
    """Return 0.5 ** (age / half-life): 1 when new, ½ after one half-life. An age below 0 counts as 0."""
    return 0.5 ** (max(0.0, age_s) / (half_life_days * 86_400.0))


def clamp01(value: float) -> float:
    """Return `value` clamped to 0…1; NaN becomes 0."""
    return min(1.0, max(0.0, value))


class FitFilter:
    """Whether the bank has anything for a query, and which candidates then fit."""

    def __init__(self, toolbox: Toolbox, result: SearchResult, tokens: Sequence[str], text: str = "") -> None:
        """Decide for the result of a search with these tokens.

        `text` is an unasked retrieval's query: a candidate that names other things must then share its other words.
        """
        settings = toolbox.settings.retrieve
        least = toolbox.embedder.min_cosine if settings.min_cosine is None else settings.min_cosine
        size = min(max(result.documents, LEAST_SIZE), GREATEST_SIZE)
        self.needed = 0.0 if least <= 0.0 else least + GROWTH * math.log(size / USUAL_SIZE)
        """The strength that the best must have; 0 or less: everything fits."""
        total, counts = result.documents + _BACKGROUND_DOCUMENTS, result.document_frequency
        idf = {token: math.log(total / (counts.get(token, 0) + _BACKGROUND_FREQUENCY)) for token in tokens}
        whole = sum(idf.values())
        weights = {token: value / whole if whole > 0 else 0.0 for token, value in idf.items()}
        self._weights: Mapping[str, float] = weights
        """The weight 0…1 of each query token in the query; they sum to 1."""

        @cache  # many candidates share the same words with the query
        def covered(words: frozenset[str]) -> float:
            return clamp01(sum([weights[word] for word in words if word in weights]))

        self._covered = covered
        self._text = text if text and names_in(text) else ""
        self.texts = counts
        """In how many memories each token of the query occurs."""
        nearest = max((each.cosine for each in result.candidates if each.cosine is not None), default=None)
        self.covered = max(map(self._covered, {each.words for each in result.candidates}), default=0.0)
        """The greatest share of the query's words that one candidate has."""
        self.found = self.strength(nearest, self.covered)
        """The strength of the best; the nearest one and the one with the most words may be two candidates."""
        self.min_strength_of_rest = max(0.0, FOLLOWS * self.needed, NEAR * self.found)
        """The strength that the others need."""

    def coverage(self, candidate: Candidate) -> float:
        """Return the weighted share 0…1 of the query's words that the candidate has."""
        return self._covered(candidate.words)

    def strength(self, cosine: float | None, covered: float) -> float:
        """Return nearness and shared words as one number, to be compared with what is needed.

        `MIN_COVERAGE` of the words is enough however far the vector is, half of that where there is no vector.
        """
        if self.needed <= 0.0:
            return 0.0
        by_words = self.needed * covered / MIN_COVERAGE
        return 2 * by_words if cosine is None else max(cosine + WORDS * covered, by_words)

    def is_sure_of(self, candidate: Candidate) -> bool:
        """Whether a candidate fits so well that an unasked retrieval shows it whole."""
        return self.needed <= 0 or self.strength(candidate.cosine, self.coverage(candidate)) >= self.needed + SURE

    def admits(self, candidate: Candidate) -> bool:
        """Whether a candidate may be returned: the bank has something for the query, and this one is near the best.

        Nearness alone is not enough for a fix of an error; a problem that nobody solved is no advice.
        """
        if self.found < self.needed:
            return False
        covered = self.coverage(candidate)
        if self.strength(candidate.cosine, covered) < self.min_strength_of_rest:
            return False
        if self._text and not self._is_about_the_same(candidate):
            return False
        if candidate.is_strategy:
            return True
        item = candidate.read_item()
        if item.use == "fix" and covered < MIN_COVERAGE:  # then the query must name its program, or its error
            words, program = self._weights, tokenize((item.domain or "").partition(".")[2])
            symptom = {token for quoted in _QUOTED.findall(item.description)[:1] for token in tokenize(quoted)}
            is_named = bool(program) and all(token in words for token in program)
            least = max(_MIN_WORDS, _SHARE_OF_WORDS * len(symptom))
            return is_named or sum(token in words for token in symptom) >= least
        return item.use != "open_problem"

    def _is_about_the_same(self, candidate: Candidate) -> bool:
        """Whether a candidate names nothing, or shares a name or enough of the other words with the query."""
        advice = candidate.read_item().advice
        if not names_in(advice) or shares_a_name(self._text, advice):
            return True
        named = {token for name in names_in(self._text) for token in tokenize(name)}
        beside = {token: weight for token, weight in self._weights.items() if token not in named}
        shared = sum(weight for token, weight in beside.items() if token in candidate.words)
        return shared >= MIN_COVERAGE * sum(beside.values()) > 0


class Scored(NamedTuple):
    """A candidate and the parts of its score."""

    candidate: Candidate
    relevance: float
    recency: float
    terms: Mapping[str, float]
    """The terms of its score, by name; they sum to it."""
    score: float
    """Before diversity."""
    penalty: float = 0.0
    """What diversity subtracts."""
    applies: bool = True
    """False: nothing that it names is left in the project."""

    def with_term(self, name: str, value: float) -> "Scored":
        """Return it with a further term of its score."""
        return self._replace(terms={**self.terms, name: value}, score=self.score + value)

    def memory(self) -> ScoredMemory:
        """Read the item and return it scored. Raises `StoreDamaged`."""
        parts = ScoreParts(
            relevance=self.relevance,
            recency=self.recency,
            confidence=self.candidate.confidence,
            diversity_penalty=self.penalty,
            cosine=self.candidate.cosine,
            keyword=self.candidate.keyword,
        )
        item = self.candidate.read_item()
        return ScoredMemory(item=item, score=self.score - self.penalty, parts=parts)


def select_diverse(scored: Sequence[Scored], fit: FitFilter, k: int, penalty: float) -> list[Scored]:
    """Return at most `k` that fit, best first: each time the best score less penalty · (cosine to the nearest chosen).

    Maximal marginal relevance (Carbonell, Goldstein 1998), with `penalty` as the weight of the diversity term alone, so
    that relevance dominates. A cosine below 0 counts as 0, and so does that of a candidate without vector.
    """
    pool: list[Scored] = []
    for each in sorted(scored, key=lambda each: -each.score):
        # No penalty is greater than this: a candidate farther below the k-th best never gets in, and is not read.
        if len(pool) >= k and each.score < pool[k - 1].score - penalty:
            break
        if each.applies and fit.admits(each.candidate):
            pool.append(each)
    if not penalty or not pool:
        return pool[:k]
    import numpy

    numbers = [each.candidate.read_vector() for each in pool]
    dims = max(0 if each is None else len(each) for each in numbers)
    vectors = numpy.array([[0.0] * dims if each is None else each for each in numbers], dtype="f8")
    lengths = numpy.linalg.norm(vectors, axis=1, keepdims=True)
    directions = numpy.nan_to_num(vectors / numpy.where(lengths > 0.0, lengths, 1.0))
    scores, taken = numpy.array([each.score for each in pool]), numpy.zeros(len(pool))
    chosen: list[Scored] = []
    while len(chosen) < min(k, len(pool)):
        best = int((scores - taken).argmax())
        chosen.append(pool[best]._replace(penalty=float(taken[best])))
        scores[best] = -math.inf
        taken = numpy.maximum(taken, penalty * numpy.clip(directions @ directions[best], 0.0, 1.0))
    return chosen
