"""The two search indexes, keywords (FTS5) and vectors (vec0), derived from plain tables.

Memories have one such pair, partitioned by scope, and the passages of sources another, partitioned by scope and kind.
The pairs differ only in their SQL statements, which have the same names.

Methods that write run inside the caller's transaction. Without sqlite-vec they mark the vector index stale instead,
and the next process that has sqlite-vec fills it again.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Self

from swarm_memory.schema.sqlite.statements import queries, vector_table
from swarm_memory.server.storage.driver import Connection
from swarm_memory.server.storage.search.vectors import Quantization, Space, all_spaces, check_vector, encode, find_space
from swarm_memory.tools.ports.models import Vector

_MEMORIES = queries("memories")
_SMALL_INDEX_SLOTS = 1024


class Index:
    """Keeps both indexes in step with the items, each of which belongs to one partition.

    `searchable` says whether this process has sqlite-vec, `reason` why it has or has not.
    """

    def __init__(self, searchable: bool, reason: str, statements: Mapping[str, str] = _MEMORIES) -> None:
        self.searchable = searchable
        self.reason = reason
        self.statements = statements

    def beside(self, statements: Mapping[str, str]) -> Self:
        """Return the same engine's index for the kind of item that other statements are about."""
        return type(self)(self.searchable, self.reason, statements)

    def enter(self, connection: Connection, seq: int, partition: int) -> None:
        """Enter an item that has become active, with its tokens and whatever vectors it has."""
        self.enter_new(connection, [seq], partition)
        for *space, vector in connection.execute(self.statements["spaces_of_item"], (seq,)).fetchall():
            self._enter_vectors(connection, Space(*space), partition, [(seq, vector)])

    def enter_new(self, connection: Connection, seqs: Sequence[int], partition: int) -> None:
        """Enter the tokens of items that were just written; their vectors are entered separately."""
        connection.executemany(self.statements["index_tokens"], [(seq,) for seq in seqs])
        connection.execute(self.statements["count_active"], (len(seqs), partition))

    def put_new_vectors(
        self, connection: Connection, partition: int | None, space: Space, vectors: Mapping[int, Vector], now: str
    ) -> None:
        """Write new vectors by position, and enter them into the index of a partition; None: the items are not indexed.

        Raises `StorageError` for an invalid vector.
        """
        for vector in vectors.values():
            check_vector(vector, space.dims, space.model)
        blobs = encode([*vectors.values()], space.quantization) if vectors else []
        written = list(zip(vectors, blobs, strict=True))
        connection.executemany(
            self.statements["put_vector"], [{**_place(seq, space), "vector": blob, "now": now} for seq, blob in written]
        )
        if partition is not None:
            self._enter_vectors(connection, space, partition, written)

    def leave(self, connection: Connection, seq: int, partition: int) -> None:
        """Remove an item that is no longer active; its tokens and vectors must still be those it was entered with."""
        self._leave_words(connection, seq, partition)
        connection.execute(self.statements["count_active"], (-1, partition))
        for *space, _ in connection.execute(self.statements["spaces_of_item"], (seq,)).fetchall():
            self._leave_vector(connection, Space(*space), seq, partition)

    def _leave_words(self, connection: Connection, seq: int, partition: int) -> None:
        connection.execute(self.statements["unindex_tokens"], (seq,))

    def put_vectors(
        self, connection: Connection, model: str, vectors: Mapping[int, Vector], quantization: Quantization, now: str
    ) -> int:
        """Write vectors by position, replacing the same model's of other dimensions; return how many were written.

        An item that already has a vector keeps it: it was edited meanwhile, and that is the vector of its new text.
        """
        written = 0
        rows = connection.execute(self.statements["places_of_items"], (json.dumps(list(vectors)),)).fetchall()
        for seq, partition, active in rows:
            space = self.make_space(connection, model, len(vectors[seq]), quantization)
            there = [
                Space(*row[:-1]) for row in connection.execute(self.statements["spaces_of_item"], (seq,)).fetchall()
            ]
            if any(other.id == space.id for other in there):
                continue
            written += 1
            for other in there:
                if other.model == model:
                    if active:
                        self._leave_vector(connection, other, seq, partition)
                    connection.execute(self.statements["drop_vector"], _place(seq, other))
            self.put_new_vectors(connection, partition if active else None, space, {seq: vectors[seq]}, now)
        return written

    def make_space(self, connection: Connection, model: str, dims: int, quantization: Quantization) -> Space:
        """Return a space that is ready to be written to; where needed, make it or fill its stale index again."""
        space = find_space(connection, model, dims, self.statements)
        if space is None:
            connection.execute(self.statements["add_space"], (model, dims, quantization, int(not self.searchable)))
            space = find_space(connection, model, dims, self.statements)
            assert space is not None
            if self.searchable:
                _make_table(connection, space)
        if self.refresh(connection):
            space = space._replace(stale=0)
        return space

    def lacks(self, connection: Connection) -> bool:
        """Whether a vector index lacks what was written without sqlite-vec, and this process can fill it."""
        return self.searchable and any(space.stale for space in all_spaces(connection, self.statements))

    def refresh(self, connection: Connection) -> int:
        """Fill the stale vector indexes again; return how many there were."""
        stale = [space for space in all_spaces(connection, self.statements) if space.stale] if self.searchable else []
        for space in stale:
            self.rebuild_space(connection, space)
        return len(stale)

    def rebuild_space(self, connection: Connection, space: Space) -> None:
        """Rebuild a space's index and counts from the plain tables."""
        connection.execute(self.statements["forget_members"], (space.id,))
        connection.execute(self.statements["recount_members"], (space.id,))
        if not self.searchable:
            connection.execute(self.statements["mark_space"], (1, space.id))
            return
        self._drop_tables(connection, space)
        _make_table(connection, space)
        connection.execute(space.sql(self.statements["fill_vector_index"]), (space.model, space.dims))
        connection.execute(self.statements["mark_space"], (0, space.id))

    def rebuild(self, connection: Connection) -> None:
        """Rebuild both indexes and all counts from the plain tables."""
        connection.execute(self.statements["empty_keyword_index"])
        connection.execute(self.statements["fill_keyword_index"])
        connection.execute(self.statements["recount_active"])
        for space in all_spaces(connection, self.statements):
            self.rebuild_space(connection, space)

    def drop_spaces_but(self, connection: Connection, kept: Collection[tuple[str, int]]) -> list[str]:
        """Delete every space whose (model, dimensions) is not in `kept`, with its vectors; return the model names."""
        others = [space for space in all_spaces(connection, self.statements) if (space.model, space.dims) not in kept]
        for space in others:
            connection.execute(self.statements["delete_vectors_of_space"], (space.model, space.dims))
            if not self.searchable:  # its empty index stays behind, marked stale
                self.rebuild_space(connection, space)
                continue
            self._drop_tables(connection, space)
            connection.execute(self.statements["delete_space"], (space.id,))
        return [space.model for space in others]

    def _drop_tables(self, connection: Connection, space: Space) -> None:
        """Drop a space's index, and the table of codes that schema 18 and older have with it."""
        for table in (space.table, f"codes_{space.table}"):
            if connection.execute(self.statements["has_vector_table"], (table,)).fetchone():
                connection.execute(f"DROP TABLE {table}")

    def tidy(self, connection: Connection) -> None:
        """Rebuild vector indexes in which deleted rows left more holes than there are live rows."""
        for space in all_spaces(connection, self.statements) if self.searchable else ():
            if space.stale:
                continue
            slots, live = connection.execute(space.sql(self.statements["vector_slots"])).fetchone()
            if (slots or 0) > max(_SMALL_INDEX_SLOTS, 2 * live):
                self.rebuild_space(connection, space)

    def _enter_vectors(
        self, connection: Connection, space: Space, partition: int, entered: Sequence[tuple[int, bytes]]
    ) -> None:
        self._count(connection, space, partition, len(entered))
        if self._writable(connection, space):
            rows = [(seq, partition, blob) for seq, blob in entered]
            connection.executemany(space.sql(self.statements["index_vector"]), rows)

    def _leave_vector(self, connection: Connection, space: Space, seq: int, partition: int) -> None:
        self._count(connection, space, partition, -1)
        if self._writable(connection, space):
            connection.execute(space.sql(self.statements["unindex_vector"]), (seq,))

    def _count(self, connection: Connection, space: Space, partition: int, change: int) -> None:
        values = {"space_id": space.id, "partition": partition, "change": change}
        connection.execute(self.statements["count_members"], values)

    def _writable(self, connection: Connection, space: Space) -> bool:
        if self.searchable and not space.stale:
            return True
        if not space.stale:
            connection.execute(self.statements["mark_space"], (1, space.id))
        return False


def _make_table(connection: Connection, space: Space) -> None:
    connection.execute(vector_table(space.prefix, str(space.id), space.element, str(space.dims)))


def _place(seq: int, space: Space) -> dict[str, int | str]:
    """Return all values that can identify an item's vector in a space: its table is keyed by some of them."""
    return {"seq": seq, "space_id": space.id, "model": space.model, "dims": space.dims}
