"""Index sources and search them: what a reader returns becomes passages with their indexes, and passages become hits,
ordered by their own fields, their context, and both legs fused.

Files, servers and formats are the readers' business; where passages are kept is the store's.
"""

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncIterable, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pydantic import JsonValue

from swarm_memory.schema.base import counted
from swarm_memory.schema.errors import InputError, ModelError, NotFoundError
from swarm_memory.schema.job import Progress, Report
from swarm_memory.schema.memory import Leg
from swarm_memory.schema.source import SOURCE_KINDS, Fault, IndexingReport, Passage, SourceKind
from swarm_memory.tools.guard.redact import redact, redact_start
from swarm_memory.tools.ports.memories import SearchQuery
from swarm_memory.tools.ports.models import Vector
from swarm_memory.tools.ports.sources import (
    FoundPassage,
    PassageCandidate,
    ReadGroup,
    SourceKey,
    SourceResult,
    StoredGroup,
    StoredPassage,
)
from swarm_memory.tools.retrieve.embed import BACKLOG, REEMBED, embed_batch
from swarm_memory.tools.retrieve.query import embed_queries
from swarm_memory.tools.retrieve.rank import BM25_B, BM25_K1, ideal_keyword_score, scaled_fusion
from swarm_memory.tools.retrieve.rerank import TOOLS, rerank
from swarm_memory.tools.text.cleaning import clean, shorten
from swarm_memory.tools.text.tokens import query_tokens, tokenize
from swarm_memory.tools.toolbox import Toolbox

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from swarm_memory.schema.settings import PersonalData

MAX_TITLE_CHARS, MAX_DESCRIPTION_CHARS, MAX_CONTENT_CHARS = 1_000, 20_000, 60_000

_DIVIDER = "\n\x02\n"
"""A divider that no rule of redaction matches across, and no cleaned text contains."""

Prepared: TypeAlias = StoredGroup | Fault
"""A group without vectors, or why it has no passages."""

NEIGHBOURS: Mapping[SourceKind, int] = {"document": 2, "code": 1}
"""How many passages on each side are a passage's context. Tools and operations are next to each other by chance."""

_SATURATION: Mapping[SourceKind, tuple[float, float]] = {"document": (BM25_K1, BM25_B)}
_SATURATION_OF_OTHERS = 1.5, 0.75
"""`k1` and `b` of BM25: words of prose saturate sooner and its lengths say less."""

_VECTOR_FACTOR: Mapping[SourceKind | None, float] = {None: 1.0, "document": 0.6}
_VECTOR_FACTOR_OF_OTHERS = 1.3
"""Factors on an embedder's vector weight for memories: queries for code and tools use words other than theirs."""

TEST_SHARE = 0.8
"""The share of its score that code in a test keeps, unless the query asks for tests: a test says at length what it is
about, but a query for where a thing is done wants the place that does it."""

TITLE_WEIGHT, DESCRIPTION_WEIGHT = 2.0, 1.2
"""How much a word of the title or of the description counts, where a word of the content counts 1."""

CONTEXT_WEIGHT = 0.4
"""The weight of a passage's neighbours, and of the name of its file or server, next to its own text in its score."""

K = 5
MAX_QUERY_CHARS = 20_000
MAX_QUERY_TOKENS = 512
BATCH_PASSAGES = 512
"""At most this many passages are embedded and written at a time; other writers wait that long."""

GROUPS_TOGETHER, PREPARED_AT_ONCE = 64, 4
"""How many groups one process or thread prepares, and how many of these work at the same time."""

EMBEDDING_S = 20.0
"""Seconds of embedding in one run, enough for some thousands of passages; only keywords find the rest at first."""

RERANKED, RERANK_TIMEOUT_S = 20, 20.0
"""How many of the index's best hits the reranker is given, and how many seconds it may take."""

