"""Memory items in the bank: searched, read, written with their indexes, put aside, and counted by the day."""

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import InputError, NotFoundError, QuotaReached
from swarm_memory.schema.memory import Leg, MemoryItem, MemoryStatus
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.server.storage.engine.threads import BankThreads, reads, reads_beside, writes
from swarm_memory.server.storage.search.index import Index
from swarm_memory.server.storage.search.vectors import (
    Quantization,
    QueryVector,
    Space,
    check_vector,
    cosines,
    decode,
    encode,
    nearest_in,
    query_vector,
    unreachable_notice,
)
from swarm_memory.server.storage.search.words import (
    Narrowed,
    keyword_scores,
    match_any,
    matches,
    pack,
    packed,
    rarest,
    simply_counted_below,
    unpack,
    usable,
)
from swarm_memory.server.storage.stores.rows import (
    content_hash,
    event_of,
    find_scope,
    find_scopes,
    item_of,
    log_event,
    make_scope,
    pairs,
    pattern_row,
    to_json,
    to_moment,
    to_text,
)
from swarm_memory.tools.ports.journal import Event
from swarm_memory.tools.ports.memories import Candidate, DayLimit, MemoryFilter, SearchQuery, SearchResult, StoredMemory
from swarm_memory.tools.ports.models import Vector

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import Connection

_QUERIES, _BANK = queries("memories"), queries("bank")

_MAX_LEFT_OUT = 256
"""So many items of an excluded task are fetched too much and dropped; more are filtered within the search."""

_ALL = Narrowed({"domain": None, "tags": "[]", "exclude_task": None}, False, frozenset())

CREATED, EDITED = "reasoning_memory.created", "reasoning_memory.edited"


class Searched(NamedTuple):
    """A scope that holds active items, as a search sees it."""

    id: int
    active: int
    embedded: int
    """Active items with a vector in the query's space."""
    is_coded: bool
    counts: list[tuple[int, int]] | None
    """(place among the tokens, items that hold it); None where the scope is too large for counting them here."""


class Near(NamedTuple):
    """What was found by vectors."""

    documents: int
    unreachable: int
    """Active items without a vector in the query's space."""
    vector: QueryVector | None
    found: dict[int, float]
    """Cosines by position."""


class Keywords(NamedTuple):
    """What was found by keywords."""

    found: dict[int, float]
    """BM25 by position."""
    frequency: dict[str, int]
    """Of each token that was looked up, in how many items it stands."""


