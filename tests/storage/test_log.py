"""The log that a killed process left: read to its last commit, told of when it was cut, refused when it is strange."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forked import ISOLATED, run

from swarm_memory.schema.errors import StoreDamaged, StoreUntrusted
from swarm_memory.server.storage.driver import Driver, choose
from swarm_memory.server.storage.engine import registry
from swarm_memory.server.storage.engine.connection import close, connect, write_transaction
from swarm_memory.server.storage.engine.files import last_commit

KILLED = """
import os, sys
from pathlib import Path
from swarm_memory.server.storage.driver import choose
from swarm_memory.server.storage.engine.connection import connect, truncate_wal, write_transaction
from swarm_memory.server.storage.engine.lock import writer_lock
database = Path(sys.argv[2])
connection = connect(database, driver=choose(sys.argv[1]))
for number in range(int(sys.argv[3])):
    with write_transaction(connection, database, 5):
        connection.execute("INSERT INTO meta VALUES (?, ?)", (f"{os.getpid()}:{number}", "x" * 5000))
    if sys.argv[4] == "again" and number == 5:
        with writer_lock(database, 5):
            truncate_wal(connection)
os._exit(9)
"""

Write = Callable[..., None]


@pytest.fixture
def driver(driver_name: str) -> Driver:
    return choose(driver_name)


@pytest.fixture
def killed(database: Path, driver_name: str) -> Write:
    """Write so many transactions in a process that is killed; its log stays behind."""

    def write(count: int, how: str = "") -> None:
        assert run([*ISOLATED, "-c", KILLED, driver_name, database, count, how]).returncode == 9

    return write


def rows(database: Path, driver: Driver) -> int:
    connection = connect(database, driver=driver)
    (found,) = connection.execute("SELECT count(*) FROM meta WHERE key LIKE '%:%'").fetchone()
    close(connection, database)
    return int(found)


@pytest.mark.parametrize("how", ["", "again"])
def test_the_log_of_a_killed_process_is_read_to_its_last_commit(
    database: Path, driver: Driver, killed: Write, how: str
) -> None:
    for _ in range(3):
        killed(8, how)
    assert rows(database, driver) == 24
    assert registry.lost_in(database) is None


@pytest.mark.fault
def test_a_log_that_was_cut_in_half_is_told_of_until_somebody_has_looked(
    database: Path, driver: Driver, killed: Write, record: Callable[[str, str], None]
) -> None:
    close(connect(database, driver=driver), database)
    killed(8)
    log = Path(f"{database}-wal")
    os.truncate(log, log.stat().st_size // 2)
    left = rows(database, driver)
    assert 0 < left < 8
    assert "cut off" in (registry.lost_in(database) or "")
    killed(8)
    assert rows(database, driver) == left + 8
    assert "cut off" in (registry.lost_in(database) or ""), "it is said until doctor --repair was asked"
    record("B11", f"{driver.name}: {left} of 8 commits left in half of the log, and told of; 8 of 8 later ones there")


def test_a_commit_that_was_changed_in_the_log_is_told_of(database: Path, driver: Driver, killed: Write) -> None:
    killed(8)
    log = Path(f"{database}-wal")
    content = bytearray(log.read_bytes())
    content[-5000] ^= 0xFF
    log.write_bytes(content)
    mark = last_commit(str(log), None)
    assert mark is not None
    assert rows(database, driver) < 8


def test_a_strangers_log_in_the_very_file_of_ours_is_refused(
    database: Path, driver: Driver, killed: Write, tmp_path: Path
) -> None:
    """A file system may give the number of a deleted file to the next one."""
    close(connect(database, driver=driver), database)
    theirs = tmp_path / "theirs.db"
    theirs.write_bytes(database.read_bytes())
    attacker = driver.module.connect(theirs, isolation_level=None)
    attacker.execute("PRAGMA journal_mode = WAL").fetchall()
    attacker.execute("INSERT INTO meta VALUES ('planted:1', 'x')")
    planted = Path(f"{theirs}-wal").read_bytes()
    attacker.close()
    killed(3)
    log = Path(f"{database}-wal")
    log.write_bytes(planted)
    with pytest.raises(StoreUntrusted, match="not the log"):
        connect(database, driver=driver)
    assert log.read_bytes() == planted


def test_a_strangers_log_that_has_the_number_of_our_deleted_one_is_refused(
    database: Path, driver: Driver, tmp_path: Path
) -> None:
    connection = connect(database, driver=driver)
    theirs = tmp_path / "theirs.db"
    close(connection, database)
    theirs.write_bytes(database.read_bytes())
    attacker = driver.module.connect(theirs, isolation_level=None)
    attacker.execute("PRAGMA journal_mode = WAL").fetchall()
    attacker.execute("INSERT INTO meta VALUES ('planted:1', 'x')")
    log = Path(f"{database}-wal")
    log.write_bytes(Path(f"{theirs}-wal").read_bytes())
    attacker.close()
    record = registry.find(database)
    assert record is not None
    file = next(path for path in registry.state_folder().rglob(f"{database.name}.json"))
    file.write_text(json.dumps(record._replace(log=log.stat().st_ino)._asdict()), encoding="utf-8")
    with pytest.raises(StoreUntrusted, match="not the log"):
        connect(database, driver=driver)
    log.unlink()
    close(connect(database, driver=driver), database)


@pytest.mark.parametrize("size", [100_000, 300_000])
def test_a_bank_whose_making_was_in_the_log_that_was_cut_is_damaged_and_not_strange(
    database: Path, driver: Driver, killed: Write, size: int
) -> None:
    killed(8)
    log = Path(f"{database}-wal")
    os.truncate(log, size)
    with pytest.raises(StoreDamaged, match="bank"):
        connect(database, driver=driver)


async def test_what_a_cut_log_lost_stands_in_the_health_of_the_bank(
    open_bank: Any, database: Path, killed: Write
) -> None:
    async with open_bank():
        pass
    killed(8)
    log = f"{database}-wal"
    os.truncate(log, os.stat(log).st_size // 2)  # noqa: PTH116
    async with open_bank() as store:
        assert any("cut off" in notice for notice in (await store.health()).notices)


def test_each_commit_costs_the_note_of_it_little(database: Path, driver: Driver) -> None:
    """Only what was written since is looked at: the mark moves with each commit."""
    connection = connect(database, driver=driver)
    marks: list[int] = []
    for number in range(5):
        with write_transaction(connection, database, 5):
            connection.execute("INSERT INTO meta VALUES (?, 'x')", (str(number),))
        mark = last_commit(f"{database}-wal", None)
        assert mark is not None
        marks.append(mark.frame)
    assert marks == sorted(set(marks))
    close(connection, database)
