"""Retrieve memories for a query: search, score, keep what fits, choose, put into words."""

import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from swarm_memory.schema.base import GLOBAL_PROJECT, RETRIEVAL, TEAM, counted, is_teams, new_id
from swarm_memory.schema.errors import InputError, StorageError
from swarm_memory.schema.memory import MemoryItem, NearMiss, Retrieval, ScoredMemory, ScoreParts
from swarm_memory.tools.anchors.handles import at_prompt
from swarm_memory.tools.anchors.staleness import Staleness, staleness_of
from swarm_memory.tools.credit.holdout import is_held_out, rests
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.guard.trust import prefer_verified
from swarm_memory.tools.ports.memories import ANY, Candidate, RetrievalRecord, SearchFilter, SearchQuery, SearchResult
from swarm_memory.tools.retrieve.agreement import told_once, with_counts, with_other_ways, without_contradictions
from swarm_memory.tools.retrieve.fit import Fit
from swarm_memory.tools.retrieve.preamble import how_often, otherwise, preamble
from swarm_memory.tools.retrieve.query import Vectors, own_words, vectors_of
from swarm_memory.tools.retrieve.rank import (
    contenders,
    diversify,
    ideal_keyword_score,
    query_vector_weight,
    recency,
    reciprocal_rank_fusion,
    scaled_fusion,
    unit,
)
from swarm_memory.tools.retrieve.times import TargetTime, closeness, mentioned_time
from swarm_memory.tools.text.cleaning import clean
from swarm_memory.tools.text.tokens import count_tokens
from swarm_memory.tools.toolbox import Toolbox

MAX_K = 50
MAX_QUERY_CHARS = 100_000
MAX_QUERY_TOKENS = 512
"""Distinct words that are looked up; the store searches for the rarest of them."""

OUTSIDE_HOLDOUT = "no task_id was given: tasks are being held out, and this retrieval takes no part in that"

MOST_CALLED = 3
"""So many memories come first that a prompt calls for by what it names."""

_MAX_RECORDED_CHARS = 2_000
_OF_ALL = (GLOBAL_PROJECT, f"{TEAM}{GLOBAL_PROJECT}")


class Hook(NamedTuple):
    """A hook that retrieves what nobody asked for."""

    via: str
    """Who does the work: `server`, or the `hook` command itself."""
    elsewhere: Container[str] = ()
    """Memories that its agent reads by itself, in skills and files of rules."""
    shown: Container[str] = ()
    """What the session was shown before: nothing comes twice."""

    def leaves_out(self, candidate: Candidate) -> bool:
        """Whether the agent has it before it already."""
        return candidate.id in self.elsewhere or candidate.id in self.shown


async def retrieve(
    toolbox: Toolbox,
    query: str,
    *,
    k: int | None = None,
    only: SearchFilter = ANY,
    task_id: str | None = None,
    session_id: str | None = None,
    hook: Hook | None = None,
) -> Retrieval:
    """Return at most `k` memories that fit `query`, best first, of the project and the global scope.

    The score is the weighted sum of relevance, recency and confidence (weights in the settings), plus
    `user_preference` for what the user said, which does not age and comes first among those that are given, and
    `time_boost` for what is of a time that the query names, less `project_preference` for a global item, less the
    diversity penalty; of unverified ones (`guard.trust`) no more than one stands where verified ones fit; of two that
    contradict each other one comes, and says so; what the agent of a hook reads elsewhere does not come. The answer is
    empty when the bank has nothing for the query (`Fit`), and says why; a task that is held out (`credit.holdout_rate`)
    gets nothing of what was found for it, and what is on trial (`credit.harm`) is not shown to every other task. An
    embedder that fails leaves the keyword leg, with a notice. Raises `InputError` for a blank query or a `k` outside
    1…50, `StorageError` from the store.
    """
    credit = toolbox.settings.credit
    stages = await stages_of(toolbox, query, k, only, hook)
    found = stages.found
    if task_id is None and credit.holdout_rate:
        found = found.model_copy(update={"notices": (*found.notices, OUTSIDE_HOLDOUT)})
    is_withheld = task_id is not None and is_held_out(task_id, credit.holdout_rate, credit.holdout_seed)
    rested = () if task_id is None or is_withheld else await _resting(toolbox, found, task_id)
    found = _without(toolbox, found, rested)
    record = RetrievalRecord(
        retrieval_id=found.retrieval_id,
        scope=toolbox.scope,
        query=found.query,
        scores={each.item.id: each.score for each in found.memories},
        latency_ms=found.latency_ms,
        at=toolbox.clock.now(),
        task_id=task_id,
        session_id=session_id,
        withheld=is_withheld,
        via=hook and hook.via,
        read=stages.read,
        rested=rested,
        gone={memory_id: staleness.names_gone for memory_id, staleness in stages.standing.items() if staleness.gone},
    )
    told = await _recorded(toolbox, found, record)
    return _withheld(told, credit.holdout_rate) if is_withheld else told


