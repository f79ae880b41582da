"""Tokens as the keyword index holds them: checked, joined by spaces, marked with their scope. It runs no SQL."""

import re
from collections.abc import Sequence

from swarm_memory.schema.errors import InputError

_SEPARATOR = re.compile(r"[\x00-/:-@\[-`{-\x7f\ud800-\udfff]")
"""What FTS5's `ascii` tokenizer splits at, and what is no text."""


def joined(tokens: Sequence[str]) -> str:
    """Return the tokens joined by spaces. Raises `InputError` for one that has more than letters and digits."""
    for token in tokens:
        if not token or _SEPARATOR.search(token):
            raise InputError(f"{token[:40]!r} is no token: tokens are letters and digits only")
    return " ".join(tokens)


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
