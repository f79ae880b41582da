"""How candidates are put in order, and what fits: fusion, the score, diversity, what the bank must have for a query.

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
"""Robust over conversation, tool descriptions and code; more of `b` helps code, less helps conversation."""

LEADING = 30
"""How many of the best of each leg say how a query went: the same however many candidates there are beside them."""

_USUAL_VECTORS, _USUAL_WORDS, _USUAL_COVERAGE = 0.4, 0.5, 0.57
"""How far the best cosine and the best BM25 of a pool stand out, and what share of the query's words the best text has:
where all are as usual a leg has its usual share. Chosen, with the powers, on one half of six public sets."""

_BACKGROUND_DOCUMENTS, _BACKGROUND_FREQUENCY = 1000, 5
"""Added to the bank's counts: among a few items a token is not thought common because one of three holds it."""

WORDS = 0.15
"""What it adds to a cosine that every word of the query is there."""

GROWTH = 0.05
"""Among e times as many memories the nearest of those that have nothing to do with a query is nearer by so much."""

USUAL_SIZE, LEAST_SIZE, GREATEST_SIZE = 100, 10, 10_000
"""Memories of the bank that `min_cosine` is meant for; a smaller or larger one than the bounds counts as they do."""

SURE = 0.19
"""How far beyond what is needed a note must be to be shown whole where nobody asked."""

FOLLOWS = 0.7
"""The share of what the best one needs that the others need."""

NEAR = 0.5
"""The share of what the best one has that the others need too: what is not half as near is about something else."""

MIN_COVERAGE = 0.6
"""The idf-weighted share of the query's words that is enough however far the vector is."""

PROJECT_PREFERENCE = 0.05
"""Taken off the score of a global item, so that the project's own comes first."""

USER_PREFERENCE = 0.3
"""Added to the score of what the user said, and taken off that of what is of suspect wording."""

TIME_BOOST = 0.4
"""Added to the score of what was stored at a time that the query names ("last week", "on 3 May")."""

HALF_LIFE_DAYS = 45.0
"""After which recency is halved."""

GONE_PENALTY = 0.2
"""Taken off the score of a memory when all is gone of what it names and was in the project (files, scripts, packages);
its share for a part. When all is gone it is not shown, unless the user said it."""

_MIN_WORDS, _SHARE_OF_WORDS = 3, 0.4
"""So many words of an error, and so much of them, name it."""

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

    A convex combination (Bruch, Gai, Ingber 2023) with other bounds. Min-max normalization calls a leg's best candidate
    1, be it a document with every word of the query or one that shares its most common word. Here a value is divided by
    the geometric mean of the greatest in the pool and the greatest there could be (`ideal_keyword`: the BM25 of a text
    full of every word; a cosine of 1, measured from the least in the pool). So a leg whose best is poor moves the order
    less, and for one query the keywords decide, for another the vectors, with one weight. A leg that gave nothing at
    all has none. The bounds are those of the candidates in the places `among`; None: of all.
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
    """Return the share of the vector leg for one query, from the usual one: a leg counts for how its best stands out.

    Where many share the query's words alike, the words do not say which is meant, and where one alone has them, they
    do; so for the vectors: the spread of a search's scores predicts how good it is (Shtok, Kurland, Carmel and others
    2012). And words count for the share 0…1 of the query's that the best text has (`covered`): where it is asked in
    other words, the few in common mislead. 0 and 1 stay.
    """
    stand_out = _standing_out([each for each in cosines if each is not None]) / _USUAL_VECTORS
    by_vectors = vector_weight * stand_out**2
    stand_out = _standing_out([each or 0.0 for each in keywords]) / _USUAL_WORDS
    by_words = (1.0 - vector_weight) * stand_out**3 * (covered / _USUAL_COVERAGE) ** 2
    whole = by_vectors + by_words
    return by_vectors / whole if whole > 0.0 else vector_weight


