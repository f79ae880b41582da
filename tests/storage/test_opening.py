"""Opening a bank: where it is, whether it may be trusted, which SQLite, which schema, and many at the same time."""

import hashlib
import os
import sqlite3
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from driver_names import AVAILABLE

from swarm_memory.schema.errors import ConfigError, StorageError, StoreUntrusted
from swarm_memory.schema.sqlite.statements import migrations, schema_objects, shadow_tables
from swarm_memory.server.location import locate
from swarm_memory.server.storage.driver import Driver, choose
from swarm_memory.server.storage.engine import connection as connection_module
from swarm_memory.server.storage.engine.connection import close, connect, migrate


def digest(folder: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if path.suffix not in (".lock", ".db-shm", ".db-wal")
    }


def tamper(module: ModuleType, database: Path, *statements: str) -> None:
    connection = module.connect(database, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()


def test_the_bank_lies_in_the_projects_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert locate(inner).database == inner / ".swarm" / "memory.db"
    (tmp_path / "a" / ".git").mkdir()
    found = locate(inner)
    assert (found.root, found.project) == (tmp_path / "a", "a")
    assert found.database == tmp_path / "a" / ".swarm" / "memory.db"
    assert found.folder == found.database.parent
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(tmp_path))
    assert locate().root == tmp_path
    assert locate(inner).root == tmp_path / "a"
    monkeypatch.setenv("SWARM_MEMORY_DB", str(tmp_path / "other.db"))
    assert locate().database == tmp_path / "other.db"
    assert locate(db=str(tmp_path / "named.db")).database == tmp_path / "named.db"


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX's")
def test_a_new_bank_is_for_its_user_alone_and_hidden_from_git(database: Path, driver: Driver) -> None:
    close(connect(database, driver=driver), database)
    assert database.parent.stat().st_mode & 0o777 == 0o700
    for name in ("memory.db", "memory.db.lock"):
        assert (database.parent / name).stat().st_mode & 0o777 == 0o600
    assert (database.parent / ".gitignore").read_text() == "*\n"


def test_an_open_bank_has_the_settings_that_keep_it_whole(database: Path, driver: Driver) -> None:
    connection = connect(database, driver=driver)
    wanted = {
        "journal_mode": "wal", "synchronous": 3, "foreign_keys": 1, "secure_delete": 1, "trusted_schema": 0,
        "cell_size_check": 1, "mmap_size": 0, "wal_autocheckpoint": 1000, "journal_size_limit": 64 * 1024 * 1024,
    }  # fmt: skip
    for name, value in wanted.items():
        assert connection.execute(f"PRAGMA {name}").fetchone() == (value,), name
    close(connection, database)


@pytest.mark.parametrize("link", ["memory.db", "memory.db-wal", "memory.db.lock", ".swarm"])
def test_a_link_is_not_followed(database: Path, driver: Driver, tmp_path: Path, link: str) -> None:
    target = tmp_path / "target"
    if link == ".swarm":
        target.mkdir()
        database.parent.symlink_to(target)
    else:
        target.write_bytes(b"")
        database.parent.mkdir()
        (database.parent / link).symlink_to(target)
    with pytest.raises(StoreUntrusted, match="link"):
        connect(database, driver=driver)
    assert list(target.iterdir()) == [] if target.is_dir() else target.read_bytes() == b""


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON patterns BEGIN UPDATE scopes SET project = 'x'; END",
        "CREATE VIEW v AS SELECT 1",
        "CREATE TABLE extra (a)",
        "DROP INDEX patterns_by_run",
        "ALTER TABLE meta ADD COLUMN extra TEXT",
        "CREATE TABLE vec_1_info (a DEFAULT (load_extension('x')))",
        "CREATE TABLE vec_2 (a)",
        "CREATE TABLE codes_vec_1 (part INTEGER, trap TEXT DEFAULT (zeroblob(9)))",
        "PRAGMA application_id = 7",
        "PRAGMA user_version = 99",
        "PRAGMA user_version = 0",
    ],
)
def test_a_bank_with_anything_else_in_it_is_refused_and_left_to_the_byte(
    database: Path, driver: Driver, statement: str
) -> None:
    close(connect(database, driver=driver), database)
    tamper(driver.module, database, statement)
    before = digest(database.parent)
    for read_only in (False, True):
        with pytest.raises(StoreUntrusted):
            connect(database, driver=driver, read_only=read_only)
    assert digest(database.parent) == before


