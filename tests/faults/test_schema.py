"""The schema of a bank over time: old banks migrate, once, whole and after a copy; newer ones are left alone."""

import asyncio
import gzip
import hashlib
import json
import random
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from driver_names import POSSIBLE
from patience import FULL

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import StorageError, StoreUntrusted
from swarm_memory.schema.memory import MemoryItem
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.sqlite.statements import migrations
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.storage.care.repair import repair
from swarm_memory.server.storage.driver import choose
from swarm_memory.server.storage.engine import registry
from swarm_memory.server.storage.engine.backup import list_backups
from swarm_memory.server.storage.engine.connection import connect
from swarm_memory.server.storage.sqlite import SqliteStore
from swarm_memory.server.wiring import SystemClock
from swarm_memory.tools.ports.memories import SearchQuery
from swarm_memory.tools.sources.sources import search_sources
from swarm_memory.tools.text.tokens import tokenize
from swarm_memory.tools.toolbox import Toolbox
from tests.faults.rig import Crowd, inspected, opened

pytestmark = pytest.mark.fault

FIXTURES = Path(__file__).parent / "fixtures"
RELEASES = sorted(FIXTURES.glob("bank_v*.db.gz"))
SHOP = Scope(project="shop")
NEWEST = len(migrations())
OUTDATED = {path.name.split(".")[0]: path for path in RELEASES if path.name != f"bank_v{NEWEST}.db.gz"}


def put_old_bank(database: Path, release: Path = RELEASES[0]) -> None:
    """Put the bank of an older release where the tests' bank is."""
    database.parent.mkdir(exist_ok=True)
    for left in database.parent.glob("memory.db*"):
        left.unlink()
    database.write_bytes(gzip.decompress(release.read_bytes()))
    registry.forget(database)
    registry.begin(database)


def version_of(database: Path) -> int:
    """Return the schema version that the file states."""
    with closing(choose().module.connect(database)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


@pytest.mark.parametrize("driver_name", POSSIBLE)
@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name.split(".")[0])
async def test_the_bank_of_every_release_opens_and_answers_as_it_did(
    database: Path, release: Path, driver_name: str
) -> None:
    put_old_bank(database, release)
    expected = json.loads((FIXTURES / release.name.replace(".db.gz", ".json")).read_text("utf-8"))
    embedder, answers = StaticEmbedder(), dict[str, list[str]]()
    async with opened(database, sqlite=driver_name) as store:
        for text in expected["answers"]:
            vector = (await embedder.embed_queries([text]))[0]
            found = await store.search(SearchQuery((SHOP,), embedder.name, vector, tokenize(text), 10))
            answers[text] = sorted(candidate.id for candidate in found.candidates)
        memories = await store.get_memories([SHOP], list(expected["memories"]))
        calls, passages = await _calls_and_passages(store, expected)
        health, inside = await store.health(), await store.inspect()
    assert calls == expected.get("calls", {})
    assert passages == {text: sorted(titles) for text, titles in expected.get("passages", {}).items()}
    assert answers == expected["answers"]
    assert memories == [MemoryItem.model_validate(each) for each in expected["memories"].values()]
    assert health.schema_version == NEWEST
    assert inside.sound, inside
    copies = [copy.reason for copy in list_backups(database)]
    assert copies == (["migration"] if release in OUTDATED.values() else [])


@pytest.mark.skipif(choose().vec_version is None, reason="without sqlite-vec nothing is dropped")
async def test_former_codes_leave_with_the_first_process_that_has_sqlite_vec(database: Path) -> None:
    put_old_bank(database, FIXTURES / "bank_v18.db.gz")
    left: list[int] = []
    for driver_name in ("scan", "auto"):
        async with opened(database, sqlite=driver_name) as store:
            count = "SELECT count(*) FROM sqlite_master WHERE name LIKE 'codes_%'"
            left.append((await store.read(lambda connection, text=count: connection.execute(text).fetchone()))[0])
            assert (await store.inspect()).sound
    assert left[0] > left[1] == 0


