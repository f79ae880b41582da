"""Inspection: finding everything that is wrong inside a bank.

SQLite has no checksums of its own: it misses a third of random damage.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from swarm_memory.schema.errors import StoreDamaged
from swarm_memory.schema.sqlite.statements import queries, schema_objects
from swarm_memory.server.storage.driver import Connection, SqliteConnection
from swarm_memory.server.storage.engine.connection import one_moment
from swarm_memory.server.storage.search.vectors import Space, all_spaces
from swarm_memory.server.storage.search.words import in_scope, unpack
from swarm_memory.server.storage.stores.memories import damaged
from swarm_memory.server.storage.stores.rows import content_hash

_QUERIES = queries("repair")
_MAX_NAMED = 20
_BYTES = {"int8": 1, "float32": 4}


class Inspection(NamedTuple):
    """What is wrong with a bank; every field of a sound bank is empty."""

    pages: tuple[str, ...] = ()
    """What SQLite reports about its pages and keys."""
    memories: tuple[str, ...] = ()
    """Ids of memories whose text is not what was written."""
    trajectories: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    """What is wrong in the indexes and counts; these can be rebuilt from the rows."""
    vectors: tuple[tuple[str, int, tuple[int, ...]], ...] = ()
    """(model, dimensions, positions) of vectors that differ from the index, when either could be the right one."""

    @property
    def sound(self) -> bool:
        """Whether nothing wrong was found."""
        return not (self.pages or self.memories or self.trajectories or self.indexes)


class _Indexed(NamedTuple):
    """A kind of indexed item: its queries, and what messages call the items, their owners and the keyword index."""

    queries: Mapping[str, str]
    items: str
    owners: str
    words: str


_MEMORIES = _Indexed(queries("memories"), "memories", "projects", "the keyword index")
_PASSAGES = _Indexed(queries("sources"), "passages", "indexes of sources", "the keyword index of sources")


def inspect(connection: SqliteConnection, searchable: bool) -> Inspection:
    """Check everything once, in one snapshot. `searchable`: whether sqlite-vec is loaded.

    Raises the driver's error when the damage prevents a statement from running.
    """
    with one_moment(connection):
        for name, sql in schema_objects().items():
            if " USING fts5 " in sql:  # FTS5's own check trusts its cache even after others merged segments
                look = f"SELECT 1 FROM {name} WHERE {name} MATCH 'x' LIMIT 1"  # noqa: S608 - our own names
                connection.execute(look).fetchall()
        found = connection.execute(f"PRAGMA integrity_check({_MAX_NAMED:d})").fetchall()
        pages = [str(said) for (said,) in found if said != "ok"]
        for table, _, parent, _ in connection.execute("PRAGMA foreign_key_check").fetchmany(_MAX_NAMED):
            pages.append(f"a row of {table} refers to a row of {parent} that does not exist")
        memories = damaged(connection)
        trajectories = damaged_trajectories(connection)
        indexes, vectors = [*_faults_of_memories(connection)], list[tuple[str, int, tuple[int, ...]]]()
        for space in all_spaces(connection):
            size = space.dims * _BYTES[space.quantization]
            (odd,) = connection.execute(_QUERIES["vectors_of_wrong_size"], (space.model, space.dims, size)).fetchone()
            if odd:
                indexes.append(f"{odd} vectors of {space.model} have the wrong size")
            faults, doubtful = _vector_faults(connection, space, _MEMORIES, searchable)
            indexes += faults
            if doubtful:
                vectors.append((space.model, space.dims, tuple(doubtful)))
        texts = (tokens.split() for (tokens,) in connection.execute(_QUERIES["tokens_of_passages"]))
        indexes += _keyword_faults(connection, _PASSAGES, texts)
        for space in all_spaces(connection, _PASSAGES.queries):
            indexes += _vector_faults(connection, space, _PASSAGES, searchable)[0]
    return Inspection(tuple(pages), tuple(memories), tuple(trajectories), tuple(indexes), tuple(vectors))


def damaged_trajectories(connection: Connection) -> list[str]:
    """Return the ids of trajectories whose text is not what was written."""
    rows = connection.execute(_QUERIES["trajectory_hashes"]).fetchall()
    return [each for each, text, written in rows if content_hash(each, text) != written]


def _keyword_faults(connection: Connection, of: _Indexed, texts: Iterable[list[str]]) -> Iterator[str]:
    """Yield what is wrong in a keyword index and its counts; `texts`: the words that it must hold."""
    surplus, missing = connection.execute(of.queries["entered_wrongly"]).fetchone()
    if surplus or missing:
        yield f"the keyword index lacks {missing} {of.items} and holds {surplus} that it should not"
    # FTS5 folds only ASCII, and these tokens are folded already; a token that FTS5 splits would not be one of ours.
    if wrong := _wrong_words(texts, connection.execute(of.queries["indexed_terms"])):
        yield f"{of.words} is wrong about {wrong} words"
    (counts,) = connection.execute(of.queries["wrong_active_counts"]).fetchone()
    if counts:
        yield f"{counts} {of.owners} have a wrong count of their {of.items}"


def _faults_of_memories(connection: Connection) -> Iterator[str]:
    unreadable: list[int] = []
    yield from _keyword_faults(connection, _MEMORIES, _active_words(connection, unreadable))
    if without := len(connection.execute(_QUERIES["without_tokens"]).fetchall()):
        yield f"{without} memories have no tokens"
    if unreadable:
        yield f"the tokens of {len(unreadable)} of the memories do not match what was written"


def _active_words(connection: Connection, unreadable: list[int]) -> Iterator[list[str]]:
    """Yield the indexed words of each active memory; for an unreadable one, add its scope id to `unreadable`."""
    for packed, scope_id in connection.execute(_QUERIES["active_tokens"]).fetchall():
        try:
            yield [in_scope(scope_id, token) for token in unpack(packed).split()]
        except StoreDamaged:
            unreadable.append(scope_id)


def _wrong_words(texts: Iterable[list[str]], indexed: Iterable[tuple[str, int, int]]) -> int:
    """Return for how many words an index, given as (term, items, places), disagrees with the texts."""
    items: Counter[str] = Counter()
    places: Counter[str] = Counter()
    for words in texts:
        places.update(words)
        items.update(set(words))
    wrong = sum((items.pop(term, 0), places[term]) != (found, times) for term, found, times in indexed)
    return wrong + len(items)


def _vector_faults(connection: Connection, space: Space, of: _Indexed, searchable: bool) -> tuple[list[str], list[int]]:
    """Return a space's faults, and the positions where the vector and the index differ and either could be right."""
    faults: list[str] = []
    values = {"space_id": space.id, "model": space.model, "dims": space.dims}
    if counts := connection.execute(of.queries["wrong_member_counts"], values).fetchone()[0]:
        faults.append(f"{counts} {of.owners} have a wrong count of their vectors of {space.model}")
    if not searchable or space.stale:
        return faults, []
    held = dict(connection.execute(space.sql(_QUERIES["indexed_vectors"])).fetchall())
    wanted = dict(connection.execute(space.sql(of.queries["vectors_to_index"]), (space.model, space.dims)).fetchall())
    differ = [seq for seq, vector in wanted.items() if seq in held and held[seq] != vector]
    if wrong := len(differ) + len(held.keys() ^ wanted.keys()):
        faults.append(f"the vector index of {space.model} is wrong about {wrong} {of.items}")
    return faults, differ