def test_an_empty_file_becomes_a_bank_unless_its_log_says_that_it_was_one(database: Path, driver: Driver) -> None:
    database.parent.mkdir()
    database.touch()
    close(connect(database, driver=driver), database)
    database.write_bytes(b"")
    (database.parent / "memory.db-wal").write_bytes(b"x" * 100)
    with pytest.raises(StorageError, match="truncated"):
        connect(database, driver=driver)
    assert (database.parent / "memory.db-wal").read_bytes() == b"x" * 100


def test_a_bank_that_another_process_completes_meanwhile_is_no_damaged_one(
    database: Path, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = connection_module._look  # pyright: ignore[reportPrivateUsage]
    seen: list[tuple[str, str, bool]] = []

    def look_and_be_overtaken(module: ModuleType, path: Path, timeout_s: float) -> Any:
        state = look(module, path, timeout_s)
        seen.append(state)
        if len(seen) == 1:
            close(connect(database, driver=driver), database)
        return state

    monkeypatch.setattr(connection_module, "_look", look_and_be_overtaken)
    opened = connect(database, driver=driver)
    try:
        assert opened.execute("SELECT count(*) FROM patterns").fetchone() == (0,)
        assert seen == [("new", "", True), ("new", "", True)]
    finally:
        close(opened, database)


def test_a_folder_in_the_place_of_the_file_is_refused(database: Path, driver: Driver) -> None:
    database.mkdir(parents=True)
    with pytest.raises(StoreUntrusted, match="not a regular file"):
        connect(database, driver=driver)


def test_without_leave_nothing_is_made(database: Path, driver: Driver) -> None:
    with pytest.raises(StorageError, match="there is no bank"):
        connect(database, driver=driver, create=False)
    with pytest.raises(StorageError, match="there is no bank"):
        connect(database, driver=driver, read_only=True)
    assert not database.parent.exists()


def test_the_migrations_give_the_schema_that_is_written_down(driver: Driver) -> None:
    connection = driver.module.connect(":memory:", isolation_level=None)
    for _ in range(2):
        migrate(connection)
        assert connection.execute("PRAGMA user_version").fetchone() == (len(migrations()),)
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    connection.close()
    shadows = shadow_tables(dict(rows))
    made = {name: sql for name, sql in rows if name not in shadows}
    assert made == schema_objects()
    assert [migration.number for migration in migrations()] == list(range(1, len(migrations()) + 1))


def test_a_migration_that_fails_leaves_nothing(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    from swarm_memory.schema.sqlite.statements import Migration
    from swarm_memory.server.storage.engine import connection as module

    broken = Migration(1, "0001_broken", "CREATE TABLE half (a);\nCREATE TABLE half (a);\n")
    monkeypatch.setattr(module, "migrations", lambda: (broken,))
    connection = driver.module.connect(":memory:", isolation_level=None)
    with pytest.raises(driver.module.Error):
        migrate(connection)
    assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    assert connection.execute("PRAGMA user_version").fetchone() == (0,)
    connection.close()


def test_a_driver_that_is_forced_is_taken_or_refused_with_the_reason(driver_name: str) -> None:
    assert choose(driver_name).name == driver_name
    assert choose("auto").name == AVAILABLE[0] or len(AVAILABLE) == 1
    assert choose("auto").reason
    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        with pytest.raises(ConfigError, match=r"stdlib.*does not allow loading extensions.*SWARM_MEMORY_SQLITE"):
            choose("stdlib")
    with pytest.raises(ConfigError, match="must be auto or one of"):
        choose("sqlcipher")


async def test_health_names_the_driver_and_what_is_less_than_usual(
    open_bank: Any, driver_name: str, database: Path
) -> None:
    async with open_bank() as store:
        health = await store.health()
    assert (health.driver, health.path, health.schema_version) == (driver_name, str(database), len(migrations()))
    assert health.vector_search == ("exact_scan" if driver_name == "scan" else "vec0")
    assert bool(health.notices) == (driver_name == "scan")
    assert health.size_bytes > 0
