"""The learning loop: keep the trajectory, judge it, distill it, store what is new, and credit the memories that the
task was given.

Distilled drafts become memories with their provenance, which are screened, embedded and compared with the bank. When
enough is new, consolidation of the bank is queued.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import mul
from statistics import fmean
from typing import Any, TypeVar

from swarm_memory.schema.base import MEMORY, RUN, TRAJECTORY, Scope, counted, new_id
from swarm_memory.schema.errors import SwarmMemoryError
from swarm_memory.schema.memory import (
    CANDIDATE,
    FIX,
    Distillation,
    LearnResult,
    MemoryDraft,
    MemoryItem,
    Outcome,
    Provenance,
)
from swarm_memory.schema.sqlite.events import TRIED
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.tools.anchors.handles import from_task
from swarm_memory.tools.anchors.staleness import set_anchors
from swarm_memory.tools.consolidate.contradictions import link_contradictions
from swarm_memory.tools.consolidate.pairs import (
    MIN_SHARED_WORDS,
    duplicate_threshold,
    is_same,
    real_outcome,
    supersede_failed_fixes,
)
from swarm_memory.tools.consolidate.upkeep import queue_when_due
from swarm_memory.tools.credit.outcome import record_outcome
from swarm_memory.tools.distill.bounds import check_drafts, tool_outputs
from swarm_memory.tools.distill.corrections import USERS_WORD
from swarm_memory.tools.distill.distill import distill, distill_by_extraction, known_fixes
from swarm_memory.tools.distill.fixes import fixes_tried, match_fixes
from swarm_memory.tools.distill.review import send_for_review
from swarm_memory.tools.guard.gate import LOCAL, admit_memory, check_daily_quota, notice_of, screen_with_model
from swarm_memory.tools.guard.redact import archivable, strip_places
from swarm_memory.tools.guard.trust import REINFORCED, may_have_written, repeats_what_was_shown, says_all_of, unverified
from swarm_memory.tools.guard.wording import NOTHING_READ, AgentContext
from swarm_memory.tools.judge.judge import judge, judge_by_evidence
from swarm_memory.tools.ports.memories import MemoryFilter, SearchQuery, StoredMemory
from swarm_memory.tools.ports.records import LearnedBefore, LearnRecord
from swarm_memory.tools.retrieve.embed import embed_backlog, prepare_or_report
from swarm_memory.tools.text.cleaning import one_line
from swarm_memory.tools.text.tokens import tokenize
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.calls import calls_of
from swarm_memory.tools.trajectory.reading import Reading, read

ASSUMED_CONFIDENCE = 0.6
"""Used instead of the judge's confidence for what an undecided trajectory proves within itself."""

SUCCESS_PRIOR, FAILURE_PRIOR = 0.7, 0.6
"""Factors on the judge's confidence for what a success, and a failure, teaches."""

REINFORCEMENT = 0.05
"""Added to the confidence of a memory that another task's trajectory taught again."""

SEEN_ONCE = "only the calls of one task show it, and nobody has confirmed it"
"""Why a candidate is hidden."""

_LOOKED_AT = 20
"""How many of the bank's memories each new one is compared with: the nearest, and as many with most of its words."""

_MOST_REFUSED = 1000
"""At most this many refused texts are remembered; any others are sent to the embedder again."""

Answer = TypeVar("Answer")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Origin:
    """The judged trajectory that a draft was distilled from, and the run that distilled it."""

    run_id: str
    scope: Scope
    trajectory_id: str
    trajectory: Trajectory
    verdict: Verdict
    distillation: Distillation
    read: AgentContext
    """What the author of the draft had read."""


