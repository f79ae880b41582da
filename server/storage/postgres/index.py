"""The search index on PostgreSQL: a row for each word of an item, and vectors as pgvector stores them.

The vectors that a scope holds are compared one by one.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from swarm_memory.schema.postgres.statements import queries
from swarm_memory.schema.sqlite.statements import queries as common_queries
from swarm_memory.server.storage.driver import Connection
from swarm_memory.server.storage.postgres.connection import PostgresConnection
from swarm_memory.server.storage.search.index import Index
from swarm_memory.server.storage.search.vectors import Quantization, Space, all_spaces, decode, find_space
from swarm_memory.server.storage.search.words import folded, unpack

WEIGHTS = (10, 6, 5)
"""The weights of title, description and content: five times those used with SQLite's keyword index."""

MEMORIES, PASSAGES = 1, 2
"""The kinds of items that are searched."""

_BATCH = 1_000
_QUERIES, _MEMORIES = queries("index"), common_queries("memories")
_NAMES = {MEMORIES: "memories", PASSAGES: "passages"}


class IndexedWords(NamedTuple):
    """What is entered into the index for one item."""

    seq: int
    length: int
    """The number of words."""
    weights: Mapping[str, int]
    """For each word, the sum of its weights at all its places."""


def words_of(seq: int, fields: Sequence[str | bytes]) -> IndexedWords:
    """Return the words of an item from its packed tokens, or of a passage from the tokens of its three fields."""
    texts = unpack(fields[0]).split("\n") if len(fields) == 1 else [str(each) for each in fields]
    weights: Counter[str] = Counter()
    length = 0
    for text, weight in zip(texts, WEIGHTS, strict=True):
        tokens = text.split()
        length += len(tokens)
        for token in tokens:
            weights[folded(token)] += weight
    return IndexedWords(seq, length, weights)


