"""Words: how tokens are packed and indexed, how many items contain each, and the keyword search."""

import json
import math
import re
import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from swarm_memory.schema.errors import InputError, StoreDamaged
from swarm_memory.server.storage.driver import Connection
from swarm_memory.tools.retrieve.rank import BM25_B, BM25_K1

_SEPARATOR = re.compile(r"[\x00-/:-@\[-`{-\x7f\ud800-\udfff]")
"""Characters at which FTS5's `ascii` tokenizer splits, and lone surrogates, which are not text."""

REMEMBERED_ITEMS = 4096
"""The words of at most this many recently ranked items are cached, keyed by their packed form: some 5 MB."""


@lru_cache(maxsize=REMEMBERED_ITEMS)
def unpack(packed: bytes | str) -> str:
    """Return an item's tokens joined by spaces, one line per field. Before schema 6 they were stored as that text.

    Raises `StoreDamaged` when they are not what was written.
    """
    if isinstance(packed, str):
        return packed
    try:
        return zlib.decompress(packed).decode()
    except (TypeError, UnicodeDecodeError, zlib.error) as error:  # a damaged page can turn any value into a number
        raise StoreDamaged("the tokens of a memory are damaged: run `swarm-memory doctor --repair`") from error


def scoped(packed: bytes | str, field: int, scope_id: int) -> str:
    """Return the tokens of one field (0 title, 1 description, 2 content) in their indexed form: a function for SQL."""
    return " ".join(in_scope(scope_id, token) for token in _fields(packed)[field].split())


@lru_cache(maxsize=1)
def _fields(packed: bytes | str) -> list[str]:
    """Return the fields of an item's tokens; cached, as SQL requests them separately, one after another."""
    return unpack(packed).split("\n")


def in_scope(scope_id: int, token: str) -> str:
    """Return a token in its indexed form: prefixed with its scope, so that scopes share no term."""
    return f"s{scope_id}x{token}"


def joined(tokens: Sequence[str]) -> str:
    """Return the tokens joined by spaces. Raises `InputError` for a token that is not just letters and digits."""
    for token in tokens:
        if not token or _SEPARATOR.search(token):
            raise InputError(f"{token[:40]!r} is not a token: tokens consist only of letters and digits")
    return " ".join(tokens)


def pack(title: Sequence[str], description: Sequence[str], content: Sequence[str]) -> bytes:
    """Return the tokens of an item as they are stored, one line per field. Raises `InputError` as `joined` does."""
    return zlib.compress("\n".join(map(joined, (title, description, content))).encode())


def usable(tokens: Sequence[str]) -> list[str]:
    """Return the distinct tokens that the index can contain, folded as the index folds them."""
    return list(dict.fromkeys(folded(token) for token in tokens if token and not _SEPARATOR.search(token)))


def match_any(scope_id: int, tokens: Sequence[str]) -> str:
    """Return the MATCH expression for items of a scope that hold any of the tokens. Each token is quoted."""
    return " OR ".join(f'"{in_scope(scope_id, token)}"' for token in tokens)


_TWO_WAYS = re.compile("[\u03c3\u03c2\u00df]|ss")
"""Letters that become others when a word changes case: a sigma at its end, a German sharp s."""


def match_all(scope_id: int, tokens: Sequence[str]) -> str:
    """Return the MATCH expression for items of a scope that hold all of the six longest tokens, which are rare."""
    longest = sorted((token for token in usable(tokens) if not _TWO_WAYS.search(token)), key=len)[-6:]
    return " AND ".join(f'"{in_scope(scope_id, token)}"' for token in longest)


def folded(token: str) -> str:
    """Return a token as the index folds it: ASCII letters in lower case."""
    return token.lower() if token.isascii() else "".join(c.lower() if c.isascii() else c for c in token)


def contains_text(data: str, text: str) -> bool:
    """Whether the title or content in an item's JSON column contains a case-folded text: in Unicode, unlike LIKE."""
    item = json.loads(data)
    return text in item["title"].casefold() or text in item["content"].casefold()


SIDE_BY_SIDE = 0.1
"""What two adjacent words of a query add if adjacent in an item too, as a share of what both are worth at most."""

