"""From what was drawn to memories: made with their provenance, screened, embedded, and compared with the bank."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from swarm_memory.schema.base import MEMORY, Scope, new_id
from swarm_memory.schema.memory import CANDIDATE, Distiller, MemoryDraft, MemoryItem, Outcome, Provenance
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.tools.anchors.footing import anchored
from swarm_memory.tools.consolidate.duplicates import gist_of, is_same, outcome_of, symptom_in
from swarm_memory.tools.consolidate.pairs import duplicate_threshold
from swarm_memory.tools.distill.corrections import USERS_WORD
from swarm_memory.tools.guard.gate import screened, told_of
from swarm_memory.tools.guard.trust import REINFORCED, repeats_what_was_told, says_all_of, unverified
from swarm_memory.tools.ports.memories import MemoryFilter, SearchQuery, StoredMemory
from swarm_memory.tools.retrieve.embed import prepare_or_say
from swarm_memory.tools.retrieve.rank import cosine
from swarm_memory.tools.toolbox import Toolbox

ASSUMED_CONFIDENCE = 0.6
"""Stands for the judge's confidence in what an undecided trajectory proves within itself."""

REINFORCEMENT = 0.05
"""Added to the confidence of a memory that another task's trajectory gave again."""

_NEAREST, _WORDED = 5, 20
"""So many memories of the bank are looked at for each new one: the nearest, and those with most of its words."""