@dataclass(frozen=True, slots=True)
class Stages:
    """One retrieval, and what each of its stages left."""

    search: SearchQuery
    vectors: Vectors
    result: SearchResult
    fit: Fit
    wanted: int
    scored: Sequence["Scored"]
    standing: Mapping[str, Staleness]
    """Of those that were looked at, what is gone or has moved, by id."""
    chosen: tuple[ScoredMemory, ...]
    """The best that fit and are not too much alike."""
    offered: tuple[ScoredMemory, ...]
    """With other ways past the same errors."""
    fitting: tuple[ScoredMemory, ...]
    """With verified ones before further unverified ones."""
    read: tuple[str, ...]
    """Of what the agent reads in files, the ids of what fits."""
    found: Retrieval
    """Without those that a surer one contradicts."""

    def best(self, count: int, penalty: float) -> list["Scored"]:
        """Return at most so many that fit, best first, with that weight of diversity."""
        return _chosen(self.scored, self.fit, count, penalty)


async def stages_of(
    toolbox: Toolbox, query: str, k: int | None = None, only: SearchFilter = ANY, hook: Hook | None = None
) -> Stages:
    """Go the way of a retrieval and record nothing. Raises as `retrieve`."""
    started, settings = time.perf_counter(), toolbox.settings.retrieve
    wanted = settings.k if k is None else k
    text, notices = _checked(query, wanted)
    search, vectors = await _asked(toolbox, text, wanted, only, notices)
    result, cosines = vectors.compared(await told_once(toolbox, await toolbox.store.search(search)))
    fit = Fit.of(toolbox, result, search.tokens, text if hook else "")
    every = _scored(toolbox, result, cosines, _target(toolbox, text, notices))
    untold = [each for each in every if not (hook and hook.leaves_out(each.candidate))]
    scored = await _reranked(toolbox, text, untold, fit, notices)
    scored, picked, standing = await _standing(toolbox, scored, fit, wanted)
    chosen = _memories(picked)
    ways = await with_other_ways(toolbox, chosen, wanted) if only == ANY else chosen
    offered = tuple(each for each in ways if not (hook and each.item.id in hook.elsewhere))
    others = [each.item for each in offered if each not in chosen]
    standing |= await staleness_of(toolbox, others)
    offered = tuple(each for each in offered if each in chosen or _applies(each.item, standing))
    fitting = await prefer_verified(
        toolbox, offered, lambda most, known: _memories(_chosen(scored, fit, most, 0.0), known), wanted
    )
    agreeing = await with_counts(toolbox, await without_contradictions(toolbox, fitting))
    memories = tuple(
        each.model_copy(update={"changed": standing[each.item.id].told}) if each.item.id in standing else each
        for each in sorted(agreeing, key=lambda each: -each.item.provenance.standing)
    )
    if hook is not None:
        memories = await _called_first(toolbox, text, memories, hook, {each.candidate.id: each for each in untold})
    nearest = None if memories else _near_miss(result.candidates, fit)
    found = Retrieval(
        retrieval_id=new_id(RETRIEVAL),
        query=clean(text, _MAX_RECORDED_CHARS),
        memories=memories,
        preamble=_preamble(toolbox, memories),
        reason=_why_fewer(search, result.documents, fit, len(fitting), nearest, len(fitting) - len(memories))
        if len(memories) < wanted
        else None,
        nearest=nearest,
        legs=result.legs,
        embedder=toolbox.embedder.name,
        notices=(*notices, *result.notices),
        latency_ms=(time.perf_counter() - started) * 1000,
    )
    read = _read_in_files(every, fit, wanted, hook)
    return Stages(search, vectors, result, fit, wanted, scored, standing, chosen, offered, fitting, read, found)


