"""Moving the bank to another embedder, in steps that can be broken off: what lacks a vector, its vector, the old space.

Embedding itself is the caller's, outside of any transaction.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from swarm_memory.schema.base import Scope
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.server.storage.rows import find_scope, to_json, to_text
from swarm_memory.server.storage.search.index import Index, all_spaces
from swarm_memory.server.storage.search.vectors import Quantization

if TYPE_CHECKING:
    from swarm_memory.server.storage.engine.driver import Connection
    from swarm_memory.tools.ports.models import Vector

_QUERIES = queries()


def without_vector(
    connection: "Connection", embedder: str, dimensions: int, limit: int, after: int
) -> list[tuple[int, str, str]]:
    """Return (position, id, text to embed) of items of every scope and status that have no vector in the space."""
    values = {"model": embedder, "dims": dimensions, "limit": limit, "after": after}
    rows = connection.execute(_QUERIES["without_vector"], values).fetchall()
    return [(seq, item_id, _text(data)) for seq, item_id, data in rows]


def unembedded(connection: "Connection", scope: Scope, limit: int, after: int) -> list[tuple[int, str, str]]:
    """Return the same of items of one scope that have no vector in any space: they were stored while none was made."""
    values = {"scope_id": find_scope(connection, scope), "limit": limit, "after": after}
    rows = connection.execute(_QUERIES["unembedded"], values).fetchall()
    return [(seq, item_id, _text(data)) for seq, item_id, data in rows]


def put_first_vectors(
    connection: "Connection", index: Index, embedder: str, vectors: "Mapping[str, Vector]", quantization: Quantization
) -> int:
    """Write vectors of those items that still have none in any space: one edited meanwhile has that of its new text."""
    rows = connection.execute(_QUERIES["unembedded_of"], (to_json(list(vectors)),)).fetchall()
    return put_vectors(connection, index, embedder, {item_id: vectors[item_id] for (item_id,) in rows}, quantization)


def put_vectors(
    connection: "Connection", index: Index, embedder: str, vectors: "Mapping[str, Vector]", quantization: Quantization
) -> int:
    """Write vectors by memory id and enter them into the index; return how many items were there."""
    now = to_text(datetime.now(UTC))
    rows = connection.execute(_QUERIES["patterns_by_id"], (to_json(list(vectors)),)).fetchall()
    for seq, item_id, scope_id, status in rows:
        vector = vectors[item_id]
        space = index.make_space(connection, embedder, len(vector), quantization)
        index.replace_vector(connection, (seq, scope_id, status == "active"), vector, space, now)
    return len(rows)


def drop_other_spaces(connection: "Connection", index: Index, embedder: str, dimensions: int) -> list[str]:
    """Delete every space but one; return the names of their models."""
    others = [space for space in all_spaces(connection) if (space.model, space.dims) != (embedder, dimensions)]
    for space in others:
        index.drop_space(connection, space)
    return [space.model for space in others]


def stale_spaces(connection: "Connection") -> int:
    """Return how many vector indexes lack what was written without sqlite-vec."""
    return sum(space.stale for space in all_spaces(connection))


def _text(data: str) -> str:
    item = json.loads(data)
    return "\n".join(part for part in (item["title"], item["description"], item["content"]) if part)
