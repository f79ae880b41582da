"""Retrieve memories for a query: search, score, choose, put into words. How it is searched is the store's business."""

import time
from collections.abc import Container, Sequence
from dataclasses import dataclass
from datetime import datetime

from swarm_memory.schema.base import GLOBAL_PROJECT, RETRIEVAL, new_id
from swarm_memory.schema.errors import InputError, ModelError, StorageError
from swarm_memory.schema.memory import MemoryItem, Retrieval, ScoredMemory, ScoreParts
from swarm_memory.schema.settings import RetrieveSettings
from swarm_memory.tools.credit.holdout import is_held_out
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.guard.trust import prefer_verified
from swarm_memory.tools.ports.bank import ANY, Candidate, RetrievalRecord, SearchFilter, SearchQuery, SearchResult
from swarm_memory.tools.ports.models import Vector
from swarm_memory.tools.retrieve.fit import Floor, Shortfall, near_miss
from swarm_memory.tools.retrieve.preamble import preamble
from swarm_memory.tools.retrieve.rank import (
    contenders,
    convex_fusion,
    diversify,
    recency,
    reciprocal_rank_fusion,
    unit,
)
from swarm_memory.tools.text.cleaning import clean
from swarm_memory.tools.text.tokens import count_tokens, query_tokens
from swarm_memory.tools.toolbox import Toolbox

MAX_K = 50
MAX_QUERY_CHARS = 100_000
MAX_QUERY_TOKENS = 512
"""Distinct words that are looked up; the store searches for the rarest of them."""

OUTSIDE_HOLDOUT = "no task_id was given: tasks are being held out, and this retrieval takes no part in that"

