"""In how many items a token stands: counted, estimated where that takes long, remembered where the token is common.

It reads a keyword index by that index's own statements and knows neither legs nor rankings.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from swarm_memory.server.storage.rows import to_json
from swarm_memory.server.storage.search.tokens import in_scope, match_any

if TYPE_CHECKING:
    from swarm_memory.server.storage.engine.driver import Connection

COUNTED_WHOLE = 200_000
COUNTED_AT_ENDS = 256
"""In a larger partition a word's items are not counted one by one, which takes as long as there are such items: it is
estimated from the first and the last 256. Half of the words are within 3 %; an idf needs no more."""

REMEMBERED_FROM = 20_000
COMMON = 500
CHANGED = 0.01
"""In a partition of so many items the count of a word that stands in so many is remembered, until that share of the
partition's items came or went. Counting common words again was a quarter of a search; an idf hardly moves by it."""

MAX_REMEMBERED = 20_000


class Counted(NamedTuple):
    """In how many items a token stood when the partition had so many."""

    items: int
    documents: int

    def still_holds(self, documents: int) -> bool:
        return abs(documents - self.documents) <= CHANGED * self.documents


class TermCounts:
    """Counts tokens of one index over one connection, and remembers the common ones."""

    def __init__(self) -> None:
        self._connection: Connection | None = None
        self._known: dict[tuple[int, str], Counted] = {}

    def count(
        self,
        connection: "Connection",
        statements: Mapping[str, str],
        partition: int,
        documents: int,
        tokens: Sequence[str],
    ) -> list[tuple[int, int]]:
        """Return (place among the tokens, items that hold it) of those that stand anywhere in the partition."""
        if connection is not self._connection:  # another file may lie there now, with other partitions
            self._connection, self._known = connection, {}
        known = {place: counted.items for place, counted in self._remembered(partition, documents, tokens)}
        others = [place for place in range(len(tokens)) if place not in known]
        count = _counts if documents <= COUNTED_WHOLE else _estimates
        found = count(connection, statements, partition, [tokens[place] for place in others])
        counts = [(others[place], items) for place, items in found]
        if documents >= REMEMBERED_FROM:
            self._remember(partition, documents, [(tokens[place], items) for place, items in counts])
        return sorted([*known.items(), *counts])

    def _remembered(self, partition: int, documents: int, tokens: Sequence[str]) -> list[tuple[int, Counted]]:
        found = ((place, self._known.get((partition, token))) for place, token in enumerate(tokens))
        return [(place, counted) for place, counted in found if counted is not None and counted.still_holds(documents)]

    def _remember(self, partition: int, documents: int, counts: Sequence[tuple[str, int]]) -> None:
        if len(self._known) > MAX_REMEMBERED:
            self._known.clear()
        self._known.update(
            ((partition, token), Counted(items, documents)) for token, items in counts if items >= COMMON
        )


def _counts(
    connection: "Connection", statements: Mapping[str, str], partition: int, tokens: Sequence[str]
) -> list[tuple[int, int]]:
    terms = to_json([in_scope(partition, token) for token in tokens])
    return connection.execute(statements["term_counts"], (terms,)).fetchall()


def _estimates(
    connection: "Connection", statements: Mapping[str, str], partition: int, tokens: Sequence[str]
) -> list[tuple[int, int]]:
    """Return the same by how densely a token stands at both ends of the index, exactly for a rare one."""
    found: list[tuple[int, int]] = []
    for position, token in enumerate(tokens):
        values = {"expression": match_any(partition, [token]), "limit": COUNTED_AT_ENDS}
        first = [seq for (seq,) in connection.execute(statements["first_matches"], values).fetchall()]
        if len(first) < COUNTED_AT_ENDS:
            found += [(position, len(first))] if first else []
            continue
        last = [seq for (seq,) in connection.execute(statements["last_matches"], values).fetchall()]
        seen, between = len({*first, *last}), last[-1] - first[-1] - 1
        density = seen / (first[-1] - first[0] + last[0] - last[-1] + 2)
        found.append((position, seen + max(0, round(density * between))))
    return found