class SqliteMemories(BankThreads):
    """The memories of one bank."""

    async def search(self, query: SearchQuery) -> SearchResult:
        # By vectors and by keywords at once, each inside its scope by partition. Each statement sees the bank of its
        # own moment: what came or went between two is found by one of them, or left out.
        near, keywords = await asyncio.gather(self.near_items(query), self.matching_items(query))
        return await self.join(query, near, keywords)

    @reads
    def near_items(self, connection: "Connection", query: SearchQuery) -> Near:
        """Return the pool of the nearest items of every scope. Raises `StorageError` for an unsound query vector."""
        return _near(connection, self.index, query)

    @reads_beside
    def matching_items(self, connection: "Connection", query: SearchQuery) -> Keywords:
        """Return the pool of the best keyword matches of every scope."""
        tokens = usable(query.tokens)
        scopes = _look(connection, query, tokens)[1] if tokens else []
        frequency = dict.fromkeys(tokens, 0)
        expressions: list[str] = []
        for scope in scopes:
            counts = scope.counts
            if counts is None:
                counts = self.index.term_counts.count(connection, _QUERIES, scope.id, scope.active, tokens)
            for place, items in counts:
                frequency[tokens[place]] += min(items, scope.active)
            if words := rarest(tokens, counts):
                expressions.append(match_any(scope.id, words))
        narrowed = _filter(connection, query, scopes)
        return Keywords(matches(connection, _QUERIES, expressions, narrowed, query.pool), frequency)

    @reads
    def join(self, connection: "Connection", query: SearchQuery, near: Near, keywords: Keywords) -> SearchResult:
        """Return the union of both pools; what is no longer active by now is left out."""
        return SearchResult(
            candidates=_candidates(connection, near, keywords),
            legs=_legs(self.index, query, near.vector, keywords),
            documents=near.documents,
            document_frequency=keywords.frequency,
            notices=tuple(unreachable_notice(self.index, near.vector, query.embedder, near.unreachable, "memories")),
        )

    @reads
    def nearest(
        self, connection: "Connection", scopes: Sequence[Scope], embedder: str, vector: Vector, k: int
    ) -> list[tuple[str, float]]:
        asked = query_vector(connection, self.index, embedder, vector)
        if asked is None:
            return []
        found = nearest_in(connection, self.index, asked, list(find_scopes(connection, scopes)), _ALL, k)
        best = sorted(found.items(), key=lambda pair: -pair[1])[:k]
        ids = dict(connection.execute(_QUERIES["ids_of_patterns"], (to_json([seq for seq, _ in best]),)).fetchall())
        return [(ids[seq], cosine) for seq, cosine in best]

    @reads
    def get_memories(self, connection: "Connection", scopes: Sequence[Scope], ids: Sequence[str]) -> list[MemoryItem]:
        values = {"ids": to_json(list(ids)), "scopes": pairs(scopes)}
        return [item_of(row) for row in connection.execute(_QUERIES["get_patterns"], values).fetchall()]

    @reads
    def list_memories(self, connection: "Connection", scopes: Sequence[Scope], which: MemoryFilter) -> list[MemoryItem]:
        if which.limit < 1 or which.offset < 0:
            raise InputError("limit must be at least 1 and offset at least 0")
        values = {
            "scopes": pairs(scopes),
            "statuses": to_json(list(which.statuses)),
            "domain": which.domain,
            "task_id": which.task_id,
            "tags": to_json(list(which.tags)),
            "text": which.text.casefold() if which.text else None,
            "limit": which.limit,
            "offset": which.offset,
        }
        return [item_of(row) for row in connection.execute(_QUERIES["list_patterns"], values).fetchall()]

    @writes
    def add_memories(
        self,
        connection: "Connection",
        memories: Sequence[StoredMemory],
        embedder: str,
        limit: DayLimit | None = None,
    ) -> list[str]:
        writer = MemoryWriter(connection, self, embedder)
        new = [memory.item for memory in memories if writer.add(memory)]
        if limit is not None:
            for scope, count in Counter(item.scope for item in new).items():
                count_added(connection, make_scope(connection, scope), count, limit.new_per_day, limit.at)
        return [item.id for item in new]

    @reads
    def added_on(self, connection: "Connection", scope: Scope, at: datetime) -> int:
        return added_on(connection, scope, at)

    @writes
    def replace_memory(self, connection: "Connection", memory: StoredMemory, embedder: str, reason: str) -> None:
        MemoryWriter(connection, self, embedder).replace(memory, reason)
        self.index.tidy(connection)

    @writes
    def set_status(
        self,
        connection: "Connection",
        scopes: Sequence[Scope],
        ids: Sequence[str],
        status: MemoryStatus,
        reason: str,
    ) -> int:
        changed = [row for row in find_patterns(connection, scopes, ids) if row[3] != status]
        for row in changed:
            change_status(connection, self.index, row, status, reason)
        self.index.tidy(connection)
        return len(changed)

    @reads
    def memory_history(self, connection: "Connection", scopes: Sequence[Scope], memory_id: str) -> list[Event]:
        values = {"subject_id": memory_id, "scopes": pairs(scopes)}
        return [event_of(row) for row in connection.execute(_QUERIES["events_of"], values).fetchall()]

    @reads
    def memory_histories(
        self, connection: "Connection", scopes: Sequence[Scope], ids: Sequence[str], kinds: Sequence[str]
    ) -> dict[str, list[Event]]:
        values = {"subject_ids": to_json(list(ids)), "scopes": pairs(scopes), "kinds": to_json(list(kinds))}
        found: dict[str, list[Event]] = {subject: [] for subject in ids}
        for row in connection.execute(_QUERIES["events_of_kinds"], values).fetchall():
            found[row[2]].append(event_of(row))
        return found