def _standing_out(values: Sequence[float]) -> float:
    """Return how far the greatest is over the mean, of the farthest that one of so many can be; 0 where all are alike.

    That is √(n - 1) standard deviations (Samuelson 1968, "How deviant can you be?"), so that few are like many.
    """
    mean = math.fsum(values) / len(values) if values else 0.0
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values)) if values else 0.0
    return (max(values) - mean) / spread / math.sqrt(len(values) - 1) if spread > 0.0 else 0.0


def ideal_keyword_score(documents: int, document_frequency: Mapping[str, int]) -> float:
    """Return the BM25 that no text can exceed: that of one full of every query token, those that stand nowhere too."""
    counts = (min(count, documents) for count in document_frequency.values())
    return (BM25_K1 + 1) * math.fsum(math.log(1 + (documents - count + 0.5) / (count + 0.5)) for count in counts)


def score_terms(
    candidate: Candidate, relevance: float, recent: float, near_in_time: float, settings: RetrieveSettings, own: str
) -> dict[str, float]:
    """Return what makes up the score of a candidate, by name; the score is their sum.

    The weighted sum of relevance, recency and reliability, plus what the user's word adds or suspect wording takes,
    plus how near it is (0…1) to a time that the query names, less what an item of every project gives way to one of the
    project `own`. Staleness and a reranker add further terms (`retrieve`), and diversity is subtracted last.
    """
    reliable = candidate.confidence if settings.reliability == "confidence" else by_use(candidate.usage_count)
    is_of_all = candidate.project in (GLOBAL_PROJECT, f"{TEAM}{GLOBAL_PROJECT}") and candidate.project != own
    return {
        "relevance": settings.alpha * relevance,
        "recency": settings.beta * recent,
        settings.reliability: settings.gamma * reliable,
        "suspect wording" if candidate.priority < 0 else "the user's word": (USER_PREFERENCE * candidate.priority),
        "time that the query names": TIME_BOOST * near_in_time,
        "of every project": -PROJECT_PREFERENCE if is_of_all else 0.0,
    }


def recency(age_s: float, half_life_days: float) -> float:
    """Return 0.5 ** (age / half-life): 1 when new, ½ after one half-life. An age below 0 counts as 0."""
    return 0.5 ** (max(0.0, age_s) / (half_life_days * 86_400.0))


def by_use(uses: int) -> float:
    """Return sigmoid(log(1 + uses)) = (1 + uses) / (2 + uses): ½ for what was never used, near 1 after many uses.

    The usage-based boost of Ruflo's outline of ReasoningBank (v2/docs/reasoningbank/google-research.md, section 10).
    """
    return (1 + uses) / (2 + uses)


def unit(value: float) -> float:
    """Return `value` held between 0 and 1; what is not a number becomes 0."""
    return min(1.0, max(0.0, value))


