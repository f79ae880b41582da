"""Retrieve memories for a query, in five steps: read the query, search, score, choose, put into words; and explain for
each memory that was considered how its score is made up, and why it is not shown.
"""

import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from swarm_memory.schema.base import RETRIEVAL, counted, new_id
from swarm_memory.schema.errors import InputError, StorageError
from swarm_memory.schema.memory import Retrieval, ScoredMemory, ScoreParts
from swarm_memory.tools.anchors.handles import at_prompt
from swarm_memory.tools.anchors.staleness import Staleness, staleness_of, still_applying
from swarm_memory.tools.credit.harm import is_held_out, is_hidden
from swarm_memory.tools.guard.redact import redact_start
from swarm_memory.tools.guard.trust import Histories, prefer_verified, trust_prefixes
from swarm_memory.tools.ports.memories import ANY, RetrievalRecord, SearchFilter, SearchQuery, SearchResult
from swarm_memory.tools.retrieve.preamble import (
    SETTLED,
    how_often,
    otherwise,
    preamble,
    render_moments,
    team_evidence,
    without_contradictions,
    without_failed_fixes,
    without_team_duplicates,
)
from swarm_memory.tools.retrieve.query import TargetTime, Vectors, mentioned_time, vectors_of
from swarm_memory.tools.retrieve.rank import (
    GONE_PENALTY,
    HALF_LIFE_DAYS,
    FitFilter,
    Scored,
    clamp01,
    ideal_keyword_score,
    leading,
    query_vector_weight,
    recency,
    scaled_fusion,
    score_terms,
    select_diverse,
)
from swarm_memory.tools.retrieve.rerank import MEMORIES, rerank
from swarm_memory.tools.text.cleaning import clean
from swarm_memory.tools.text.tokens import query_tokens
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.hazards import unverified_hazards

MAX_K = 50
MAX_QUERY_CHARS = 100_000
MAX_QUERY_TOKENS = 512
"""Distinct words that are looked up; the store searches for the rarest of them."""

MOST_CALLED, NAMED = 3, 3
"""At most this many memories that a prompt calls for by name come first. A plain word of the prompt is a name where one
in this many memories with the word names it: 96 of 114 foreign prompts called for one of 6,267 functions, now none."""

RERANKED, RERANK_TIMEOUT_S = 10, 5.0
"""How many of the best are sent to the reranker; after this time their order stays, and the answer says so."""

_UNCERTAIN = "may fit: the agent sees one line saying when it applies, and can ask for the rest"
_ONLY_ASKED = "nobody has confirmed it, and it names a harmful command: it is shown only on request"


class Unasked(NamedTuple):
    """A retrieval that nobody asked for, by a hook or before a rollout: only what fits is returned."""

    via: str | None = None
    """For a hook, who does the work: `server`, or the `hook` command itself."""
    elsewhere: Container[str] = ()
    """Ids of memories that the agent reads by itself, in skills and files of rules."""
    shown: Container[str] = ()
    """Ids of memories that the session was shown before: nothing is shown twice."""
    listed: Container[str] | None = None
    """Ids of memories for which the session's start said when they matter, if the agent can ask; None: it cannot ask.
    Such an agent gets whole notes only where they surely fit. For the others it gets one line saying when they matter,
    unless that was said before or their wording is suspect."""

    def leaves_out(self, memory_id: str) -> bool:
        """Whether the agent has the memory already."""
        return memory_id in self.elsewhere or memory_id in self.shown


