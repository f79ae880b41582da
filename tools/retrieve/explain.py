"""Why a search gives what it gives: each memory that was considered, the parts of its score, what kept it back."""

from collections.abc import Container, Iterable
from typing import NamedTuple

from swarm_memory.schema.base import GLOBAL_PROJECT
from swarm_memory.schema.memory import MemoryItem, Retrieval, ScoredMemory
from swarm_memory.tools.ports.memories import ANY, Candidate, SearchFilter
from swarm_memory.tools.retrieve.retrieve import Scored, Stages, stages_of
from swarm_memory.tools.toolbox import Toolbox

MAX_ASIDE = 10
"""So many of what no search finds are named, the nearest."""

_LEAST_PART = 0.0005


class Considered(NamedTuple):
    """A memory that a search looked at, and what became of it."""

    memory: ScoredMemory
    strength: float
    """Nearness and shared words as one number, which is compared with what is needed."""
    coverage: float
    """The share 0…1 of the query's words that it has, the rarer ones weighing more."""
    parts: tuple[tuple[str, float], ...]
    """What makes up its score, by name; they sum to it."""
    place: int | None = None
    """Its number in the notes; None: it is not told."""
    why: str | None = None
    """Why it is not told."""


class Explanation(NamedTuple):
    """One search with everything that was considered; nothing of it is recorded."""

    found: Retrieval
    needed: float
    """By the best one, for the bank to have anything for the query; 0: everything fits."""
    strength: float
    """What the best has of that."""
    needed_beside: float
    """By every other one."""
    considered: tuple[Considered, ...]
    """Those that are told, in their order; then the others, best first."""
    aside: tuple[Considered, ...]
    """Near ones that no search finds: in quarantine, archived, of another project. Their score is not made."""


async def explain(toolbox: Toolbox, query: str, *, k: int | None = None, only: SearchFilter = ANY) -> Explanation:
    """Return what `retrieve` would give now and why; no retrieval is recorded and nothing is credited.

    Raises as `retrieve`.
    """
    stages = await stages_of(toolbox, query, k, only)
    told = _places(stages)
    scored = {each.candidate.id: each for each in stages.scored}
    reasons = _Reasons(stages, told, toolbox.settings.retrieve.token_budget)
    given = {each.item.id: each for each in (*stages.offered, *stages.fitting, *stages.found.memories)}
    ranked = sorted(stages.scored, key=lambda each: -each.score)
    memories = {each.candidate.id: each.memory(each.candidate.read_item()) for each in ranked} | given
    order = [*told, *(name for name in memories if name not in told)]
    considered = [
        _considered(toolbox, stages, memories[name], scored.get(name), told.get(name), reasons.why(name))
        for name in order
    ]
    return Explanation(
        found=stages.found,
        needed=stages.fit.needed,
        strength=stages.fit.found,
        needed_beside=stages.fit.needed_beside,
        considered=tuple(considered),
        aside=tuple(await _aside(toolbox, stages)),
    )


def _places(stages: Stages) -> dict[str, int]:
    """Return the numbers of those that stand in the notes."""
    notes = stages.found.preamble
    at = {each.item.id: notes.find(f"[{each.item.id}]\n") for each in stages.found.memories}
    there = sorted((place, memory_id) for memory_id, place in at.items() if place >= 0)
    return {memory_id: number for number, (_, memory_id) in enumerate(there, 1)}