async def _calls_and_passages(
    store: SqliteStore, expected: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Return the tool calls and source searches for which a release's bank has recorded answers; v1 had none."""
    toolbox = Toolbox(store, StaticEmbedder(), SystemClock(), Settings(), SHOP)
    calls = {
        name: [kept.call.model_dump(mode="json") for kept in await store.tool_memory.recent_calls(SHOP, name, 100)]
        for name in expected.get("calls", {})
    }
    passages = {
        text: sorted(hit.passage.title for hit in (await search_sources(toolbox, text, kind="document")).hits)
        for text in expected.get("passages", {})
    }
    return calls, passages


@pytest.mark.parametrize("begin", ["new", *OUTDATED])
async def test_eight_processes_that_migrate_at_once_migrate_once(database: Path, begin: str) -> None:
    rounds, ok, copies = (25 if FULL else 1), 0, 0
    crowd = Crowd()
    for number in range(rounds):
        bank = database.with_name(f"round{number}") / "memory.db"
        if begin in OUTDATED:
            bank.parent.mkdir(parents=True)
            put_old_bank(bank, OUTDATED[begin])
        for _ in range(8):
            crowd.add("migrate", bank, "auto")
        crowd.wait(lambda born=8 * (number + 1): len(crowd.said("ok")) + len(crowd.said("error")) >= born)
        copies += len(list_backups(bank))
    await asyncio.to_thread(crowd.finish)
    ok = sum(line == ["20" if begin in OUTDATED else "0", str(NEWEST)] for line in crowd.said("ok"))
    assert not crowd.said("error")
    assert not crowd.errors
    assert ok == 8 * rounds
    assert copies == (rounds if begin in OUTDATED else 0)


async def test_a_kill_in_a_migration_leaves_the_old_or_the_new_schema(database: Path) -> None:
    rounds, chance, half = (100 if FULL else 5), random.Random(3), 0
    versions: list[int] = []
    crowd, whole_s = Crowd(), 0.0
    for number in range(rounds + 1):
        put_old_bank(database)
        name = crowd.add("migrate", database, "auto")
        crowd.wait(lambda name=name: any(line[0] == name for line in crowd.said("born")))
        if number == 0:  # how long a whole run takes, over which the kills are spread
            began = time.monotonic()
            await asyncio.to_thread(crowd.wait_for_end, {name})
            whole_s = time.monotonic() - began
            continue
        await asyncio.sleep(chance.uniform(0, 1.2 * whole_s))
        crowd.kill(name)
        versions.append(version_of(database))
        found = await inspected(database)
        half += versions[-1] not in range(1, NEWEST + 1) or not found.sound
    await asyncio.to_thread(crowd.finish)
    assert half == 0


@pytest.mark.parametrize(("what", "rounds"), [("reindex", 6), ("back_up", 4)])
async def test_a_kill_while_indexes_are_rebuilt_or_the_bank_is_copied_leaves_nothing_half(
    database: Path, what: str, rounds: int
) -> None:
    put_old_bank(database)
    chance, crowd = random.Random(4), Crowd()
    for number in range(100 if FULL else rounds):
        name = crowd.add("again", database, what)
        crowd.wait(lambda wanted=number + 1: len(crowd.said("ready")) >= wanted)
        await asyncio.sleep(chance.uniform(0, 0.05))
        crowd.kill(name)
        assert (await inspected(database)).sound
        assert {version_of(copy.path) for copy in list_backups(database)} <= set(range(1, NEWEST + 1))
    await asyncio.to_thread(crowd.finish)


async def test_a_bank_of_a_newer_schema_is_left_to_the_byte(database: Path) -> None:
    with closing(choose().module.connect(database, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA user_version = {NEWEST + 1}")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    before = hashlib.sha256(database.read_bytes()).digest()
    uses = (
        lambda: connect(database, driver=choose()),
        lambda: connect(database, driver=choose(), read_only=True),
        lambda: connect(database, driver=choose(), create=False),
        lambda: repair(database, choose(), 1),
    )
    for use in uses:
        with pytest.raises(StoreUntrusted, match=f"schema {NEWEST + 1}.*update swarm-memory"):
            use()
        assert hashlib.sha256(database.read_bytes()).digest() == before


def test_the_fix_of_the_wal_reset_bug_is_known_by_version() -> None:
    known = {
        "3.38.0": False, "3.40.1": False, "3.44.5": False, "3.44.6": True, "3.45.0": False, "3.50.4": False,
        "3.50.6": False, "3.50.7": True, "3.51.1": False, "3.51.2": False, "3.51.3": True, "3.53.4": True,
    }  # fmt: skip
    assert known == {version: choose()._replace(sqlite_version=version).wal_reset_safe for version in known}


def test_a_migration_waits_for_a_copy_and_a_bank_that_cannot_be_copied_is_not_migrated(database: Path) -> None:
    put_old_bank(database)
    (database.parent / "backups").write_text("a file where the folder must be", "utf-8")
    with pytest.raises(StorageError):
        connect(database, driver=choose())
    assert version_of(database) == 1