async def _asked(
    toolbox: Toolbox, text: str, wanted: int, only: SearchFilter, notices: list[str]
) -> tuple[SearchQuery, Vectors]:
    """Return the search of a text, and its vectors."""
    settings = toolbox.settings.retrieve
    said, words = await own_words(toolbox, text)
    if said != text:
        notices.append("sentences that stand in most tasks of the project were left out of the query")
    vectors = await vectors_of(toolbox, said, notices)
    search = SearchQuery(
        scopes=toolbox.readable,
        embedder=toolbox.embedder.name,
        vector=vectors.whole,
        tokens=_keywords(words, notices),
        pool=max(settings.pool_factor * wanted, settings.pool_floor),
        only=only,
        views=vectors.views,
    )
    return search, vectors


def _checked(query: str, k: int) -> tuple[str, list[str]]:
    """Return the query without secrets, for the embedder may be an endpoint, and what is to be said."""
    if not 1 <= k <= MAX_K:
        raise InputError(f"k is {k}: it must be from 1 to {MAX_K}")
    text = redact(clean(query[:MAX_QUERY_CHARS])).text.strip()
    if not text:
        raise InputError("query is empty: say in a few words what the task is")
    if len(query) <= MAX_QUERY_CHARS:
        return text, []
    return text, [f"the query has {len(query):,} characters; the first {MAX_QUERY_CHARS:,} were used"]


def _keywords(tokens: tuple[str, ...], notices: list[str]) -> tuple[str, ...]:
    if len(tokens) > MAX_QUERY_TOKENS:
        notices.append(f"only the first {MAX_QUERY_TOKENS} distinct words of the query were looked up")
    return tokens[:MAX_QUERY_TOKENS]


def _target(toolbox: Toolbox, text: str, notices: list[str]) -> TargetTime | None:
    target = mentioned_time(text, toolbox.clock.now()) if toolbox.settings.retrieve.time_boost else None
    if target is not None:
        notices.append(f"what is of about {target.moment:%Y-%m-%d}, which the query names, was lifted")
    return target


async def _called_first(
    toolbox: Toolbox, text: str, found: Sequence[ScoredMemory], hook: Hook, scored: Mapping[str, "Scored"]
) -> tuple[ScoredMemory, ...]:
    """Return what a prompt calls for by what it names, before what is near by meaning; the user's word before all."""
    called = await toolbox.store.called_for(toolbox.readable, at_prompt(text), MOST_CALLED + len(found))
    known = {each.item.id for each in found}
    new = [item for item in called if not (item.id in known or item.id in hook.shown or item.id in hook.elsewhere)]
    gone = await staleness_of(toolbox, new) if new else {}
    new = [item for item in new if _applies(item, gone)][:MOST_CALLED]
    none = ScoreParts(relevance=0.0, recency=1.0, confidence=1.0)
    first = [
        scored[item.id].memory(item) if item.id in scored else ScoredMemory(item=item, score=0.0, parts=none)
        for item in new
    ]
    named = {item.id for item in called}
    every = [*first, *(each for each in found if each.item.id in named), *(e for e in found if e.item.id not in named)]
    return tuple(sorted(every, key=lambda each: -each.item.provenance.standing))


class Scored(NamedTuple):
    """A candidate and the parts of its score."""

    candidate: Candidate
    relevance: float
    recency: float
    confidence: float
    score: float
    """Before diversity."""
    penalty: float = 0.0
    """What diversity takes off."""
    applies: bool = True
    """False: of what it names nothing is left in the project."""

    def memory(self, item: MemoryItem) -> ScoredMemory:
        parts = ScoreParts(
            relevance=self.relevance,
            recency=self.recency,
            confidence=self.confidence,
            diversity_penalty=self.penalty,
            cosine=self.candidate.cosine,
            keyword=self.candidate.keyword,
        )
        return ScoredMemory(item=item, score=self.score - self.penalty, parts=parts)