def distilled_item(
    toolbox: Toolbox,
    draft: MemoryDraft,
    origin: Origin,
    had: Sequence[MemoryItem],
    *,
    outcome: Outcome,
    confidence: float,
) -> MemoryItem:
    """Return a draft as a new item, as the gate admits it, not yet prepared for the bank.

    A draft that repeats the memories that the task `had` and nobody vouches for proves nothing. This is checked here,
    in time linear in the length of the trajectory.
    """
    distillation, trajectory = origin.distillation, origin.trajectory
    by_rules = distillation.distiller == "extractive"
    is_said = distillation.distiller in ("extractive", "model") and USERS_WORD in draft.tags and not toolbox.speakers
    is_candidate = by_rules and CANDIDATE in draft.tags
    calls = () if by_rules or is_said else calls_of(trajectory)
    provenance = Provenance(
        **trajectory.model_dump(include={"task_id", "session_id", "agent_id"}),
        trajectory_id=origin.trajectory_id,
        evidence=draft.evidence,
        judge="agent" if toolbox.speakers else origin.verdict.judge,
        distiller="user" if is_said else distillation.distiller,
        heard_in="prompt" if is_said else None,
        prompt_hash=distillation.prompt_hash,
        model=distillation.model,
        screened_by=LOCAL,
        run_id=origin.run_id,
        handles=from_task(draft.title, draft.description, draft.content, calls),
        repeats_shown=not is_said and repeats_what_was_shown(draft, trajectory, had),
    )
    said = draft.model_dump(include={"title", "description", "content", "domain"}) | {
        "id": new_id(MEMORY),
        "scope": origin.scope,
        "tags": tuple(tag for tag in draft.tags if tag != CANDIDATE),
        "status": "candidate" if is_candidate else "active",
        "status_reason": SEEN_ONCE if is_candidate else None,
        "outcome": outcome,
        "confidence": 1.0 if is_said else confidence,
        "created_at": toolbox.clock.now(),
    }
    return admit_memory(said, provenance, toolbox.settings, origin.read)


def confidence_of(verdict: Verdict) -> float:
    """Return the initial confidence of an item: the judge's confidence times the prior of the outcome."""
    sure = ASSUMED_CONFIDENCE if verdict.label == "Undecided" else verdict.confidence
    prior = FAILURE_PRIOR if verdict.label == "Failure" else SUCCESS_PRIOR
    return round(sure * prior, 4)


def mean_confidence(outcome: Outcome, verdicts: Iterable[Verdict]) -> float:
    """Return the initial confidence of what several rollouts teach: the mean over the verdicts with that outcome."""
    of_side = [verdict for verdict in verdicts if verdict.label == outcome] or [Verdict.by_agent("Undecided")]
    return round(fmean(confidence_of(verdict) for verdict in of_side), 4)


@dataclass(frozen=True, slots=True)
class NewAndKnown:
    """What is new, and what the bank already says."""

    new: tuple[StoredMemory, ...] = ()
    known: tuple[str, ...] = ()
    """Ids of memories of the bank."""
    reinforcement: float = 0.0
    fault: str | None = None
    """What could not be done for the new items: vectors, a model's screening."""

    @property
    def items(self) -> tuple[MemoryItem, ...]:
        return tuple(memory.item for memory in self.new)

    def why_less(self, reason: str | None) -> str | None:
        """Return in one line why less was stored than might have been, or stored differently; None without a reason.

        `reason` is why less was distilled.
        """
        known = f"the bank already holds {len(self.known)} of them" if self.known else None
        return "; ".join(filter(None, (reason, known, notice_of(self.items), self.fault))) or None


async def new_items(
    toolbox: Toolbox, trajectory: Trajectory, made: Callable[[Sequence[MemoryItem]], Sequence[MemoryItem]]
) -> NewAndKnown:
    """Return the items `made` from what a trajectory taught, ready to be stored, and which memories are known already.

    `made` gets the memories that the task had and nobody vouches for, and runs in a thread. Suspect items come back
    quarantined. When the embedder fails they have no vectors, when the screening model fails they are not screened by
    it, and `fault` says so. Known memories stay, whoever gave them, and are reinforced when the trajectory is an
    independent witness: trust never rises by repeating what was shown, by repetition within one task or session, or by
    saying only a part of the memory. Raises `StorageError`.
    """
    retrieved = await toolbox.store.injections(toolbox.scope, trajectory.task_id)
    given = tuple(dict.fromkeys((*trajectory.injected_memory_ids, *retrieved.given)))
    had = await toolbox.store.get_memories(toolbox.readable, given) if given else []
    doubtful = await unverified(toolbox, had)
    drafted = await asyncio.to_thread(made, [item for item in had if item.id in doubtful])
    items, unscreened = await screen_with_model(toolbox, drafted)
    memories, unembedded = await prepare_or_report(toolbox, await set_anchors(toolbox, items))
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
        is_repetition = same.provenance.task_id == trajectory.task_id or same.status != "active"
        is_repetition |= await _is_own(toolbox, same, REINFORCED, trajectory, trajectory.session_id)
        is_witness = is_witness and not is_repetition
    fault = "; ".join(filter(None, (unscreened, unembedded))) or None
    return NewAndKnown(tuple(new), tuple(known), REINFORCEMENT * is_witness, fault)


