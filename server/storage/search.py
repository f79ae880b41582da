"""One search of the bank: two legs, each inside its scope by partition, joined to what scoring needs. It only reads.

The legs need nothing of each other and may run over two connections at once.
"""

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import accumulate
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from swarm_memory.schema.base import Scope
from swarm_memory.schema.memory import Leg
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.server.storage.index import Index, find_space
from swarm_memory.server.storage.rows import find_scopes, to_json, to_moment
from swarm_memory.server.storage.tokens import in_scope, match_any, usable
from swarm_memory.server.storage.vectors import Space, check_vector, cosines, decode, encode
from swarm_memory.tools.ports import Candidate, SearchQuery, SearchResult, Vector

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import Connection

MAX_NEAREST = 4096
"""What sqlite-vec gives at most."""

MAX_QUERY_TOKENS = 64
MAX_POSTINGS = 4000
SURE_TOKENS = 4
"""The rarest tokens of a query are searched: the first four, then as many as stand in 4,000 items together, at most 64.

Ranking costs as much as there are such places, and the commonest tokens of a long prompt hardly change the order. In a
bank of a few hundred items every token is searched.
"""

_MAX_LEFT_OUT = 256
"""So many items of an excluded task are fetched too much and dropped; more are filtered within the search."""

_QUERIES = queries()


class _Filter(NamedTuple):
    """What narrows one scope, as parameters of the queries."""

    domain: str | None
    tags: str
    exclude_task: str | None
    left_out: frozenset[int]
    """Items to drop after a leg that was asked for as many more."""

    @property
    def narrows(self) -> bool:
        """Whether the legs must look at the filter themselves."""
        return self.domain is not None or self.tags != "[]" or self.exclude_task is not None

    def values(self, scope_id: int) -> dict[str, Any]:
        return {
            "scope_id": scope_id,
            "domain": self.domain,
            "tags": self.tags,
            "exclude_task": self.exclude_task,
        }


class _Vectors(NamedTuple):
    """The vector side of a query: its space and its encoded vector."""

    space: Space
    encoded: bytes
    by_index: bool
    """Whether the vec0 table can be asked."""


class Near(NamedTuple):
    """What the vector leg found."""

    scopes: dict[int, Scope]
    documents: int
    unreachable: int
    """Active items without a vector in the query's space."""
    vectors: _Vectors | None
    found: dict[int, float]
    """Cosines by position."""


class Keywords(NamedTuple):
    """What the keyword leg found."""

    found: dict[int, float]
    """BM25 by position."""
    frequency: dict[str, int]
    """Of each token that was looked up, in how many items it stands."""


def near_leg(connection: "Connection", index: Index, query: SearchQuery) -> Near:
    """Return the pool of the vector leg of every scope. Raises `StorageError` for an unsound query vector."""
    with _reading(connection):
        scopes = find_scopes(connection, query.scopes)
        vectors = None if query.vector is None else _vectors(connection, index, query.embedder, query.vector)
        near = Near(scopes, 0, 0, vectors, {})
        for scope_id, active in _filled(connection, scopes):
            near = near._replace(documents=near.documents + active)
            if query.vector is not None:
                missing = active - _members(connection, vectors, scope_id)
                near = near._replace(unreachable=near.unreachable + missing)
            if vectors is not None:
                narrowed = _filter(connection, query, scope_id)
                near.found.update(_nearest(connection, vectors, scope_id, narrowed, query.pool))
        return near


def keyword_leg(connection: "Connection", query: SearchQuery) -> Keywords:
    """Return the pool of the keyword leg of every scope."""
    tokens = usable(query.tokens)
    keywords = Keywords({}, dict.fromkeys(tokens, 0))
    if not tokens:
        return keywords
    with _reading(connection):
        for scope_id, _ in _filled(connection, find_scopes(connection, query.scopes)):
            present = _frequencies(connection, scope_id, tokens, keywords.frequency)
            narrowed = _filter(connection, query, scope_id)
            keywords.found.update(_keywords(connection, scope_id, present, narrowed, query.pool))
    return keywords


