"""The index of what is searched on PostgreSQL: postings of words, and vectors as pgvector has them.

Vectors are compared one by one, by what a scope holds, until a partition is large: it then gets an HNSW index of its
own. One over all scopes would look past the vectors of the others and find too little.

A row for each word of an item would weigh ten times as much, and a writer of one item would write fifty rows. So the
items of a word stand in blocks, and an item's words wait, where a search sees them too, until there are enough.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from swarm_memory.schema.postgres.statements import queries, with_placeholders
from swarm_memory.schema.sqlite.statements import queries as common_queries
from swarm_memory.server.storage.search.index import Index
from swarm_memory.server.storage.search.vectors import Quantization, Space, all_spaces, decode, find_space
from swarm_memory.server.storage.search.words import folded, unpack

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import Connection
    from swarm_memory.server.storage.postgres.connection import PostgresConnection, RawConnection


ENTERED_AT_ONCE = 64
"""So many items wait at most: a search looks through all their words."""

FULL = 128
"""A block with so many entries gets no more."""

_BLOCKS_AT_ONCE = 1_000

WEIGHTS = (10, 6, 5)
"""Of title, description and content, five times those that the keyword index of SQLite is asked with."""

MAX_WEIGHT, MAX_LENGTH = (1 << 10) - 1, (1 << 14) - 1


class Words(NamedTuple):
    """What is entered of one item."""

    seq: int
    length: int
    """In words."""
    weights: Mapping[str, int]
    """Of each word, at all its places together."""


class Place(NamedTuple):
    """Where items are entered: the kind and the partition, and whose scope that is."""

    kind: int
    partition: int
    scope_id: int


def words_of(seq: int, fields: Sequence[str | bytes]) -> Words:
    """Return the words of an item by its packed tokens, or of a passage by those of its three fields."""
    texts = unpack(fields[0]).split("\n") if len(fields) == 1 else [str(each) for each in fields]
    weights: Counter[str] = Counter()
    length = 0
    for text, weight in zip(texts, WEIGHTS, strict=True):
        tokens = [token for token in text.split(" ") if token]
        length += len(tokens)
        for token in tokens:
            weights[folded(token)] += weight
    return Words(seq, length, weights)


class Blocks:
    """The postings of one partition made again, of items that come in the order of their positions.

    Blocks that are full are written as they come, so that no more is held than the last one of each word.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self._open: defaultdict[str, list[int]] = defaultdict(list)
        self._closed: Counter[str] = Counter()
        self._full: list[tuple[str, int, int, list[int]]] = []
        self._tokens = 0

    def add(self, item: Words) -> None:
        """Take one more item."""
        self._tokens += item.length
        for word, weight in item.weights.items():
            entries = self._open[word]
            if len(entries) == FULL:
                self._closed[word] += 1
                self._full.append((word, self._closed[word], 0, entries))
                self._open[word] = entries = []
            entries.append(_entry(item.seq, item.length, weight))

    def write(self, connection: "Connection") -> None:
        """Write the blocks that are full by now."""
        self._put(connection, self._full)
        self._full = []

    def close(self, connection: "Connection") -> None:
        """Write what is left, with the counts of all blocks."""
        self.write(connection)
        closed = self._closed
        last = [(word, 0, FULL * closed[word] + len(entries), entries) for word, entries in self._open.items()]
        self._put(connection, last)
        _count(connection, self.place, self._tokens)

    def _put(self, connection: "Connection", blocks: Sequence[tuple[str, int, int, list[int]]]) -> None:
        for start in range(0, len(blocks), _BLOCKS_AT_ONCE):
            words, numbers, documents, entries = zip(*blocks[start : start + _BLOCKS_AT_ONCE], strict=True)
            texts = [f"{{{','.join(map(str, each))}}}" for each in entries]
            columns = {"words": words, "blocks": numbers, "documents": documents, "entries": texts}
            values = {name: list(column) for name, column in columns.items()}
            connection.execute(_QUERIES["put_blocks"], {**self.place._asdict(), **values})


