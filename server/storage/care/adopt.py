"""Taking over a database of claude-flow: its strategies go into a new bank, the old file is kept beside.

The old file is read and never run: no trigger, view or function of it takes part.
"""

import asyncio
import json
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from swarm_memory.schema.base import MEMORY, RUN, Scope, new_id
from swarm_memory.schema.errors import InputError, StorageError, StoreUntrusted
from swarm_memory.schema.memory import MAX_CONTENT, MAX_DESCRIPTION, MAX_TITLE, MemoryItem, Provenance
from swarm_memory.schema.sqlite.statements import APPLICATION_ID
from swarm_memory.server.storage.care.restore import put_in_place, remove
from swarm_memory.server.storage.driver import Driver, choose
from swarm_memory.server.storage.engine.connection import open_read_only, storage_errors
from swarm_memory.server.storage.engine.files import flush, make_private
from swarm_memory.server.storage.engine.lock import writer_lock
from swarm_memory.server.storage.engine.ownership import check_path
from swarm_memory.server.storage.store import open_store
from swarm_memory.tools.guard.gate import gated, told_of
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.ports.care import Adoption
from swarm_memory.tools.ports.models import Embedder
from swarm_memory.tools.retrieve.embed import BATCH, embed_batch, with_indexes
from swarm_memory.tools.text.cleaning import clean, is_memory_id

MAX_ROWS = 200_000
_COLUMNS = ("id", "pattern_data", "confidence", "usage_count", "created_at", "last_used")
_MAX_ROW_CHARS = 200_000
_READ = """
SELECT id, pattern_data, confidence, usage_count, created_at, last_used FROM main.patterns
WHERE type = 'reasoning_memory' LIMIT ?
"""


async def adopt(
    database: Path, *, scope: Scope, embedder: Embedder, pii: bool = True, sqlite: str = "auto", timeout_s: float = 10.0
) -> Adoption:
    """Put a new bank in the place of a claude-flow database, with that one's strategies marked as imported.

    Texts are cleaned, redacted and screened as any other, of personal data too with `pii`. The old file is copied
    beside first, whole, as `<name>.claude-flow-<time>`. Nothing is changed before the new bank is complete. Raises
    `StoreUntrusted` when the file is no such database, `StorageError`, and the embedder's errors.
    """
    driver = await asyncio.to_thread(choose, sqlite)
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    kept = database.with_name(f"{database.name}.claude-flow-{stamp}")
    rows = await asyncio.to_thread(_copy_and_read, driver, database, kept)
    run_id = new_id(RUN)
    items, skipped = _items(rows, scope, run_id, database.name, pii=pii)
    fresh = database.with_name(f"{database.name}.adopting-{os.getpid()}")
    try:
        store = await open_store(fresh, sqlite=sqlite, embedder=embedder)
        try:
            for start in range(0, len(items), BATCH):
                batch = items[start : start + BATCH]
                vectors = await embed_batch(embedder, [item.embedding_text for item in batch])
                await store.add_memories(list(map(with_indexes, batch, vectors)), embedder.name)
        finally:
            await store.close()
        await asyncio.to_thread(_exchange, database, fresh, timeout_s)
    except BaseException:
        await asyncio.to_thread(kept.unlink)
        raise
    finally:
        await asyncio.to_thread(remove, fresh)
    held = [item for item in items if item.status == "quarantined" or item.provenance.suspect is not None]
    return Adoption(run_id, len(items), tuple(skipped), kept, told_of(held))


async def check_adoptable(database: Path, *, sqlite: str = "auto") -> None:
    """Look whether there is something to adopt, and change nothing. Raises as `adopt`."""
    driver = await asyncio.to_thread(choose, sqlite)

    def look() -> None:
        with _opened(driver, database):
            pass

    await asyncio.to_thread(look)


@contextmanager
def _opened(driver: Driver, database: Path) -> Generator[Any]:
    """Open a database of claude-flow for reading."""
    with storage_errors(driver.module, database):
        if not check_path(database):
            raise StorageError(f"there is no database at {database}")
        with closing(open_read_only(driver.module, database)) as connection:
            (application_id,) = connection.execute("PRAGMA application_id").fetchone()
            if application_id == APPLICATION_ID:
                raise StoreUntrusted(f"{database} is a bank of swarm-memory already: there is nothing to adopt")
            _check_patterns(connection.execute, database)
            yield connection