class Fit:
    """One decision for a query, and what follows from it for each candidate."""

    def __init__(self, toolbox: Toolbox, result: SearchResult, tokens: Sequence[str], text: str = "") -> None:
        """Decide for what a search with these tokens gave.

        `text` is the query where nobody asked: what names other things than it does is then not alike by its form.
        """
        settings = toolbox.settings.retrieve
        least = toolbox.embedder.min_cosine if settings.min_cosine is None else settings.min_cosine
        size = min(max(result.documents, LEAST_SIZE), GREATEST_SIZE)
        self.needed = 0.0 if least <= 0.0 else least + GROWTH * math.log(size / USUAL_SIZE)
        """By the best; 0 and less: everything fits."""
        total, counts = result.documents + _BACKGROUND_DOCUMENTS, result.document_frequency
        idf = {token: math.log(total / (counts.get(token, 0) + _BACKGROUND_FREQUENCY)) for token in tokens}
        whole = sum(idf.values())
        weights = {token: value / whole if whole > 0 else 0.0 for token, value in idf.items()}
        self._weights: Mapping[str, float] = weights
        """The share 0…1 of each query token in what the query says; they sum to 1."""

        @cache  # many candidates share the same words with the query
        def covered(words: frozenset[str]) -> float:
            return unit(sum([weights[word] for word in words if word in weights]))

        self._covered = covered
        self._text = text if text and names_in(text) else ""
        self.texts = counts
        """In how many memories a token of the query stands."""
        nearest = max((each.cosine for each in result.candidates if each.cosine is not None), default=None)
        self.covered = max(map(self._covered, {each.words for each in result.candidates}), default=0.0)
        """The greatest share of the query's words that one has."""
        self.found = self.strength(nearest, self.covered)
        """What the best have; the nearest and the one of most words may be two."""
        self.needed_beside = max(0.0, FOLLOWS * self.needed, NEAR * self.found)
        """What the others need, beside the best."""

    def coverage(self, candidate: Candidate) -> float:
        """Return the weighted share 0…1 of the query's words that the candidate has."""
        return self._covered(candidate.words)

    def strength(self, cosine: float | None, covered: float) -> float:
        """Return nearness and shared words as one number, to be compared with what is needed.

        `MIN_COVERAGE` of the words is enough however far the vector is, half of that where there is none.
        """
        if self.needed <= 0.0:
            return 0.0
        by_words = self.needed * covered / MIN_COVERAGE
        return 2 * by_words if cosine is None else max(cosine + WORDS * covered, by_words)

    def is_sure_of(self, candidate: Candidate) -> bool:
        """Whether it fits so well that it is shown whole where nobody asked."""
        return self.needed <= 0 or self.strength(candidate.cosine, self.coverage(candidate)) >= self.needed + SURE

    def is_met_by(self, candidate: Candidate) -> bool:
        """Whether it may be given: the query has something here, and this is near the best.

        Nearness alone is not enough for a fix of an error; a problem that nobody solved is no advice.
        """
        if self.found < self.needed:
            return False
        covered = self.coverage(candidate)
        if self.strength(candidate.cosine, covered) < self.needed_beside:
            return False
        if self._text and not self._is_about_the_same(candidate):
            return False
        if candidate.is_strategy:
            return True
        item = candidate.read_item()
        if item.use == "way_out" and covered < MIN_COVERAGE:  # then the query must name its program, or its error
            words, program = self._weights, tokenize((item.domain or "").partition(".")[2])
            symptom = {token for quoted in _QUOTED.findall(item.description)[:1] for token in tokenize(quoted)}
            is_named = bool(program) and all(token in words for token in program)
            least = max(_MIN_WORDS, _SHARE_OF_WORDS * len(symptom))
            return is_named or sum(token in words for token in symptom) >= least
        return item.use != "open_problem"

    def _is_about_the_same(self, candidate: Candidate) -> bool:
        """Whether two texts that both name something name the same, or share the words beside the names."""
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
    """What makes up its score, by name; they sum to it."""
    score: float
    """Before diversity."""
    penalty: float = 0.0
    """What diversity takes off."""
    applies: bool = True
    """False: of what it names nothing is left in the project."""

    def with_term(self, name: str, value: float) -> "Scored":
        """Return it with a further part of its score."""
        return self._replace(terms={**self.terms, name: value}, score=self.score + value)

    def memory(self) -> ScoredMemory:
        """Return its item, which is read now, scored. Raises `StoreDamaged`."""
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


def best_of(scored: Sequence[Scored], fit: Fit, k: int, penalty: float) -> list[Scored]:
    """Return at most `k` that fit, best first: each time the greatest score less penalty · (cosine to a chosen one).

    Maximal marginal relevance (Carbonell, Goldstein 1998), with `penalty` as the weight of the diversity term alone, so
    that relevance dominates. A cosine below 0 counts as 0, and so does that of a candidate without vector.
    """
    pool: list[Scored] = []
    for each in sorted(scored, key=lambda each: -each.score):
        # No penalty is greater than this: who is farther below the k-th best never comes in, and is not looked at.
        if len(pool) >= k and each.score < pool[k - 1].score - penalty:
            break
        if each.applies and fit.is_met_by(each.candidate):
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
