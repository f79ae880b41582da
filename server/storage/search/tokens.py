"""Tokens as they are kept, checked, joined and packed, and as the index has them, marked with their scope. No SQL."""

import re
import zlib
from collections.abc import Sequence

from swarm_memory.schema.errors import InputError, StoreDamaged

_SEPARATOR = re.compile(r"[\x00-/:-@\[-`{-\x7f\ud800-\udfff]")
"""What FTS5's `ascii` tokenizer splits at, and what is no text."""


def joined(tokens: Sequence[str]) -> str:
    """Return the tokens joined by spaces. Raises `InputError` for one that has more than letters and digits."""
    for token in tokens:
        if not token or _SEPARATOR.search(token):
            raise InputError(f"{token[:40]!r} is no token: tokens are letters and digits only")
    return " ".join(tokens)


def pack(title: Sequence[str], description: Sequence[str], content: Sequence[str]) -> bytes:
    """Return the tokens of an item's fields as they are kept. Raises `InputError` as `joined`."""
    return packed("\n".join(map(joined, (title, description, content))))


def packed(fields: str) -> bytes:
    """Return the tokens of an item, a line for each field, as they are kept."""
    return zlib.compress(fields.encode())


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
    return " ".join(in_scope(scope_id, token) for token in unpack(packed).split("\n")[field].split())


def usable(tokens: Sequence[str]) -> list[str]:
    """Return the distinct tokens that can stand in the index, folded as it folds them."""
    folded = (_fold(token) for token in tokens if token and not _SEPARATOR.search(token))
    return list(dict.fromkeys(folded))


def in_scope(scope_id: int, token: str) -> str:
    """Return a token as the index has it: glued to its scope, so that scopes share no term."""
    return f"s{scope_id}x{token}"


def match_any(scope_id: int, tokens: Sequence[str]) -> str:
    """Return the MATCH expression for items of a scope that hold any of the tokens. Each is quoted."""
    return " OR ".join(f'"{in_scope(scope_id, token)}"' for token in tokens)


def _fold(token: str) -> str:
    return token.lower() if token.isascii() else "".join(c.lower() if c.isascii() else c for c in token)
