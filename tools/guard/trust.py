"""How far a memory is trusted: by what it rests on and by who bore it out since; it changes no memory and no score.

Screening (`gating`) keeps out what looks like an attack. This is for what does not: it limits what one may do.
"""

from collections.abc import Awaitable, Callable, Container, Iterable, Sequence

from swarm_memory.schema.memory import MemoryItem, ScoredMemory
from swarm_memory.tools.ports.journal import Event
from swarm_memory.tools.toolbox import Toolbox

MAX_UNVERIFIED = 1
"""So many unverified memories stand in an answer that verified ones could fill."""

CREDITED, REINFORCED = "reasoning_memory.credited", "reasoning_memory.reinforced"
RESTORED = "reasoning_memory.active"

_WIDER = 4
"""So many times more are looked at for verified ones, when too many are unverified."""

Fetch = Callable[[int, Container[str]], Awaitable[tuple[ScoredMemory, ...]]]
"""Gives the best k that fit, by their scores alone, without those whose ids are known."""


def rests_on_evidence(item: MemoryItem) -> bool:
    """Whether an item was drawn here, without a model, under a verdict of hard evidence, or written by the user."""
    source = item.provenance
    if source.distiller == "user":
        return True
    if source.hearsay:
        return False
    return source.judge == "evidence" and source.distiller in {"extractive", "agent"} and source.imported_from is None


def is_borne_out(item: MemoryItem, history: Iterable[Event]) -> bool:
    """Whether the user restored it, or another task of another session drew the same or succeeded by using it.

    What was hearsay to begin with must be drawn by one who was not told. (`novelty` reinforces by no other.)
    """
    own = [each for each in (item.provenance.task_id, item.provenance.session_id) if each is not None]
    for event in history:
        if event.kind == RESTORED and "run_id" not in event.data:
            return True
        # Whoever follows what was planted succeeds as well: only one who finds it unprompted is a witness of hearsay.
        is_use = event.kind == CREDITED and _succeeded(event) and not item.provenance.hearsay
        if event.kind == REINFORCED or is_use:
            witness = [str(told) for told in map(event.data.get, ("task_id", "session_id")) if told is not None]
            if witness and not any(_is_of(each, mine) for each in witness for mine in own):
                return True
    return False


async def unverified(toolbox: Toolbox, items: Sequence[MemoryItem]) -> set[str]:
    """Return the ids of those that nothing but a model, an agent or another bank vouches for."""
    asked = {item.id: item for item in items if not rests_on_evidence(item)}
    if not asked:
        return set()
    kinds = (RESTORED, CREDITED, REINFORCED)
    histories = await toolbox.store.memory_histories(toolbox.scopes(), list(asked), kinds)
    return {memory_id for memory_id, item in asked.items() if not is_borne_out(item, histories[memory_id])}


async def prefer_verified(
    toolbox: Toolbox, found: tuple[ScoredMemory, ...], fetch: Fetch, wanted: int
) -> tuple[ScoredMemory, ...]:
    """Return the found ones, with at most one unverified among them where verified ones that fit can fill the rest.

    Where they cannot, the unverified ones keep their places: a bank of nothing else answers as it would without this.
    Those that fill come after the found ones, best first.
    """
    doubtful = await unverified(toolbox, [each.item for each in found])
    if len(doubtful) <= MAX_UNVERIFIED:
        return found
    known = {each.item.id for each in found}
    others = await fetch(wanted * _WIDER, known)
    doubtful |= await unverified(toolbox, [each.item for each in others])
    return limited((*found, *others), doubtful, wanted)


def limited(ranked: Sequence[ScoredMemory], doubtful: set[str], wanted: int) -> tuple[ScoredMemory, ...]:
    """Return `wanted` of the ranked in their order: verified ones and one other before further unverified ones."""
    seen = 0
    first: list[int] = []
    later: list[int] = []
    for index, each in enumerate(ranked):
        seen += each.item.id in doubtful
        is_surplus = each.item.id in doubtful and seen > MAX_UNVERIFIED
        (later if is_surplus else first).append(index)
    return tuple(ranked[index] for index in sorted([*first, *later][:wanted]))


def _succeeded(event: Event) -> bool:
    change = event.data.get("change")
    return event.data.get("label") == "Success" and isinstance(change, int | float) and change > 0


def _is_of(task: str, origin: str) -> bool:
    """Whether a task is the origin itself, or both are tasks of one session of a host (`<session>:<number>`)."""
    return task == origin or task.startswith(f"{origin}:") or _session(task) == _session(origin)


def _session(task: str) -> str:
    head, colon, number = task.rpartition(":")
    return head if colon and number.isdigit() else task