_MAX_RECORDED_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class _Scored:
    """A candidate and its parts, before diversity."""

    candidate: Candidate
    keyword: float | None
    relevance: float
    recency: float
    confidence: float
    score: float


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A candidate of the answer, and what diversity took off."""

    scored: _Scored
    penalty: float

    def memory(self, item: MemoryItem) -> ScoredMemory:
        scored, candidate = self.scored, self.scored.candidate
        parts = ScoreParts(
            relevance=scored.relevance,
            recency=scored.recency,
            confidence=scored.confidence,
            diversity_penalty=self.penalty,
            cosine=candidate.cosine,
            keyword=scored.keyword,
        )
        return ScoredMemory(item=item, score=scored.score - self.penalty, parts=parts)


async def retrieve(
    toolbox: Toolbox,
    query: str,
    *,
    k: int | None = None,
    only: SearchFilter = ANY,
    task_id: str | None = None,
    session_id: str | None = None,
) -> Retrieval:
    """Return at most `k` memories that fit `query`, best first, of the project and the global scope.

    The score is the weighted sum of relevance, recency and confidence (ReasoningBank's weights, in the settings), less
    `project_preference` for a global item, less the diversity penalty; of unverified ones (`tools.trust`) no more
    than one stands where verified ones fit. The answer is empty when nothing fits, and says why; a task that is held
    out (`tools.holdout`) gets nothing of what was found for it. An embedder that fails leaves the keyword leg, with a
    notice. Raises `InputError` for a blank query or a `k` outside 1…50, `StorageError` from the store.
    """
    started = time.perf_counter()
    settings = toolbox.settings.retrieve
    wanted = _checked_k(settings.k if k is None else k)
    text, notices = _checked_query(query)
    search = SearchQuery(
        scopes=toolbox.scopes(),
        embedder=toolbox.embedder.name,
        vector=await _embedded(toolbox, text, notices),
        tokens=_keywords(text, notices),
        pool=max(settings.pool_factor * wanted, settings.pool_floor),
        only=only,
    )
    result = await toolbox.store.search(search)
    scored = _score(toolbox, result, toolbox.clock.now())
    floor = Floor.of(toolbox, result, search.tokens)
    memories = await prefer_verified(
        toolbox,
        _memories(_choose(scored, floor, wanted, settings.delta)),
        lambda k, known: _memories(_choose(scored, floor, k, 0.0), known),
        wanted,
    )
    best = None if memories else max(scored, key=lambda each: each.score, default=None)
    nearest = None if best is None else near_miss(best.candidate, floor)
    short = Shortfall(search, result.documents, floor, len(memories), nearest)
    found = Retrieval(
        retrieval_id=new_id(RETRIEVAL),
        query=clean(text, _MAX_RECORDED_CHARS),
        memories=memories,
        preamble=preamble([_note(each.item) for each in memories], settings.token_budget, count_tokens),
        reason=short.reason() if len(memories) < wanted else None,
        nearest=nearest,
        legs=result.legs,
        embedder=toolbox.embedder.name,
        notices=(*notices, *result.notices),
        latency_ms=(time.perf_counter() - started) * 1000,
    )
    credit = toolbox.settings.credit
    if task_id is None and credit.holdout_rate > 0:
        found = found.model_copy(update={"notices": (*found.notices, OUTSIDE_HOLDOUT)})
    withheld = task_id is not None and is_held_out(task_id, credit.holdout_rate, credit.holdout_seed)
    told = await _recorded(toolbox, found, task_id, session_id, withheld=withheld)
    return _withheld(told, credit.holdout_rate) if withheld else told


def _withheld(found: Retrieval, rate: float) -> Retrieval:
    reason = (
        f"this task is held out (credit.holdout_rate is {rate}): it gets no memories, to measure what they are worth"
    )
    return found.model_copy(update={"memories": (), "preamble": "", "nearest": None, "reason": reason})


def _checked_k(k: int) -> int:
    if not 1 <= k <= MAX_K:
        raise InputError(f"k is {k}: it must be from 1 to {MAX_K}")
    return k


def _checked_query(query: str) -> tuple[str, list[str]]:
    """Return the query without secrets, for the embedder may be an endpoint, and what is to be said."""
    text = redact(clean(query[:MAX_QUERY_CHARS])).text.strip()
    if not text:
        raise InputError("query is empty: say in a few words what the task is")
    if len(query) <= MAX_QUERY_CHARS:
        return text, []
    return text, [f"the query has {len(query):,} characters; the first {MAX_QUERY_CHARS:,} were used"]


def _keywords(text: str, notices: list[str]) -> tuple[str, ...]:
    tokens = query_tokens(text)
    if len(tokens) > MAX_QUERY_TOKENS:
        notices.append(f"only the first {MAX_QUERY_TOKENS} distinct words of the query were looked up")
    return tokens[:MAX_QUERY_TOKENS]


async def _embedded(toolbox: Toolbox, text: str, notices: list[str]) -> Vector | None:
    try:
        return await toolbox.embedder.embed_query(text)
    except ModelError as error:
        notices.append(f"keywords only, because the embedder {toolbox.embedder.name} failed: {redact(str(error)).text}")
        return None


def _score(toolbox: Toolbox, result: SearchResult, now: datetime) -> list[_Scored]:
    """Score the candidates of both legs alike: each has its cosine and its BM25, whichever leg found it."""
    settings, own = toolbox.settings.retrieve, toolbox.scope.project
    cosines = [candidate.cosine for candidate in result.candidates]
    keywords = [candidate.keyword for candidate in result.candidates]
    relevances = _fused(settings, toolbox.embedder.fusion_weight, cosines, keywords)
    scored: list[_Scored] = []
    for candidate, keyword, relevance in zip(result.candidates, keywords, relevances, strict=True):
        recent = recency((now - candidate.created_at).total_seconds(), settings.recency_half_life_days)
        confidence = unit(candidate.confidence)
        score = settings.alpha * relevance + settings.beta * recent + settings.gamma * confidence
        if candidate.project == GLOBAL_PROJECT != own:
            score -= settings.project_preference
        scored.append(_Scored(candidate, keyword, relevance, recent, confidence, score))
    return scored


def _fused(
    settings: RetrieveSettings,
    calibrated_weight: float,
    cosines: Sequence[float | None],
    keywords: Sequence[float | None],
) -> list[float]:
    if settings.fusion == "rrf":
        return [unit(value) for value in reciprocal_rank_fusion(cosines, keywords, settings.rrf_k)]
    weight = calibrated_weight if settings.vector_weight is None else settings.vector_weight
    return [unit(value) for value in convex_fusion(cosines, keywords, weight)]


def _choose(scored: Sequence[_Scored], floor: Floor, k: int, penalty: float) -> list[_Chosen]:
    fitting = contenders(
        [each.score for each in scored], lambda index: floor.is_met_by(scored[index].candidate), k, penalty
    )
    pool = [scored[index] for index in fitting]
    if not penalty:
        return [_Chosen(each, 0.0) for each in pool[:k]]
    picked = diversify([each.score for each in pool], lambda index: pool[index].candidate.read_vector(), k, penalty)
    return [_Chosen(pool[index], subtracted) for index, subtracted in picked]


def _memories(chosen: Sequence[_Chosen], known: Container[str] = ()) -> tuple[ScoredMemory, ...]:
    """Read the winners that are not known yet."""
    return tuple(
        each.memory(each.scored.candidate.read_item()) for each in chosen if each.scored.candidate.id not in known
    )


def _note(item: MemoryItem) -> tuple[str, str, str]:
    title = f"Guardrail: {item.title}" if item.outcome == "Failure" else item.title
    return item.id, title, item.content


async def _recorded(
    toolbox: Toolbox, found: Retrieval, task_id: str | None, session_id: str | None, *, withheld: bool
) -> Retrieval:
    record = RetrievalRecord(
        retrieval_id=found.retrieval_id,
        scope=toolbox.scope,
        query=found.query,
        scores={each.item.id: each.score for each in found.memories},
        latency_ms=found.latency_ms,
        at=toolbox.clock.now(),
        task_id=task_id,
        session_id=session_id,
        withheld=withheld,
    )
    try:
        await toolbox.store.record_retrieval(record)
    except StorageError as error:
        notice = f"this retrieval was not recorded: {error}"
        return found.model_copy(update={"notices": (*found.notices, notice)})
    return found
