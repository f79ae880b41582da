"""A rollback journal that a crash left: what it holds is undone before anything in the file is believed or run."""

import subprocess
import sys
from pathlib import Path

import pytest
from driver_names import POSSIBLE

from swarm_memory.schema.errors import StoreUntrusted
from swarm_memory.server.storage.driver import choose
from swarm_memory.server.storage.engine import connection as connection_module
from swarm_memory.server.storage.engine.connection import connect
from tests.faults.rig import EVERY, HERE, fill, opened

pytestmark = pytest.mark.fault

CRASH = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA journal_mode = DELETE")
for statement in sys.argv[2].split(";;"):
    connection.execute(statement)
connection.execute("PRAGMA cache_size = 1")  # what is changed goes to the file before it is committed
connection.execute("BEGIN")
for statement in sys.argv[3].split(";;"):
    connection.execute(statement)
connection.execute("CREATE TABLE ballast (data)")
for _ in range(200):
    connection.execute("INSERT INTO ballast VALUES (randomblob(4000))")
connection.execute("DROP TABLE ballast")
os._exit(9)
"""
STEAL = "CREATE TRIGGER steal AFTER INSERT ON events BEGIN DELETE FROM patterns; END"


def crash(database: Path, before: str, within: str) -> None:
    """Write to a bank in another process that dies in the middle, with part of it in the file."""
    done = subprocess.run([sys.executable, "-c", CRASH, str(database), before, within], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (9, "")
    assert database.with_name(f"{database.name}-journal").stat().st_size > 0


@pytest.mark.parametrize("driver_name", POSSIBLE)
async def test_what_a_journal_would_bring_back_is_looked_at_before_it_is_trusted(
    database: Path, driver_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "JOURNAL", "delete")
    async with opened(database) as store:
        await fill(store, 5)
    crash(database, STEAL, "DROP TRIGGER steal")
    assert b"TRIGGER steal" not in database.read_bytes()
    with pytest.raises(StoreUntrusted, match="steal"):
        connect(database, driver=choose(driver_name))


@pytest.mark.parametrize("driver_name", POSSIBLE)
async def test_readers_of_an_open_bank_survive_the_crash_of_another_writer(
    database: Path, driver_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "JOURNAL", "delete")
    async with opened(database, sqlite=driver_name) as store:
        items = await fill(store, 5)
        crash(database, "SELECT 1", "DELETE FROM patterns")
        found = await store.list_memories([HERE], EVERY)
        sound = (await store.inspect()).sound
    assert {item.id for item in found} == {item.id for item in items}
    assert sound