_POOL_FACTOR, _POOL_FLOOR = 5, 100
_REMOVED_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class PreparationBatch:
    """Groups to parse and prepare together; it can be pickled where their `parse` functions can."""

    groups: Sequence[ReadGroup]
    pii: "PersonalData"
    """Whether personal data is redacted too."""

    def __call__(self) -> list[Prepared]:
        """Return what became of each group, in order."""
        return [self._prepared(each) for each in self.groups]

    def _prepared(self, group: ReadGroup) -> Prepared:
        name, content_hash, parse = group
        try:
            passages = parse()
        except InputError as error:
            return Fault(group=name, reason=str(error).removeprefix(f"{name} "))
        texts: list[str] = []
        for each in passages:
            _mapped([each.title, each.description, each.content, each.data], texts.append)
        # All texts are redacted together, in a sixth of the time.
        cleaned = [clean(each) for each in texts]
        parts = redact(_DIVIDER.join(cleaned), pii=self.pii).text.split(_DIVIDER)
        if len(parts) != len(cleaned):  # a secret is spread over several texts
            parts = [redact(each, pii=self.pii).text for each in cleaned]
        safe = map(clean, parts)
        return StoredGroup(name, content_hash, tokenize(name), tuple(_stored(each, safe) for each in passages))


def _stored(passage: Passage, safe: Iterator[str]) -> StoredPassage:
    """Make a passage of its safe texts, which come in the order in which they were collected."""
    title, description, content = next(safe), next(safe), next(safe)
    data = _mapped(passage.data, lambda _: next(safe))
    assert isinstance(data, dict)
    kept = passage.model_copy(
        update={
            "title": shorten(title, MAX_TITLE_CHARS).strip() or passage.group,
            "description": shorten(description, MAX_DESCRIPTION_CHARS),
            "content": shorten(content, MAX_CONTENT_CHARS),
            "data": data,
        }
    )
    return StoredPassage(kept, None, tokenize(kept.title), tokenize(kept.description), tokenize(kept.content))