class _Reasons:
    """Says of each candidate at which stage it was left behind."""

    def __init__(self, stages: Stages, told: Container[str], budget: int) -> None:
        self._stages = stages
        self._told = told
        self._budget = budget
        self._candidates = {each.candidate.id: each.candidate for each in stages.scored}
        self._given = _ids(stages.found.memories)
        self._fitting, self._offered, self._chosen = map(_ids, (stages.fitting, stages.offered, stages.chosen))
        self._gone = {
            each.candidate.id: stages.standing[each.candidate.id].names_gone
            for each in stages.scored
            if not each.applies
        }
        self._best_alone = {each.candidate.id for each in stages.best(stages.wanted, 0.0)}

    def why(self, memory_id: str) -> str | None:
        """Return why a memory is not told; None where it is."""
        if memory_id in self._told:
            return None
        if memory_id in self._given:
            return f"it fits, but not into what is left of {self._budget} tokens"
        if memory_id in self._fitting:
            return self._contradicted(memory_id)
        if memory_id in self._offered:
            return "nothing but a model, an agent or another bank vouches for it, and verified ones that fit come first"
        if memory_id in self._chosen:
            return "other ways past the same error came in its place, or none of them helped more often than not"
        return self._not_fitting(self._candidates[memory_id]) or self._behind(memory_id)

    def _contradicted(self, memory_id: str) -> str:
        title = next(each.item.title for each in self._stages.fitting if each.item.id == memory_id)
        by = next((each.item.title for each in self._stages.found.memories if title in each.contradicts), None)
        return f'"{by}" says otherwise, and is surer or newer' if by else "a surer or newer one says otherwise"

    def _not_fitting(self, candidate: Candidate) -> str | None:
        fit = self._stages.fit
        if candidate.id in self._gone:
            return f"nothing is left in the project of what it names: {self._gone[candidate.id]}"
        strength, beside = fit.strength(candidate.cosine, fit.coverage(candidate)), fit.needed_beside
        if fit.found < fit.needed:
            return f"below the floor: the best has {fit.found:.2f}, and {fit.needed:.2f} is needed for any to be told"
        if strength < beside:
            return f"too far from the query: it has {strength:.2f}, and {beside:.2f} is needed beside a better one"
        if fit.is_met_by(candidate):
            return None
        if candidate.read_item().use == "open_problem":
            return "it tells of an error that nothing ended: no advice"
        return "it is a way past an error that the query does not speak of"

    def _behind(self, memory_id: str) -> str:
        if memory_id in self._best_alone:
            return "it says much of what a better one says: another subject comes first"
        return f"it fits, and {self._stages.wanted} that fit stand before it"


def _considered(
    toolbox: Toolbox, stages: Stages, memory: ScoredMemory, scored: Scored | None, place: int | None, why: str | None
) -> Considered:
    covered = 0.0 if scored is None else stages.fit.coverage(scored.candidate)
    strength = stages.fit.strength(memory.parts.cosine, covered)
    staleness = stages.standing.get(memory.item.id)
    gone = 0.0 if staleness is None else staleness.share_gone
    return Considered(memory, strength, covered, tuple(_parts(toolbox, memory, gone)), place, why)


def _parts(toolbox: Toolbox, memory: ScoredMemory, share_gone: float) -> Iterable[tuple[str, float]]:
    """Yield what makes up a score; what no weight explains a reranker, or the time that the query names, gave."""
    settings, parts, item = toolbox.settings.retrieve, memory.parts, memory.item
    known = {
        "relevance": settings.alpha * parts.relevance,
        "recency": settings.beta * parts.recency,
        "confidence": settings.gamma * parts.confidence,
        "the user's word" if item.provenance.standing > 0 else "suspect wording": (
            settings.user_preference * item.provenance.standing
        ),
        "of every project": (
            -settings.project_preference if item.scope.project == GLOBAL_PROJECT != toolbox.scope.project else 0.0
        ),
        "gone from the project": -settings.gone_penalty * share_gone,
        "likeness to a better one": -parts.diversity_penalty,
    }
    rest = memory.score - sum(known.values())
    known["reranker" if toolbox.reorder is not None else "time that the query names"] = rest
    return ((name, value) for name, value in known.items() if abs(value) >= _LEAST_PART)


async def _aside(toolbox: Toolbox, stages: Stages) -> list[Considered]:
    """Return what would have fitted and cannot be found, nearest first."""
    result, _ = stages.vectors.compared(await toolbox.store.review.search_aside(stages.search, stages.result))
    fit, only = stages.fit, stages.search.only
    least = fit.needed if fit.found < fit.needed else fit.needed_beside
    near = [(fit.strength(each.cosine, fit.coverage(each)), each) for each in result.candidates]
    found: list[Considered] = []
    for strength, candidate in sorted(near, key=lambda pair: -pair[0]):
        if strength < least or len(found) == MAX_ASIDE:
            break
        item = candidate.read_item()
        if _passes(item, only):
            memory = Scored(candidate, 0.0, 0.0, candidate.confidence, 0.0).memory(item)
            found.append(Considered(memory, strength, fit.coverage(candidate), (), None, _why_aside(item)))
    return found


def _why_aside(item: MemoryItem) -> str:
    if item.status == "active":
        return f"it belongs to project {item.scope.project}"
    where = "in quarantine" if item.status == "quarantined" else "archived"
    return f"{where}: {item.status_reason}" if item.status_reason else where


def _passes(item: MemoryItem, only: SearchFilter) -> bool:
    source = item.provenance
    return (
        only.domain in (None, item.domain)
        and set(only.tags) <= set(item.tags)
        and only.agent_id in (None, source.agent_id)
        and (only.exclude_task is None or only.exclude_task != source.task_id)
    )


def _ids(found: Iterable[ScoredMemory]) -> set[str]:
    return {each.item.id for each in found}