class Drawing(Protocol):
    """How drafts were drawn, as a `Distillation` and a `Contrast` say it."""

    @property
    def distiller(self) -> Distiller: ...

    @property
    def prompt_hash(self) -> str | None: ...

    @property
    def model(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Origin:
    """The trajectory that a draft was drawn from, as it was judged, and the run that drew it."""

    run_id: str
    scope: Scope
    trajectory_id: str
    trajectory: Trajectory
    verdict: Verdict
    drawing: Drawing


def drawn_item(
    draft: MemoryDraft, origin: Origin, had: Sequence[MemoryItem], *, outcome: Outcome, confidence: float, at: datetime
) -> MemoryItem:
    """Return a draft as a new item, which is not prepared for the bank yet.

    What repeats memories that the task `had` and nobody vouches for is hearsay. That is looked for here, in time linear
    in the length of the trajectory.
    """
    is_said = origin.drawing.distiller == "extractive" and USERS_WORD in draft.tags
    provenance = Provenance(
        task_id=origin.trajectory.task_id,
        trajectory_id=origin.trajectory_id,
        session_id=origin.trajectory.session_id,
        agent_id=origin.trajectory.agent_id,
        evidence=draft.evidence,
        judge=origin.verdict.judge,
        distiller="user" if is_said else origin.drawing.distiller,
        heard_in="prompt" if is_said else None,
        prompt_hash=origin.drawing.prompt_hash,
        model=origin.drawing.model,
        run_id=origin.run_id,
        hearsay=not is_said and repeats_what_was_told(draft, origin.trajectory, had),
    )
    return MemoryItem(
        id=new_id(MEMORY),
        scope=origin.scope,
        title=draft.title,
        description=draft.description,
        content=draft.content,
        tags=tuple(tag for tag in draft.tags if tag != CANDIDATE),
        status="candidate" if CANDIDATE in draft.tags and origin.drawing.distiller == "extractive" else "active",
        domain=draft.domain,
        outcome=outcome,
        confidence=1.0 if is_said else confidence,
        created_at=at,
        provenance=provenance,
    )


def confidence_of(verdict: Verdict, settings: Settings) -> float:
    """Return the first confidence of an item: that of the judge times the prior of its outcome."""
    if verdict.label == "Failure":
        return round(verdict.confidence * settings.distill.failure_prior, 4)
    sure = ASSUMED_CONFIDENCE if verdict.label == "Undecided" else verdict.confidence
    return round(sure * settings.distill.success_prior, 4)


def mean_confidence(outcome: Outcome, verdicts: Iterable[Verdict], settings: Settings) -> float:
    """Return the first confidence of what several rollouts teach: the mean of what the verdicts of its side give."""
    sure = [confidence_of(verdict, settings) for verdict in verdicts if verdict.label == outcome]
    undecided = confidence_of(Verdict(label="Undecided", confidence=0.0, judge="evidence"), settings)
    return round(sum(sure) / len(sure), 4) if sure else undecided


@dataclass(frozen=True, slots=True)
class SortedOut:
    """What is new, and what the bank already says."""

    new: tuple[StoredMemory, ...] = ()
    known: tuple[str, ...] = ()
    """Ids of memories of the bank."""
    reinforcement: float = 0.0
    fault: str | None = None
    """What could not be done for it: vectors, a model's screening."""
    doubled: int = 0
    """Items that say the same as another one that was drawn with them."""
    drawn: tuple[tuple[str, MemoryItem], ...] = ()
    """Each item as it was drawn, with the id of the memory that says it: its own, or a known one's of that error."""

    @property
    def items(self) -> tuple[MemoryItem, ...]:
        return tuple(memory.item for memory in self.new)

    def why_less(self, drawn: str | None) -> str | None:
        """Return in one line why less was stored than might have been, or stored otherwise; None for no reason.

        `drawn` is why less was drawn.
        """
        known = f"the bank already says {len(self.known)} of them" if self.known else None
        doubled = f"{self.doubled} of them said the same as another" if self.doubled else None
        return "; ".join(part for part in (drawn, known, doubled, told_of(self.items), self.fault) if part) or None


async def new_items(
    toolbox: Toolbox, trajectory: Trajectory, made: Callable[[Sequence[MemoryItem]], Sequence[MemoryItem]]
) -> SortedOut:
    """Return the items that were `made` of what a trajectory taught, ready to be stored, and what is known already.

    `made` is given the memories that the task had and nobody vouches for, and runs in a thread. Those that are suspect
    come in quarantine. Without vectors where the embedder fails, without the model where the one that screens does;
    that is said then. Raises `StorageError`.
    """
    had = await _not_vouched_for(toolbox, trajectory)
    items, unscreened = await screened(toolbox, await asyncio.to_thread(made, had))
    memories, unembedded = await prepare_or_say(toolbox, await anchored(toolbox, items))
    fault = "; ".join(filter(None, (unscreened, unembedded))) or None
    return await _sorted_out(toolbox, trajectory, memories, fault)


async def _memories_had(toolbox: Toolbox, trajectory: Trajectory) -> tuple[str, ...]:
    """Return the ids of the memories that a task was given: in its prompts, and by recorded retrievals."""
    retrieved = await toolbox.store.injections(toolbox.scope, trajectory.task_id)
    return tuple(dict.fromkeys((*trajectory.injected_memory_ids, *retrieved.given)))


async def _not_vouched_for(toolbox: Toolbox, trajectory: Trajectory) -> list[MemoryItem]:
    """Return those memories that a task was given and that are not verified: what repeats them is hearsay."""
    ids = await _memories_had(toolbox, trajectory)
    had = await toolbox.store.get_memories(toolbox.readable, ids) if ids else []
    doubtful = await unverified(toolbox, had)
    return [item for item in had if item.id in doubtful]


async def _sorted_out(
    toolbox: Toolbox, trajectory: Trajectory, prepared: Sequence[StoredMemory], fault: str | None
) -> SortedOut:
    """Divide into new items and ids of items in the bank that say the same.

    An earlier version of the same task may have given one of those, or the task may have had it from the bank: it
    stays, but trust never rises by repetition within one task or one session, nor by what says a part of it, so that
    then nothing is reinforced. What the task had is credited with its outcome instead.
    """
    new: list[StoredMemory] = []
    known: dict[str, MemoryItem] = {}
    doubled, whole = 0, True
    drawn: list[tuple[str, MemoryItem]] = []
    for memory in prepared:
        same = await same_in_bank(toolbox, memory)
        if same is not None:
            known[same.id] = same
            whole &= says_all_of(memory.item, same)
            if _of_one_error(same, memory.item):
                drawn.append((same.id, memory.item))
        elif any(_alike(toolbox, memory, other) for other in new):
            doubled += 1
        else:
            new.append(memory)
            drawn.append((memory.item.id, memory.item))
    hearsay = any(memory.item.provenance.hearsay for memory in prepared)
    repeated = [await _is_repetition(toolbox, trajectory, item) for item in known.values()]
    reinforcement = REINFORCEMENT if whole and not hearsay and not any(repeated) else 0.0
    return SortedOut(tuple(new), tuple(known), reinforcement, fault, doubled, tuple(drawn))


def _of_one_error(known: MemoryItem, drawn: MemoryItem) -> bool:
    """Whether both name the same symptom, or none: what to do may be the same about two different errors."""
    left, right = symptom_in(known), symptom_in(drawn)
    return left == right if left is None or right is None else left[:2] == right[:2]


async def _is_repetition(toolbox: Toolbox, trajectory: Trajectory, item: MemoryItem) -> bool:
    """Whether the task, or its session, gave or bore out the item before, had it from the bank, or may not trust it."""
    source, session = item.provenance, trajectory.session_id
    if source.task_id == trajectory.task_id or item.status != "active":
        return True
    if item.id in await _memories_had(toolbox, trajectory):
        return True
    if session is None:
        return False
    history = await toolbox.store.memory_history((item.scope,), item.id)
    witnesses = [event.data.get("session_id") for event in history if event.kind == REINFORCED]
    return session == source.session_id or session in witnesses


async def same_in_bank(toolbox: Toolbox, memory: StoredMemory) -> MemoryItem | None:
    """Return the active item that says the same: by the very words, else as consolidation would find it.

    What would go into quarantine is not put there twice.
    """
    scopes, outcome = (toolbox.scope,), outcome_of(memory.item)
    for item in await _with_its_words(toolbox, memory):
        if _normal(item) == _normal(memory.item) and outcome_of(item) == outcome:
            return item
    if memory.vector is None:
        return None
    near = await toolbox.store.nearest(scopes, toolbox.embedder.name, memory.vector, _NEAREST)
    ids = [memory_id for memory_id, similarity in near if similarity >= duplicate_threshold(toolbox)]
    close = await toolbox.store.get_memories(scopes, ids) if ids else []
    alike = (item for item in close if item.status == "active")
    return next((item for item in alike if _say_the_same(toolbox, memory.item, item)), None)


async def _with_its_words(toolbox: Toolbox, memory: StoredMemory) -> list[MemoryItem]:
    """Return what may be the same word for word: found by the keyword index, for to read all texts takes too long."""
    store, scopes = toolbox.store, (toolbox.scope,)
    tokens = tuple(dict.fromkeys((*memory.title_tokens, *memory.content_tokens)))
    found = await store.search(SearchQuery(scopes, toolbox.embedder.name, None, tokens, _WORDED))
    active = await store.get_memories(scopes, [candidate.id for candidate in found.candidates])
    if memory.item.status == "active":
        return active
    held = MemoryFilter(("quarantined",), text=memory.item.title, limit=_WORDED)
    return [*active, *await store.list_memories(scopes, held)]


def _alike(toolbox: Toolbox, left: StoredMemory, right: StoredMemory) -> bool:
    if _normal(left.item) == _normal(right.item):
        return True
    if left.vector is None or right.vector is None or cosine(left.vector, right.vector) < duplicate_threshold(toolbox):
        return False
    return _say_the_same(toolbox, left.item, right.item)


def _say_the_same(toolbox: Toolbox, left: MemoryItem, right: MemoryItem) -> bool:
    return is_same(gist_of(left), gist_of(right), toolbox.settings.consolidate.contradiction_threshold)


def _normal(item: MemoryItem) -> tuple[str, str]:
    return " ".join(item.title.lower().split()), " ".join(item.content.lower().split())