def _merge(connection: "Connection", place: Place, items: Sequence[Words] = ()) -> None:
    """Enter items and those that wait, and take out those that left. Nobody else may do so there meanwhile."""
    taken = connection.execute(_QUERIES["take_recent"], place._asdict()).fetchall()
    came = [(seq, length, zip(words, weights, strict=True)) for seq, sign, length, words, weights in taken if sign > 0]
    came += [(each.seq, each.length, each.weights.items()) for each in items]
    went = [(word, seq) for seq, sign, _, words, _ in taken if sign < 0 for word in words]
    entries = [(word, _entry(seq, length, weight)) for seq, length, weights in came for word, weight in weights]
    gone = [word for word, _ in went]
    if went:
        removed = {"words": gone, "seqs": [seq for _, seq in went]}
        connection.execute(_QUERIES["remove_entries"], {**place._asdict(), **removed})
    if entries:
        added = {"words": [word for word, _ in entries], "entries": [entry for _, entry in entries], "full": FULL}
        full = connection.execute(_QUERIES["add_entries"], {**place._asdict(), **added}).fetchall()
        if full:
            filled = {**place._asdict(), "words": [word for (word,) in full]}
            connection.execute(_QUERIES["close_blocks"], filled)
            connection.execute(_QUERIES["empty_blocks"], filled)
    if went:
        connection.execute(_QUERIES["drop_empty"], {**place._asdict(), "words": gone})
    _count(connection, place, sum(each.length for each in items))


def _entry(seq: int, length: int, weight: int) -> int:
    return seq << 24 | min(weight, MAX_WEIGHT) << 14 | min(length, MAX_LENGTH)


def _recent(place: Place, item: Words, sign: int) -> dict[str, Any]:
    weights = [min(weight, MAX_WEIGHT) for weight in item.weights.values()]
    words = {"seq": item.seq, "sign": sign, "length": item.length, "words": list(item.weights), "weights": weights}
    return {**place._asdict(), **words}


def _count(connection: "Connection", place: Place, tokens: int) -> None:
    if tokens:
        connection.execute(_QUERIES["count_words"], {**place._asdict(), "tokens": tokens})


MEMORIES, PASSAGES = 1, 2
"""The kinds of what is searched."""

LARGE = 20_000
"""A partition with so many vectors gets an index of its own."""

MAX_INDEXED_DIMS = 4000
"""pgvector indexes no longer vectors of 16-bit numbers; they are compared one by one in a partition of any size."""

_BATCH = 5_000
_VECTORS_AT_ONCE = 50
"""So many in one statement, whose time is limited: in an index of a large partition each takes some milliseconds."""

_QUERIES, _MEMORIES = queries("index"), common_queries("memories")
_NAMES = {MEMORIES: "memories", PASSAGES: "passages"}


class Plan(NamedTuple):
    """Where a search looks: what the search before it said."""

    space_id: int | None = None
    """None: nothing has a vector of the query's model."""
    quantization: Quantization = "int8"
    partitions: tuple[int, ...] = ()
    reach: int = 0
    """So many vectors an index of them looks at, by the largest partition."""


def reach(items: int) -> int:
    """Return how many vectors an index of so many looks at (`ef_search`).

    Among 100,000 that hardly differ in how near they are 250 hold 97 % of the ten nearest, among a million 800 do; of
    32,000 texts that people wrote 250 hold 99.8 %. pgvector takes 1,000 at most.
    """
    return min(1000, round(250 * 1.5 ** max(0, items.bit_length() - 17)))


