"""Why a search gives what it gives: each memory that was considered, the parts of its score, what kept it back."""

from typing import NamedTuple

from swarm_memory.schema.memory import Retrieval, ScoredMemory
from swarm_memory.tools.ports.memories import ANY, SearchFilter
from swarm_memory.tools.retrieve.rank import Scored, best_of
from swarm_memory.tools.retrieve.retrieve import Stages, stages_of
from swarm_memory.tools.toolbox import Toolbox

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
    """Its number in the notes; None: it is not shown."""
    why: str | None = None
    """Why it is not shown."""


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
    """Those that are shown, in their order; then the others, best first."""


async def explain(toolbox: Toolbox, query: str, *, k: int | None = None, only: SearchFilter = ANY) -> Explanation:
    """Return what `retrieve` would give now and why; no retrieval is recorded and nothing is credited.

    Raises as `retrieve`.
    """
    stages = await stages_of(toolbox, query, k, only)
    choice, fit = stages.choice, stages.fit
    at = {each.item.id: stages.found.preamble.find(f"[{each.item.id}]\n") for each in stages.found.memories}
    there = sorted((place, memory_id) for memory_id, place in at.items() if place >= 0)
    places = {memory_id: number for number, (_, memory_id) in enumerate(there, 1)}
    scored = {each.candidate.id: each for each in sorted(choice.scored, key=lambda each: -each.score)}
    memories = {name: each.memory(each.candidate.read_item()) for name, each in scored.items()}
    memories |= {name: memory for name, (memory, _) in choice.left_out.items()}
    memories |= {each.item.id: each for each in choice.memories}
    too_long = f"it fits, but not into what is left of {toolbox.settings.retrieve.token_budget} tokens"
    reasons = {each.item.id: too_long for each in choice.memories}
    reasons |= {name: why for name, (_, why) in choice.left_out.items()}
    considered: list[Considered] = []
    for name in [*places, *(name for name in memories if name not in places)]:
        memory, its = memories[name], scored.get(name)
        why = None if name in places else reasons.get(name) or _not_chosen(stages, scored[name])
        covered = 0.0 if its is None else fit.coverage(its.candidate)
        terms = {} if its is None else {**its.terms, "likeness to a better one": -memory.parts.diversity_penalty}
        parts = tuple((term, value) for term, value in terms.items() if abs(value) >= _LEAST_PART)
        strength = fit.strength(memory.parts.cosine, covered)
        considered.append(Considered(memory, strength, covered, parts, places.get(name), why))
    return Explanation(stages.found, fit.needed, fit.found, fit.needed_beside, tuple(considered))


def _not_chosen(stages: Stages, scored: Scored) -> str:
    """Return why a candidate was not chosen: it does not fit, or others stand before it."""
    candidate, fit = scored.candidate, stages.fit
    strength, beside = fit.strength(candidate.cosine, fit.coverage(candidate)), fit.needed_beside
    if not scored.applies:
        return f"nothing is left in the project of what it names: {stages.choice.stale[candidate.id].names_gone}"
    if fit.found < fit.needed:
        return f"below the floor: the best has {fit.found:.2f}, and {fit.needed:.2f} is needed for any to be shown"
    if strength < beside:
        return f"too far from the query: it has {strength:.2f}, and {beside:.2f} is needed beside a better one"
    if not fit.is_met_by(candidate):
        if candidate.read_item().use == "open_problem":
            return "it is about an error that nothing ended: no advice"
        return "it is a fix of an error that the query does not speak of"
    wanted = stages.question.wanted
    if candidate.id in {each.candidate.id for each in best_of(stages.choice.scored, fit, wanted, 0.0)}:
        return "it says much of what a better one says: another subject comes first"
    return f"it fits, and {wanted} that fit stand before it"