def _copy_and_read(driver: Driver, database: Path, kept: Path) -> list[tuple[Any, ...]]:
    with _opened(driver, database) as connection:
        rows = connection.execute(_READ, (MAX_ROWS,)).fetchall()
        make_private(kept)
        connection.execute("VACUUM INTO ?", (str(kept),))
    with storage_errors(driver.module, database):
        flush(kept)
        flush(kept.parent)
    return rows


def _check_patterns(execute: Callable[..., Any], database: Path) -> None:
    """Raise `StoreUntrusted` unless `patterns` is a plain table that has the columns that are read."""
    found = execute("SELECT type, sql FROM sqlite_master WHERE name = 'patterns'").fetchone()
    columns = {row[1] for row in execute("PRAGMA table_info(patterns)")}
    plain = found is not None and found[0] == "table" and not str(found[1]).upper().startswith("CREATE VIRTUAL")
    if not plain or not {*_COLUMNS, "type"} <= columns:
        raise StoreUntrusted(
            f"{database} is not a database of claude-flow: it has no table `patterns` of the known shape"
        )


def _items(
    rows: Sequence[tuple[Any, ...]], scope: Scope, run_id: str, source: str, *, pii: bool
) -> tuple[list[MemoryItem], list[str]]:
    items: list[MemoryItem] = []
    skipped: list[str] = []
    for row in rows:
        try:
            items.append(gated(_item(row, scope, run_id, source, pii=pii)))
        except (ValueError, RecursionError, InputError) as error:
            why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
            skipped.append(f"{str(row[0])[:80]}: {why}")
    return items, skipped


def _item(row: tuple[Any, ...], scope: Scope, run_id: str, source: str, *, pii: bool) -> MemoryItem:
    old_id, text, confidence, usage_count, created_at, last_used = row
    if not isinstance(text, str) or len(text) > _MAX_ROW_CHARS:
        raise InputError("its pattern_data is no text, or too long")
    parsed: object = json.loads(text)
    if not isinstance(parsed, dict):
        raise InputError("its pattern_data is no JSON object")
    data = cast("dict[str, Any]", parsed)
    origin = cast("dict[str, Any]", data["source"]) if isinstance(data.get("source"), dict) else {}
    known = isinstance(old_id, str) and is_memory_id(old_id)
    tags: list[object] = data["tags"] if isinstance(data.get("tags"), list) else []
    return MemoryItem(
        id=old_id if known else new_id(MEMORY),
        scope=scope,
        title=_text(data, "title", MAX_TITLE, pii=pii, required=True),
        description=_text(data, "description", MAX_DESCRIPTION, pii=pii),
        content=_text(data, "content", MAX_CONTENT, pii=pii, required=True),
        tags=tuple(_safe(str(tag), 100, pii=pii) for tag in tags[:20]),
        domain=_text(data, "domain", 200, pii=pii) or None,
        outcome="Failure" if origin.get("outcome") == "Failure" else "Success",
        confidence=_unit(confidence),
        usage_count=max(0, usage_count) if isinstance(usage_count, int) else 0,
        created_at=_moment(created_at) or datetime.now(UTC),
        last_used=_moment(last_used),
        provenance=Provenance(
            task_id=_safe(str(origin["task_id"]), 500, pii=pii) if origin.get("task_id") else None,
            distiller="imported",
            run_id=run_id,
            imported_from=f"claude-flow:{source}:{_safe(str(old_id), 200, pii=pii)}",
        ),
    )


def _text(data: dict[str, Any], key: str, limit: int, *, pii: bool, required: bool = False) -> str:
    value = data.get(key)
    text = _safe(value, limit, pii=pii) if isinstance(value, str) else ""
    if required and not text:
        raise InputError(f"it has no {key}")
    return text


def _safe(text: str, limit: int, *, pii: bool) -> str:
    """Return a text without secrets and control signs; it is cut last, lest half a secret be left."""
    return clean(redact(clean(text), pii=pii).text).strip()[:limit].strip()


def _unit(value: object) -> float:
    return min(1.0, max(0.0, value)) if isinstance(value, int | float) and value == value else 0.5


def _moment(value: object) -> datetime | None:
    """Return the moment of ISO 8601 text, of SQLite's own form, or of milliseconds since 1970; None for all else."""
    try:
        if isinstance(value, int | float):
            return datetime.fromtimestamp(value / 1000 if value > 1e11 else value, UTC)
        moment = datetime.fromisoformat(str(value))
    except (ValueError, OverflowError, OSError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _exchange(database: Path, fresh: Path, timeout_s: float) -> None:
    with writer_lock(database, timeout_s):
        put_in_place(database, fresh, keep=False)  # the old one was copied whole