class PostgresIndex(Index):
    """Keeps words and vectors in step with the items."""

    def __init__(self, searchable: bool, reason: str, statements: Mapping[str, str] = _MEMORIES) -> None:
        super().__init__(searchable, reason, statements)
        self.kind = MEMORIES if statements is _MEMORIES else PASSAGES
        self.plans: dict[tuple[Any, ...], Plan] = {}
        """Where searches looked last."""
        self.outgrown = True
        """Whether a partition may have become large since the last look."""

    def enter_new(self, connection: "Connection", seqs: Sequence[int], partition: int) -> None:
        """Enter items that are new there: the words of a few are noted, those of many go into the postings at once."""
        place, items = self._place(connection, partition), self._words(connection, seqs)
        if len(items) >= ENTERED_AT_ONCE:
            connection.execute(_QUERIES["lock"], place._asdict())
            _merge(connection, place, items)
        else:
            waiting = 0
            for each in items:
                (waiting,) = connection.execute(_QUERIES["add_recent"], _recent(place, each, 1)).fetchone()
            many = waiting >= ENTERED_AT_ONCE
            if many and connection.execute(_QUERIES["try_lock"], place._asdict()).fetchone() == (True,):
                _merge(connection, place)
        connection.execute(self.statements["count_active"], (len(seqs), partition))

    def _leave_words(self, connection: "Connection", seq: int, partition: int) -> None:
        place = self._place(connection, partition)
        for item in self._words(connection, [seq]):
            if connection.execute(_QUERIES["drop_recent"], {**place._asdict(), "seq": seq}).rowcount:
                _count(connection, place, -item.length)
            else:
                connection.execute(_QUERIES["add_recent"], _recent(place, item, -1))

    def make_space(self, connection: "Connection", model: str, dims: int, quantization: Quantization) -> Space:
        space = find_space(connection, model, dims, self.statements)
        if space is None:
            connection.execute(self.statements["add_space"], (model, dims, quantization, 0))
            space = find_space(connection, model, dims, self.statements)
            assert space is not None
        return space

    def lacks(self, connection: "Connection") -> bool:
        """Return whether a partition has become large and has no index of its own."""
        return bool(self._unindexed(connection))

    def refresh(self, connection: "Connection") -> int:
        """Give partitions that have become large an index each, outside of a transaction; return how many.

        Some ten seconds for each 20,000 vectors: for a role that does not own the bank whoever writes vectors waits.
        """
        if not self.lacks(connection) or not connection.execute(_QUERIES["try_indexing"]).fetchone()[0]:
            return 0
        limit, _ = connection.execute(_QUERIES["limit_time"], {"limit": "0"}).fetchone()
        try:
            found = self._unindexed(connection)
            (may_index,) = connection.execute(_QUERIES["may_index"]).fetchone()
            for space_id, partition, dims, members in found:
                values = {"kind": self.kind, "space_id": space_id, "partition": partition, "dims": dims}
                if may_index:
                    _index_beside(cast("PostgresConnection", connection).raw, **values, members=members)
                else:
                    connection.execute(_QUERIES["index_vectors"], values)
        finally:
            connection.execute(_QUERIES["limit_time"], {"limit": limit})
            connection.execute(_QUERIES["end_indexing"])
        return len(found)

    def rebuild_space(self, connection: "Connection", space: Space) -> None:
        connection.execute(self.statements["forget_members"], (space.id,))
        connection.execute(self.statements["recount_members"], (space.id,))
        asked = {"kind": self.kind, "space_id": space.id, "limit": _BATCH}
        connection.execute(_QUERIES["forget_vectors"], asked)
        # Many vectors are entered into no index in a tenth of the time that each takes that is entered into one.
        for (name,) in connection.execute(_QUERIES["indexes_of_space"], asked).fetchall():
            cast("PostgresConnection", connection).raw.execute(f"DROP INDEX {name}".encode())
        self.outgrown = True
        after: int | None = 0
        while after is not None:
            named = _QUERIES[f"vectors_of_{_NAMES[self.kind]}"]
            rows = connection.execute(named, {**asked, "after": after}).fetchall()
            after = rows[-1][0] if rows else None
            partitions: dict[int, list[tuple[int, bytes]]] = {}
            for seq, partition, vector in rows:
                partitions.setdefault(partition, []).append((seq, vector))
            for partition, entered in partitions.items():
                self._index_vectors(connection, space, partition, entered)

    def rebuild(self, connection: "Connection") -> None:
        connection.execute(_QUERIES["no_time_limit"])
        # What another enters meanwhile would be entered twice.
        cast("PostgresConnection", connection).raw.execute("LOCK TABLE recent_words, item_vectors IN EXCLUSIVE MODE")
        connection.execute(_QUERIES["forget_words"], {"kind": self.kind})
        connection.execute(self.statements["recount_active"])
        self._rebuild_words(connection)
        for space in all_spaces(connection, self.statements):
            self.rebuild_space(connection, space)

    def _rebuild_words(self, connection: "Connection") -> None:
        raw = cast("PostgresConnection", connection).raw
        blocks: Blocks | None = None
        wanted = with_placeholders(_QUERIES[f"active_{_NAMES[self.kind]}"])
        raw.execute(f"DECLARE active NO SCROLL CURSOR FOR {wanted}".encode())
        while some := raw.execute(f"FETCH {_BATCH} FROM active".encode()).fetchall():
            for seq, partition, scope_id, *fields in some:
                if blocks is None or blocks.place.partition != partition:
                    if blocks is not None:
                        blocks.close(connection)
                    blocks = Blocks(Place(self.kind, partition, scope_id))
                blocks.add(words_of(seq, fields))
            if blocks is not None:
                blocks.write(connection)
        raw.execute("CLOSE active")
        if blocks is not None:
            blocks.close(connection)

    def drop_spaces_but(self, connection: "Connection", kept: Collection[tuple[str, int]]) -> list[str]:
        """Delete the vectors of every other (model, dimensions); return the names of their models.

        The spaces themselves stay: those of other tenants may have vectors there that this role does not see.
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

    def tidy(self, connection: "Connection") -> None:
        """Take the words of what left out of the postings."""
        places = connection.execute(_QUERIES["partitions_to_enter"], {"kind": self.kind}).fetchall()
        for place in (Place(self.kind, partition, scope_id) for partition, scope_id in places):
            connection.execute(_QUERIES["lock"], place._asdict())
            _merge(connection, place)

    def _enter_vectors(
        self, connection: "Connection", space: Space, partition: int, entered: Sequence[tuple[int, bytes]]
    ) -> None:
        self._count(connection, space, partition, len(entered))
        self._index_vectors(connection, space, partition, entered)

    def _index_vectors(
        self, connection: "Connection", space: Space, partition: int, entered: Sequence[tuple[int, bytes]]
    ) -> None:
        place = {**self._place(connection, partition)._asdict(), "space_id": space.id}
        for start in range(0, len(entered), _VECTORS_AT_ONCE):
            some = entered[start : start + _VECTORS_AT_ONCE]
            vectors = [text_of(blob, space.quantization) for _, blob in some]
            values = {**place, "seqs": [seq for seq, _ in some], "vectors": vectors}
            connection.execute(_QUERIES["enter_vectors"], values)

    def _leave_vector(self, connection: "Connection", space: Space, seq: int, partition: int) -> None:
        self._count(connection, space, partition, -1)
        values = {"kind": self.kind, "space_id": space.id, "partition": partition, "seq": seq}
        connection.execute(_QUERIES["leave_vector"], values)

    def _count(self, connection: "Connection", space: Space, partition: int, change: int) -> None:
        values = {"space_id": space.id, "partition": partition, "change": change}
        (members,) = connection.execute(self.statements["count_members"], values).fetchone()
        self.outgrown = self.outgrown or members - change < LARGE <= members

    def _unindexed(self, connection: "Connection") -> list[tuple[int, int, int, int]]:
        values = {"large": LARGE, "longest": MAX_INDEXED_DIMS}
        return connection.execute(_QUERIES[f"unindexed_{_NAMES[self.kind]}"], values).fetchall()

    def _place(self, connection: "Connection", partition: int) -> Place:
        if self.kind == MEMORIES:
            return Place(self.kind, partition, partition)
        (scope_id,) = connection.execute(_QUERIES["scope_of_partition"], {"partition": partition}).fetchone()
        return Place(self.kind, partition, scope_id)

    def _words(self, connection: "Connection", seqs: Sequence[int]) -> list[Words]:
        rows = connection.execute(_QUERIES[f"words_of_{_NAMES[self.kind]}"], {"seqs": list(seqs)}).fetchall()
        return [words_of(seq, fields) for seq, *fields in rows]


def text_of(blob: bytes, quantization: Quantization) -> str:
    """Return an encoded vector as pgvector reads one. 8-bit numbers are 16-bit ones too, so that no cosine changes."""
    numbers = decode(blob, quantization)
    return f"[{','.join(map(str, numbers) if quantization == 'int8' else (f'{each:.9g}' for each in numbers))}]"


def _index_beside(raw: "RawConnection", *, kind: int, space_id: int, partition: int, dims: int, members: int) -> None:
    """Make the index of a partition while others write vectors; what an interrupted try left goes first."""
    memory_kb = max(512 * 1024, members * (2 * dims + 1536) // 1024)  # what does not fit takes several times as long
    name = f"hnsw_{kind}_{space_id}_{partition}"
    raw.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}".encode())
    raw.execute(f"SET maintenance_work_mem = {memory_kb}".encode())
    raw.execute(
        f"CREATE INDEX CONCURRENTLY {name} ON item_vectors "
        f"USING hnsw ((embedding::halfvec({dims})) halfvec_cosine_ops) WITH (m = 24, ef_construction = 64) "
        f"WHERE kind = {kind} AND space_id = {space_id} AND partition = {partition}".encode()
    )
    raw.execute("RESET maintenance_work_mem; ANALYZE item_vectors")
