"""The tokens of an item as they are kept, and as the index has them."""

import zlib
from functools import lru_cache

from swarm_memory.schema.errors import StoreDamaged


def packed(fields: str) -> bytes:
    """Return the tokens of an item, a line for each field, as they are kept."""
    return zlib.compress(fields.encode())


REMEMBERED_ITEMS = 4096
"""Of so many items that were ranked last the words are remembered, by what is kept of them: some 5 MB."""


@lru_cache(maxsize=REMEMBERED_ITEMS)
def unpack(packed: bytes | str) -> str:
    """Return an item's tokens joined by spaces, a line for each field. Before schema 6 they were kept as that text.

    Raises `StoreDamaged` when they are not what was written.
    """
    if isinstance(packed, str):
        return packed
    try:
        return zlib.decompress(packed).decode()
    except (TypeError, UnicodeDecodeError, zlib.error) as error:  # a damaged page can make a number of any value
        raise StoreDamaged(
            "the tokens of a memory are not what was written: run `swarm-memory doctor --repair`"
        ) from error


def scoped(packed: bytes | str, field: int, scope_id: int) -> str:
    """Return the tokens of one field (0 title, 1 description, 2 content) as the index has them: a function for SQL."""
    return " ".join(in_scope(scope_id, token) for token in _fields(packed)[field].split())


@lru_cache(maxsize=1)
def _fields(packed: bytes | str) -> list[str]:
    """Return the fields of an item's tokens: each is asked for by itself, one after the other."""
    return unpack(packed).split("\n")


def in_scope(scope_id: int, token: str) -> str:
    """Return a token as the index has it: glued to its scope, so that scopes share no term."""
    return f"s{scope_id}x{token}"