def join(connection: "Connection", index: Index, query: SearchQuery, near: Near, keywords: Keywords) -> SearchResult:
    """Return the union of both pools; what is no longer active by now is left out."""
    with _reading(connection):
        candidates = _candidates(connection, near.scopes, near.vectors, near.found, keywords.found)
    return SearchResult(
        candidates=candidates,
        legs=_legs(index, query, near.vectors, keywords),
        documents=near.documents,
        document_frequency=keywords.frequency,
        notices=_notices(index, near.vectors, query.embedder, near.unreachable),
    )


@contextmanager
def _reading(connection: "Connection") -> Generator[None]:
    """Have all that is read in the block be of one moment."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")


def _filled(connection: "Connection", scopes: Iterable[int]) -> list[tuple[int, int]]:
    """Return those scopes that hold active items, with their number."""
    counts = [
        (scope_id, *connection.execute(_QUERIES["active_in_scope"], (scope_id,)).fetchone()) for scope_id in scopes
    ]
    return [(scope_id, active) for scope_id, active in counts if active]


def nearest(
    connection: "Connection", index: Index, scopes: Sequence[Scope], embedder: str, vector: Vector, k: int
) -> list[tuple[str, float]]:
    """Return (id, cosine) of the k nearest active items of all the scopes together, nearest first."""
    vectors = _vectors(connection, index, embedder, vector)
    if vectors is None:
        return []
    none = _Filter(None, "[]", None, frozenset())
    found: dict[int, float] = {}
    for scope_id in find_scopes(connection, scopes):
        found |= _nearest(connection, vectors, scope_id, none, k)
    best = sorted(found.items(), key=lambda pair: -pair[1])[:k]
    ids = dict(connection.execute(_QUERIES["ids_of_patterns"], (to_json([seq for seq, _ in best]),)).fetchall())
    return [(ids[seq], cosine) for seq, cosine in best]


def _vectors(connection: "Connection", index: Index, embedder: str, vector: Vector) -> _Vectors | None:
    check_vector(vector, len(vector), embedder)
    space = find_space(connection, embedder, len(vector))
    if space is None:
        return None
    return _Vectors(space, encode(vector, space.quantization), index.searchable and not space.stale)


def _filter(connection: "Connection", query: SearchQuery, scope_id: int) -> _Filter:
    left_out: frozenset[int] = frozenset()
    exclude_task = query.exclude_task
    if exclude_task is not None:
        rows = connection.execute(_QUERIES["active_of_task"], (exclude_task, scope_id)).fetchall()
        left_out = frozenset(row[0] for row in rows)
        if len(left_out) <= _MAX_LEFT_OUT:
            exclude_task = None
    return _Filter(query.domain, to_json(list(query.tags)) if query.tags else "[]", exclude_task, left_out)


def _members(connection: "Connection", vectors: _Vectors | None, scope_id: int) -> int:
    if vectors is None:
        return 0
    row = connection.execute(_QUERIES["members"], (vectors.space.id, scope_id)).fetchone()
    return 0 if row is None else int(row[0])


def _nearest(
    connection: "Connection", vectors: _Vectors, scope_id: int, narrowed: _Filter, pool: int
) -> dict[int, float]:
    """Return the cosines of the nearest items of one scope by their positions."""
    if not vectors.by_index:
        return _scanned(connection, vectors, scope_id, narrowed, pool)
    name = "nearest_vectors_among" if narrowed.narrows else "nearest_vectors"
    wanted = min(pool + len(narrowed.left_out), MAX_NEAREST)
    values = {**narrowed.values(scope_id), "vector": vectors.encoded, "k": wanted}
    rows = connection.execute(vectors.space.sql(_QUERIES[name]), values).fetchall()
    kept = [(seq, 1.0 - distance) for seq, distance in rows if seq not in narrowed.left_out]
    return dict(kept[:pool])


def _scanned(
    connection: "Connection", vectors: _Vectors, scope_id: int, narrowed: _Filter, pool: int
) -> dict[int, float]:
    """Return the same by comparing every vector, where the index cannot be asked."""
    space = vectors.space
    values = {**narrowed.values(scope_id), "model": space.model, "dims": space.dims}
    rows = [
        row
        for row in connection.execute(_QUERIES["scan_vectors"], values).fetchall()
        if row[0] not in narrowed.left_out
    ]
    compared = cosines(vectors.encoded, [blob for _, blob in rows], space.quantization)
    best = sorted(zip(compared, (seq for seq, _ in rows), strict=True), key=lambda pair: (-pair[0], pair[1]))
    return {seq: cosine for cosine, seq in best[: min(pool, MAX_NEAREST)]}


def _frequencies(
    connection: "Connection", scope_id: int, tokens: Sequence[str], frequency: dict[str, int]
) -> list[str]:
    """Add in how many items of the scope each token stands; return those to search, the rarest first."""
    terms = to_json([in_scope(scope_id, token) for token in tokens])
    counts: list[tuple[int, int]]
    counts = connection.execute(_QUERIES["term_counts"], (terms,)).fetchall()
    for position, count in counts:
        frequency[tokens[position]] += count
    counts.sort(key=itemgetter(1))
    places = accumulate(count for _, count in counts)
    return [
        tokens[position]
        for number, ((position, _), total) in enumerate(zip(counts, places, strict=True))
        if number < SURE_TOKENS or (number < MAX_QUERY_TOKENS and total <= MAX_POSTINGS)
    ]


def _keywords(
    connection: "Connection", scope_id: int, tokens: Sequence[str], narrowed: _Filter, pool: int
) -> dict[int, float]:
    """Return the BM25 of the best items of one scope by their positions."""
    if not tokens:
        return {}
    name = "keyword_matches_among" if narrowed.narrows else "keyword_matches"
    values = {**narrowed.values(scope_id), "expression": match_any(scope_id, tokens)}
    rows = connection.execute(_QUERIES[name], {**values, "limit": pool + len(narrowed.left_out)}).fetchall()
    kept = [(seq, -rank) for seq, rank in rows if seq not in narrowed.left_out]
    return dict(kept[:pool])


def _candidates(
    connection: "Connection",
    scopes: dict[int, Scope],
    vectors: _Vectors | None,
    near: dict[int, float],
    matched: dict[int, float],
) -> tuple[Candidate, ...]:
    seqs = [*near, *(seq for seq in matched if seq not in near)]
    by_distance = vectors is not None and vectors.by_index
    values: dict[str, Any] = {
        "seqs": to_json(seqs),
        "model": vectors.space.model if vectors else "",
        "dims": vectors.space.dims if vectors else 0,
    }
    if vectors is not None and by_distance:
        values |= {"first_unknown": len(near), "vector": vectors.encoded}
        rows = connection.execute(vectors.space.sql(_QUERIES["candidates"]), values).fetchall()
    else:
        rows = connection.execute(_QUERIES["candidates_without_distance"], values).fetchall()
    known = dict(near)
    if vectors is not None and not by_distance:
        others = [(row[0], row[6]) for row in rows if row[6] is not None and row[0] not in near]
        compared = cosines(vectors.encoded, [blob for _, blob in others], vectors.space.quantization)
        known |= zip((seq for seq, _ in others), compared, strict=True)
    projects = {scope_id: scope.project for scope_id, scope in scopes.items()}
    quantization = vectors.space.quantization if vectors else "float32"
    return tuple(
        Candidate(
            item_id,
            projects[scope_id],
            confidence,
            to_moment(created_at),
            known.get(seq) if distance is None else 1.0 - distance,
            matched.get(seq),
            tokens,
            None if blob is None else partial(decode, blob, quantization),
        )
        for seq, item_id, scope_id, confidence, created_at, tokens, blob, distance in rows
    )


def _legs(index: Index, query: SearchQuery, vectors: _Vectors | None, keywords: Keywords) -> tuple[Leg, ...]:
    legs: list[Leg] = []
    if query.vector is not None:
        by_index = index.searchable if vectors is None else vectors.by_index
        legs.append("vector" if by_index else "exact_scan")
    if keywords.frequency:
        legs.append("keyword")
    return tuple(legs)


def _notices(index: Index, vectors: _Vectors | None, embedder: str, unreachable: int) -> tuple[str, ...]:
    notices: list[str] = []
    if vectors is not None and not vectors.by_index:
        why = "its index is not up to date" if index.searchable else f"sqlite-vec is not loaded ({index.reason})"
        notices.append(f"every vector was compared one by one: {why}")
    if unreachable > 0:
        notices.append(
            f"{unreachable} memories have no vector of {embedder} and were searched by keywords only: "
            "run `swarm-memory reembed`"
        )
    return tuple(notices)