async def _is_own(toolbox: Toolbox, item: MemoryItem, kind: str, task: Trajectory, *sessions: str | None) -> bool:
    """Whether an item is, or may be, of one of the sessions or a speaker, or has an event of a kind by such."""
    history = await toolbox.store.memory_histories((item.scope,), [item.id], (kind,))
    known = [item.provenance.session_id, *(event.data.get("session_id") for event in history[item.id])]
    is_known = any(each in known for each in (*sessions, *toolbox.speakers) if each is not None)
    return is_known or await may_have_written(toolbox, item, task.session_id, task)


async def same_in_bank(toolbox: Toolbox, memory: StoredMemory, *, by_words_first: bool = False) -> MemoryItem | None:
    """Return the bank's item that says the same: in the very same words, else as consolidation would find it.

    An item that would be hidden is also compared with hidden ones, not to be kept twice. A memory without a vector is
    compared by words alone; with `by_words_first` it gets one if some item could say the same by its words: few do.
    """
    store, scopes, item = toolbox.store, (toolbox.scope,), memory.item
    tokens = tuple(dict.fromkeys((*memory.title_tokens, *memory.content_tokens)))
    found = await store.search(SearchQuery(scopes, toolbox.embedder.name, memory.vector, tokens, _LOOKED_AT))
    cosines = {each.id: each.cosine or 0.0 for each in found.candidates}
    others = await store.get_memories(scopes, sorted(cosines, key=lambda each: -cosines[each]))
    if item.status != "active":
        hidden = MemoryFilter(("quarantined", "candidate"), text=item.title, limit=_LOOKED_AT)
        others += await store.list_memories(scopes, hidden)
    words, outcome = item.advice.lower().split(), real_outcome(item)
    worded = (other for other in others if other.advice.lower().split() == words and real_outcome(other) == outcome)
    if (same := next(worded, None)) is not None:
        return same
    threshold = duplicate_threshold(toolbox)
    if by_words_first:
        stems = frozenset(tokenize(item.embedding_text))
        least = MIN_SHARED_WORDS * len(stems) - len(stems.difference(tokens))
        alike = {each.id for each in found.candidates if len(each.words) >= least}
        same = [other for other in others if other.id in alike and is_same(item, other)]
        if same:  # items stored a moment ago may have no vector yet
            (own, *theirs), _ = await prepare_or_report(toolbox, [item, *same])
            cosines = {each.item.id: sum(map(mul, own.vector or (), each.vector or ())) for each in theirs}
            others = sorted(same, key=lambda other: -cosines[other.id])
    near = (other for other in others if cosines.get(other.id, 0.0) >= threshold)
    return next((other for other in near if is_same(item, other)), None)


async def learn(
    toolbox: Toolbox,
    trajectory: Trajectory,
    *,
    agent_verdict: Verdict | None = None,
    agent_drafts: Sequence[MemoryDraft] | None = None,
    had_read: AgentContext = NOTHING_READ,
) -> LearnResult:
    """Learn from one trajectory; learning from the same one again changes nothing.

    A trajectory that the host's own connection broke off before the agent did anything is not recorded. One broken off
    later is recorded as Undecided, and teaches nothing until it is continued. The agent that acted may bring its own
    verdict and drafts, which are checked; `had_read` is what its session had read. Whatever is stored is redacted
    first. When enough is new in the bank, its consolidation is queued. Work that takes time without waiting runs in a
    thread, so that a server goes on answering.

    Raises `InputError` for a verdict of the agent that does not fit the trajectory, `QuotaReached`, and `StorageError`
    from the store. A failing embedder costs only the vectors, and the result says so.
    """
    if toolbox.speakers:  # the session that it names is a claim, as its steps are
        trajectory = trajectory.model_copy(update={"session_id": toolbox.speakers[0]})
    kept = await asyncio.to_thread(archivable, trajectory, toolbox.settings)
    archived = await asyncio.to_thread(strip_places, kept, toolbox.settings)
    before = await toolbox.store.learned_before(toolbox.scope, archived)
    if before is not None:
        return await _earlier_result(toolbox, kept, before)
    if kept.broken_off is not None and not kept.has_acts and agent_verdict is None:
        verdict = judge_by_evidence(kept, toolbox.settings)
        return LearnResult(status="broken_off", task_id=kept.task_id, verdict=verdict, reason=verdict.reasons[0])
    await check_daily_quota(toolbox)
    reading = read(kept)
    verdict = await judge(toolbox, reading, agent_verdict=agent_verdict)
    distillations = await _distillations(toolbox, reading, verdict, agent_drafts)
    return await _store_lessons(toolbox, reading, verdict, distillations, archived, had_read=had_read)


