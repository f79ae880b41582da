"""What fits: whether the bank has anything for a query, and then which of the candidates.

The constants were chosen on six banks of 70 to 6,271 texts and hold for those left out in turn: docs/BENCHMARKS.md.
"""

import math
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial

from swarm_memory.schema.memory import MemoryItem
from swarm_memory.tools.ports.memories import Candidate, SearchResult
from swarm_memory.tools.retrieve.rank import coverage, token_weights
from swarm_memory.tools.text.naming import names_in, shares_a_name
from swarm_memory.tools.text.tokens import tokenize
from swarm_memory.tools.toolbox import Toolbox

WORDS = 0.15
"""What it adds to a cosine that every word of the query is there."""

GROWTH = 0.05
"""Among e times as many memories the nearest of those that have nothing to do with a query is nearer by so much."""

USUAL_SIZE, LEAST_SIZE, GREATEST_SIZE = 100, 10, 10_000
"""Memories of the bank that `min_cosine` is meant for; a smaller or larger one than the bounds counts as they do."""

FOLLOWS = 0.7
"""The share of what the best one needs that the others need."""

NEAR = 0.5
"""The share of what the best one has that the others need too: what is not half as near is about something else."""

_MIN_TOLD, _SHARE_TOLD = 3, 0.4
"""So many words of an error, and so much of them, tell it."""

_QUOTED = re.compile(r'"([^"]{3,300})"')


@dataclass(frozen=True, slots=True)
class Fit:
    """One decision for a query, and what follows from it for each candidate."""

    needed: float
    """By the best; 0 and less: everything fits."""
    min_coverage: float
    weights: Mapping[str, float]
    """Of the query's words: the rarer, the more."""
    found: float = 0.0
    """What the best have."""
    covered: Callable[[frozenset[str]], float] = field(kw_only=True)
    """Gives the weighted share 0…1 of the query's words that are among some."""
    text: str = ""
    """The query where nobody asked: what names other things than it does is then not alike by its form alone."""

    @classmethod
    def of(cls, toolbox: Toolbox, result: SearchResult, tokens: Sequence[str], text: str = "") -> "Fit":
        """Decide for what a search with these tokens gave."""
        settings = toolbox.settings.retrieve
        least = toolbox.embedder.min_cosine if settings.min_cosine is None else settings.min_cosine
        everything = least <= 0.0 or settings.min_keyword_coverage <= 0.0
        needed = 0.0 if everything else least + GROWTH * bank_size(result.documents)
        weights = token_weights(tokens, result.documents, result.document_frequency)
        covered = cache(partial(coverage, weights))  # many candidates share the same words with the query
        named = text if text and names_in(text) else ""
        fit = cls(needed, settings.min_keyword_coverage, weights, covered=covered, text=named)
        return replace(fit, found=fit.strength(*best_of(result, covered)))

    @property
    def needed_beside(self) -> float:
        """What the others need, beside the best."""
        return max(0.0, FOLLOWS * self.needed, NEAR * self.found)

    def coverage(self, candidate: Candidate) -> float:
        """Return the weighted share 0…1 of the query's words that the candidate has."""
        return self.covered(candidate.words)

    def strength(self, cosine: float | None, covered: float) -> float:
        """Return nearness and shared words as one number, to be compared with what is needed.

        `min_keyword_coverage` of the words is enough however far the vector is, half of that where there is none.
        """
        if self.needed <= 0.0:
            return 0.0
        by_words = self.needed * covered / self.min_coverage
        return 2 * by_words if cosine is None else max(cosine + WORDS * covered, by_words)

    def is_met_by(self, candidate: Candidate) -> bool:
        """Whether it may be given: the query has something here, and this is near the best.

        Nearness alone is not enough for a way out of an error; a problem that nobody solved is no advice.
        """
        if self.found < self.needed:
            return False
        covered = self.coverage(candidate)
        if self.strength(candidate.cosine, covered) < self.needed_beside:
            return False
        if self.text and not self._is_about_the_same(candidate):
            return False
        if candidate.is_strategy:
            return True
        item = candidate.read_item()
        if item.use == "way_out":
            return covered >= self.min_coverage or speaks_of(self.weights.keys(), item)
        return item.use != "open_problem"

    def _is_about_the_same(self, candidate: Candidate) -> bool:
        """Whether two texts that both name something name the same, or share the words beside the names."""
        advice = candidate.read_item().advice
        if not names_in(advice) or shares_a_name(self.text, advice):
            return True
        named = {token for name in names_in(self.text) for token in tokenize(name)}
        beside = {token: weight for token, weight in self.weights.items() if token not in named}
        shared = sum(weight for token, weight in beside.items() if token in candidate.words)
        return shared >= self.min_coverage * sum(beside.values()) > 0


def best_of(result: SearchResult, covered: Callable[[frozenset[str]], float]) -> tuple[float | None, float]:
    """Return the greatest cosine and the greatest coverage of the candidates, be they of two."""
    nearest = max((each.cosine for each in result.candidates if each.cosine is not None), default=None)
    return nearest, max(map(covered, {each.words for each in result.candidates}), default=0.0)


def bank_size(memories: int) -> float:
    """Return the natural logarithm of a bank's size by the usual one."""
    return math.log(min(max(memories, LEAST_SIZE), GREATEST_SIZE) / USUAL_SIZE)


def speaks_of(words: Container[str], item: MemoryItem) -> bool:
    """Whether a query, of which these are the tokens, names the program that a way out is of, or tells its error."""
    program = tokenize((item.domain or "").partition(".")[2])
    symptom = {token for quoted in _QUOTED.findall(item.description)[:1] for token in tokenize(quoted)}
    told = sum(token in words for token in symptom)
    is_named = bool(program) and all(token in words for token in program)
    return is_named or told >= max(_MIN_TOLD, _SHARE_TOLD * len(symptom))