def _scored(
    toolbox: Toolbox,
    result: SearchResult,
    cosines: Sequence[float | None],
    target: TargetTime | None,
) -> list[Scored]:
    """Score the candidates of both legs alike: each has its cosine and its BM25, whichever leg found it."""
    settings, own, now = toolbox.settings.retrieve, toolbox.scope.project, toolbox.clock.now()
    keywords = [candidate.keyword for candidate in result.candidates]
    if settings.fusion == "rrf":
        relevances = reciprocal_rank_fusion(cosines, keywords, settings.rrf_k)
    else:
        weight = toolbox.embedder.fusion_weight if settings.vector_weight is None else settings.vector_weight
        ideal = ideal_keyword_score(result.documents, result.document_frequency)
        relevances = scaled_fusion(cosines, keywords, ideal, query_vector_weight(cosines, keywords, weight))
    best = max(relevances, default=0.0) or 1.0  # the best has 1, so that recency and confidence weigh alike everywhere
    scored: list[Scored] = []
    for candidate, value in zip(result.candidates, relevances, strict=True):
        relevance = unit(value / best)
        age_s = (now - candidate.created_at).total_seconds()
        recent = 1.0 if candidate.standing > 0 else recency(age_s, settings.recency_half_life_days)
        confidence = candidate.confidence
        score = settings.alpha * relevance + settings.beta * recent + settings.gamma * confidence
        score += settings.user_preference * candidate.standing
        if target is not None:
            score += settings.time_boost * closeness(target, candidate.created_at)
        if candidate.project in _OF_ALL and candidate.project != own:
            score -= settings.project_preference
        scored.append(Scored(candidate, relevance, recent, confidence, score))
    return scored


def _chosen(scored: Sequence[Scored], fit: Fit, k: int, penalty: float) -> list[Scored]:
    """Return at most `k` that fit, best first, and no two that are too much alike where `penalty` is above 0."""
    fitting = contenders(
        [each.score for each in scored],
        lambda index: scored[index].applies and fit.is_met_by(scored[index].candidate),
        k,
        penalty,
    )
    pool = [scored[index] for index in fitting]
    if not penalty:
        return pool[:k]
    picked = diversify([each.score for each in pool], lambda index: pool[index].candidate.read_vector(), k, penalty)
    return [pool[index]._replace(penalty=subtracted) for index, subtracted in picked]


def _read_in_files(every: Sequence[Scored], fit: Fit, wanted: int, hook: Hook | None) -> tuple[str, ...]:
    """Return the ids of what would be told, if the agent did not read it in files."""
    if hook is None or not any(each.candidate.id in hook.elsewhere for each in every):
        return ()
    best = (each.candidate.id for each in _chosen(every, fit, wanted, 0.0))
    return tuple(memory_id for memory_id in best if memory_id in hook.elsewhere)


async def _reranked(toolbox: Toolbox, text: str, scored: list[Scored], fit: Fit, notices: list[str]) -> list[Scored]:
    """Return the candidates. Where a reranker is set, the best that fit take each other's scores in its order.

    Whom it does not judge stays behind.
    """
    top = _chosen(scored, fit, toolbox.settings.retrieve.rerank_top, 0.0) if toolbox.reorder else []
    if toolbox.reorder is None or len(top) < 2:
        return scored
    items = [each.candidate.read_item() for each in top]
    order = await toolbox.reorder(toolbox, text, [(item.title, item.embedding_text) for item in items])
    notices += order.notices
    judged = [top[each.place] for each in order.ranked]
    names = {each.candidate.id for each in judged}
    after = [*judged, *(each for each in top if each.candidate.id not in names)]
    moved = {each.candidate.id: old.score for each, old in zip(after, top, strict=True)}
    return [each._replace(score=moved.get(each.candidate.id, each.score)) for each in scored]


async def _standing(
    toolbox: Toolbox, scored: list[Scored], fit: Fit, wanted: int
) -> tuple[list[Scored], list[Scored], dict[str, Staleness]]:
    """Return the candidates, those of them that would be told, and what the project says of these.

    Of whose anchors nothing is left is not told, and the next one is looked at in its place, but for what the user
    said; who lost some goes down by as much.
    """
    settings, seen, standing = toolbox.settings.retrieve, set[str](), dict[str, Staleness]()
    while True:
        chosen = _chosen(scored, fit, wanted, settings.delta)
        new = [each.candidate for each in chosen if each.candidate.id not in seen] if toolbox.project else []
        found = await staleness_of(toolbox, [candidate.read_item() for candidate in new])
        if not found:
            return scored, chosen, standing
        seen |= {each.candidate.id for each in chosen}
        standing |= found
        scored = [_lowered(each, found.get(each.candidate.id), settings.gone_penalty) for each in scored]


def _lowered(scored: Scored, staleness: Staleness | None, penalty: float) -> Scored:
    if staleness is None:
        return scored
    applies = staleness.share_gone < 1.0 or scored.candidate.standing > 0
    return scored._replace(score=scored.score - penalty * staleness.share_gone, applies=applies)


def _applies(item: MemoryItem, standing: Mapping[str, Staleness]) -> bool:
    """Return whether anything is left of what a memory names, or the user said it."""
    return item.id not in standing or standing[item.id].share_gone < 1.0 or item.provenance.standing > 0


