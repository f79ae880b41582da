"""The bank's SQL for SQLite, read from the files next to this one: queries by name, migrations, the schema.

This module runs nothing and knows no driver.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

APPLICATION_ID = 0x53574D4D
"""The application id in the header of every bank: `SWMM`."""

VECTOR_PARTITIONS = {"vec_": "scope_id", "source_vec_": "partition_id"}
"""Prefixes of the names of vector tables (memories', then sources'), each with the column that partitions the table."""

_HERE = Path(__file__).parent


class Migration(NamedTuple):
    """One numbered step of the schema."""

    number: int
    name: str
    script: str

    @property
    def statements(self) -> tuple[str, ...]:
        """Its statements, one by one."""
        return statements(self.script)


def vector_table(prefix: str, space_id: str, element: str, dims: str) -> str:
    """Return the CREATE statement of a space's vector table.

    The chunk size is small, so that a project with few items costs little.
    """
    return (
        f"CREATE VIRTUAL TABLE {prefix}{space_id} USING vec0 ({VECTOR_PARTITIONS[prefix]} INTEGER PARTITION KEY, "
        f"embedding {element}[{dims}] distance_metric=cosine, chunk_size=128)"
    )


def code_table(table: str) -> str:
    """Return the CREATE statement, without their length, of the codes that schema 18 and older have next to a table."""
    return (
        f"CREATE VIRTUAL TABLE codes_{table} USING vec0 (part INTEGER PARTITION KEY, bucket INTEGER PARTITION KEY, "
        f"embedding bit[0], chunk_size=512)"
    )


class Query(str):
    """The text of a query for SQLite, with the name by which another engine finds its own text: `subject.query`."""

    __slots__ = ("name",)
    name: str


@cache
def queries(subject: str, folder: Path = _HERE) -> dict[str, Query]:
    """Return every query of `queries_<subject>.sql` in a folder by its name; none where there is no such file."""
    file, found = folder / f"queries_{subject}.sql", dict[str, Query]()
    for part in file.read_text("utf-8").split("-- name: ")[1:] if folder == _HERE or file.is_file() else ():
        name, _, text = part.partition("\n")
        found[name] = query = Query(text.strip().removesuffix(";"))
        query.name = f"{subject}.{name}"
    return found


@cache
def migrations(folder: Path = _HERE) -> tuple[Migration, ...]:
    """Return the migrations in their order; they are numbered from 1 without gaps."""
    files = sorted((folder / "migrations").glob("[0-9][0-9][0-9][0-9]_*.sql"))
    return tuple(Migration(int(file.name[:4]), file.stem, file.read_text("utf-8")) for file in files)


@cache
def newest_version() -> int:
    """Return the number of the last migration, without reading any."""
    return sum(path.suffix == ".sql" for path in (_HERE / "migrations").iterdir())


@cache
def schema_objects() -> dict[str, str]:
    """Return the CREATE statement of every object of the newest schema by its name, as `sqlite_master` keeps it."""
    found: dict[str, str] = {}
    for statement in statements((_HERE / "schema.sql").read_text("utf-8")):
        words = statement.split(None, 4)  # CREATE [UNIQUE | VIRTUAL] kind name
        found[words[3] if words[1] in ("UNIQUE", "VIRTUAL") else words[2]] = statement
    return found


def shadow_tables(objects: Mapping[str, str]) -> set[str]:
    """Return the names of the shadow tables that SQLite makes for the FTS5 tables among `objects` (SQL by name)."""
    indexes = [name for name, sql in objects.items() if sql.startswith("CREATE VIRTUAL TABLE") and " fts5 " in sql]
    return {f"{name}_{part}" for name in indexes for part in ("data", "idx", "docsize", "config", "content")}


def statements(script: str) -> tuple[str, ...]:
    """Split a script whose statements end with `;` at the end of a line."""
    return tuple(part.strip() for part in f"{script}\n".split(";\n") if part.strip())
