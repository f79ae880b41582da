"""Words on PostgreSQL: in which items each stands. What is new is noted in a row of its own, and entered with others.

A row for each word of an item would weigh ten times as much, and a writer of one item would write fifty rows. So the
items of a word stand in blocks, and an item's words wait, where a search sees them too, until there are enough.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from swarm_memory.schema.postgres.statements import queries
from swarm_memory.server.storage.search.words import folded

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import Connection

ENTERED_AT_ONCE = 64
"""So many items wait at most: a search looks through all their words."""

FULL = 128
"""A block with so many entries gets no more."""

_BLOCKS_AT_ONCE = 1_000

WEIGHTS = (10, 6, 5)
"""Of title, description and content, five times those that the keyword index of SQLite is asked with."""

MAX_WEIGHT, MAX_LENGTH = (1 << 10) - 1, (1 << 14) - 1
_QUERIES = queries("index")


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


def words_of(seq: int, fields: Sequence[str]) -> Words:
    """Return the words of an item by its fields (title, description, content), each of tokens joined by spaces."""
    weights: Counter[str] = Counter()
    length = 0
    for field, weight in zip(fields, WEIGHTS, strict=True):
        tokens = [token for token in field.split(" ") if token]
        length += len(tokens)
        for token in tokens:
            weights[folded(token)] += weight
    return Words(seq, length, weights)


def enter(connection: "Connection", place: Place, items: Sequence[Words]) -> None:
    """Enter items that are new there: a few are noted, many go into the postings at once."""
    if len(items) >= ENTERED_AT_ONCE:
        connection.execute(_QUERIES["lock"], place._asdict())
        _merge(connection, place, items)
        return
    waiting = 0
    for each in items:
        (waiting,) = connection.execute(_QUERIES["add_recent"], _recent(place, each, 1)).fetchone()
    if waiting >= ENTERED_AT_ONCE and connection.execute(_QUERIES["try_lock"], place._asdict()).fetchone() == (True,):
        _merge(connection, place)


def leave(connection: "Connection", place: Place, item: Words) -> None:
    """Take an item out; its words must be those that it was entered with."""
    if connection.execute(_QUERIES["drop_recent"], {**place._asdict(), "seq": item.seq}).rowcount:
        _count(connection, place, -item.length)
    else:
        connection.execute(_QUERIES["add_recent"], _recent(place, item, -1))


def drop_what_went(connection: "Connection", kind: int) -> None:
    """Take the words of items that left out of the postings."""
    for partition, scope_id in connection.execute(_QUERIES["partitions_to_enter"], {"kind": kind}).fetchall():
        place = Place(kind, partition, scope_id)
        connection.execute(_QUERIES["lock"], place._asdict())
        _merge(connection, place)


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
