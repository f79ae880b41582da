"""Retrieve memories for a query: search, score, keep what fits, choose, put into words."""

import time
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from swarm_memory.schema.base import GLOBAL_PROJECT, RETRIEVAL, counted, new_id
from swarm_memory.schema.errors import InputError, StorageError
from swarm_memory.schema.memory import MemoryItem, NearMiss, Retrieval, ScoredMemory, ScoreParts
from swarm_memory.tools.credit.holdout import is_held_out
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.guard.trust import prefer_verified
from swarm_memory.tools.ports.memories import ANY, Candidate, RetrievalRecord, SearchFilter, SearchQuery, SearchResult
from swarm_memory.tools.retrieve.agreement import with_other_ways, without_contradictions
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

_MAX_RECORDED_CHARS = 2_000


async def retrieve(
    toolbox: Toolbox,
    query: str,
    *,
    k: int | None = None,
    only: SearchFilter = ANY,
    task_id: str | None = None,
    session_id: str | None = None,
    via: str | None = None,
) -> Retrieval:
    """Return at most `k` memories that fit `query`, best first, of the project and the global scope.

    The score is the weighted sum of relevance, recency and confidence (weights in the settings), plus
    `user_preference` for what the user said, which does not age and comes first among those that are given, and
    `time_boost` for what is of a time that the query names, less `project_preference` for a global item, less the
    diversity penalty; of unverified ones (`guard.trust`) no more than one stands where verified ones fit; of two that
    contradict each other one comes, and says so. The answer is empty when the bank has nothing for the query (`Fit`),
    and says why; a task that is held out (`credit.holdout`) gets nothing of what was found for it. An embedder that
    fails leaves the keyword leg, with a notice. Raises `InputError` for a blank query or a `k` outside 1…50,
    `StorageError` from the store.
    """
    credit = toolbox.settings.credit
    found = (await stages_of(toolbox, query, k, only)).found
    if task_id is None and credit.holdout_rate:
        found = found.model_copy(update={"notices": (*found.notices, OUTSIDE_HOLDOUT)})
    is_withheld = task_id is not None and is_held_out(task_id, credit.holdout_rate, credit.holdout_seed)
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
        via=via,
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
    chosen: tuple[ScoredMemory, ...]
    """The best that fit and are not too much alike."""
    offered: tuple[ScoredMemory, ...]
    """With other ways past the same errors."""
    fitting: tuple[ScoredMemory, ...]
    """With verified ones before further unverified ones."""
    found: Retrieval
    """Without those that a surer one contradicts."""

    def best(self, count: int, penalty: float) -> list["Scored"]:
        """Return at most so many that fit, best first, with that weight of diversity."""
        return _chosen(self.scored, self.fit, count, penalty)


async def stages_of(toolbox: Toolbox, query: str, k: int | None = None, only: SearchFilter = ANY) -> Stages:
    """Go the way of a retrieval and record nothing. Raises as `retrieve`."""
    started, settings = time.perf_counter(), toolbox.settings.retrieve
    wanted = settings.k if k is None else k
    text, notices = _checked(query, wanted)
    search, vectors = await _asked(toolbox, text, wanted, only, notices)
    result, cosines = vectors.compared(await toolbox.store.search(search))
    fit = Fit.of(toolbox, result, search.tokens)
    scored = await _reranked(
        toolbox, text, _scored(toolbox, result, cosines, _target(toolbox, text, notices)), fit, notices
    )
    chosen = _memories(_chosen(scored, fit, wanted, settings.delta))
    offered = await with_other_ways(toolbox, chosen, wanted) if only == ANY else chosen
    fitting = await prefer_verified(
        toolbox, offered, lambda most, known: _memories(_chosen(scored, fit, most, 0.0), known), wanted
    )
    agreeing = await without_contradictions(toolbox, fitting)
    memories = tuple(sorted(agreeing, key=lambda each: -each.item.provenance.standing))
    nearest = None if memories else _near_miss(result.candidates, fit)
    found = Retrieval(
        retrieval_id=new_id(RETRIEVAL),
        query=clean(text, _MAX_RECORDED_CHARS),
        memories=memories,
        preamble=preamble(
            [_note(each) for each in memories],
            settings.token_budget,
            count_tokens,
            said=sum(each.item.provenance.standing > 0 for each in memories),
        ),
        reason=_why_fewer(search, result.documents, fit, len(fitting), nearest, len(fitting) - len(memories))
        if len(memories) < wanted
        else None,
        nearest=nearest,
        legs=result.legs,
        embedder=toolbox.embedder.name,
        notices=(*notices, *result.notices),
        latency_ms=(time.perf_counter() - started) * 1000,
    )
    return Stages(search, vectors, result, fit, wanted, scored, chosen, offered, fitting, found)


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
        scopes=toolbox.scope.readable(),
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
    toolbox: Toolbox, result: SearchResult, cosines: Sequence[float | None], target: TargetTime | None
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
        confidence = unit(candidate.confidence)
        score = settings.alpha * relevance + settings.beta * recent + settings.gamma * confidence
        score += settings.user_preference * candidate.standing
        if target is not None:
            score += settings.time_boost * closeness(target, candidate.created_at)
        if candidate.project == GLOBAL_PROJECT != own:
            score -= settings.project_preference
        scored.append(Scored(candidate, relevance, recent, confidence, score))
    return scored


def _chosen(scored: Sequence[Scored], fit: Fit, k: int, penalty: float) -> list[Scored]:
    """Return at most `k` that fit, best first, and no two that are too much alike where `penalty` is above 0."""
    fitting = contenders(
        [each.score for each in scored], lambda index: fit.is_met_by(scored[index].candidate), k, penalty
    )
    pool = [scored[index] for index in fitting]
    if not penalty:
        return pool[:k]
    picked = diversify([each.score for each in pool], lambda index: pool[index].candidate.read_vector(), k, penalty)
    return [pool[index]._replace(penalty=subtracted) for index, subtracted in picked]


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
    own = [f"project {scope.project!r}" for scope in search.scopes if scope.project != GLOBAL_PROJECT]
    where = " and ".join((*own, "the global scope"))
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
    others = [otherwise(title) for title in found.contradicts]
    return item.id, title + how_often(found.worked, found.tried), "\n".join([item.content, *others])


async def _recorded(toolbox: Toolbox, found: Retrieval, record: RetrievalRecord) -> Retrieval:
    try:
        await toolbox.store.record_retrieval(record)
    except StorageError as error:
        notice = f"this retrieval was not recorded: {error}"
        return found.model_copy(update={"notices": (*found.notices, notice)})
    return found


def _withheld(found: Retrieval, rate: float) -> Retrieval:
    reason = (
        f"this task is held out (credit.holdout_rate is {rate}): it gets no memories, to measure what they are worth"
    )
    return found.model_copy(update={"memories": (), "preamble": "", "nearest": None, "reason": reason})
