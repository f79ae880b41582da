"""From what was distilled to memories: made with their provenance, screened, embedded, and compared with the bank."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean

from swarm_memory.schema.base import MEMORY, Scope, new_id
from swarm_memory.schema.memory import CANDIDATE, Distillation, MemoryDraft, MemoryItem, Outcome, Provenance
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.tools.anchors.handles import from_task
from swarm_memory.tools.anchors.staleness import anchored
from swarm_memory.tools.consolidate.duplicates import gist_of, is_same, outcome_of
from swarm_memory.tools.consolidate.pairs import duplicate_threshold
from swarm_memory.tools.distill.corrections import USERS_WORD
from swarm_memory.tools.guard.gate import notice_of, screened
from swarm_memory.tools.guard.trust import REINFORCED, repeats_what_was_shown, says_all_of, unverified
from swarm_memory.tools.ports.memories import MemoryFilter, SearchQuery, StoredMemory
from swarm_memory.tools.retrieve.embed import prepare_or_say
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.calls import calls_of

ASSUMED_CONFIDENCE = 0.6
"""Stands for the judge's confidence in what an undecided trajectory proves within itself."""

SUCCESS_PRIOR, FAILURE_PRIOR = 0.7, 0.6
"""What the judge's confidence is worth for what a success, and a failure, teaches."""

REINFORCEMENT = 0.05
"""Added to the confidence of a memory that another task's trajectory gave again."""

_LOOKED_AT = 20
"""So many memories of the bank are looked at for each new one: the nearest, and as many with most of its words."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The trajectory that a draft was distilled from, as it was judged, and the run that did."""

    run_id: str
    scope: Scope
    trajectory_id: str
    trajectory: Trajectory
    verdict: Verdict
    distillation: Distillation


def distilled_item(
    draft: MemoryDraft, origin: Origin, had: Sequence[MemoryItem], *, outcome: Outcome, confidence: float, at: datetime
) -> MemoryItem:
    """Return a draft as a new item, which is not prepared for the bank yet.

    What repeats memories that the task `had` and nobody vouches for proves nothing. That is looked for here, in time
    linear in the length of the trajectory.
    """
    distillation, trajectory = origin.distillation, origin.trajectory
    by_rules = distillation.distiller == "extractive"
    is_said = distillation.distiller in ("extractive", "model") and USERS_WORD in draft.tags
    calls = () if by_rules or is_said else calls_of(trajectory)
    provenance = Provenance(
        **trajectory.model_dump(include={"task_id", "session_id", "agent_id"}),
        trajectory_id=origin.trajectory_id,
        evidence=draft.evidence,
        judge=origin.verdict.judge,
        distiller="user" if is_said else distillation.distiller,
        heard_in="prompt" if is_said else None,
        prompt_hash=distillation.prompt_hash,
        model=distillation.model,
        run_id=origin.run_id,
        handles=from_task(draft.title, draft.description, draft.content, calls),
        repeats_shown=not is_said and repeats_what_was_shown(draft, trajectory, had),
    )
    return MemoryItem(
        id=new_id(MEMORY),
        scope=origin.scope,
        **draft.model_dump(include={"title", "description", "content", "domain"}),
        tags=tuple(tag for tag in draft.tags if tag != CANDIDATE),
        status="candidate" if by_rules and CANDIDATE in draft.tags else "active",
        outcome=outcome,
        confidence=1.0 if is_said else confidence,
        created_at=at,
        provenance=provenance,
    )


def confidence_of(verdict: Verdict) -> float:
    """Return the first confidence of an item: that of the judge times the prior of its outcome."""
    sure = ASSUMED_CONFIDENCE if verdict.label == "Undecided" else verdict.confidence
    prior = FAILURE_PRIOR if verdict.label == "Failure" else SUCCESS_PRIOR
    return round(sure * prior, 4)


def mean_confidence(outcome: Outcome, verdicts: Iterable[Verdict]) -> float:
    """Return the first confidence of what several rollouts teach: the mean of what the verdicts of its side give."""
    of_side = [verdict for verdict in verdicts if verdict.label == outcome] or [Verdict.by_agent("Undecided")]
    return round(fmean(confidence_of(verdict) for verdict in of_side), 4)


