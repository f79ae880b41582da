"""The SQL of the bank for SQLite, read from the files beside this one: queries by name, migrations, the schema.

It runs nothing and knows no driver.
"""

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

APPLICATION_ID = 0x53574D4D
"""In the header of every bank: `SWMM`."""

VECTOR_TABLE = (
    "CREATE VIRTUAL TABLE vec_{space_id} USING vec0 (scope_id INTEGER PARTITION KEY, "
    "embedding {element}[{dims}] distance_metric=cosine, chunk_size=128)"
)
"""One for each space of vectors. The chunk is small, so that a project with a few items costs little."""

_HERE = Path(__file__).parent
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_OBJECT = re.compile(r"CREATE (?:UNIQUE |VIRTUAL )?\w+ (\w+)")


class Migration(NamedTuple):
    """One numbered step of the schema."""

    number: int
    name: str
    statements: tuple[str, ...]


@cache
def queries() -> dict[str, str]:
    """Return every query of `queries.sql` by its name."""
    parts = _NAME.split(_read("queries.sql"))
    return {name: body.strip().removesuffix(";") for name, body in zip(parts[1::2], parts[2::2], strict=True)}


@cache
def migrations() -> tuple[Migration, ...]:
    """Return the migrations in their order; they are numbered from 1 without gaps."""
    files = sorted((_HERE / "migrations").glob("[0-9][0-9][0-9][0-9]_*.sql"))
    return tuple(Migration(int(file.name[:4]), file.stem, statements(file.read_text("utf-8"))) for file in files)


@cache
def schema_objects() -> dict[str, str]:
    """Return the CREATE statement of every object of the newest schema by its name, as `sqlite_master` keeps it."""
    objects: dict[str, str] = {}
    for statement in statements(_read("schema.sql")):
        found = _OBJECT.match(statement)
        assert found is not None, statement
        objects[found[1]] = statement
    return objects


def statements(script: str) -> tuple[str, ...]:
    """Split a script whose statements end with `;` at the end of a line."""
    return tuple(part.strip() for part in re.split(r";[ \t]*(?:\n|\Z)", script) if part.strip())


def _read(name: str) -> str:
    return (_HERE / name).read_text("utf-8")
