"""Taking over a claude-flow database, made here as that program makes it: read, never run, and kept."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import StorageError, StoreUntrusted
from swarm_memory.server.storage.care.adopt import adopt
from swarm_memory.server.storage.driver import choose
from swarm_memory.tools.ports.memories import MemoryFilter

TABLES = (
    "CREATE TABLE patterns (id TEXT PRIMARY KEY, type TEXT, pattern_data TEXT, confidence REAL, usage_count INTEGER,"
    " created_at TEXT, last_used TEXT)",
    "CREATE TABLE pattern_embeddings (id TEXT PRIMARY KEY, model TEXT, dims INTEGER, vector BLOB, created_at TEXT)",
    "CREATE TABLE fired (what TEXT)",
    "CREATE TRIGGER on_insert AFTER INSERT ON patterns BEGIN INSERT INTO fired VALUES (new.id); END",
    "CREATE VIEW looking AS SELECT * FROM patterns",
)


def strategy(**fields: Any) -> str:
    data = {
        "title": "Handle login flows with CSRF tokens",
        "description": "Fetch the token before the POST.",
        "content": "1) Load the page. 2) Attach the token.",
        "source": {"task_id": "task_1", "agent_id": "agent_web", "outcome": "Failure", "evidence": ["event_id_192"]},
        "tags": ["web", "auth"],
        "domain": "webarena.admin",
    }
    return json.dumps(data | fields)


@pytest.fixture
def foreign(database: Path, driver_name: str) -> Callable[..., Path]:
    """Make a claude-flow database with these rows of `patterns`; its log is left unchecked."""

    def made(*rows: tuple[Any, ...]) -> Path:
        database.parent.mkdir()
        connection = choose(driver_name).module.connect(database, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        for statement in TABLES[:3]:
            connection.execute(statement)
        connection.executemany("INSERT INTO patterns VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        for statement in TABLES[3:]:
            connection.execute(statement)
        connection.close()
        return database

    return made


GOOD = ("p1", "reasoning_memory", strategy(), 0.76, 4, "2025-10-10T12:00:00Z", "2025-10-11 08:00:00")


async def test_until_told_the_store_says_what_it_is_and_touches_nothing(open_bank: Any, foreign: Any) -> None:
    database = foreign(GOOD)
    before = hashlib.sha256(database.read_bytes()).digest()
    with pytest.raises(StoreUntrusted, match=r"claude-flow, run `swarm-memory adopt`"):
        async with open_bank():
            pass
    assert hashlib.sha256(database.read_bytes()).digest() == before


async def test_its_strategies_are_taken_over_and_the_old_file_is_kept(
    open_bank: Any, foreign: Any, embedder: Any, here: Scope, driver_name: str
) -> None:
    database = foreign(
        GOOD,
        ("p2", "reasoning_memory", strategy(title="Escape the shell", source=None, tags=None), None, None, None, None),
        ("p3", "coordination", strategy(), 0.5, 0, None, None),
        ("p4", "reasoning_memory", "{broken", 0.5, 0, None, None),
        ("p5", "reasoning_memory", strategy(content=" "), 0.5, 0, None, None),
        ("p6", "reasoning_memory", json.dumps([1]), 0.5, 0, None, None),
    )
    done = await adopt(database, scope=here, embedder=embedder, sqlite=driver_name)
    assert done.imported == 2
    assert [line.partition(":")[0] for line in done.skipped] == ["p4", "p5", "p6"]
    async with open_bank() as store:
        second, first = sorted(await store.list_memories([here], MemoryFilter()), key=lambda each: each.title)
        assert (first.title, first.outcome, first.confidence, first.usage_count) == (
            "Handle login flows with CSRF tokens", "Failure", 0.76, 4,
        )  # fmt: skip
        assert first.created_at.isoformat() == "2025-10-10T12:00:00+00:00"
        assert first.tags == ("web", "auth")
        assert (first.provenance.distiller, first.provenance.run_id) == ("imported", done.run_id)
        assert first.provenance.imported_from == "claude-flow:memory.db:p1"
        assert (second.outcome, second.confidence) == ("Success", 0.5)
        near = await store.nearest([here], embedder.name, embedder.vector(first.embedding_text), 1)
        assert near[0][0] == first.id
    kept = choose(driver_name).module.connect(done.kept)
    assert kept.execute("SELECT count(*) FROM patterns").fetchone() == (6,)
    assert kept.execute("SELECT count(*) FROM fired").fetchone() == (0,)
    kept.close()
    if os.name == "posix":
        assert done.kept.stat().st_mode & 0o777 == 0o600
    names = {path.name for path in database.parent.iterdir()}
    assert not [name for name in names if "adopting" in name]


async def test_what_is_taken_over_holds_no_secret_and_no_control_sign(
    open_bank: Any, foreign: Any, embedder: Any, here: Scope, driver_name: str
) -> None:
    secret = "ghp_" + "a1B2" * 9
    held = strategy(
        title=f"Push with {secret}",
        description="Ask jane.roe@example.com\u202e for it.",
        content=f"1) export TOKEN={secret}",
        tags=["git", secret],
        source={"task_id": f"push {secret}", "outcome": "Success"},
    )
    database = foreign((f"p {secret}", "reasoning_memory", held, 0.5, 0, None, None))
    done = await adopt(database, scope=here, embedder=embedder, sqlite=driver_name)
    assert done.imported == 1
    async with open_bank() as store:
        (item,) = await store.list_memories([here], MemoryFilter())
    text = item.model_dump_json()
    assert secret not in text
    assert "jane.roe" not in text
    assert "\u202e" not in item.description
    assert item.title.startswith("Push with ")


async def test_an_embedder_that_fails_leaves_the_old_database_in_its_place(
    open_bank: Any, foreign: Any, here: Scope, driver_name: str, embedder: Any
) -> None:
    from swarm_memory.schema.errors import ModelUnavailable

    async def failing(texts: Any) -> Any:
        raise ModelUnavailable("no endpoint")

    object.__setattr__(embedder, "embed_documents", failing)
    database = foreign(GOOD)
    with pytest.raises(ModelUnavailable):
        await adopt(database, scope=here, embedder=embedder, sqlite=driver_name)
    with pytest.raises(StoreUntrusted, match="claude-flow"):
        async with open_bank():
            pass
    assert not [path for path in database.parent.iterdir() if "adopting" in path.name or "claude-flow" in path.name]


async def test_what_is_no_claude_flow_database_is_not_adopted(
    open_bank: Any, database: Path, embedder: Any, here: Scope, driver_name: str
) -> None:
    with pytest.raises(StorageError, match="there is no database"):
        await adopt(database, scope=here, embedder=embedder, sqlite=driver_name)
    async with open_bank():
        pass
    with pytest.raises(StoreUntrusted, match="already"):
        await adopt(database, scope=here, embedder=embedder, sqlite=driver_name)


@pytest.mark.parametrize("shape", ["CREATE TABLE patterns (id TEXT)", "CREATE VIEW patterns AS SELECT 1 AS id"])
async def test_a_view_or_another_table_in_its_place_is_refused(
    database: Path, embedder: Any, here: Scope, driver_name: str, shape: str
) -> None:
    database.parent.mkdir()
    connection = choose(driver_name).module.connect(database)
    connection.execute(shape)
    connection.close()
    with pytest.raises(StoreUntrusted, match="known shape"):
        await adopt(database, scope=here, embedder=embedder, sqlite=driver_name)