class PostgresIndex(Index):
    """Keeps words and vectors in step with the items."""

    def __init__(self, searchable: bool, reason: str, statements: Mapping[str, str] = _MEMORIES) -> None:
        super().__init__(searchable, reason, statements)
        self.kind = MEMORIES if statements is _MEMORIES else PASSAGES

    def enter_new(self, connection: Connection, seqs: Sequence[int], partition: int) -> None:
        self._enter_words(connection, partition, self._words(connection, seqs))
        connection.execute(self.statements["count_active"], (len(seqs), partition))

    def _leave_words(self, connection: Connection, seq: int, partition: int) -> None:
        for item in self._words(connection, [seq]):
            values = {"kind": self.kind, "partition": partition, "seq": seq, "tokens": list(item.weights)}
            connection.execute(_QUERIES["leave_words"], values)
            connection.execute(_QUERIES["drop_counts"], values)
            self._count_words(connection, partition, -item.length)

    def make_space(self, connection: Connection, model: str, dims: int, quantization: Quantization) -> Space:
        space = find_space(connection, model, dims, self.statements)
        if space is None:
            connection.execute(self.statements["add_space"], (model, dims, quantization, 0))
            space = find_space(connection, model, dims, self.statements)
            assert space is not None
        return space

    def rebuild_space(self, connection: Connection, space: Space) -> None:
        connection.execute(self.statements["forget_members"], (space.id,))
        connection.execute(self.statements["recount_members"], (space.id,))
        connection.execute(_QUERIES["forget_vectors"], {"kind": self.kind, "space_id": space.id})
        for partition, rows in self._all(connection, "vectors", space_id=space.id):
            self._index_vectors(connection, space, partition, rows)

    def rebuild(self, connection: Connection) -> None:
        connection.execute(_QUERIES["no_time_limit"])
        # Otherwise, what another process enters meanwhile would be entered twice.
        cast("PostgresConnection", connection).raw.execute("LOCK TABLE item_words, item_vectors IN EXCLUSIVE MODE")
        connection.execute(_QUERIES["forget_words"], {"kind": self.kind})
        connection.execute(self.statements["recount_active"])
        for partition, rows in self._all(connection, "active"):
            self._enter_words(connection, partition, [words_of(seq, fields) for seq, *fields in rows])
        for space in all_spaces(connection, self.statements):
            self.rebuild_space(connection, space)

    def _all(self, connection: Connection, what: str, **values: int) -> Iterator[tuple[int, list[tuple[Any, ...]]]]:
        """Yield everything in batches of (partition, rows); each row begins with its position."""
        after, query = 0, _QUERIES[f"{what}_{_NAMES[self.kind]}"]
        while rows := connection.execute(query, {**values, "after": after, "limit": _BATCH}).fetchall():
            after = rows[-1][0]
            for partition in dict.fromkeys(row[1] for row in rows):
                yield partition, [(seq, *fields) for seq, at, *fields in rows if at == partition]

    def drop_spaces_but(self, connection: Connection, kept: Collection[tuple[str, int]]) -> list[str]:
        """Delete the vectors of every other (model, dimensions); return the names of their models.

        The spaces themselves stay: other tenants may have vectors in them that this role does not see.
        """
        dropped: list[str] = []
        for space in all_spaces(connection, self.statements):
            if (space.model, space.dims) in kept:
                continue
            if connection.execute(self.statements["delete_vectors_of_space"], (space.model, space.dims)).rowcount:
                dropped.append(space.model)
            connection.execute(_QUERIES["forget_vectors"], {"kind": self.kind, "space_id": space.id})
            connection.execute(self.statements["forget_members"], (space.id,))
        return dropped

    def tidy(self, connection: Connection) -> None:
        """Do nothing: the database cleans up its tables by itself."""

    def _enter_vectors(
        self, connection: Connection, space: Space, partition: int, entered: Sequence[tuple[int, bytes]]
    ) -> None:
        self._count(connection, space, partition, len(entered))
        self._index_vectors(connection, space, partition, entered)

    def _index_vectors(
        self, connection: Connection, space: Space, partition: int, entered: Sequence[tuple[Any, ...]]
    ) -> None:
        vectors = [pgvector_text(blob, space.quantization) for _, blob in entered]
        values = {**self._place(connection, partition), "space_id": space.id}
        connection.execute(
            _QUERIES["enter_vectors"], {**values, "seqs": [seq for seq, _ in entered], "vectors": vectors}
        )

    def _leave_vector(self, connection: Connection, space: Space, seq: int, partition: int) -> None:
        self._count(connection, space, partition, -1)
        values = {"kind": self.kind, "space_id": space.id, "partition": partition, "seq": seq}
        connection.execute(_QUERIES["leave_vector"], values)

    def _enter_words(self, connection: Connection, partition: int, items: Sequence[IndexedWords]) -> None:
        rows = [(token, each.seq, weight, each.length) for each in items for token, weight in each.weights.items()]
        if rows:
            columns = zip(("tokens", "seqs", "weights", "lengths"), map(list, zip(*rows, strict=True)), strict=True)
            connection.execute(_QUERIES["enter_words"], {**self._place(connection, partition), **dict(columns)})
            self._count_words(connection, partition, sum(each.length for each in items))

    def _count_words(self, connection: Connection, partition: int, change: int) -> None:
        connection.execute(_QUERIES["count_words"], {**self._place(connection, partition), "change": change})

    def _place(self, connection: Connection, partition: int) -> dict[str, int]:
        """Return the columns that identify where an item is entered."""
        scope_id = partition
        if self.kind == PASSAGES:
            (scope_id,) = connection.execute(_QUERIES["scope_of_partition"], {"partition": partition}).fetchone()
        return {"kind": self.kind, "partition": partition, "scope_id": scope_id}

    def _words(self, connection: Connection, seqs: Sequence[int]) -> list[IndexedWords]:
        rows = connection.execute(_QUERIES[f"words_of_{_NAMES[self.kind]}"], {"seqs": list(seqs)}).fetchall()
        return [words_of(seq, fields) for seq, *fields in rows]


def pgvector_text(blob: bytes, quantization: Quantization) -> str:
    """Return an encoded vector as text for pgvector. 8-bit numbers are exact in 16 bits, so that no cosine changes."""
    numbers = decode(blob, quantization)
    return f"[{','.join(map(str, numbers) if quantization == 'int8' else (f'{each:.9g}' for each in numbers))}]"