async def retrieve(
    toolbox: Toolbox,
    query: str,
    *,
    k: int | None = None,
    only: SearchFilter = ANY,
    task_id: str | None = None,
    session_id: str | None = None,
    unasked: Unasked | None = None,
) -> Retrieval:
    """Return at most `k` memories that fit `query`, best first, from the project and the global scope.

    `rank.score_terms` makes the score. A caller who asked gets the best `k`, the first ones the same for each `k`. If
    fewer fit (`FitFilter`), the nearest of the rest follow, marked as unlikely, and the answer says why. An `unasked`
    retrieval returns only what fits and what the agent does not have yet. At most one unverified memory (`guard.trust`)
    comes before verified ones that fit. Of two that fit and contradict each other one is returned, and says so; where
    the other is unlikely to fit, both are. A task that is held out (`credit.holdout_rate`) gets nothing of what was
    found; a memory on trial (`credit.harm`) is withheld from about every other task. If the embedder fails, only
    keywords are searched, with a notice. Raises `InputError` for a blank query or a `k` outside 1…50, `StorageError`
    from the store.
    """
    rate = toolbox.settings.credit.holdout_rate
    stages = await run_stages(toolbox, query, k, only, unasked)
    found, notices = stages.found, list(stages.found.notices)
    if task_id is None and rate:
        notices.append("no task_id was given: tasks are being held out, but this retrieval takes no part in that")
    is_withheld = task_id is not None and is_held_out(task_id, rate)
    rested, away = tuple[str, ...](), set[str]()
    if task_id is not None and not is_withheld:
        on_trial = (await toolbox.store.trials(toolbox.scope)).resting
        ids = (each.item.id for each in found.memories)
        away = {each for each in ids if each in on_trial and is_hidden(task_id, each)}
        rested = tuple(each.item.id for each in found.memories if each.item.id in away and each.fits == "likely")
    if away:
        memories = tuple(each for each in found.memories if each.item.id not in away)
        why = f"{counted(len(away), 'memory')} not shown to this task, to see whether tasks do better without"
        notices += [why] if memories else []
        changed = {} if memories else {"reason": why}
        found = found.model_copy(update={"memories": memories, "preamble": _notes(toolbox, memories), **changed})
    record = RetrievalRecord(
        retrieval_id=found.retrieval_id,
        scope=toolbox.scope,
        query=found.query,
        scores={each.item.id: each.score for each in found.memories if each.fits == "likely"},
        latency_ms=found.latency_ms,
        at=toolbox.clock.now(),
        task_id=task_id,
        session_id=session_id,
        withheld=is_withheld,
        via=unasked and unasked.via,
        read=stages.choice.read,
        rested=rested,
        gone={memory_id: each.names_gone for memory_id, each in stages.choice.stale.items()},
    )
    try:
        await toolbox.store.record_retrieval(record)
    except StorageError as error:
        notices.append(f"this retrieval was not recorded: {error}")
    if is_withheld:
        why = f"this task is held out (credit.holdout_rate is {rate}): it gets no memories, to measure their worth"
        found = found.model_copy(update={"memories": (), "preamble": "", "reason": why})
    return found.model_copy(update={"notices": tuple(notices)})


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """A query that was read: what is searched for, and for whom."""

    text: str
    """Redacted, because the embedder may be an endpoint."""
    wanted: int
    unasked: Unasked | None
    search: SearchQuery
    vectors: Vectors
    target: TargetTime | None
    notices: list[str]
    """The notices of the answer; later steps add to them."""


class Choice(NamedTuple):
    """Which candidates are returned, and why the others are not."""

    scored: Sequence[Scored]
    """All candidates that may be returned, with scores lowered by staleness."""
    stale: Mapping[str, Staleness]
    """By id, how much of what the examined candidates name is gone from the project."""
    fitting: tuple[ScoredMemory, ...]
    """What fits, verified ones before further unverified ones; two of them may contradict each other."""
    memories: tuple[ScoredMemory, ...]
    """What is returned: what fits, then, unless unasked, what is unlikely to."""
    left_out: Mapping[str, tuple[ScoredMemory, str]]
    """What a rule removed from the best that fit, and why, by id."""
    read: tuple[str, ...] = ()
    """Ids of the memories that fit and that the agent reads in files."""


class Stages(NamedTuple):
    """One retrieval, and what its steps found, to explain it by."""

    prepared: PreparedQuery
    fit: FitFilter
    choice: Choice
    found: Retrieval


async def run_stages(
    toolbox: Toolbox, query: str, k: int | None = None, only: SearchFilter = ANY, unasked: Unasked | None = None
) -> Stages:
    """Run the five steps of a retrieval and record nothing. Raises as `retrieve`.

    They are: read the query, search, score, choose, put into words.
    """
    started = time.perf_counter()
    prepared = await _read(toolbox, query, k, only, unasked)
    result = await toolbox.store.search(prepared.search)
    if toolbox.team:
        result = await without_team_duplicates(toolbox, result)
    result, cosines = prepared.vectors.compared(result)
    fit = FitFilter(toolbox, result, prepared.search.tokens, prepared.text if unasked else "")
    choice = await _choose(toolbox, prepared, fit, _score(toolbox, prepared, result, cosines, fit))
    found = _put_into_words(toolbox, prepared, result, fit, choice)
    return Stages(
        prepared, fit, choice, found.model_copy(update={"latency_ms": (time.perf_counter() - started) * 1000})
    )


