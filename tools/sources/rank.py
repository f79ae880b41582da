"""How passages are put in order: their own fields, their context, both legs fused. Pure; it knows no store."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from swarm_memory.schema.settings import SourceSettings
from swarm_memory.schema.source import SourceKind
from swarm_memory.tools.ports.sources import PassageCandidate, SourceResult
from swarm_memory.tools.retrieve.rank import BM25_B, BM25_K1, ideal_keyword_score, scaled_fusion

WITH_NEIGHBOURS: frozenset[SourceKind] = frozenset({"document", "code"})
"""Where the order within a group means something. Tools stand beside each other by chance."""

TEST_SHARE = 0.8
"""What is left of the score of code in a test, unless the query asks for tests: a test says in many words what it is
about, and whoever asks where a thing is done wants the place that does it."""

_TEST = "test"

Field = tuple[float, str]
"""The weight of a field and its tokens, joined by spaces."""


@dataclass(frozen=True, slots=True)
class ScoredPassage:
    """A candidate with its score."""

    candidate: PassageCandidate
    score: float
    """Relevance 0…1 among these candidates."""
    keyword: float | None


def score_passages(result: SourceResult, settings: SourceSettings, vector_weight: float) -> list[ScoredPassage]:
    """Return all candidates, best first.

    The keyword side is the BM25 of the passage's own fields plus `context_weight` times the BM25 of its context: its
    neighbours, and the name of its file or server. The vector side is its cosine, raised towards that of its nearest
    neighbour by the same weight.
    """
    candidates = result.candidates
    beside = _neighbours(candidates)
    own = field_scores(result.passages, result.document_frequency, [_fields(each, settings) for each in candidates])
    around = field_scores(
        result.passages, result.document_frequency, [_context(each, beside[each.seq]) for each in candidates]
    )
    weight = settings.context_weight
    keywords = [_sum(first, second, weight) for first, second in zip(own, around, strict=True)]
    cosines = [_raised(each, beside[each.seq], weight) for each in candidates]
    ideal = ideal_keyword_score(result.passages, result.document_frequency)
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


def field_scores(
    documents: int, document_frequency: Mapping[str, int], items: Sequence[Sequence[Field]]
) -> list[float | None]:
    """Return the BM25F of each item: a token counts as often as it stands in each field, times the field's weight.

    Robertson, Zaragoza, Taylor (2004), "Simple BM25 extension to multiple weighted fields", with the idf of
    keyword scores; an item's length is weighted alike. None: not one token in common.
    """
    idf = {
        token: (BM25_K1 + 1) * math.log(1 + (documents - count + 0.5) / (count + 0.5))
        for token, count in document_frequency.items()
        if 0 < count <= documents
    }
    split = [[(weight, tokens.split()) for weight, tokens in fields] for fields in items]
    lengths = [math.fsum(weight * len(tokens) for weight, tokens in fields) for fields in split]
    mean = math.fsum(lengths) / len(lengths) if any(lengths) else 1.0
    scores: list[float | None] = []
    for fields, length in zip(split, lengths, strict=True):
        found: Counter[str] = Counter()
        for weight, tokens in fields:
            for token in filter(idf.__contains__, tokens):
                found[token] += weight  # pyright: ignore[reportArgumentType] - a weighted count
        shift = BM25_K1 * (1 - BM25_B + BM25_B * length / mean)
        scores.append(math.fsum(idf[token] * n / (n + shift) for token, n in found.items()) if found else None)
    return scores


def _is_test(candidate: PassageCandidate) -> bool:
    return candidate.kind == "code" and _TEST in candidate.group_name.split()


def _fields(candidate: PassageCandidate, settings: SourceSettings) -> list[Field]:
    return [
        (settings.title_weight, candidate.title),
        (settings.description_weight, candidate.description),
        (1.0, candidate.content),
    ]


def _context(candidate: PassageCandidate, beside: Sequence[PassageCandidate]) -> list[Field]:
    texts = [text for each in beside for text in (each.title, each.description, each.content)]
    return [(1.0, candidate.group_name), *((1.0, text) for text in texts)]


def _neighbours(candidates: Sequence[PassageCandidate]) -> dict[int, list[PassageCandidate]]:
    """Return the passages beside each candidate, by its position in the index."""
    places = {(each.group, each.position): each for each in candidates if each.kind in WITH_NEIGHBOURS}
    return {
        each.seq: [
            found
            for step in (-1, 1)
            if each.kind in WITH_NEIGHBOURS and (found := places.get((each.group, each.position + step))) is not None
        ]
        for each in candidates
    }


def _sum(own: float | None, around: float | None, weight: float) -> float | None:
    if own is None and (around is None or weight == 0.0):
        return None
    return (own or 0.0) + weight * (around or 0.0)


def _raised(candidate: PassageCandidate, beside: Sequence[PassageCandidate], weight: float) -> float | None:
    """Return the cosine, or its weighted mean with the greatest beside it where that is greater."""
    if candidate.cosine is None:
        return None
    best = max((each.cosine for each in beside if each.cosine is not None), default=candidate.cosine)
    return max(candidate.cosine, (candidate.cosine + weight * best) / (1.0 + weight))
