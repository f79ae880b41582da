"""What makes a candidate fit a query, and what is said when too few do. It searches and orders nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from swarm_memory.schema.base import GLOBAL_PROJECT, counted
from swarm_memory.schema.memory import NearMiss
from swarm_memory.tools.ports.bank import ANY, Candidate, SearchQuery, SearchResult
from swarm_memory.tools.retrieve.rank import coverage, fit, token_weights, unit
from swarm_memory.tools.toolbox import Toolbox


@dataclass(frozen=True, slots=True)
class Floor:
    """What makes a candidate fit: nearness and shared words together."""

    min_cosine: float
    min_coverage: float
    weights: Mapping[str, float]
    """Of the query's words: the rarer, the more."""

    @classmethod
    def of(cls, toolbox: Toolbox, result: SearchResult, tokens: Sequence[str]) -> "Floor":
        settings = toolbox.settings.retrieve
        return cls(
            min_cosine=toolbox.embedder.min_cosine if settings.min_cosine is None else settings.min_cosine,
            min_coverage=settings.min_keyword_coverage,
            weights=token_weights(tokens, result.documents, result.document_frequency),
        )

    def coverage(self, candidate: Candidate) -> float:
        """Return the weighted share 0…1 of the query's words that the candidate has."""
        return unit(coverage(self.weights, candidate.words))

    def is_met_by(self, candidate: Candidate) -> bool:
        return fit(candidate.cosine, self.coverage(candidate), self.min_cosine, self.min_coverage) >= 1.0


def near_miss(best: Candidate, floor: Floor) -> NearMiss:
    """Return what is told of the best candidate where none fits."""
    title = best.read_item().title
    return NearMiss(id=best.id, title=title, cosine=best.cosine, keyword_coverage=floor.coverage(best))


@dataclass(frozen=True, slots=True)
class Shortfall:
    """A search that gave fewer than were wanted: all that its reason is made of."""

    search: SearchQuery
    documents: int
    """Active items in the scopes."""
    floor: Floor
    found: int
    nearest: NearMiss | None

    def reason(self) -> str:
        """Say why, for whoever asked."""
        if self.documents == 0:
            return f"no memories yet in {self._where()}"
        if self.found:
            return f"{self.found} of {self._all()} {'fits' if self.found == 1 else 'fit'}"
        if self.nearest is None:
            passes = "passes the filters and resembles" if self.search.only != ANY else "resembles"
            return f"none of {self._all()} {passes} the query"
        return f"none of {self._all()} fits; the nearest has {self._lacking(self.nearest)}"

    def _all(self) -> str:
        return f"{counted(self.documents, 'memory')} in {self._where()}"

    def _where(self) -> str:
        own = [f"project {scope.project!r}" for scope in self.search.scopes if scope.project != GLOBAL_PROJECT]
        return f"{' and '.join(own)} and the global scope" if own else "the global scope"

    def _lacking(self, nearest: NearMiss) -> str:
        floor, cosine = self.floor, nearest.cosine
        near = "no vector" if cosine is None else f"cosine {cosine:.2f} ({floor.min_cosine:.2f} is needed)"
        return f"{near} and {nearest.keyword_coverage:.0%} of the query's words ({floor.min_coverage:.0%} is needed)"