async def _read(
    toolbox: Toolbox, query: str, k: int | None, only: SearchFilter, unasked: Unasked | None
) -> PreparedQuery:
    """Check and redact a query, and turn it into what is searched for: words and vectors."""
    settings, notices = toolbox.settings.retrieve, list[str]()
    wanted = settings.k if k is None else k
    if not 1 <= wanted <= MAX_K:
        raise InputError(f"k is {wanted}: it must be from 1 to {MAX_K}")
    text = redact_start(clean(query), MAX_QUERY_CHARS, pii=toolbox.settings.distill.redact_pii or True).strip()
    if not text:
        raise InputError("query is empty: say in a few words what the task is")
    if len(query) > MAX_QUERY_CHARS:
        notices.append(f"the query has {len(query):,} characters; only the first {MAX_QUERY_CHARS:,} were used")
    tokens, vectors = query_tokens(text), await vectors_of(toolbox, text, notices)
    if len(tokens) > MAX_QUERY_TOKENS:
        notices.append(f"only the first {MAX_QUERY_TOKENS} distinct words of the query were looked up")
    target = mentioned_time(text, toolbox.clock.now())
    if target is not None:
        notices.append(f"memories from about {target.moment:%Y-%m-%d}, which the query mentions, were ranked higher")
    search = SearchQuery(
        scopes=toolbox.readable,
        embedder=toolbox.embedder.name,
        vector=vectors.whole,
        tokens=tokens[:MAX_QUERY_TOKENS],
        pool=settings.pool,
        only=only,
        views=vectors.views,
    )
    return PreparedQuery(text, wanted, unasked, search, vectors, target, notices)


def _score(
    toolbox: Toolbox, prepared: PreparedQuery, result: SearchResult, cosines: Sequence[float | None], fit: FitFilter
) -> list[Scored]:
    """Score the candidates of both legs alike: each has its cosine and its BM25, whichever leg found it; best first."""
    settings, own, now, target = toolbox.settings.retrieve, toolbox.scope.project, toolbox.clock.now(), prepared.target
    keywords = [candidate.keyword for candidate in result.candidates]
    weight = toolbox.embedder.fusion_weight if settings.vector_weight is None else settings.vector_weight
    ideal = ideal_keyword_score(result.documents, result.document_frequency)
    first = leading(cosines, keywords)
    share = query_vector_weight(
        [cosines[place] for place in first], [keywords[place] for place in first], fit.covered, weight
    )
    relevances = scaled_fusion(cosines, keywords, ideal, share, first)
    best = max(relevances, default=0.0) or 1.0  # the best has 1, so that recency and confidence weigh alike everywhere
    scored: list[Scored] = []
    for candidate, value in zip(result.candidates, relevances, strict=True):
        relevance = clamp01(value / best)
        near = 0.0 if target is None else target.closeness(candidate.created_at)
        age_s = (now - candidate.created_at).total_seconds()
        recent = 1.0 if candidate.priority > 0 else recency(age_s, HALF_LIFE_DAYS)
        terms = score_terms(candidate, relevance, recent, near, settings, own=own)
        scored.append(Scored(candidate, relevance, recent, terms, sum(terms.values())))
    return sorted(scored, key=lambda each: -each.score)