def _memories(chosen: Sequence[Scored], known: Container[str] = ()) -> tuple[ScoredMemory, ...]:
    """Read those that are not known yet."""
    return tuple(each.memory(each.candidate.read_item()) for each in chosen if each.candidate.id not in known)


def _near_miss(candidates: Sequence[Candidate], fit: Fit) -> NearMiss | None:
    """Return what is told of the best candidate where none fits."""
    best = max(candidates, key=lambda each: fit.strength(each.cosine, fit.coverage(each)), default=None)
    if best is None:
        return None
    title = best.read_item().title
    return NearMiss(id=best.id, title=title, cosine=best.cosine, keyword_coverage=fit.coverage(best))


def _why_fewer(
    search: SearchQuery, documents: int, fit: Fit, found: int, nearest: NearMiss | None, refused: int
) -> str:
    """Say why fewer came than were wanted; `documents` are the active items in the scopes, `refused` those that fit and
    that others among them contradict.
    """
    own = [f"project {scope.project!r}" for scope in search.scopes if not (scope.project in _OF_ALL or is_teams(scope))]
    team = ("what the team shares",) if any(map(is_teams, search.scopes)) else ()
    where = " and ".join((*own, "the global scope", *team))
    every = f"{counted(documents, 'memory')} in {where}"
    if documents == 0:
        return f"no memories yet in {where}"
    if found:
        told = f"{found} of {every} {'fits' if found == 1 else 'fit'}"
        return f"{told}; {refused} left out, for another of them says otherwise" if refused else told
    if nearest is None:
        return f"none of {every} {'passes the filters and ' if search.only != ANY else ''}resembles the query"
    cosine = nearest.cosine
    near = "no vector" if cosine is None else f"cosine {cosine:.2f}"
    words = f"{nearest.keyword_coverage:.0%} of the query's words"
    together = (
        f"together {fit.found:.2f}, and {fit.needed:.2f} is needed" if fit.found < fit.needed else "it is no advice"
    )
    return f"none of {every} fits; the nearest has {near} and {words}: {together}"


def _note(found: ScoredMemory) -> tuple[str, str, str]:
    item = found.item
    title = f"Guardrail: {item.title}" if item.outcome == "Failure" else item.title
    if item.provenance.heard_in is not None and not item.provenance.is_users_word:
        title = f"An agent noted: {title}"
    when = [item.description] if item.provenance.distiller in ("agent", "user") and item.description else []
    others = [otherwise(title) for title in found.contradicts]
    changed = [f"({found.changed})"] if found.changed else []
    often = how_often(found.worked, found.tried, found.people)
    return item.id, title + often, "\n".join([*when, item.content, *changed, *others])


async def _recorded(toolbox: Toolbox, found: Retrieval, record: RetrievalRecord) -> Retrieval:
    try:
        await toolbox.store.record_retrieval(record)
    except StorageError as error:
        notice = f"this retrieval was not recorded: {error}"
        return found.model_copy(update={"notices": (*found.notices, notice)})
    return found


async def _resting(toolbox: Toolbox, found: Retrieval, task_id: str) -> tuple[str, ...]:
    """Return what of the found is on trial and is not shown to this task."""
    on_trial = (await toolbox.store.trials(toolbox.scope)).resting
    return tuple(each.item.id for each in found.memories if each.item.id in on_trial and rests(task_id, each.item.id))


def _without(toolbox: Toolbox, found: Retrieval, rested: Sequence[str]) -> Retrieval:
    if not rested:
        return found
    memories = tuple(each for each in found.memories if each.item.id not in rested)
    why = f"{counted(len(rested), 'memory')} not shown to this task, to see whether tasks do better without"
    changed = {"notices": (*found.notices, why)} if memories else {"reason": why}
    return found.model_copy(update={"memories": memories, "preamble": _preamble(toolbox, memories), **changed})


def _preamble(toolbox: Toolbox, memories: Sequence[ScoredMemory]) -> str:
    return preamble(
        [_note(each) for each in memories],
        toolbox.settings.retrieve.token_budget,
        count_tokens,
        said=sum(each.item.provenance.standing > 0 for each in memories),
    )


def _withheld(found: Retrieval, rate: float) -> Retrieval:
    reason = (
        f"this task is held out (credit.holdout_rate is {rate}): it gets no memories, to measure what they are worth"
    )
    return found.model_copy(update={"memories": (), "preamble": "", "nearest": None, "reason": reason})
