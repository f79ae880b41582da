"""What is wrong inside an open bank: damaged pages, texts that are not what was written, indexes out of step.

SQLite has no checksums of its own: it misses a third of random damage. It only reads.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from swarm_memory.schema.errors import StoreDamaged
from swarm_memory.schema.sqlite.statements import queries, schema_objects
from swarm_memory.server.storage.memories import damaged
from swarm_memory.server.storage.rows import content_hash
from swarm_memory.server.storage.search.derived import code_faults, source_faults
from swarm_memory.server.storage.search.index import all_spaces
from swarm_memory.server.storage.search.tokens import in_scope, unpack

if TYPE_CHECKING:
    from swarm_memory.server.storage.engine.driver import Connection
    from swarm_memory.server.storage.search.vectors import Space

_QUERIES = queries("repair")
_MAX_TOLD = 20
_BYTES = {"int8": 1, "float32": 4}


@dataclass(slots=True)
class Inspection:
    """What was found; all empty: the bank is sound."""

    pages: list[str] = field(default_factory=list[str])
    """What SQLite says of its pages and keys."""
    memories: list[str] = field(default_factory=list[str])
    """Ids of memories whose text is not what was written."""
    trajectories: list[str] = field(default_factory=list[str])
    indexes: list[str] = field(default_factory=list[str])
    """What the indexes and counts hold wrongly; they can be made anew from the rows."""

    vectors: list[tuple[str, int, list[int]]] = field(default_factory=list[tuple[str, int, list[int]]])
    """(model, dimensions, positions) of vectors of which nobody can tell whether they or the index are right."""

    @property
    def sound(self) -> bool:
        """Whether nothing was found."""
        return not (self.pages or self.memories or self.trajectories or self.indexes)


def inspect(connection: "Connection", searchable: bool) -> Inspection:
    """Look at everything once, as of one moment. `searchable`: whether sqlite-vec is loaded.

    Raises what the driver raises when the damage lets no statement through.
    """
    found = Inspection()
    connection.execute("BEGIN")
    try:
        _refresh_keyword_indexes(connection)
        rows = connection.execute(f"PRAGMA integrity_check({_MAX_TOLD:d})").fetchall()
        found.pages.extend(str(said) for (said,) in rows if said != "ok")
        found.pages.extend(
            f"a row of {table} refers to a row of {parent} that is not there"
            for table, _, parent, _ in connection.execute("PRAGMA foreign_key_check").fetchmany(_MAX_TOLD)
        )
        found.memories.extend(damaged(connection))
        trajectories = connection.execute(_QUERIES["trajectory_hashes"])
        found.trajectories.extend(
            each for each, text, written in trajectories.fetchall() if content_hash(each, text) != written
        )
        found.indexes.extend(_keyword_faults(connection))
        for space in all_spaces(connection):
            faults, doubtful = _vector_faults(connection, space, searchable)
            if searchable and not space.stale:
                of_codes, differ = code_faults(connection, space, "memories", queries()["scan_vectors"])
                faults, doubtful = [*faults, *of_codes], [*doubtful, *differ]
            found.indexes.extend(faults)
            found.vectors.extend([(space.model, space.dims, doubtful)] if doubtful else [])
        found.indexes.extend(source_faults(connection, searchable))
    finally:
        if connection.in_transaction:  # SQLite undoes one itself where it has no memory
            connection.execute("ROLLBACK")
    return found


def _refresh_keyword_indexes(connection: "Connection") -> None:
    """Have FTS5 look at what is there now: its own check trusts what it remembers, though others merged the parts."""
    for name, sql in schema_objects().items():
        if " USING fts5 " in sql:
            look = f"SELECT 1 FROM {name} WHERE {name} MATCH 'x' LIMIT 1"  # noqa: S608 - our own names
            connection.execute(look).fetchall()


def _keyword_faults(connection: "Connection") -> list[str]:
    faults: list[str] = []
    surplus, missing = connection.execute(_QUERIES["entered_wrongly"]).fetchone()
    if surplus or missing:
        faults.append(f"the keyword index lacks {missing} memories and holds {surplus} that it must not")
    if without := len(connection.execute(_QUERIES["without_tokens"]).fetchall()):
        faults.append(f"{without} memories have no tokens")
    items: Counter[str] = Counter()
    places: Counter[str] = Counter()
    unreadable = 0
    for packed, scope_id in connection.execute(_QUERIES["active_tokens"]).fetchall():
        try:
            tokens = [in_scope(scope_id, token) for token in unpack(packed).split()]
        except StoreDamaged:
            unreadable += 1
            continue
        places.update(tokens)
        items.update(set(tokens))
    if unreadable:
        faults.append(f"the tokens of {unreadable} memories are not what was written")
    held = {term: (doc, count) for term, doc, count in connection.execute(_QUERIES["indexed_terms"]).fetchall()}
    # FTS5 folds ASCII only, which these tokens already are; a token that it splits would be no token of ours.
    wanted = {term: (items[term], places[term]) for term in places}
    if wrong := sum(held.get(term) != wanted.get(term) for term in held.keys() | wanted.keys()):
        faults.append(f"the keyword index is wrong about {wrong} words")
    (counts,) = connection.execute(_QUERIES["wrong_active_counts"]).fetchone()
    if counts:
        faults.append(f"{counts} projects have a wrong count of their memories")
    return faults


def _vector_faults(connection: "Connection", space: "Space", searchable: bool) -> tuple[list[str], list[int]]:
    faults: list[str] = []
    size = space.dims * _BYTES[space.quantization]
    (odd,) = connection.execute(_QUERIES["vectors_of_wrong_size"], (space.model, space.dims, size)).fetchone()
    if odd:
        faults.append(f"{odd} vectors of {space.model} have a wrong size")
    values = {"space_id": space.id, "model": space.model, "dims": space.dims}
    (counts,) = connection.execute(_QUERIES["wrong_member_counts"], values).fetchone()
    if counts:
        faults.append(f"{counts} projects have a wrong count of their vectors of {space.model}")
    if not searchable or space.stale:
        return faults, []
    wanted = dict(connection.execute(space.sql(_QUERIES["vectors_to_index"]), (space.model, space.dims)).fetchall())
    held = dict(connection.execute(space.sql(_QUERIES["indexed_vectors"])).fetchall())
    if wrong := sum(held.get(seq) != wanted.get(seq) for seq in held.keys() | wanted.keys()):
        faults.append(f"the vector index of {space.model} is wrong about {wrong} memories")
    return faults, [seq for seq in held.keys() & wanted.keys() if held[seq] != wanted[seq]]