async def learn_again(toolbox: Toolbox, before: LearnedBefore, kept: Trajectory, verdict: Verdict) -> LearnResult:
    """Learn from a stored trajectory under another verdict, replacing what was learned from it `before`.

    What it does not teach again is archived, as after a later version of its task. Credit is left to the caller. Raises
    `StorageError`.
    """
    reading = read(kept)
    distillations = [await distill(toolbox, reading, verdict)]
    return await _store_lessons(toolbox, reading, verdict, distillations, kept, before)


async def _distillations(
    toolbox: Toolbox, reading: Reading, verdict: Verdict, agent_drafts: Sequence[MemoryDraft] | None
) -> list[Distillation]:
    """Return what is distilled; next to an agent's own drafts, also the fixes of errors that the calls show."""
    if agent_drafts is None:
        return [await distill(toolbox, reading, verdict)]
    drafts, refused = await asyncio.to_thread(
        check_drafts, agent_drafts, reading.trajectory, toolbox.settings, toolbox.root
    )
    known = await known_fixes(toolbox, reading)
    seen = await asyncio.to_thread(distill_by_extraction, reading, verdict, toolbox.settings, known)
    fixes = tuple(draft for draft in seen.drafts if FIX in draft.tags)
    own = Distillation(drafts=drafts, distiller="agent", reason="; ".join(refused) or None)
    return [own, seen.model_copy(update={"drafts": fixes})]


async def _store_lessons(
    toolbox: Toolbox,
    reading: Reading,
    verdict: Verdict,
    distillations: Sequence[Distillation],
    archived: Trajectory,
    replaces: LearnedBefore | None = None,
    had_read: AgentContext = NOTHING_READ,
) -> LearnResult:
    """Store what is new in the distillations and give credit, or replace what an earlier run learned."""
    kept = reading.trajectory
    trajectory_id = replaces.trajectory_id if replaces else new_id(TRAJECTORY)
    origin = Origin(new_id(RUN), toolbox.scope, trajectory_id, kept, verdict, distillations[0], had_read)
    outcome = "Failure" if verdict.label == "Failure" else "Success"
    sure, now = confidence_of(verdict), toolbox.clock.now()

    def made(had: Sequence[MemoryItem]) -> list[MemoryItem]:
        results = f"{had_read.results} {AgentContext.of(tool_outputs(kept)).results}"
        whole = replace(origin, read=AgentContext(results, had_read.prompts))
        return [
            distilled_item(toolbox, draft, replace(whole, distillation=each), had, outcome=outcome, confidence=sure)
            for each in distillations
            for draft in each.drafts
        ]

    found = await new_items(toolbox, kept, made)
    known = [each for each in await known_fixes(toolbox, reading) if not await _is_own(toolbox, each[1], TRIED, kept)]
    new = {item.id: item for item in found.items}
    fixes = await asyncio.to_thread(lambda: (*match_fixes(reading, new.items()), *fixes_tried(reading, known)))
    record = LearnRecord(
        scope=toolbox.scope,
        run_id=origin.run_id,
        trajectory_id=origin.trajectory_id,
        trajectory=archived,
        verdict=verdict,
        embedder=toolbox.embedder.name,
        memories=found.new,
        reinforced=found.known,
        reinforcement=0.0 if replaces else found.reinforcement,  # what it finds again, it had found before
        at=now,
        tried_fixes=tuple(dict.fromkeys(fixes)),
        new_per_day=toolbox.new_per_day,
        failures=sum(call.failed for call in reading.calls),
        replaces=replaces.run_id if replaces else None,
    )
    written = await _write(toolbox, record)
    if isinstance(written, LearnedBefore):
        return await _earlier_result(toolbox, kept, written)
    credited = () if replaces else await _credit(toolbox, reading, verdict)
    await send_for_review(toolbox, reading, verdict)
    is_embedded = any(memory.vector is not None for memory in found.new)
    again = ", ".join(dict.fromkeys(each.memory_id for each in fixes if each.worked and each.memory_id not in new))
    shown_again = f"its calls again show what {again} says" if again else None
    return LearnResult(
        status="learned" if found.new else "nothing_new",
        task_id=kept.task_id,
        trajectory_id=origin.trajectory_id,
        run_id=origin.run_id,
        verdict=verdict,
        distiller=distillations[0].distiller,
        stored=found.items,
        reinforced=found.known,
        superseded=written,
        credited=credited,
        reason=found.why_less("; ".join(filter(None, (distillations[0].reason, shown_again)))),
        consolidation_due=await queue_when_due(toolbox, embedder_answers=is_embedded),
    )


