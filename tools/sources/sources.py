"""Index sources and search them: what a reader gives becomes passages with their indexes, and passages become hits.

Files, servers and formats are the readers' business; where passages are kept is the store's.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterable, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from swarm_memory.schema.base import counted
from swarm_memory.schema.errors import InputError, ModelError, NotFoundError
from swarm_memory.schema.job import Progress, Report
from swarm_memory.schema.source import SOURCE_KINDS, Fault, IndexedSource, SourceHit, SourceKind, SourceSearch
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.ports.models import Vector
from swarm_memory.tools.ports.sources import FoundPassage, ReadGroup, SourceKey, SourceQuery, SourceResult, StoredGroup
from swarm_memory.tools.retrieve.embed import BACKLOG, REEMBED, embed_batch
from swarm_memory.tools.retrieve.query import embed_query
from swarm_memory.tools.sources.prepare import Preparation, Prepared
from swarm_memory.tools.sources.rank import NEIGHBOURS, ScoredPassage, score_passages, vector_weight
from swarm_memory.tools.sources.rerank import RERANKED, rerank
from swarm_memory.tools.text.cleaning import clean
from swarm_memory.tools.text.tokens import query_tokens
from swarm_memory.tools.toolbox import Toolbox

K, MAX_K, MAX_OFFSET = 5, 50, 1000
MAX_QUERY_CHARS = 20_000
MAX_QUERY_TOKENS = 512
BATCH_PASSAGES = 512
"""So many passages are embedded and written at once; other writers wait for that."""

GROUPS_AT_ONCE, PREPARED_AHEAD = 16, 4
"""So many groups are prepared together, and so many such lots beside the one that is waited for."""

EMBEDDING_S = 20.0
"""A model takes so long for some thousands of passages; those after them are found by keywords first."""

Prepare: TypeAlias = Callable[[Preparation], Awaitable[list[Prepared]]]
"""Runs a preparation, off the event loop."""

_POOL_FACTOR, _POOL_FLOOR = 5, 100
_REMOVED_AT_ONCE = 200


class _Indexing:
    """One run over a source: what it found known, and what it did.

    Groups are read, prepared and written at the same time: some are prepared ahead, by whatever `prepare` runs them in,
    while those before are embedded and the ones before these are written.
    """

    def __init__(self, toolbox: Toolbox, key: SourceKey, known: dict[str, str], prepare: Prepare) -> None:
        self.toolbox = toolbox
        self.key = key
        self.known = known
        self.prepare = prepare
        self.seen: set[str] = set()
        self.added = self.changed = self.unchanged = self.passages = 0
        self.faults: list[Fault] = []
        self.notices: dict[str, None] = {}
        self._read: list[ReadGroup] = []
        self._preparing: deque[asyncio.Task[list[Prepared]]] = deque()
        self._batch: list[StoredGroup] = []
        self._writing: asyncio.Task[None] | None = None
        self._embedding_s = 0.0
        self.without_vector = 0

    async def take(self, group: ReadGroup) -> None:
        """Take in one group; what is known by its hash is not parsed."""
        name, content_hash, _ = group
        if name in self.seen:
            self.faults.append(Fault(group=name, reason="a second group of this name was left out"))
            return
        self.seen.add(name)
        if self.known.get(name) == content_hash:
            self.unchanged += 1
            return
        self._read.append(group)
        if len(self._read) >= GROUPS_AT_ONCE:
            self._begin()
            while len(self._preparing) > PREPARED_AHEAD:
                await self._collect()

    async def flush(self) -> None:
        """Prepare, embed and write what is waiting."""
        self._begin()
        while self._preparing:
            await self._collect()
        await self._embed()
        await self._written()

    async def stop(self) -> None:
        """End what is under way, where the run ends before its time."""
        under_way: list[asyncio.Task[Any]] = [*self._preparing, *filter(None, [self._writing])]
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)

    def _begin(self) -> None:
        if self._read:
            preparation = Preparation(tuple(self._read), self.toolbox.settings.distill.redact_pii)
            self._preparing.append(asyncio.ensure_future(self.prepare(preparation)))
            self._read.clear()

    async def _collect(self) -> None:
        for group in await self._preparing[0]:
            if isinstance(group, Fault):
                self.faults.append(group)
                continue
            self._batch.append(group)
            if sum(len(each.passages) for each in self._batch) >= BATCH_PASSAGES or len(self._batch) >= BATCH_PASSAGES:
                await self._embed()
        self._preparing.popleft()

    async def _embed(self) -> None:
        """Give the passages of the batch their vectors, and write it as soon as the one before is written."""
        groups, self._batch = self._batch, []
        if not groups:
            return
        vectors = iter(
            await self._vectors([each.passage.embedding_text for group in groups for each in group.passages])
        )
        filled = [
            group._replace(passages=tuple(each._replace(vector=next(vectors)) for each in group.passages))
            for group in groups
        ]
        await self._written()
        self._writing = asyncio.ensure_future(self._write(filled))

    async def _vectors(self, texts: Sequence[str]) -> list[Vector | None]:
        """Embed texts; what would take longer than `EMBEDDING_S` in all is left to a job."""
        embedder = self.toolbox.embedder
        if self._embedding_s >= EMBEDDING_S:
            self.without_vector += len(texts)
            return [None] * len(texts)
        began = time.perf_counter()
        try:
            return await embed_batch(embedder, texts) if texts else []
        except ModelError as error:
            reason = redact(str(error)).text
            told = (
                f"keywords only, because the embedder {embedder.name} failed: {reason}; run `swarm-memory bank reembed`"
            )
            self.notices[told] = None
            return [None] * len(texts)
        finally:
            self._embedding_s += time.perf_counter() - began

    async def _write(self, groups: Sequence[StoredGroup]) -> None:
        await self.toolbox.store.sources.write_groups(self.key, groups, self.toolbox.embedder.name)
        for group in groups:
            self.added += group.name not in self.known
            self.changed += group.name in self.known
            self.passages += len(group.passages)

    async def _written(self) -> None:
        if self._writing is not None:
            await self._writing
            self._writing = None

    async def remove_gone(self) -> int:
        """Remove the groups that the source no longer has."""
        gone = [name for name in self.known if name not in self.seen]
        removed = 0
        for start in range(0, len(gone), _REMOVED_AT_ONCE):
            batch = gone[start : start + _REMOVED_AT_ONCE]
            removed += await self.toolbox.store.sources.remove_groups(self.key, batch)
        return removed

    @property
    def holds_any(self) -> bool:
        """Whether the source has a group that is indexed, now or from before."""
        return self.added > 0 or not self.seen.isdisjoint(self.known)

    async def settle(self) -> None:
        """Note that the source was looked at; of one that holds nothing leave no trace."""
        store = self.toolbox.store.sources
        if self.holds_any:
            await store.write_groups(self.key, [], self.toolbox.embedder.name)
        else:
            with suppress(NotFoundError):
                await store.remove(self.key)

    async def leave_vectors(self) -> None:
        """Queue the job that makes the vectors that there was no time for, and say so."""
        if self.without_vector:
            await self.toolbox.queue(REEMBED, BACKLOG)
            waiting = counted(self.without_vector, "passage")
            told = f"{waiting} found by keywords alone until a job, or `swarm-memory bank reembed`, is done"
            self.notices[told] = None

    def reason(self) -> str | None:
        """Say why nothing is indexed."""
        if self.holds_any:
            return None
        if self.faults:
            return f"nothing of {self.key.location} is indexed: {len(self.faults)} found, none could be read"
        return f"nothing of {self.key.location} is indexed: no {self.key.kind} was found there"


async def index_source(
    toolbox: Toolbox,
    kind: SourceKind,
    location: str,
    groups: AsyncIterable[ReadGroup],
    *,
    on_progress: Report | None = None,
    prepare: Prepare = asyncio.to_thread,
) -> IndexedSource:
    """Bring the index of one source up to date with all the groups that it now has.

    What is unchanged by its hash is left alone, what is gone is removed; of a group that cannot be parsed what was
    indexed before stays, and it is told as a fault. A source that holds nothing is not kept, and the answer says why.
    Stopped half way, what was written is whole and the next run goes on. Texts are redacted and cleaned before they are
    stored or embedded, in what `prepare` runs it in: a thread, or processes. Vectors that take longer than
    `EMBEDDING_S` are left to a job, and told. Raises what iterating `groups` raises.
    """
    key = SourceKey(toolbox.scope, kind, location)
    run = _Indexing(toolbox, key, await toolbox.store.sources.groups(key), prepare)
    try:
        async for group in groups:
            await run.take(group)
            if on_progress is not None:
                await on_progress(Progress(done=len(run.seen), message=group[0]))
        await run.flush()
    finally:
        await run.stop()
    removed = await run.remove_gone()
    await run.settle()
    await run.leave_vectors()
    return IndexedSource(
        kind=kind,
        location=location,
        added=run.added,
        changed=run.changed,
        unchanged=run.unchanged,
        removed=removed,
        passages=run.passages,
        reason=run.reason(),
        faults=tuple(run.faults),
        notices=tuple(run.notices),
    )


async def search_sources(
    toolbox: Toolbox,
    query: str,
    *,
    kind: SourceKind | None = None,
    k: int | None = None,
    offset: int = 0,
    project: str | None = None,
) -> SourceSearch:
    """Find the passages that fit a query, best first: both legs fused, their context counted, the best reranked.

    `kind` None searches all. Raises `InputError` for an empty query, a `k` outside 1…50 or an offset outside 0…1000.
    """
    started = time.perf_counter()
    wanted = K if k is None else k
    text = _checked(query, wanted, offset)
    notices: list[str] = []
    search = SourceQuery(
        scopes=toolbox.in_project(project).scope.readable(),
        kinds=SOURCE_KINDS if kind is None else (kind,),
        embedder=toolbox.embedder.name,
        vector=await embed_query(toolbox, text, notices),
        tokens=query_tokens(text)[:MAX_QUERY_TOKENS],
        pool=max(_POOL_FACTOR * (offset + wanted), _POOL_FLOOR),
        neighbours=NEIGHBOURS,
    )
    result = await toolbox.store.sources.search(search)
    scored = score_passages(result, vector_weight(toolbox.embedder.fusion_weight, kind))
    top = scored[: max(RERANKED, offset + wanted)]
    hits = await _hits(toolbox, search, top)
    ranked = await rerank(toolbox, text, hits, kind)
    return SourceSearch(
        hits=tuple(ranked.hits[offset : offset + wanted]),
        offset=offset,
        more=len(scored) > offset + wanted,
        passages=result.passages,
        reason=_reason(result, top[offset : offset + wanted], toolbox.embedder.min_cosine, kind),
        legs=result.legs,
        embedder=toolbox.embedder.name,
        reranker=ranked.reranker,
        notices=(*notices, *result.notices, *ranked.notices),
        latency_ms=(time.perf_counter() - started) * 1000,
    )


def _checked(query: str, k: int, offset: int) -> str:
    text = redact(clean(query[:MAX_QUERY_CHARS])).text.strip()
    if not text:
        raise InputError("query is empty: say in a few words what is wanted")
    if not 1 <= k <= MAX_K:
        raise InputError(f"k is {k}: it must be from 1 to {MAX_K}")
    if not 0 <= offset <= MAX_OFFSET:
        raise InputError(f"offset is {offset}: it must be from 0 to {MAX_OFFSET}")
    return text


async def _hits(toolbox: Toolbox, search: SourceQuery, top: Sequence[ScoredPassage]) -> list[SourceHit]:
    """Fetch the best; what was removed since the search is left out."""
    by_seq = {each.candidate.seq: each for each in top}
    found = await toolbox.store.sources.get_passages(search.scopes, list(by_seq))
    return [_hit(each, by_seq[each.seq]) for each in found]


def _hit(found: FoundPassage, scored: ScoredPassage) -> SourceHit:
    return SourceHit(
        passage=found.passage,
        location=found.location,
        project=found.project,
        score=scored.score,
        cosine=scored.candidate.cosine,
        keyword=scored.keyword,
        group_title=found.group_title,
        before=found.before,
        after=found.after,
    )


def _reason(
    result: SourceResult, shown: Sequence[ScoredPassage], min_cosine: float, kind: SourceKind | None
) -> str | None:
    """Say why nothing, or nothing good, was found."""
    what = "source" if kind is None else f"{kind} source"
    if result.passages == 0:
        return f"no {what} is indexed yet: index_sources, or `swarm-memory sources index`"
    if not shown:
        return f"no other of {counted(result.passages, 'passage')} was found"
    if all(each.keyword is None and (each.candidate.cosine or 0.0) < min_cosine for each in shown):
        passages = counted(result.passages, "passage")
        return f"none of {passages} shares a word with the query or is near it: these are guesses"
    return None
