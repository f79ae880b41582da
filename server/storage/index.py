"""The two indexes of active items, keywords (FTS5) and vectors (vec0), derived from plain tables.

Everything here runs inside the caller's write transaction. Without sqlite-vec the vector index is marked stale instead,
and filled again by the next process that has it.
"""

from typing import TYPE_CHECKING

from swarm_memory.schema.sqlite.statements import VECTOR_TABLE, queries
from swarm_memory.server.storage.vectors import Quantization, Space, check_vector, encode

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import Connection
    from swarm_memory.tools.ports import Vector

_QUERIES = queries()
_SMALL_INDEX_SLOTS = 1024


def find_space(connection: "Connection", model: str, dims: int) -> Space | None:
    """Return the space of a model's vectors of so many dimensions; None when nothing was ever stored in it."""
    row = connection.execute(_QUERIES["find_space"], (model, dims)).fetchone()
    return None if row is None else Space(*row)


def all_spaces(connection: "Connection") -> list[Space]:
    """Return every space."""
    return [Space(*row) for row in connection.execute(_QUERIES["all_spaces"]).fetchall()]


class Index:
    """Keeps both indexes in step with the items.

    `searchable` says whether this process has sqlite-vec, `reason` why it has or has not.
    """

    def __init__(self, searchable: bool, reason: str) -> None:
        self.searchable = searchable
        self.reason = reason

    def enter(self, connection: "Connection", seq: int, scope_id: int) -> None:
        """Enter an item that has become active, with its tokens and whatever vectors it has."""
        connection.execute(_QUERIES["index_tokens"], (seq,))
        connection.execute(_QUERIES["count_active"], (1, scope_id))
        for *space, vector in connection.execute(_QUERIES["spaces_of_pattern"], (seq,)).fetchall():
            self._enter_vector(connection, Space(*space), seq, scope_id, vector)

    def leave(self, connection: "Connection", seq: int, scope_id: int) -> None:
        """Take out an item that is active no more; its tokens and vectors must still be those it was entered with."""
        connection.execute(_QUERIES["unindex_tokens"], (seq,))
        connection.execute(_QUERIES["count_active"], (-1, scope_id))
        for *space, _ in connection.execute(_QUERIES["spaces_of_pattern"], (seq,)).fetchall():
            self._leave_vector(connection, Space(*space), seq, scope_id)

    def put_vector(self, connection: "Connection", item_id: str, vector: "Vector", space: Space, now: str) -> None:
        """Write the vector of an item that is in no index. Raises `StorageError` for one that cannot be right."""
        check_vector(vector, space.dims, space.model)
        blob = encode(vector, space.quantization)
        connection.execute(_QUERIES["put_vector"], (item_id, space.model, space.dims, blob, now))

    def replace_vector(
        self, connection: "Connection", found: tuple[int, str, int, str], vector: "Vector", space: Space, now: str
    ) -> None:
        """Write a vector of an item, given as (seq, id, scope id, status), in place of the one of the same model."""
        seq, item_id, scope_id, status = found
        if status == "active":
            for *other, _ in connection.execute(_QUERIES["spaces_of_pattern"], (seq,)).fetchall():
                if Space(*other).model == space.model:
                    self._leave_vector(connection, Space(*other), seq, scope_id)
        self.put_vector(connection, item_id, vector, space, now)
        if status == "active":
            self._enter_vector(connection, space, seq, scope_id, encode(vector, space.quantization))

    def make_space(self, connection: "Connection", model: str, dims: int, quantization: Quantization) -> Space:
        """Return a space that is ready to be written to; it is made, or its stale index filled again, where needed."""
        space = find_space(connection, model, dims)
        if space is None:
            connection.execute(_QUERIES["add_space"], (model, dims, quantization, int(not self.searchable)))
            space = find_space(connection, model, dims)
            assert space is not None
            if self.searchable:
                _make_table(connection, space)
        if self.refresh(connection):
            space = space._replace(stale=0)
        return space

    def refresh(self, connection: "Connection") -> int:
        """Fill the stale vector indexes again; return how many there were."""
        stale = [space for space in all_spaces(connection) if space.stale] if self.searchable else []
        for space in stale:
            self.rebuild_space(connection, space)
        return len(stale)

    def rebuild_space(self, connection: "Connection", space: Space) -> None:
        """Make a space's index and counts anew from the plain tables."""
        connection.execute(_QUERIES["forget_members"], (space.id,))
        connection.execute(_QUERIES["recount_members"], (space.id,))
        if not self.searchable:
            connection.execute(_QUERIES["mark_space"], (1, space.id))
            return
        if connection.execute(_QUERIES["has_vector_table"], (space.table,)).fetchone():
            connection.execute(space.sql(_QUERIES["drop_vector_index"]))
        _make_table(connection, space)
        connection.execute(space.sql(_QUERIES["fill_vector_index"]), (space.model, space.dims))
        connection.execute(_QUERIES["mark_space"], (0, space.id))

    def rebuild(self, connection: "Connection") -> None:
        """Make both indexes and all counts anew from the plain tables."""
        connection.execute(_QUERIES["empty_keyword_index"])
        connection.execute(_QUERIES["fill_keyword_index"])
        connection.execute(_QUERIES["recount_active"])
        for space in all_spaces(connection):
            self.rebuild_space(connection, space)

    def drop_space(self, connection: "Connection", space: Space) -> None:
        """Delete a space with all its vectors; without sqlite-vec its empty index stays behind, marked."""
        connection.execute(_QUERIES["delete_vectors_of_space"], (space.model, space.dims))
        if not self.searchable:
            self.rebuild_space(connection, space)
            return
        connection.execute(space.sql(_QUERIES["drop_vector_index"]))
        connection.execute(_QUERIES["delete_space"], (space.id,))

    def tidy(self, connection: "Connection") -> None:
        """Rebuild vector indexes in which deleted rows left more holes than there are live rows."""
        for space in all_spaces(connection) if self.searchable else ():
            if space.stale:
                continue
            slots, live = connection.execute(space.sql(_QUERIES["vector_slots"])).fetchone()
            if (slots or 0) > max(_SMALL_INDEX_SLOTS, 2 * live):
                self.rebuild_space(connection, space)

    def _enter_vector(self, connection: "Connection", space: Space, seq: int, scope_id: int, blob: bytes) -> None:
        _count(connection, space, scope_id, 1)
        if self._writable(connection, space):
            connection.execute(space.sql(_QUERIES["index_vector"]), (seq, scope_id, blob))

    def _leave_vector(self, connection: "Connection", space: Space, seq: int, scope_id: int) -> None:
        _count(connection, space, scope_id, -1)
        if self._writable(connection, space):
            connection.execute(space.sql(_QUERIES["unindex_vector"]), (seq,))

    def _writable(self, connection: "Connection", space: Space) -> bool:
        if self.searchable and not space.stale:
            return True
        if not space.stale:
            connection.execute(_QUERIES["mark_space"], (1, space.id))
        return False


def _count(connection: "Connection", space: Space, scope_id: int, change: int) -> None:
    values = {"space_id": space.id, "scope_id": scope_id, "change": change}
    connection.execute(_QUERIES["count_members"], values)


def _make_table(connection: "Connection", space: Space) -> None:
    statement = VECTOR_TABLE.format(space_id=space.id, element=space.element, dims=space.dims)
    connection.execute(statement)
