"""Whether what is derived for sources and for codes of vectors is what their rows say. It only reads.

The memories' own indexes are looked at in `inspection`.
"""

from collections import Counter
from typing import TYPE_CHECKING

from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.server.storage.search.coded import wrong_codes
from swarm_memory.server.storage.search.index import all_spaces

if TYPE_CHECKING:
    from swarm_memory.server.storage.engine.driver import Connection
    from swarm_memory.server.storage.search.vectors import Space

_QUERIES = queries("repair")
_SOURCES = queries("sources")


def code_faults(connection: "Connection", space: "Space", of: str, scan: str) -> tuple[list[str], list[int]]:
    """Say how many codes of a space are not those of its vectors, which `scan` selects, `of` what they are of.

    Also return the positions where nobody can tell whether the vector or its code is right.
    """
    misplaced, differ = wrong_codes(connection, space, scan)
    wrong = misplaced + len(differ)
    return [f"the codes of {space.model} are wrong about {wrong} {of}"] if wrong else [], differ


def source_faults(connection: "Connection", searchable: bool) -> list[str]:
    """Say what the indexes and counts of the passages hold wrongly. `searchable`: whether sqlite-vec is loaded."""
    faults: list[str] = []
    surplus, missing = connection.execute(_QUERIES["passages_entered_wrongly"]).fetchone()
    if surplus or missing:
        faults.append(f"the keyword index lacks {missing} passages and holds {surplus} that it must not")
    if wrong := _wrong_words(connection):
        faults.append(f"the keyword index of sources is wrong about {wrong} words")
    if counts := connection.execute(_QUERIES["wrong_passage_counts"]).fetchone()[0]:
        faults.append(f"{counts} indexes of sources have a wrong count of their passages")
    for space in all_spaces(connection, _SOURCES):
        faults += _vector_faults(connection, space, searchable)
    return faults


def _wrong_words(connection: "Connection") -> int:
    items: Counter[str] = Counter()
    places: Counter[str] = Counter()
    for (tokens,) in connection.execute(_QUERIES["tokens_of_passages"]):
        words = tokens.split()
        places.update(words)
        items.update(set(words))
    wrong = 0
    for term, doc, count in connection.execute(_QUERIES["terms_of_passages"]):
        wrong += (items.pop(term, 0), places[term]) != (doc, count)
    return wrong + len(items)


def _vector_faults(connection: "Connection", space: "Space", searchable: bool) -> list[str]:
    faults: list[str] = []
    values = {"space_id": space.id, "model": space.model, "dims": space.dims}
    if counts := connection.execute(_QUERIES["wrong_counts_of_passage_vectors"], values).fetchone()[0]:
        faults.append(f"{counts} indexes of sources have a wrong count of their vectors of {space.model}")
    if not searchable or space.stale:
        return faults
    held = dict(connection.execute(space.sql(_QUERIES["indexed_vectors"])).fetchall())
    wanted = connection.execute(space.sql(_QUERIES["passage_vectors_to_index"]), (space.model, space.dims))
    wrong = sum(held.pop(seq, None) != vector for seq, vector in wanted) + len(held)
    if wrong:
        faults.append(f"the vector index of {space.model} is wrong about {wrong} passages")
    return faults + code_faults(connection, space, "passages", _SOURCES["scan_vectors"])[0]