class MemoryWriter:
    """Writes items for one embedder: its vectors go into the space of its name and their dimensions."""

    def __init__(self, connection: "Connection", bank: BankThreads, embedder: str) -> None:
        self._connection = connection
        self._index = bank.index
        self._embedder = embedder
        self._quantization: Quantization = bank.quantization_of(embedder)
        self._now = to_text(datetime.now(UTC))

    def add(self, memory: StoredMemory) -> bool:
        """Write a new item with its indexes; False when its id is there already."""
        scope_id = make_scope(self._connection, memory.item.scope)
        row = pattern_row(memory.item, scope_id, self._now)
        cursor = self._connection.execute(_QUERIES["add_pattern"], row)
        if cursor.rowcount == 0:
            return False
        assert cursor.lastrowid is not None
        self._fill(cursor.lastrowid, scope_id, memory)
        source = memory.item.provenance
        origin = {"run_id": source.run_id, "task_id": source.task_id}
        known = {name: value for name, value in origin.items() if value is not None}
        log_event(self._connection, scope_id, CREATED, memory.item.id, known)
        return True

    def replace(self, memory: StoredMemory, reason: str) -> None:
        """Write a changed item and its indexes; its former text goes into an event.

        Raises `NotFoundError` when it is not there.
        """
        item = memory.item
        scope_id = find_scope(self._connection, item.scope)
        found = self._connection.execute(_QUERIES["find_pattern"], (item.id, scope_id)).fetchone()
        if scope_id is None or found is None:
            raise NotFoundError(f"there is no memory {item.id!r} in project {item.scope.project!r}")
        seq, status, data, confidence = found
        if status == "active":
            self._index.leave(self._connection, seq, scope_id)
        self._connection.execute(_QUERIES["delete_vectors"], (seq,))
        self._connection.execute(_QUERIES["delete_tags"], (seq,))
        self._connection.execute(_QUERIES["update_pattern"], {**pattern_row(item, scope_id, self._now), "seq": seq})
        self._fill(seq, scope_id, memory)
        before = {"pattern_data": data, "confidence": confidence, "status": status, "reason": reason}
        log_event(self._connection, scope_id, EDITED, item.id, before)

    def _fill(self, seq: int, scope_id: int, memory: StoredMemory) -> None:
        """Write tags, tokens and vector of an item and enter it into the indexes when it is active."""
        for tag in memory.item.tags:
            self._connection.execute(_QUERIES["add_tag"], (seq, tag))
        tokens = pack(memory.title_tokens, memory.description_tokens, memory.content_tokens)
        self._connection.execute(_QUERIES["put_tokens"], (seq, tokens))
        if memory.vector is not None:
            space = self._index.make_space(self._connection, self._embedder, len(memory.vector), self._quantization)
            self._index.put_vector(self._connection, seq, memory.vector, space, self._now)
        if memory.item.status == "active":
            self._index.enter(self._connection, seq, scope_id)


def damaged(connection: "Connection") -> list[str]:
    """Return the ids of items whose text is not what was written: SQLite itself would not notice."""
    rows = connection.execute(_QUERIES["pattern_hashes"])
    return [item_id for item_id, data, written in rows.fetchall() if content_hash(item_id, data) != written]


def change_status(
    connection: "Connection", index: Index, found: tuple[int, str, int, str], status: MemoryStatus, reason: str
) -> None:
    """Change the status of one item, given as (seq, id, scope id, former status)."""
    seq, item_id, scope_id, former = found
    if former == "active":
        index.leave(connection, seq, scope_id)
    now = to_text(datetime.now(UTC))
    connection.execute(_BANK["set_status"], (status, reason, now, seq))
    if status == "active":
        index.enter(connection, seq, scope_id)
    log_event(connection, scope_id, f"reasoning_memory.{status}", item_id, {"from": former, "reason": reason})


def pack_tokens(connection: "Connection", after: int, limit: int) -> int | None:
    """Pack the tokens of so many items after a position that an older version kept as text; return the last position.

    None: there was none.
    """
    rows = connection.execute(_QUERIES["unpacked_tokens"], (after, limit)).fetchall()
    connection.executemany(_QUERIES["put_tokens"], ((seq, packed(fields)) for seq, fields in rows))
    return rows[-1][0] if rows else None


def find_patterns(
    connection: "Connection", scopes: Sequence[Scope], ids: Sequence[str]
) -> list[tuple[int, str, int, str]]:
    """Return (seq, id, scope id, status) of those items that exist in the scopes."""
    values = {"ids": to_json(list(dict.fromkeys(ids))), "scopes": pairs(scopes)}
    return connection.execute(_QUERIES["find_patterns"], values).fetchall()


def added_on(connection: "Connection", scope: Scope, at: datetime) -> int:
    """Return how much was added on the day of a moment, in UTC."""
    scope_id = find_scope(connection, scope)
    return 0 if scope_id is None else _added(connection, scope_id, _day(at))


def count_added(connection: "Connection", scope_id: int, added: int, limit: int, at: datetime) -> None:
    """Count what is being added. Raises `QuotaReached` when the day's limit does not hold it: nothing is written."""
    total = _added(connection, scope_id, _day(at)) + added
    if total > limit:
        raise QuotaReached(limit)
    connection.execute(_QUERIES["put_added"], {"scope_id": scope_id, "value": f"{_day(at)} {total}"})


def _added(connection: "Connection", scope_id: int, day: str) -> int:
    row = connection.execute(_QUERIES["added"], (scope_id,)).fetchone()
    counted_on, _, count = row[0].partition(" ") if row else ("", "", "")
    return int(count) if counted_on == day else 0


def _day(at: datetime) -> str:
    return to_text(at)[:10]


