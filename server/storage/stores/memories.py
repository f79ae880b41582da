"""Memory items in the bank: searching, reading, writing with their indexes, changes of status, daily counts."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any
from unicodedata import normalize

from swarm_memory.schema.base import GLOBAL_PROJECT, Scope
from swarm_memory.schema.errors import InputError, QuotaReached
from swarm_memory.schema.job import Job
from swarm_memory.schema.memory import FIX, OPEN_PROBLEM, MemoryItem, MemoryLink, MemoryStatus
from swarm_memory.schema.sqlite.events import TRIED
from swarm_memory.server.storage.driver import Connection
from swarm_memory.server.storage.engine.engine import Engine, reads, writes
from swarm_memory.server.storage.search import words
from swarm_memory.server.storage.search.index import Index
from swarm_memory.server.storage.search.vectors import (
    Quantization,
    Search,
    SearchHits,
    decode,
    kept_cosines,
    view_cosines,
)
from swarm_memory.server.storage.stores.jobs import write_job
from swarm_memory.server.storage.stores.rows import (
    Queries,
    content_hash,
    event_row,
    events,
    find_scope,
    item_of,
    log_event,
    make_scope,
    now_text,
    pattern_row,
    to_column,
    to_json,
    to_moment,
    to_text,
)
from swarm_memory.tools.anchors.handles import handles_of
from swarm_memory.tools.ports.memories import (
    Candidate,
    KnownFix,
    MemoryFilter,
    SearchFilter,
    SearchQuery,
    SearchResult,
    StoredMemory,
)
from swarm_memory.tools.ports.models import Vector
from swarm_memory.tools.ports.records import BankEvent
from swarm_memory.tools.text.tokens import tokenize

_SQL, _BANK, _FIXES, _HANDLES = Queries("memories"), Queries("bank"), Queries("fixes"), Queries("handles")

_MOST_FIXES = 20

_FIX, _OPEN_PROBLEM = f'"{FIX}"', f'"{OPEN_PROBLEM}"'
"""The tags of items distilled from calls, as they appear in an item's JSON; within a text, quotes are escaped."""

CREATED, EDITED = "reasoning_memory.created", "reasoning_memory.edited"