def _mapped(value: JsonValue, text: Callable[[str], str | None]) -> JsonValue:
    """Return JSON with what `text` makes of each text in it, in order, and None for each number that is not finite."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, list):
        return [_mapped(part, text) for part in value]
    if isinstance(value, dict):
        return {clean(name): _mapped(part, text) for name, part in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True, slots=True)
class ScoredPassage:
    """A candidate with its score."""

    candidate: PassageCandidate
    score: float
    """Relevance 0…1 among these candidates."""
    keyword: float | None


def vector_weight(calibrated: float, kind: SourceKind | None) -> float:
    """Return the vector leg's share in a search of one kind (None: of all), from the embedder's share for memories.

    The factors were chosen on one half of public data sets, with both embedders that ship.
    """
    return min(1.0, calibrated * _VECTOR_FACTOR.get(kind, _VECTOR_FACTOR_OF_OTHERS))


def score_passages(result: SourceResult, vector_weight: float) -> list[ScoredPassage]:
    """Return all candidates, best first.

    The keyword side is the BM25F of the passage's own fields and, with `CONTEXT_WEIGHT`, of its context: its
    neighbours, and the name of its file or server. The vector side is its cosine, raised towards that of its nearest
    neighbour by the same weight.
    """
    candidates = result.candidates
    places = {(each.group, each.position): each for each in candidates if each.kind in NEIGHBOURS}
    beside: dict[int, list[PassageCandidate]] = {}
    cosines: list[float | None] = []
    for each in candidates:
        reach = NEIGHBOURS.get(each.kind, 0)
        around = (places.get((each.group, each.position + step)) for step in range(-reach, reach + 1) if step)
        beside[each.seq] = [near for near in around if near is not None]
        nearest = max(-1.0 if near.cosine is None else near.cosine for near in (each, *beside[each.seq]))
        raised = None if each.cosine is None else (each.cosine + CONTEXT_WEIGHT * nearest) / (1.0 + CONTEXT_WEIGHT)
        cosines.append(raised)
    keywords = bm25f_scores(result, beside)
    ideal = ideal_keyword_score(result.documents, result.document_frequency)
    scores = scaled_fusion(cosines, keywords, ideal, vector_weight)
    scored: list[ScoredPassage] = []
    for candidate, score, keyword in zip(candidates, scores, keywords, strict=True):
        is_test = candidate.kind == "code" and "test" in candidate.group_name.split()
        if is_test and "test" not in result.document_frequency:
            score *= TEST_SHARE
        scored.append(ScoredPassage(candidate, min(1.0, max(0.0, score)), keyword))
    return sorted(scored, key=lambda each: (-each.score, each.candidate.seq))


def bm25f_scores(result: SourceResult, beside: Mapping[int, Sequence[PassageCandidate]]) -> list[float | None]:
    """Return the BM25F of each candidate: a token counts as often as it occurs in each field, times the field's weight.

    Robertson, Zaragoza, Taylor (2004), "Simple BM25 extension to multiple weighted fields", with the idf of
    keyword scores; a passage's length is weighted in the same way. None: no token in common.
    """
    import numpy as np

    documents, candidates = result.documents, result.candidates
    if not candidates:
        return []
    idf = {
        token: (BM25_K1 + 1) * math.log(1 + (documents - count + 0.5) / (count + 0.5))
        for token, count in result.document_frequency.items()
        if 0 < count <= documents
    }

    def counted(tokens: str) -> "NDArray[np.float64]":
        """Return how often each token of the query is in a text, and how many tokens it has."""
        found = Counter(tokens.split())
        return np.array([*(found[token] for token in idf), found.total()], dtype=np.float64)

    own = {
        each.seq: TITLE_WEIGHT * counted(each.title)
        + DESCRIPTION_WEIGHT * counted(each.description)
        + counted(each.content)
        for each in candidates
    }
    texts = np.array(
        [
            own[each.seq] + CONTEXT_WEIGHT * sum((own[near.seq] for near in beside[each.seq]), counted(each.group_name))
            for each in candidates
        ]
    )
    times, lengths = texts[:, :-1], texts[:, -1]
    k1, b = np.array([_SATURATION.get(each.kind, _SATURATION_OF_OTHERS) for each in candidates]).T
    shift = k1 * (1 - b + b * lengths / (lengths.mean() or 1.0))
    found = np.array([*idf.values()]) * times / (times + shift[:, None])
    return [sum(scores) or None for scores in found.tolist()]


Prepare: TypeAlias = Callable[[PreparationBatch], Awaitable[list[Prepared]]]
"""Runs a preparation, off the event loop."""


class _Indexing:
    """One indexing run over a source: which groups were known before, and what the run did."""

    def __init__(self, toolbox: Toolbox, key: SourceKey, known: dict[str, str], prepare: Prepare) -> None:
        self.toolbox = toolbox
        self.key = key
        self.known = known
        self.prepare = prepare
        self.seen: set[str] = set()
        self.done = Counter[str]()
        """How many groups were added, changed and unchanged, and how many passages were written."""
        self.faults: list[Fault] = []
        self.notices: list[str] = []
        self._read: list[ReadGroup] = []
        self._embedding_s = 0.0
        self.without_vector = 0

    async def take(self, group: ReadGroup) -> None:
        """Take in one group; a group whose hash is known is not parsed."""
        name, content_hash, _ = group
        if name in self.seen:
            self.faults.append(Fault(group=name, reason="a second group with this name was left out"))
        elif self.known.get(name) == content_hash:
            self.done["unchanged"] += 1
        else:
            self._read.append(group)
        self.seen.add(name)
        if len(self._read) >= GROUPS_TOGETHER * PREPARED_AT_ONCE:
            await self.work_off()

    async def work_off(self) -> None:
        """Prepare, embed and write what was taken in."""
        read, self._read = self._read, []
        pii = self.toolbox.settings.distill.redact_pii
        parts = [read[start : start + GROUPS_TOGETHER] for start in range(0, len(read), GROUPS_TOGETHER)]
        preparing = (self.prepare(PreparationBatch(tuple(part), pii)) for part in parts)
        prepared = await asyncio.gather(*preparing, return_exceptions=True)  # so that none still runs after one failed
        if failed := next((each for each in prepared if isinstance(each, BaseException)), None):
            raise failed
        batch: list[StoredGroup] = []
        for group in (group for part in prepared if isinstance(part, list) for group in part):
            if isinstance(group, Fault):
                self.faults.append(group)
                continue
            batch.append(group)
            if sum(len(each.passages) for each in batch) >= BATCH_PASSAGES:
                await self._write(batch)
                batch = []
        if batch:
            await self._write(batch)

    async def _write(self, groups: Sequence[StoredGroup]) -> None:
        """Embed the passages of groups, and write them."""
        texts = [each.passage.embedding_text for group in groups for each in group.passages]
        vectors = iter(await self._vectors(texts))
        filled = [
            group._replace(passages=tuple(each._replace(vector=next(vectors)) for each in group.passages))
            for group in groups
        ]
        await self.toolbox.store.sources.write_groups(self.key, filled, self.toolbox.embedder.name)
        self.done.update("changed" if group.name in self.known else "added" for group in groups)
        self.done["passages"] += len(texts)

    async def _vectors(self, texts: Sequence[str]) -> list[Vector | None]:
        """Embed texts, some hundreds at a time; what is left after `EMBEDDING_S` in total is left to a job."""
        embedder, vectors = self.toolbox.embedder, list[Vector | None]()
        while len(vectors) < len(texts) and self._embedding_s < EMBEDDING_S:
            began = time.perf_counter()
            try:
                vectors += await embed_batch(embedder, texts[len(vectors) : len(vectors) + BATCH_PASSAGES])
            except ModelError as error:
                why = f"the embedder {embedder.name} failed: {redact(str(error)).text}"
                self.notices.append(f"keywords only, because {why}; run `swarm-memory bank reembed`")
                break
            self._embedding_s += time.perf_counter() - began
        else:
            self.without_vector += len(texts) - len(vectors)
        return [*vectors, *[None] * (len(texts) - len(vectors))]

    async def finished(self) -> IndexingReport:
        """Remove the groups that the source no longer has, and report what was done; a source without any is removed.

        Vectors that there was no time for are left to a job.
        """
        store, key = self.toolbox.store.sources, self.key
        gone = [name for name in self.known if name not in self.seen]
        for start in range(0, len(gone), _REMOVED_AT_ONCE):
            self.done["removed"] += await store.remove_groups(key, gone[start : start + _REMOVED_AT_ONCE])
        reason = None
        if self.done["added"] or not self.seen.isdisjoint(self.known):
            await store.write_groups(key, [], self.toolbox.embedder.name)  # notes when it was indexed
        else:
            why = f"{len(self.faults)} found, none could be read" if self.faults else f"no {key.kind} was found there"
            reason = f"nothing from {key.location} is indexed: {why}"
            with suppress(NotFoundError):
                await store.remove(key)
        if self.without_vector:
            await self.toolbox.queue(REEMBED, BACKLOG)
            waiting = counted(self.without_vector, "passage")
            self.notices.append(
                f"{waiting} can be found only by keywords until a job, or `swarm-memory bank reembed`, is done"
            )
        return IndexingReport(
            kind=key.kind,
            location=key.location,
            reason=reason,
            faults=tuple(self.faults),
            notices=tuple(dict.fromkeys(self.notices)),
            **self.done,
        )


async def index_source(
    toolbox: Toolbox,
    kind: SourceKind,
    location: str,
    groups: AsyncIterable[ReadGroup],
    *,
    on_progress: Report | None = None,
    prepare: Prepare = asyncio.to_thread,
) -> IndexingReport:
    """Bring the index of one source up to date with all the groups that it now has.

    Groups whose hash is unchanged are left alone, and groups that are gone are removed. A group that cannot be parsed
    is a fault, and what was indexed of it before stays. A source that holds nothing is not kept, and the answer says
    why. If a run is stopped half way, what it wrote is whole and the next run goes on. Texts are redacted and cleaned
    before they are stored or embedded, in the thread or processes of `prepare`. Embedding that takes longer than
    `EMBEDDING_S` is left to a job, and a notice says so. Raises what iterating `groups` raises.
    """
    key = SourceKey(toolbox.scope, kind, location)
    run = _Indexing(toolbox, key, await toolbox.store.sources.groups(key), prepare)
    async for group in groups:
        await run.take(group)
        if on_progress is not None:
            await on_progress(Progress(done=len(run.seen), message=group[0]))
    await run.work_off()
    return await run.finished()


class SourceSearch(NamedTuple):
    """The answer of a search of sources."""

    hits: tuple[FoundPassage, ...]
    offset: int
    """How many better hits were skipped before these."""
    more: bool
    """Whether there are more hits after these."""
    passages: int
    """How many passages were searched."""
    reason: str | None
    """Why the answer is empty or weak."""
    legs: tuple[Leg, ...]
    embedder: str
    reranker: str | None
    """What put the best into their final order; None: the index alone."""
    notices: tuple[str, ...]


async def search_sources(
    toolbox: Toolbox, query: str, *, kind: SourceKind | None = None, k: int | None = None, offset: int = 0
) -> SourceSearch:
    """Find the passages that fit a query, best first: both legs are fused, context counts, the best are reranked.

    `kind` None searches all kinds. Where a reranker fails, a notice says so. Raises `InputError` for an empty query.
    """
    wanted = K if k is None else k
    text = redact_start(clean(query), MAX_QUERY_CHARS).strip()
    if not text:
        raise InputError("query is empty: say in a few words what you are looking for")
    notices: list[str] = []
    search = SearchQuery(
        scopes=toolbox.scope.readable(),
        embedder=toolbox.embedder.name,
        vector=next(iter(await embed_queries(toolbox, [text], notices)), None),
        tokens=query_tokens(text)[:MAX_QUERY_TOKENS],
        pool=max(_POOL_FACTOR * (offset + wanted), _POOL_FLOOR),
    )
    result = await toolbox.store.sources.search(search, SOURCE_KINDS if kind is None else (kind,), NEIGHBOURS)
    scored = score_passages(result, vector_weight(toolbox.embedder.fusion_weight, kind))
    top = scored[: max(RERANKED, offset + wanted)]
    near = toolbox.embedder.min_cosine
    unlikely = {each.candidate.seq: each.keyword is None and (each.candidate.cosine or 0.0) < near for each in top}
    scores = {each.candidate.seq: each.score for each in top}
    # What was removed since the search is left out.
    found = await toolbox.store.sources.get_passages(search.scopes, list(scores))
    hits = [each._replace(score=scores[each.seq], is_unlikely=unlikely[each.seq]) for each in found]
    setting = ("sources.reranker", toolbox.settings.sources.reranker)
    passages = [hit.passage for hit in hits[:RERANKED]]
    shown = [(each.title, each.group, f"{each.description}\n{each.content}".strip("\n")) for each in passages]
    is_called = kind in ("tool", "api")  # for the other kinds a chat model would have to read too much
    done = await rerank(toolbox, text, shown, TOOLS, setting, RERANK_TIMEOUT_S, may_chat=is_called)
    order = [
        hits[each.place]._replace(rerank_score=each.score, justification=each.justification) for each in done.ranked
    ]
    judged = {each.place for each in done.ranked}
    order += [hit for place, hit in enumerate(hits) if place not in judged]
    return SourceSearch(
        hits=tuple(order[offset : offset + wanted]),
        offset=offset,
        more=len(scored) > offset + wanted,
        passages=result.documents,
        reason=_reason(result, [unlikely[each.candidate.seq] for each in top[offset : offset + wanted]], kind),
        legs=result.legs,
        embedder=toolbox.embedder.name,
        reranker=done.reranker,
        notices=(*notices, *result.notices, *done.notices),
    )


def _reason(result: SourceResult, unlikely: Sequence[bool], kind: SourceKind | None) -> str | None:
    """Say why nothing, or nothing good, was found; `unlikely`: of each hit, whether it is unlikely to fit."""
    passages = counted(result.documents, "passage")
    if result.documents == 0:
        return f"no {kind + ' ' if kind else ''}source is indexed: use index_sources or `swarm-memory sources index`"
    if not unlikely:
        return f"no further match was found in {passages}"
    if all(unlikely):
        return f"none of {passages} shares a word with the query or is near it: these are guesses"
    return None