async def _choose(toolbox: Toolbox, prepared: PreparedQuery, fit: FitFilter, every: Sequence[Scored]) -> Choice:
    """Choose what to return: the best that fit, no mostly failed fix, verified ones first, one of two opposites."""
    unasked, wanted = prepared.unasked, prepared.wanted
    depth = wanted if unasked else max(wanted, SETTLED)
    known = {each.candidate.id for each in every if unasked and unasked.leaves_out(each.candidate.id)}
    new = [each for each in every if each.candidate.id not in known]
    if toolbox.settings.retrieve.rerank != "off":
        new = await _reranked(toolbox, prepared, new, fit)
    scored, picked, stale = await _applying(toolbox, [*new], fit, depth)
    best = tuple(each.memory() for each in picked)
    offered, histories = await without_failed_fixes(toolbox, best), Histories()
    fitting = await prefer_verified(
        toolbox,
        offered,
        lambda most: [each.memory() for each in select_diverse(scored, fit, most, 0.0)],
        depth,
        histories,
    )
    agreeing = await without_contradictions(toolbox, fitting)
    if unasked is None and len(agreeing) < wanted:
        taken = {each.item.id for each in fitting}
        others = [each for each in sorted(scored, key=lambda each: -each.score) if each.candidate.id not in taken]
        rest = [each.memory().model_copy(update={"fits": "unlikely"}) for each in others[: wanted - len(agreeing)]]
        agreeing = await without_contradictions(toolbox, [*fitting, *rest])  # somebody asked: nothing is hidden
    counts = (
        await team_evidence(toolbox, [each.item for each in agreeing if each.fits == "likely"]) if toolbox.team else {}
    )
    remarks = {memory_id: each.note for memory_id, each in stale.items()}
    changed = {each.item.id: "; ".join(filter(None, (each.changed, remarks.get(each.item.id)))) for each in agreeing}
    marks = {each: {"changed": note} for each, note in changed.items() if note}
    marks |= {each: marks.get(each, {}) | its for each, its in counts.items()}
    memories = [each.model_copy(update=marks[i]) if (i := each.item.id) in marks else each for each in agreeing]
    against = {title: each.item.title for each in agreeing for title in each.contradicts}
    # Each line gives all that got so far the reason of the next step: a memory keeps that of the step that removed it.
    left_out = {each.item.id: (each, "it is a fix that was tried and mostly did not help") for each in best[:wanted]}
    why = "only a model, an agent or another bank vouches for it, and verified ones that fit come first"
    left_out |= {each.item.id: (each, why) for each in offered[:wanted]}
    for each in fitting[:wanted]:
        left_out[each.item.id] = each, f'"{against.get(each.item.title)}" says otherwise, and is more certain or newer'
    left_out |= {each.item.id: (each, _UNCERTAIN) for each in agreeing if unasked}
    memories = await _called_first(toolbox, prepared, fit, memories, new) if unasked else memories[:wanted]
    held = await unverified_hazards(toolbox, [each.item for each in memories]) if unasked else set[str]()
    left_out |= {each.item.id: (each, _ONLY_ASKED) for each in memories if each.item.id in held}
    says = await trust_prefixes(toolbox, [each.item for each in memories], histories)
    memories = [
        each.model_copy(update={"says": says[each.item.id]}) if each.item.id in says else each
        for each in memories
        if each.item.id not in held
    ]
    for each in memories:
        left_out.pop(each.item.id, None)
    fits = [each.candidate.id for each in select_diverse(every, fit, wanted, 0.0)] if known else []
    read = tuple(memory_id for memory_id in fits if unasked and memory_id in unasked.elsewhere)
    return Choice(scored, stale, fitting, tuple(memories), left_out, read)


async def _reranked(toolbox: Toolbox, prepared: PreparedQuery, scored: list[Scored], fit: FitFilter) -> list[Scored]:
    """Return the candidates, the best of which exchange their scores so that they are in the order of a reranker."""
    way = toolbox.settings.retrieve.rerank
    top = select_diverse(scored, fit, RERANKED, 0.0) if prepared.unasked else scored[:RERANKED]
    items = [each.candidate.read_item() for each in top]
    shown = [(item.title, "", item.embedding_text) for item in items]
    order = await rerank(toolbox, prepared.text, shown, MEMORIES, ("retrieve.rerank", way), RERANK_TIMEOUT_S)
    prepared.notices.extend(order.notices)
    judged = [top[each.place] for each in order.ranked]
    names = {each.candidate.id for each in judged}
    after = [*judged, *(each for each in top if each.candidate.id not in names)]
    moved = {each.candidate.id: old.score - each.score for each, old in zip(after, top, strict=True)}
    return [
        each.with_term("reranker", moved[each.candidate.id]) if each.candidate.id in moved else each for each in scored
    ]


async def _applying(
    toolbox: Toolbox, scored: list[Scored], fit: FitFilter, wanted: int
) -> tuple[list[Scored], list[Scored], dict[str, Staleness]]:
    """Return the candidates, those of them that would be returned, and the staleness of these in the project."""
    seen, stale = set[str](), dict[str, Staleness]()
    while True:
        chosen = select_diverse(scored, fit, wanted, toolbox.settings.retrieve.delta)
        new = [each.candidate for each in chosen if each.candidate.id not in seen] if toolbox.project else []
        found = await staleness_of(toolbox, [candidate.read_item() for candidate in new]) if new else {}
        if not found:
            return scored, chosen, stale
        seen |= {each.candidate.id for each in chosen}
        stale |= found
        for place, each in enumerate(scored):  # one whose anchors are all gone is replaced, unless the user said it
            if gone := found.get(each.candidate.id):
                lowered = each.with_term("gone from the project", -GONE_PENALTY * gone.share_gone)
                scored[place] = lowered._replace(applies=gone.share_gone < 1.0 or each.candidate.priority > 0)