async def _write(toolbox: Toolbox, record: LearnRecord) -> tuple[str, ...] | LearnedBefore:
    """Store the record, and return the ids of what it supersedes, or the earlier run if another process was first."""
    superseded = await toolbox.store.save_learning(record)
    first = await toolbox.store.learned_before(toolbox.scope, record.trajectory)
    if first is not None and first.run_id != record.run_id:
        return first
    superseded += await supersede_failed_fixes(toolbox, record.tried_fixes, record.run_id)
    await link_contradictions(toolbox, {each.item.id: each.vector for each in record.memories}, record.run_id)
    return superseded


async def _earlier_result(toolbox: Toolbox, trajectory: Trajectory, before: LearnedBefore) -> LearnResult:
    """Return the earlier run's result. Credit is given only if it was cut off: a later version's outcome must stay."""
    is_recorded = await toolbox.store.get_outcome(toolbox.scope, before.task_id) is not None
    trajectory = trajectory.model_copy(update={"task_id": before.task_id})
    return LearnResult(
        status="already_learned",
        task_id=before.task_id,
        trajectory_id=before.trajectory_id,
        run_id=before.run_id,
        verdict=before.verdict,
        credited=() if is_recorded else await _credit(toolbox, trajectory, before.verdict),
        reason=f"this trajectory was already learned from; {counted(len(before.memory_ids), 'memory')} came from it",
    )


async def _credit(toolbox: Toolbox, kept: Trajectory | Reading, verdict: Verdict) -> tuple[str, ...]:
    """Record the task's outcome, and return the ids of the memories whose confidence it changed."""
    outcome = await record_outcome(toolbox, read(kept).trajectory.task_id, verdict, kept)
    if outcome.status == "already_credited":
        return ()
    return tuple(credit.memory_id for credit in outcome.credits if credit.applied)


@dataclass(slots=True)
class TaskFaults:
    """How many tasks were judged or learned from, and which of them a fault ended."""

    tasks: int = 0
    faults: dict[str, str] = field(default_factory=dict[str, str])
    """The kind of the error that ended a task, by the task's id."""

    async def answer(self, task_id: str, work: Awaitable[Answer]) -> Answer | None:
        """Return the result of the work on a task; None when an unforeseen fault ended it, which is counted.

        Raises `SwarmMemoryError`, which is foreseen: a bank that cannot be written is not the fault of one task.
        """
        self.tasks += 1
        try:
            return await work
        except SwarmMemoryError:
            raise
        except Exception as error:
            log.exception("the task %s failed", task_id)
            self.faults[task_id] = type(error).__name__
            return None

    @property
    def notice(self) -> str | None:
        """One line on the tasks that a fault ended; None when there were none."""
        if not self.faults:
            return None
        named = one_line(", ".join(f"{task_id} ({why})" for task_id, why in self.faults.items()), 300)
        return f"{len(self.faults)} of {self.tasks} tasks failed with an internal error: {named}; see the log"


async def embed_stored(
    toolbox: Toolbox, on_embedded: Callable[[int], object] = lambda _: None
) -> tuple[int, dict[str, Any]]:
    """Embed what was stored without a vector, and do what waited for that: links to what it contradicts, upkeep.

    Return how many got a vector, and what the next such job reads: up to which position all were sent, and what was
    refused. `on_embedded` gets the number embedded so far. Raises `ModelError`, `StorageError`.
    """
    embedded, run_id, asked = 0, new_id(RUN), list[tuple[int, Sequence[str]]]()
    async for vectors in embed_backlog(toolbox, asked.append):
        await link_contradictions(toolbox, vectors, run_id)
        embedded += len(vectors)
        on_embedded(embedded)
    await queue_when_due(toolbox)
    refused = [mark for _, marks in asked for mark in marks]
    return embedded, {"seen": max(seq for seq, _ in asked), "refused": refused[-_MOST_REFUSED:]}
