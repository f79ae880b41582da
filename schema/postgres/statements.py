"""The bank's SQL for PostgreSQL, read from the files next to this one: what differs from SQLite's, and migrations.

Queries have the same names as for SQLite. A query that is not here is SQLite's own text with a few expressions
translated to PostgreSQL's. The first migration defines functions of SQLite's that PostgreSQL lacks.
"""

import re
from functools import cache
from pathlib import Path

from swarm_memory.schema.sqlite import statements as common
from swarm_memory.schema.sqlite.statements import Migration, Query

_HERE = Path(__file__).parent

SCHEMA = "swarm_memory"
"""The database schema that holds all tables."""

IN_WRITE = "_in_write"
"""Suffix of the name of the query that replaces another one in a write transaction: it locks the rows it finds."""

_TURNS = (
    (r"\s(?:NOT INDEXED|INDEXED BY \w+)\b", ""),  # PostgreSQL chooses by its statistics
    (r"(?<=[\s(])\+(?=[a-z])", ""),  # the sign that keeps SQLite from using an index
    (r"\bCROSS JOIN\b", "JOIN"),  # SQLite's way to fix the order of tables; each join has its ON
    (r"\b((?:seq|scope_id) (?:= wanted\.|IN \(SELECT ))value\b", r"\1value::bigint"),
    (r"\bINSERT OR IGNORE (INTO [^;]+)", r"INSERT \1 ON CONFLICT DO NOTHING"),
)
_MARKS = re.compile(r"'(?:[^']|'')*'|--[^\n]*|::|:([a-z_]+)|(\?)|%")


@cache
def migrations() -> tuple[Migration, ...]:
    """Return the migrations in their order; they are numbered from 1 without gaps."""
    return common.migrations(_HERE)


def queries(subject: str) -> dict[str, Query]:
    """Return the queries of `queries_<subject>.sql` by name, as written there; none where there is no such file."""
    return common.queries(subject, _HERE)


@cache
def sql_for(query: Query, *, in_write: bool = False) -> str:
    """Return the text that is sent to PostgreSQL for a query, with psycopg's placeholders."""
    subject, _, name = query.name.partition(".")
    own = queries(subject)
    if in_write and name + IN_WRITE in own:
        return with_placeholders(own[name + IN_WRITE])
    return with_placeholders(own[name] if name in own else to_postgres(query))


def to_postgres(text: str) -> str:
    """Return a SQLite statement translated to PostgreSQL, for statements that differ in a few expressions only."""
    for pattern, instead in _TURNS:
        text = re.sub(pattern, instead, text)
    return text


def with_placeholders(text: str) -> str:
    """Return a statement with `?` and `:name` turned into psycopg's placeholders, and every `%` doubled."""

    def put(found: re.Match[str]) -> str:
        if found[1]:
            return f"%({found[1]})s"
        return "%s" if found[2] else found[0].replace("%", "%%")

    return _MARKS.sub(put, text)
