"""How passages are put in order: their own fields, their context, both legs fused. Pure; it knows no store."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from swarm_memory.schema.source import SourceKind
from swarm_memory.tools.ports.sources import PassageCandidate, SourceResult
from swarm_memory.tools.retrieve.rank import BM25_B, BM25_K1, ideal_keyword_score, scaled_fusion

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NEIGHBOURS: Mapping[SourceKind, int] = {"document": 2, "code": 1, "github": 1}
"""So many passages on each side are a passage's context. Tools and operations stand beside each other by chance."""

_SATURATION: Mapping[SourceKind, tuple[float, float]] = {"document": (BM25_K1, BM25_B)}
_SATURATION_OF_OTHERS = 1.5, 0.75
"""`k1` and `b` of BM25: words of prose saturate sooner and its lengths say less."""

_VECTOR_FACTOR: Mapping[SourceKind | None, float] = {None: 1.0, "document": 0.7, "github": 1.0}
_VECTOR_FACTOR_OF_OTHERS = 1.3
"""Of the weight that an embedder has for memories: code and tools are asked for in other words than theirs."""

TEST_SHARE = 0.8
"""What is left of the score of code in a test, unless the query asks for tests: a test says in many words what it is
about, and whoever asks where a thing is done wants the place that does it."""

TITLE_WEIGHT, DESCRIPTION_WEIGHT = 2.0, 1.2
"""How often a word of the title or description counts where one of the content counts once."""

CONTEXT_WEIGHT = 0.4
"""What the neighbours of a passage and the name of its file or server add to its score, beside its own text."""

_TEST = "test"


@dataclass(frozen=True, slots=True)
class ScoredPassage:
    """A candidate with its score."""

    candidate: PassageCandidate
    score: float
    """Relevance 0…1 among these candidates."""
    keyword: float | None


def vector_weight(calibrated: float, kind: SourceKind | None) -> float:
    """Return the share of the vector leg in a search of one kind (None: of all), from the embedder's own for memories.

    The factors were chosen on one half of public sets, with both embedders that ship.
    """
    return min(1.0, calibrated * _VECTOR_FACTOR.get(kind, _VECTOR_FACTOR_OF_OTHERS))


def score_passages(result: SourceResult, vector_weight: float) -> list[ScoredPassage]:
    """Return all candidates, best first.

    The keyword side is the BM25F of the passage's own fields and, with `CONTEXT_WEIGHT`, of its context: its
    neighbours, and the name of its file or server. The vector side is its cosine, raised towards that of its nearest
    neighbour by the same weight.
    """
    candidates = result.candidates
    beside = _neighbours(candidates)
    keywords = keyword_scores(result, beside)
    cosines = [_raised(each, beside[each.seq], CONTEXT_WEIGHT) for each in candidates]
    ideal = ideal_keyword_score(result.documents, result.document_frequency)
    scores = scaled_fusion(cosines, keywords, ideal, vector_weight)
    if _TEST not in result.document_frequency:
        scores = [
            score * TEST_SHARE if _is_test(each) else score for each, score in zip(candidates, scores, strict=True)
        ]
    scored = [
        ScoredPassage(candidate, min(1.0, max(0.0, score)), keyword)
        for candidate, score, keyword in zip(candidates, scores, keywords, strict=True)
    ]
    return sorted(scored, key=lambda each: (-each.score, each.candidate.seq))


def keyword_scores(result: SourceResult, beside: Mapping[int, Sequence[PassageCandidate]]) -> list[float | None]:
    """Return the BM25F of each candidate: a token counts as often as it stands in each field, times the field's weight.

    Robertson, Zaragoza, Taylor (2004), "Simple BM25 extension to multiple weighted fields", with the idf of
    keyword scores; a passage's length is weighted alike. None: not one token in common.
    """
    import numpy as np

    documents, candidates = result.documents, result.candidates
    if not candidates:
        return []
    idf = {
        token: (BM25_K1 + 1) * math.log(1 + (documents - count + 0.5) / (count + 0.5))
        for token, count in result.document_frequency.items()
        if 0 < count <= documents
    }

    def counted(tokens: str) -> "NDArray[np.float64]":
        """Return how often each token of the query is in a text, and how many tokens it has."""
        every = tokens.split()
        return np.array([*(every.count(token) for token in idf), len(every)], dtype=np.float64)

    own = {
        each.seq: TITLE_WEIGHT * counted(each.title)
        + DESCRIPTION_WEIGHT * counted(each.description)
        + counted(each.content)
        for each in candidates
    }
    texts = np.array(
        [
            own[each.seq] + CONTEXT_WEIGHT * sum((own[near.seq] for near in beside[each.seq]), counted(each.group_name))
            for each in candidates
        ]
    )
    times, lengths = texts[:, :-1], texts[:, -1]
    k1, b = np.array([_SATURATION.get(each.kind, _SATURATION_OF_OTHERS) for each in candidates]).T
    shift = k1 * (1 - b + b * lengths / (lengths.mean() or 1.0))
    found = np.array([*idf.values()]) * times / (times + shift[:, None])
    return [sum(scores) or None for scores in found.tolist()]


def _is_test(candidate: PassageCandidate) -> bool:
    return candidate.kind == "code" and _TEST in candidate.group_name.split()


def _neighbours(candidates: Sequence[PassageCandidate]) -> dict[int, list[PassageCandidate]]:
    """Return the passages beside each candidate, by its position in the index."""
    places = {(each.group, each.position): each for each in candidates if each.kind in NEIGHBOURS}
    found: dict[int, list[PassageCandidate]] = {}
    for each in candidates:
        reach = NEIGHBOURS.get(each.kind, 0)
        steps = (step for step in range(-reach, reach + 1) if step)
        beside = (places.get((each.group, each.position + step)) for step in steps)
        found[each.seq] = [near for near in beside if near is not None]
    return found


def _raised(candidate: PassageCandidate, beside: Sequence[PassageCandidate], weight: float) -> float | None:
    """Return the cosine, or its weighted mean with the greatest beside it where that is greater."""
    if candidate.cosine is None:
        return None
    best = max((each.cosine for each in beside if each.cosine is not None), default=candidate.cosine)
    return max(candidate.cosine, (candidate.cosine + weight * best) / (1.0 + weight))