async def _called_first(
    toolbox: Toolbox, prepared: PreparedQuery, fit: FitFilter, found: Sequence[ScoredMemory], every: Sequence[Scored]
) -> list[ScoredMemory]:
    """Return the memories that the prompt calls for by name, then those near in meaning: see `Unasked.listed`."""
    least = {
        handle: min((fit.texts[token] for token in tokens), default=0) / NAMED
        for handle, tokens in at_prompt(prepared.text).items()
        if all(token in fit.texts for token in tokens)  # else the search did not look it up
    }
    called = await toolbox.store.called_for(toolbox.readable, least, MOST_CALLED + len(found))
    near, scored = {each.item.id for each in found}, {each.candidate.id: each for each in every}
    unasked = prepared.unasked or Unasked()
    new = [item for item in called if not (item.id in near or unasked.leaves_out(item.id))]
    none = ScoreParts(relevance=0.0, recency=1.0, confidence=1.0)
    first = [
        scored[item.id].memory() if item.id in scored else ScoredMemory(item=item, score=0.0, parts=none)
        for item in await still_applying(toolbox, new)
    ]
    named = {item.id for item in called}
    found = sorted(found, key=lambda each: each.item.id not in named)
    if (listed := unasked.listed) is not None:
        sure = {each.item.id for each in found if fit.is_sure_of(scored[each.item.id].candidate)} | named
        found = [
            each if each.item.id in sure else each.model_copy(update={"fits": "uncertain"})
            for each in found
            if each.item.id in sure or (each.item.id not in listed and each.item.provenance.priority >= 0)
        ]
    return [*first[:MOST_CALLED], *found]


def _put_into_words(
    toolbox: Toolbox, prepared: PreparedQuery, result: SearchResult, fit: FitFilter, choice: Choice
) -> Retrieval:
    """Return the answer: the memories, their notes, and why there are fewer than were wanted."""
    memories = choice.memories
    likely = sum(each.fits == "likely" for each in memories)
    can_ask = prepared.unasked is not None and prepared.unasked.listed is not None
    refused = 0 if can_ask else len(choice.fitting) - likely
    return Retrieval(
        retrieval_id=new_id(RETRIEVAL),
        query=clean(prepared.text, 2_000),
        memories=memories,
        preamble=_notes(toolbox, memories),
        reason=_why_fewer(toolbox, result, fit, choice, refused) if likely < prepared.wanted else None,
        legs=result.legs,
        embedder=toolbox.embedder.name,
        notices=(*prepared.notices, *result.notices),
        latency_ms=0.0,
    )


def _why_fewer(toolbox: Toolbox, result: SearchResult, fit: FitFilter, choice: Choice, refused: int) -> str:
    """Say why fewer fit than were wanted."""
    where = f"(project {toolbox.scope.project!r} and global{', and the team' if toolbox.team else ''})"
    every = f"{counted(result.documents, 'memory')} {where}"
    if result.documents == 0:
        return f"no memories yet {where}"
    if fits := len(choice.fitting):
        shown = f"{fits} of {every} {'fits' if fits == 1 else 'fit'}"
        return f"{shown}; {refused} left out, contradicted by a stronger one" if refused > 0 else shown
    if not result.candidates:
        return f"none of {every} matches the filters and the query"
    if fit.found >= fit.needed:
        return f"none of {every} fits: the nearest ones offer no advice on this"
    return f"no match among {every}: the best scored {fit.found:.2f}, but {fit.needed:.2f} is needed"


def _notes(toolbox: Toolbox, memories: Sequence[ScoredMemory]) -> str:
    """Return the notes of memories, within the budget of tokens."""
    notes: list[tuple[str, str, str]] = []
    likely = [each for each in memories if each.fits == "likely"]
    likely.sort(key=lambda each: -each.item.provenance.priority)
    unlikely, titles = [each for each in memories if each.fits == "unlikely"], {each.item.title for each in memories}
    for found in (*likely, *unlikely):
        item, source = found.item, found.item.provenance
        title = f"Guardrail: {item.title}" if item.outcome == "Failure" else item.title
        when = item.description if source.distiller in ("agent", "user") else ""
        changed = f"({found.changed})" if found.changed else ""
        parts = [when, item.content, changed, *(otherwise(each, shown=each in titles) for each in found.contradicts)]
        often = how_often(found.worked, found.tried, found.people)
        notes.append((item.id, found.says + title + often, "\n".join(filter(None, parts))))
    said = sum(each.item.provenance.priority > 0 for each in likely)
    whole = preamble(notes, toolbox.settings.retrieve.token_budget, said=said, unlikely=len(unlikely))
    uncertain = [each.item for each in memories if each.fits == "uncertain"]
    return "\n".join(filter(None, (whole, render_moments(uncertain) if uncertain else "")))