MAX_QUERY_TOKENS = 64
MAX_POSTINGS = 1000
SURE_TOKENS = 4
SURE_POSTINGS = 8000
"""Only the rarest tokens of a query are searched: always the first, up to four while the items that hold them add up to
at most 8,000, and further ones while they add up to at most 1,000; never more than 64.

The cost of ranking grows with that sum, and the commonest tokens of a long prompt hardly change the order. In a bank of
a few hundred items every token is searched.
"""


Narrowed: TypeAlias = Mapping[int, str] | None
"""A filter on a search: by partition, the positions that may be found there as a JSON list; None: no filter."""


class Partition(NamedTuple):
    """A partition that holds items, as a search sees it."""

    id: int
    items: int
    embedded: int
    """Items with a vector in the query's space."""


def rarest(tokens: Sequence[str], counts: Sequence[tuple[int, int]]) -> list[str]:
    """Return the tokens to search, the rarest first. `counts`: (index of a token, how many items hold it)."""
    ordered = sorted(counts, key=itemgetter(1))[:MAX_QUERY_TOKENS]
    totals = accumulate(found for _, found in ordered)
    return [
        tokens[place]
        for number, ((place, _), total) in enumerate(zip(ordered, totals, strict=True))
        if number == 0 or total <= (SURE_POSTINGS if number < SURE_TOKENS else MAX_POSTINGS)
    ]


def matches(
    connection: Connection, statements: Mapping[str, str], expressions: Mapping[int, str], narrowed: Narrowed, pool: int
) -> dict[int, float]:
    """Return, by position, the BM25 scores of the best items for the MATCH expression of each partition."""
    if not expressions:
        return {}
    one = statements["keyword_matches" if narrowed is None else "keyword_matches_among"]
    each = (
        one.replace(":expression", f":expression_{number}").replace(":among", f":among_{number}")
        for number in expressions
    )
    query = " UNION ALL ".join("SELECT * FROM ({query}\n)".replace("{query}", sql) for sql in each)
    values: dict[str, Any] = {f"expression_{number}": expression for number, expression in expressions.items()}
    values |= {f"among_{number}": passing for number, passing in (narrowed or {}).items()}
    values["limit"] = pool
    return {seq: -score for seq, score in connection.execute(query, values).fetchall()}


def keyword_scores(
    documents: int, document_frequency: Mapping[str, int], items: Sequence[bytes | str]
) -> list[tuple[float | None, frozenset[str]]]:
    """Return for each item (its tokens as stored) its BM25 score for the query, and the query's tokens that it holds.

    Robertson, Zaragoza (2009), with the idf of Lucene, which is never negative, so that a bank of three items is ranked
    too. Two tokens that follow each other both in the query (in the order of `document_frequency`) and in the item add
    a tenth of both (Metzler, Croft 2005). Counts are those of the scopes searched; the mean length is that of `items`.
    A score of None: the item has no token of the query.
    """
    idf = {
        token: (BM25_K1 + 1) * math.log(1 + (documents - count + 0.5) / (count + 0.5))
        for token, count in document_frequency.items()
        if 0 < count <= documents
    }
    followed = {
        one: (other, SIDE_BY_SIDE * (idf[one] + idf[other]))
        for one, other in pairwise(document_frequency)
        if one in idf and other in idf
    }
    fields = [unpack(each) for each in items]
    texts = [tokens.split() for tokens in fields]
    mean = sum(map(len, texts)) / len(texts) if any(texts) else 1.0
    asked = frozenset(document_frequency)
    scored: list[tuple[float | None, frozenset[str]]] = []
    for tokens, words in zip(fields, texts, strict=True):
        shift = BM25_K1 * (1 - BM25_B + BM25_B * len(words) / mean)
        times: dict[str, int] = {}
        for token in filter(asked.__contains__, words):  # only these few of an item's words need a count
            times[token] = times.get(token, 0) + 1
        found = frozenset(times)
        parts = [idf[token] * count / (count + shift) for token, count in times.items() if token in idf]
        if both := [(one, *followed[one]) for one in found if one in followed and followed[one][0] in found]:
            text = f" {tokens} ".replace("\n", "  ")
            parts += [worth for one, other, worth in both if f" {one} {other} " in text]
        scored.append((math.fsum(parts) if parts else None, found))
    return scored
