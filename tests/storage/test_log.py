"""The log that a killed process left: read to its last commit, refused if it is not ours."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from forked import ISOLATED, run

from swarm_memory.schema.errors import StoreDamaged, StoreUntrusted
from swarm_memory.server.storage.driver import Driver
from swarm_memory.server.storage.engine.connection import close, connect

KILLED = """
import os, sys
from pathlib import Path
from swarm_memory.server.storage.driver import choose
from swarm_memory.server.storage.engine.connection import connect, truncate_wal, write_transaction, writing
database = Path(sys.argv[2])
connection = connect(database, driver=choose(sys.argv[1]))
for number in range(int(sys.argv[3])):
    with write_transaction(connection, database, 5):
        row = (f"{os.getpid()}:{number}", "x" * 5000)
        connection.execute("INSERT INTO scopes (tenant_id, project) VALUES (?, ?)", row)
    if sys.argv[4] == "again" and number == 5:
        with writing(database, 5):
            truncate_wal(connection)
os._exit(9)
"""

Write = Callable[..., None]


@pytest.fixture
def killed(database: Path, driver_name: str) -> Write:
    """Return a function that writes `count` transactions in a process that is killed and leaves its log behind."""

    def write(count: int, how: str = "") -> None:
        assert run([*ISOLATED, "-c", KILLED, driver_name, database, count, how]).returncode == 9

    return write


def rows(database: Path, driver: Driver) -> int:
    connection = connect(database, driver=driver)
    (found,) = connection.execute("SELECT count(*) FROM scopes WHERE tenant_id LIKE '%:%'").fetchone()
    close(connection, database)
    return int(found)


@pytest.mark.parametrize("how", ["", "again"])
def test_the_log_of_a_killed_process_is_read_to_its_last_commit(
    database: Path, driver: Driver, killed: Write, how: str
) -> None:
    for _ in range(3):
        killed(8, how)
    assert rows(database, driver) == 24


def test_a_strangers_log_in_the_very_file_of_ours_is_refused(
    database: Path, driver: Driver, killed: Write, tmp_path: Path
) -> None:
    """A file system may reuse the inode number of a deleted file."""
    close(connect(database, driver=driver), database)
    theirs = tmp_path / "theirs.db"
    theirs.write_bytes(database.read_bytes())
    attacker = driver.module.connect(theirs, isolation_level=None)
    attacker.execute("PRAGMA journal_mode = WAL").fetchall()
    attacker.execute("INSERT INTO scopes (tenant_id, project) VALUES ('planted:1', 'x')")
    planted = Path(f"{theirs}-wal").read_bytes()
    attacker.close()
    killed(3)
    log = Path(f"{database}-wal")
    log.write_bytes(planted)
    with pytest.raises(StoreUntrusted, match="bank trust"):
        connect(database, driver=driver)
    assert log.read_bytes() == planted


@pytest.mark.parametrize("size", [100_000, 300_000])
def test_a_bank_whose_making_was_in_the_log_that_was_cut_is_damaged_and_not_strange(
    database: Path, driver: Driver, killed: Write, size: int
) -> None:
    killed(8)
    log = Path(f"{database}-wal")
    os.truncate(log, size)
    with pytest.raises(StoreDamaged, match="bank"):
        connect(database, driver=driver)