class Memories(Engine):
    """The memories of one bank."""

    @reads
    def search(self, connection: Connection, query: SearchQuery) -> SearchResult:
        """Return the union of both legs' pools, without what is no longer active."""
        search = Search(self.index, query, {"scopes": to_json(query.scopes)}, partial(_narrowed, query.only))
        found = search.run(connection)
        model, dims = (found.vector.space.model, found.vector.space.dims) if found.vector else ("", 0)
        seqs = list(dict.fromkeys([*found.near, *found.matching]))
        rows = _SQL.rows(connection, "candidates", seqs=seqs, model=model, dims=dims)
        return answer_of(connection, search, found, rows, kept_cosines(found.vector, [row[2] for row in rows]))

    async def nearest(self, scopes: Sequence[Scope], embedder: str, vector: Vector, k: int) -> list[tuple[str, float]]:
        """Return (id, cosine) of the nearest active items, nearest first."""
        found = await self.search(SearchQuery(tuple(scopes), embedder, vector, (), k))
        near = [(each.id, each.cosine) for each in found.candidates if each.cosine is not None]
        return sorted(near, key=lambda pair: -pair[1])[:k]

    @reads
    def get_memories(self, connection: Connection, scopes: Sequence[Scope], ids: Sequence[str]) -> list[MemoryItem]:
        """Return those that exist in the scopes, in the order of `ids`, whatever their status."""
        return items_at(connection, scopes, ids)

    @reads
    def list_memories(self, connection: Connection, scopes: Sequence[Scope], which: MemoryFilter) -> list[MemoryItem]:
        if which.limit < 1 or which.offset < 0:
            raise InputError("limit must be at least 1 and offset at least 0")
        values = which._asdict() | {"scopes": scopes, "text": which.text.casefold() if which.text else None}
        return [item_of(row) for row in _SQL.rows(connection, "list_patterns", **values)]

    @reads
    def said(self, connection: Connection, scope: Scope, content: str) -> list[MemoryItem]:
        """Return what the user said, active or quarantined, whose content is the same in NFKC, ignoring case.

        Agents' notes of it follow, the newest first.
        """
        expression = words.match_all(find_scope(connection, scope) or 0, tokenize(content.lower()))
        values = {"scope_id": scope, "characters": len(content), "words": expression}
        texts = dict(_SQL.rows(connection, "said_in_as_many_characters", **values))
        wanted, *others = _folded(content, *texts.values())
        ids = [memory_id for memory_id, text in zip(texts, others, strict=True) if text == wanted]
        same = items_at(connection, (scope,), ids)
        noted = [item for item in same if item.provenance.heard_in and not item.provenance.is_users_word]
        noted.sort(key=lambda item: item.created_at, reverse=True)
        return [*(item for item in same if item.provenance.is_users_word), *noted]

    @reads
    def state_of_memories(self, connection: Connection, scope: Scope) -> str:
        """Return a value that changes whenever a memory of the scope does."""
        return str(_SQL.row(connection, "state_of_patterns", scope_id=scope)[0])

    @reads
    def memory_links(self, connection: Connection, scopes: Sequence[Scope], ids: Sequence[str]) -> list[MemoryLink]:
        """Return every link from or to one of these memories of the scopes."""
        return _SQL.models(connection, MemoryLink, "links_of", scopes=scopes, ids=ids)

    @reads
    def called_for(
        self, connection: Connection, scopes: Sequence[Scope], handles: Sequence[str] | Mapping[str, float], limit: int
    ) -> list[MemoryItem]:
        """Return the active items of these scopes that some handles call for, none of suspect wording.

        What the user said comes first, then items of the first scope's project, the surest first. A handle that is
        given with a number counts only if it calls for at least that many items.
        """
        least = handles if isinstance(handles, Mapping) else dict.fromkeys(handles, 0)
        values = {"handles": list(least.items()), "scopes": scopes, "limit": limit, "project": scopes[0].project}
        return items_at(connection, scopes, _HANDLES.column(connection, "called_for", **values))

    @reads
    def known_fixes(
        self, connection: Connection, scope: Scope, signatures: Sequence[str] = (), *, beside: Sequence[str] = ()
    ) -> list[KnownFix]:
        """Return the active memories of the project and the global scope that ended such errors, the surest first.

        `beside`: ids of memories; also return those that ended the same errors as these.
        """
        values = {**_place(scope), **_team_names(connection, scope), "limit": _MOST_FIXES, "tried": TRIED}
        asked = [*signatures, *_FIXES.column(connection, "signatures_of", ids=beside)]
        ended = {*_FIXES.column(connection, "signatures_ended", ids=asked)}
        return [
            KnownFix(signature, *row)
            for signature in dict.fromkeys(asked)
            if signature in ended  # most errors are new
            for row in _FIXES.rows(connection, "fixes", **values, signature=signature)
        ]

    @reads
    def candidates(self, connection: Connection, scope: Scope, signatures: Sequence[str]) -> list[tuple[str, str]]:
        """Return (signature, id) of the candidates that ended errors of these signatures, the newest first."""
        return _FIXES.rows(connection, "candidates", scope_id=scope, signatures=signatures)

    @reads
    def surest_memories(self, connection: Connection, scope: Scope, limit: int) -> list[MemoryItem]:
        """Return what the user said and the surest memories, of the project and of all; up to a third are the team's.

        The content of a memory that another one contradicts says so.
        """
        team = _team_names(connection, scope)
        found = _BANK.rows(connection, "briefing", **_place(scope), limit=limit)
        if team["team"]:
            shared = _BANK.rows(connection, "team_briefing", **_place(scope), **team, limit=max(1, limit // 3))
            said = sum(priority > 0 for *_, priority in found)  # never displaces what the user said
            found = [*found[: max(said, limit - len(shared))], *shared][:limit]
        contents = {memory_id: content for memory_id, content, _ in found}
        scopes = (*scope.readable(), *(scope.model_copy(update={"project": name}) for name in team.values() if name))
        items = items_at(connection, scopes, list(contents))
        return [item.model_copy(update={"content": contents[item.id]}) for item in items]

    @writes
    def add_memories(
        self,
        connection: Connection,
        memories: Sequence[StoredMemory],
        embedder: str,
        limit: tuple[int, datetime] | None = None,
        job: Job | None = None,
        *,
        once: bool = False,
    ) -> list[str]:
        """Write items with all their indexes in one transaction; return the ids that were new.

        If there are any, `job` is queued with them, unless one of its kind and key already is. With `once`, skip items
        that another process stored a moment ago, after the caller looked for them (same text in NFKC, ignoring case).
        Raises `QuotaReached`, writing none, if a project would get more than `limit` allows on that day (UTC).
        """
        new = add_items(connection, self, memories, embedder, once=once)
        if limit is not None:
            for scope, count in Counter(item.scope for item in new).items():
                count_added(connection, make_scope(connection, scope), count, *limit)
        if job is not None and new:
            write_job(connection, "add_job", job, self.person_id)
        return [item.id for item in new]

    @reads
    def added_on(self, connection: Connection, scope: Scope, at: datetime) -> int:
        """Return how much of the quota for that moment's day (UTC) all processes together have used."""
        return added_on(connection, scope, at)

    @writes
    def set_status(
        self, connection: Connection, scopes: Sequence[Scope], ids: Sequence[str], status: MemoryStatus, reason: str
    ) -> int:
        """Change the status; return how many changed."""
        changed = [row for row in find_patterns(connection, scopes, ids) if row[3] != status]
        for row in changed:
            change_status(connection, self.index, row, (status, reason))
        self.index.tidy(connection)
        return len(changed)

    @reads
    def memory_history(self, connection: Connection, scopes: Sequence[Scope], memory_id: str) -> list[BankEvent]:
        return events(_SQL.rows(connection, "events_of", subject_ids=[memory_id], scopes=scopes, kinds=None))

    @reads
    def memory_histories(
        self, connection: Connection, scopes: Sequence[Scope], ids: Sequence[str], kinds: Sequence[str]
    ) -> dict[str, list[BankEvent]]:
        """Return the events of these kinds for each memory, by id, oldest first; empty for one that does not exist."""
        found: dict[str, list[BankEvent]] = {subject: [] for subject in ids}
        for event in events(_SQL.rows(connection, "events_of", subject_ids=ids, scopes=scopes, kinds=kinds)):
            found[event.subject_id or ""].append(event)
        return found


def items_at(connection: Connection, scopes: Sequence[Scope], ids: Sequence[str]) -> list[MemoryItem]:
    """Return the items that exist in the scopes, in the order of `ids`. Raises `StoreDamaged`."""
    return [item_of(row) for row in _SQL.rows(connection, "get_patterns", ids=ids, scopes=scopes)] if ids else []


def _folded(*texts: str) -> list[str]:
    return [normalize("NFKC", text).casefold() for text in texts]


def _place(scope: Scope) -> dict[str, str]:
    return {"tenant_id": scope.tenant_id, "project": scope.project, "global": GLOBAL_PROJECT}


def _team_names(connection: Connection, scope: Scope) -> dict[str, str]:
    """Return the names under which a project reads a team's memories about it, and about all; empty without a team."""
    names = _FIXES.column(connection, "read_with", tenant_id=scope.tenant_id, project=scope.project)
    about, about_all = names if len(names) == 2 else ("", "")
    return {"team": about, "team_global": about_all}


def add_items(
    connection: Connection, bank: Engine, memories: Sequence[StoredMemory], embedder: str, *, once: bool = False
) -> list[MemoryItem]:
    """Write new items with their indexes and return them, skipping known ids and, with `once`, texts just written."""
    scopes = {scope: make_scope(connection, scope) for scope in dict.fromkeys(each.item.scope for each in memories)}
    now, new = now_text(), list[tuple[int, int, StoredMemory]]()
    for memory in memories:
        scope_id = scopes[memory.item.scope]
        row = pattern_row(memory.item, scope_id, now)
        just_written = _SQL.rows(connection, "just_written", **row) if once else []
        if _folded(memory.item.title, memory.item.content) in [_folded(*texts) for texts in just_written]:
            continue
        written = connection.execute(_SQL["add_pattern"], row)
        if written.rowcount:
            new.append((written.lastrowid or 0, scope_id, memory))
    _enter(connection, bank, new, embedder)
    items = [(scope_id, each.item) for _, scope_id, each in new]
    origins = [item.provenance.model_dump(include={"run_id", "task_id"}, exclude_none=True) for _, item in items]
    rows = [event_row(at, CREATED, item.id, origin) for (at, item), origin in zip(items, origins, strict=True)]
    connection.executemany(_BANK["add_event"], rows)
    return [item for _, item in items]


def replace_item(connection: Connection, bank: Engine, memory: StoredMemory, embedder: str, reason: str) -> None:
    """Overwrite an existing item and its indexes; its former text goes into an event."""
    item = memory.item
    scope_id = make_scope(connection, item.scope)
    seq, status, data, confidence = _SQL.row(connection, "find_pattern", item.id, scope_id)
    if status == "active":
        bank.index.leave(connection, seq, scope_id)
    _SQL.run(connection, "delete_vectors", seq)
    _SQL.run(connection, "delete_tags", seq)
    _HANDLES.run(connection, "drop_handles", seq)
    _SQL.run(connection, "update_pattern", **pattern_row(item, scope_id, now_text()), seq=seq)
    _enter(connection, bank, [(seq, scope_id, memory)], embedder)
    before = {"pattern_data": data, "confidence": confidence, "status": status, "reason": reason}
    log_event(connection, scope_id, EDITED, item.id, before)


def _enter(
    connection: Connection, bank: Engine, placed: Sequence[tuple[int, int, StoredMemory]], embedder: str
) -> None:
    """Write tags, tokens, handles and vectors of items, given as (seq, scope id, item), and index the active ones."""
    active = defaultdict[int, list[int]](list)
    vectors = defaultdict[tuple[int | None, str, int], dict[int, Vector]](dict)
    light = None if bank.light is None or bank.light.name == embedder else bank.light
    for seq, scope_id, memory in placed:
        partition = scope_id if memory.item.status == "active" else None
        if partition is not None:
            active[partition].append(seq)
        if memory.vector is not None:
            vectors[partition, embedder, len(memory.vector)][seq] = memory.vector
        if light is not None:
            with suppress(InputError):  # it can make nothing of the item's words
                vector = light.embed(memory.item.embedding_text)
                vectors[partition, light.name, len(vector)][seq] = vector
    fields = [(seq, each.title_tokens, each.description_tokens, each.content_tokens) for seq, _, each in placed]
    connection.executemany(_SQL["add_tag"], [(seq, tag) for seq, _, each in placed for tag in each.item.tags])
    connection.executemany(_SQL["put_tokens"], [(seq, words.pack(*tokens)) for seq, *tokens in fields])
    index_handles(connection, [(seq, each.item) for seq, _, each in placed])
    for scope_id, seqs in active.items():
        bank.index.enter_new(connection, seqs, scope_id)
    for (partition, name, dimensions), found in vectors.items():
        space = bank.index.make_space(connection, name, dimensions, bank.quantization_of(name))
        bank.index.put_new_vectors(connection, partition, space, found, now_text())


def damaged(connection: Connection) -> list[str]:
    """Return the ids of items whose text is not what was written: SQLite itself would not notice."""
    rows = _SQL.rows(connection, "pattern_hashes")
    return [item_id for item_id, data, written in rows if content_hash(item_id, data) != written]


def change_status(
    connection: Connection,
    index: Index,
    found: tuple[int, str, int, str],
    wanted: tuple[MemoryStatus, str | None],
    at: datetime | None = None,
    **why: str | None,
) -> None:
    """Change the status of one item, given as (seq, id, scope id, former status), and log that in the audit trail.

    The event holds the reason and what `why` gives, which may replace the reason.
    """
    _, item_id, scope_id, former = found
    put_status_unlogged(connection, index, found, wanted, at)
    event = {"from": former, "reason": wanted[1], **why}
    log_event(connection, scope_id, f"reasoning_memory.{wanted[0]}", item_id, event, at)


def put_status_unlogged(
    connection: Connection,
    index: Index,
    found: tuple[int, str, int, str],
    wanted: tuple[MemoryStatus, str | None],
    at: datetime | None,
) -> None:
    """Write the status of one item, given as (seq, id, scope id, former status), with its reason, and its indexes."""
    seq, _, scope_id, former = found
    if former == "active":
        index.leave(connection, seq, scope_id)
    _BANK.run(connection, "set_status", *wanted, at or datetime.now(UTC), seq)
    if wanted[0] == "active":
        index.enter(connection, seq, scope_id)


def delete_item(connection: Connection, index: Index, found: tuple[int, str, int, str]) -> None:
    """Delete an item, given as (seq, id, scope id, status), with its indexes and the texts in its events."""
    seq, item_id, scope_id, status = found
    if status == "active":
        index.leave(connection, seq, scope_id)
    _SQL.run(connection, "note_forgotten", seq=seq)
    _SQL.run(connection, "delete_pattern", seq)
    _SQL.run(connection, "clear_events_of", item_id)


def index_handles(connection: Connection, items: Iterable[tuple[int, MemoryItem]]) -> None:
    """Write the handles that call for items, given with their positions."""
    connection.executemany(_HANDLES["put_handle"], [(each, seq) for seq, item in items for each in handles_of(item)])


def has_handles_due(connection: Connection) -> bool:
    """Whether there are items from an older version whose handles are not written yet."""
    return bool(_HANDLES.row(connection, "handles_due")[0])


def make_handles(connection: Connection, after: int, limit: int) -> int | None:
    """Write the handles of at most `limit` items after a position; return the last position, None if none was left."""
    rows = _HANDLES.rows(connection, "items_after", after, limit)
    index_handles(connection, [(seq, item_of(row)) for seq, *row in rows])
    if not rows:
        _HANDLES.run(connection, "handles_done")
    return rows[-1][0] if rows else None


def find_patterns(
    connection: Connection, scopes: Sequence[Scope], ids: Sequence[str]
) -> list[tuple[int, str, int, str]]:
    """Return (seq, id, scope id, status) of those items that exist in the scopes."""
    return _SQL.rows(connection, "find_patterns", ids=list(dict.fromkeys(ids)), scopes=scopes)


def count_added(connection: Connection, scope_id: int, added: int, limit: int, at: datetime) -> None:
    """Count what is being added. Raises `QuotaReached`, writing nothing, when that exceeds the day's limit."""
    if (total := added_on(connection, scope_id, at) + added) > limit:
        raise QuotaReached(limit)
    _SQL.run(connection, "put_added", scope_id=scope_id, value=f"{to_text(at)[:10]} {total}")


def added_on(connection: Connection, scope: Scope | int, at: datetime) -> int:
    """Return how much was added on the day of a moment, in UTC."""
    row = _SQL.row(connection, "added", scope)
    day, _, count = row[0].partition(" ") if row else ("", "", "")
    return int(count) if day == to_text(at)[:10] else 0


def answer_of(
    connection: Connection,
    search: Search,
    found: SearchHits,
    rows: Sequence[Sequence[Any]],
    alike: Sequence[float | None],
) -> SearchResult:
    """Return the result of a search from its rows, each with its cosine to the query.

    A row is (position, tokens, vector), then the item as `get_patterns` returns it, then its priority.
    """
    views = view_cosines(connection, search.index, search.query.views, [row[0] for row in rows])
    scored = words.keyword_scores(found.items, found.frequency, [row[1] for row in rows])
    quantization: Quantization = found.vector.space.quantization if found.vector else "float32"

    @cache  # each stage of a retrieval reads some
    def item_at(place: int) -> MemoryItem:
        return item_of(rows[place][3:-1])

    def candidate(place: int) -> Candidate:
        seq, _, blob, *item, priority = rows[place]
        return Candidate(
            id=item[0],
            project=item[2],
            confidence=item[4],
            usage_count=item[5],
            created_at=to_moment(item[6]),
            priority=priority,
            cosine=alike[place],
            keyword=scored[place][0],
            words=scored[place][1],
            is_strategy=_FIX not in item[3] and _OPEN_PROBLEM not in item[3],
            read_item=partial(item_at, place),
            read_vector=lambda: None if blob is None else decode(blob, quantization),
            views=views[seq],
        )

    if found.unreachable and _SQL.row(connection, "is_embedding", scopes=search.query.scopes):
        found = found._replace(unreachable=0)  # what was just stored will have its vector in a moment
    return search.answer(found, tuple(map(candidate, range(len(rows)))), "memories")


def _narrowed(only: SearchFilter, connection: Connection, scopes: Sequence[words.Partition]) -> words.Narrowed:
    values = only._asdict() | {"scopes": [scope.id for scope in scopes]}
    asked = {"active_of_domain": only.domain, "active_of_agent": only.agent_id, "active_with_tags": only.tags}
    filters = [_SQL[name] for name, value in asked.items() if value]
    if not filters:
        return None
    passing = _SQL["passing"].replace("{filters}", "\nINTERSECT ".join(filters) + "\n")
    rows = connection.execute(passing, {name: to_column(value) for name, value in values.items()}).fetchall()
    return dict(rows)