def _near(connection: "Connection", index: Index, query: SearchQuery) -> Near:
    if query.vector is not None:
        check_vector(query.vector, len(query.vector), query.embedder)
    space, scopes = _look(connection, query, ())
    documents = sum(scope.active for scope in scopes)
    if query.vector is None:
        return Near(documents, 0, None, {})
    unreachable = documents - sum(scope.embedded for scope in scopes)
    if space is None:
        return Near(documents, unreachable, None, {})
    vector = QueryVector(space, encode(query.vector, space.quantization), index.searchable and not space.stale)
    coded = {scope.id for scope in scopes if scope.is_coded}
    try:
        narrowed = _filter(connection, query, scopes)
        ids = [scope.id for scope in scopes]
        found = nearest_in(connection, index, vector, ids, narrowed, query.pool, coded)
    except connection.OperationalError:
        if _look(connection, query, ())[0] == space:
            raise
        return _near(connection, index, query)  # another process dropped the space meanwhile
    return Near(documents, unreachable, vector, found)


def _look(connection: "Connection", query: SearchQuery, tokens: Sequence[str]) -> tuple[Space | None, list[Searched]]:
    """Return the space of the query's vector and the scopes that hold active items."""
    values = {
        "scopes": pairs(query.scopes),
        "model": query.embedder,
        "dims": 0 if query.vector is None else len(query.vector),
        "tokens": to_json(list(tokens)),
        "most": simply_counted_below() if tokens else 0,
    }
    rows = connection.execute(_QUERIES["searched_scopes"], values).fetchall()
    space = None if rows[0][0] is None else Space(*rows[0][:6])
    scopes = [
        Searched(scope_id, active, embedded, bool(is_coded), None if counts is None else json.loads(counts))
        for *_, scope_id, active, embedded, is_coded, counts in rows
        if active
    ]
    return space, scopes


def _filter(connection: "Connection", query: SearchQuery, scopes: Sequence[Searched]) -> Narrowed:
    only, left_out = query.only, frozenset[int]()
    exclude_task = only.exclude_task
    if exclude_task is not None:
        asked = (exclude_task, to_json([scope.id for scope in scopes]))
        left_out = frozenset(seq for (seq,) in connection.execute(_QUERIES["active_of_task"], asked).fetchall())
        if len(left_out) <= _MAX_LEFT_OUT:
            exclude_task = None
    narrows = only.domain is not None or bool(only.tags) or exclude_task is not None
    return Narrowed(
        {"domain": only.domain, "tags": to_json(list(only.tags)), "exclude_task": exclude_task}, narrows, left_out
    )


def _candidates(connection: "Connection", near: Near, keywords: Keywords) -> tuple[Candidate, ...]:
    vector = near.vector
    seqs = [*near.found, *(seq for seq in keywords.found if seq not in near.found)]
    by_distance = vector is not None and vector.by_index
    values: dict[str, Any] = {
        "seqs": to_json(seqs),
        "model": vector.space.model if vector else "",
        "dims": vector.space.dims if vector else 0,
    }
    if vector is not None and by_distance:
        values |= {"first_unknown": len(near.found), "vector": vector.encoded}
        rows = connection.execute(vector.space.sql(_QUERIES["candidates"]), values).fetchall()
    else:
        rows = connection.execute(_QUERIES["candidates_without_distance"], values).fetchall()
    known = dict(near.found)
    if vector is not None and not by_distance:
        others = [(row[0], row[2]) for row in rows if row[2] is not None and row[0] not in near.found]
        compared = cosines(vector.encoded, [blob for _, blob in others], vector.space.quantization)
        known |= zip((seq for seq, _ in others), compared, strict=True)
    quantization = vector.space.quantization if vector else "float32"
    scored = keyword_scores(near.documents, keywords.frequency, [unpack(row[1]) for row in rows])
    return tuple(
        Candidate(
            id=item[0],
            project=item[2],
            confidence=item[4],
            created_at=to_moment(item[6]),
            cosine=known.get(seq) if distance is None else 1.0 - distance,
            keyword=score,
            words=words,
            read_item=partial(item_of, item),
            read_vector=partial(_decoded, blob, quantization),
        )
        for (seq, _, blob, distance, *item), (score, words) in zip(rows, scored, strict=True)
    )


def _decoded(blob: bytes | None, quantization: Quantization) -> Vector | None:
    return None if blob is None else decode(blob, quantization)


def _legs(index: Index, query: SearchQuery, vector: QueryVector | None, keywords: Keywords) -> tuple[Leg, ...]:
    legs: list[Leg] = []
    if query.vector is not None:
        by_index = index.searchable if vector is None else vector.by_index
        legs.append("vector" if by_index else "exact_scan")
    if keywords.frequency:
        legs.append("keyword")
    return tuple(legs)