class Considered(NamedTuple):
    """A memory that a search considered, and what became of it."""

    memory: ScoredMemory
    strength: float
    """Nearness and shared words as one number, which is compared with what is needed."""
    coverage: float
    """The share 0…1 of the query's words that the memory has; rarer words weigh more."""
    parts: tuple[tuple[str, float], ...]
    """What makes up its score, by name; they sum to it."""
    place: int | None = None
    """Its number in the notes; None: it is not shown."""
    why: str | None = None
    """Why it is not shown, or shown as unlikely to fit."""


class Explanation(NamedTuple):
    """One search with everything that was considered; none of it is recorded."""

    found: Retrieval
    fit: FitFilter
    considered: tuple[Considered, ...]
    """Those that are shown, in their order; then the others, best first."""


async def explain(
    toolbox: Toolbox, query: str, k: int | None = None, only: SearchFilter = ANY, unasked: Unasked | None = None
) -> Explanation:
    """Return what `retrieve` would return now and why; no retrieval is recorded and nothing is credited.

    Raises as `retrieve`.
    """
    stages = await run_stages(toolbox, query, k, only, unasked)
    choice, fit = stages.choice, stages.fit
    at = {each.item.id: stages.found.preamble.find(f"[{each.item.id}]\n") for each in stages.found.memories}
    there = sorted((place, memory_id) for memory_id, place in at.items() if place >= 0)
    places = {memory_id: number for number, (_, memory_id) in enumerate(there, 1)}
    scored = {each.candidate.id: each for each in sorted(choice.scored, key=lambda each: -each.score)}
    memories = {name: each.memory() for name, each in scored.items()}
    memories |= {name: memory for name, (memory, _) in choice.left_out.items()}
    memories |= {each.item.id: each for each in choice.memories}
    too_long = f"it fits the query, but not into what is left of the {toolbox.settings.retrieve.token_budget} tokens"
    likely = {each.item.id for each in choice.memories if each.fits == "likely"}
    reasons = {each.item.id: _UNCERTAIN for each in choice.memories if each.fits == "uncertain"}
    reasons |= dict.fromkeys(likely, too_long) | {name: why for name, (_, why) in choice.left_out.items()}
    considered: list[Considered] = []
    for name in [*places, *(name for name in memories if name not in places)]:
        memory, its = memories[name], scored.get(name)
        why = None if name in places and name in likely else reasons.get(name) or _not_chosen(stages, scored[name])
        covered = 0.0 if its is None else fit.coverage(its.candidate)
        terms = {} if its is None else {**its.terms, "similarity to a better one": -memory.parts.diversity_penalty}
        parts = tuple((term, value) for term, value in terms.items() if abs(value) >= 0.0005)
        strength = fit.strength(memory.parts.cosine, covered)
        considered.append(Considered(memory, strength, covered, parts, places.get(name), why))
    return Explanation(stages.found, fit, tuple(considered))


def _not_chosen(stages: Stages, scored: Scored) -> str:
    """Return why a candidate was not chosen: it does not fit, or others come before it."""
    candidate, fit = scored.candidate, stages.fit
    strength, beside = fit.strength(candidate.cosine, fit.coverage(candidate)), fit.min_strength_of_rest
    if not scored.applies:
        return f"everything it names is gone from the project: {stages.choice.stale[candidate.id].names_gone}"
    if fit.found < fit.needed:
        return f"below the floor: the best has {fit.found:.2f}, but {fit.needed:.2f} is needed for any to fit"
    if strength < beside:
        return f"too far from the query: it has {strength:.2f}, but {beside:.2f} is needed next to a better one"
    if not fit.admits(candidate):
        if candidate.read_item().use == "open_problem":
            return "it is about an error that was never resolved: no advice"
        return "it is a fix for an error that the query does not mention"
    wanted = stages.prepared.wanted
    if candidate.id in {each.candidate.id for each in select_diverse(stages.choice.scored, fit, wanted, 0.0)}:
        return "it repeats much of what a better one says: other subjects come first"
    return f"it fits, but others that fit come before it (k is {wanted})"