@dataclass(frozen=True, slots=True)
class SortedOut:
    """What is new, and what the bank already says."""

    new: tuple[StoredMemory, ...] = ()
    known: tuple[str, ...] = ()
    """Ids of memories of the bank."""
    reinforcement: float = 0.0
    fault: str | None = None
    """What could not be done for it: vectors, a model's screening."""

    @property
    def items(self) -> tuple[MemoryItem, ...]:
        return tuple(memory.item for memory in self.new)

    def why_less(self, reason: str | None) -> str | None:
        """Return in one line why less was stored than might have been, or stored otherwise; None for no reason.

        `reason` is why less was distilled.
        """
        known = f"the bank already says {len(self.known)} of them" if self.known else None
        return "; ".join(filter(None, (reason, known, notice_of(self.items), self.fault))) or None


async def new_items(
    toolbox: Toolbox, trajectory: Trajectory, made: Callable[[Sequence[MemoryItem]], Sequence[MemoryItem]]
) -> SortedOut:
    """Return the items that were `made` of what a trajectory taught, ready to be stored, and what is known already.

    `made` is given the memories that the task had and nobody vouches for, and runs in a thread. Those that are suspect
    come in quarantine. Without vectors where the embedder fails, without the model where the one that screens does;
    that is said then. What the bank says stays, whoever gave it, and is reinforced where the trajectory is a witness:
    trust never rises by what repeats what was shown, by repetition within one task or session, nor by what says a part
    of it. Raises `StorageError`.
    """
    retrieved = await toolbox.store.injections(toolbox.scope, trajectory.task_id)
    given = tuple(dict.fromkeys((*trajectory.injected_memory_ids, *retrieved.given)))
    had = await toolbox.store.get_memories(toolbox.readable, given) if given else []
    doubtful = await unverified(toolbox, had)
    drafted = await asyncio.to_thread(made, [item for item in had if item.id in doubtful])
    items, unscreened = await screened(toolbox, drafted)
    memories, unembedded = await prepare_or_say(toolbox, await anchored(toolbox, items))
    new: list[StoredMemory] = []
    known: dict[str, None] = {}
    is_witness = not any(item.provenance.repeats_shown for item in items)
    for memory in memories:
        same = await same_in_bank(toolbox, memory)
        if same is None:
            new.append(memory)
            continue
        known[same.id] = None
        is_witness = is_witness and same.id not in given and says_all_of(memory.item, same)
        is_witness = is_witness and not await _is_repetition(toolbox, trajectory, same)
    fault = "; ".join(filter(None, (unscreened, unembedded))) or None
    return SortedOut(tuple(new), tuple(known), REINFORCEMENT * is_witness, fault)


async def _is_repetition(toolbox: Toolbox, trajectory: Trajectory, item: MemoryItem) -> bool:
    """Whether the task, or its session, gave or bore out the item before, or may not trust it."""
    source, session = item.provenance, trajectory.session_id
    if source.task_id == trajectory.task_id or item.status != "active":
        return True
    if session is None:
        return False
    history = await toolbox.store.memory_history((item.scope,), item.id)
    witnesses = [event.data.get("session_id") for event in history if event.kind == REINFORCED]
    return session in (source.session_id, *witnesses)


async def same_in_bank(toolbox: Toolbox, memory: StoredMemory) -> MemoryItem | None:
    """Return the active item that says the same: by the very words, else as consolidation would find it.

    What would go into quarantine is not put there twice.
    """
    store, scopes, item = toolbox.store, (toolbox.scope,), memory.item
    tokens = tuple(dict.fromkeys((*memory.title_tokens, *memory.content_tokens)))
    found = await store.search(SearchQuery(scopes, toolbox.embedder.name, memory.vector, tokens, _LOOKED_AT))
    cosines = {each.id: each.cosine or 0.0 for each in found.candidates}
    others = await store.get_memories(scopes, sorted(cosines, key=lambda each: -cosines[each]))
    if item.status != "active":
        others += await store.list_memories(scopes, MemoryFilter(("quarantined",), text=item.title, limit=_LOOKED_AT))
    words, outcome = item.advice.lower().split(), outcome_of(item)
    worded = (other for other in others if other.advice.lower().split() == words and outcome_of(other) == outcome)
    if (same := next(worded, None)) is not None:
        return same
    threshold = duplicate_threshold(toolbox)
    near = (other for other in others if cosines.get(other.id, 0.0) >= threshold)
    return next((other for other in near if is_same(gist_of(item), gist_of(other))), None)
