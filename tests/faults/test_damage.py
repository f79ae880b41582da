"""Damaged banks, and disks that are full or fail: noticed, never silently empty, repaired where possible."""

import asyncio
import logging
import math
import os
import random
import shutil
import subprocess
import sys
from array import array
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from operator import mul
from pathlib import Path
from typing import Any

import pytest
from driver_names import POSSIBLE
from patience import FULL, HANG_S

from swarm_memory.schema.errors import (
    StorageError,
    StoreDamaged,
    StoreFull,
    StoreReadOnly,
    StoreReplaced,
    StoreUntrusted,
)
from swarm_memory.schema.memory import MemoryItem
from swarm_memory.schema.settings import Settings
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.jobs.reembed import reembed
from swarm_memory.server.storage.care.repair import repair, restore
from swarm_memory.server.storage.driver import choose
from swarm_memory.server.storage.engine import connection as connection_module
from swarm_memory.server.storage.engine import registry, threads
from swarm_memory.server.storage.engine.backup import list_backups
from swarm_memory.server.storage.engine.connection import connect
from swarm_memory.server.wiring import SystemClock
from swarm_memory.tools.ports.memories import SearchQuery
from swarm_memory.tools.text.tokens import tokenize
from swarm_memory.tools.toolbox import Toolbox
from tests.faults.rig import (
    EVERY,
    HERE,
    WORDS,
    WORKER,
    built,
    environment,
    fill,
    filled,
    inspected,
    made_item,
    opened,
    present,
    run_program,
    with_vectors,
)

pytestmark = pytest.mark.fault

PAGE = 4096


def _overwritten(content: bytes, at: int, by: bytes) -> bytes:
    return content[:at] + by + content[at + len(by) :]


def _with_damage(content: bytes, places: int, chance: random.Random) -> bytes:
    """Return the content of a file, damaged at `places` random places."""
    for _ in range(places):
        content = _overwritten(content, chance.randrange(len(content) - 32), chance.randbytes(32))
    return content


HARMS: dict[str, Callable[[bytes], bytes]] = {
    "header": lambda content: _overwritten(content, 0, b"\xff" * 60),
    "truncated": lambda content: content[: len(content) // 2 + 1000],
    "zero-length": lambda _: b"",
    "not a database": lambda content: b"<html>502 Bad Gateway</html>" * (len(content) // 28),
    "damaged page": lambda content: _overwritten(content, 12 * PAGE, random.Random(1).randbytes(PAGE)),
}


async def listed(database: Path) -> list[MemoryItem]:
    """Return what the bank contains."""
    async with opened(database) as store:
        return await store.list_memories([HERE], EVERY)


async def searched(database: Path) -> list[list[str]]:
    """Return the ids that a few searches find."""
    embedder, found = StaticEmbedder(), list[list[str]]()
    async with opened(database) as store:
        for text in ("retry the token", "merge config", "lock the queue"):
            query = SearchQuery((HERE,), embedder.name, (await embedder.embed_queries([text]))[0], tokenize(text), 10)
            result = await store.search(query)
            found.append(sorted(candidate.id for candidate in result.candidates))
    return found


@pytest.mark.parametrize("harm", HARMS)
async def test_a_damaged_file_is_kept_noticed_and_never_replaced_by_an_empty_one(database: Path, harm: str) -> None:
    async with opened(database) as store:
        items = await fill(store, 60)
        backup = await store.back_up()
    database.write_bytes(HARMS[harm](database.read_bytes()))
    harmed = database.read_bytes()
    await _is_noticed(database)
    assert database.read_bytes() == harmed
    is_restored = False
    try:
        kept = (await asyncio.to_thread(repair, database, choose(), 5.0)).kept
    except StoreDamaged as refused:
        is_restored, advice = True, str(refused)
        assert database.read_bytes() == harmed
        assert "swarm-memory bank restore" in advice
        source, kept = await asyncio.to_thread(restore, database, None, choose(), 5.0)
        assert source == backup
    assert kept is not None
    assert ".corrupt-" in kept.name
    assert kept.read_bytes() == harmed
    found = await inspected(database)
    assert found.sound, found
    assert len(await listed(database)) > 0
    if harm in ("header", "damaged page") or is_restored:
        assert await listed(database) == list(reversed(items))


async def _is_noticed(database: Path) -> None:
    """Assert that the damage is noticed, on opening or by `doctor`."""
    with suppress(StoreDamaged):
        assert not (await inspected(database)).sound


async def test_random_damage_never_passes_as_sound(database: Path) -> None:
    async with opened(database) as store:
        written = {(item.id, item.title, item.content) for item in await fill(store, 80)}
    whole, chance = database.read_bytes(), random.Random(5)
    for _ in range(100 if FULL else 12):
        database.write_bytes(_with_damage(whole, 8, chance))
        database.with_name("memory.db-wal").unlink(missing_ok=True)
        database.with_name("memory.db-shm").unlink(missing_ok=True)
        try:
            async with opened(database) as store:
                if not (await store.inspect()).sound:
                    continue
                read = await store.list_memories([HERE], EVERY)
        except StorageError:
            continue
        assert {(item.id, item.title, item.content) for item in read} == written, "damage in a text went unseen"


INDEX_FAULTS = {
    "rows of the keyword index lost": "DELETE FROM pattern_fts_docsize WHERE id % 2",
    "the keyword index emptied": "INSERT INTO pattern_fts (pattern_fts) VALUES ('delete-all')",
    "vectors lost": "DELETE FROM vec_1 WHERE rowid % 3 = 0",
    "a vector changed": "UPDATE pattern_embeddings SET vector = zeroblob(256) WHERE rowid = 1",
    "counts wrong": "UPDATE scopes SET active = active + 5",
    "the table of vectors lost": "DROP TABLE vec_1_vector_chunks00",
    "the table of words lost": "DROP TABLE pattern_fts_data",
}


@pytest.mark.parametrize("fault", INDEX_FAULTS)
async def test_indexes_that_are_lost_or_out_of_step_are_rebuilt_from_the_rows(database: Path, fault: str) -> None:
    items = await filled(database, 60)
    before = await searched(database)
    async with opened(database) as store:
        await store.write(lambda connection: connection.execute(INDEX_FAULTS[fault]).rowcount)
    await _is_noticed(database)
    await asyncio.to_thread(repair, database, choose(), 5.0)
    async with opened(database) as store:
        await reembed(Toolbox(store, StaticEmbedder(), SystemClock(), Settings(), HERE))
    found = await inspected(database)
    after = await searched(database)
    assert found.sound, found
    assert len(await listed(database)) == len(items)
    assert after == before


BAD: tuple[Callable[[int], list[float]], ...] = (
    lambda size: [math.nan] * size,
    lambda size: [math.inf] + [0.0] * (size - 1),
    lambda size: [0.0] * size,
    lambda size: [1.0] * size,
)


async def test_ten_bad_vectors_of_a_hundred_take_no_place_among_the_nearest(database: Path) -> None:
    embedder = StaticEmbedder()
    items = [made_item(f"Mend the {word} of part {number}") for number in range(10) for word in WORDS[:10]]
    memories = await with_vectors(items)
    async with opened(database) as store:
        for number, memory in enumerate(memories[:10]):
            bad = array("f", BAD[number % len(BAD)](embedder.dimensions))
            with pytest.raises(StorageError):
                await store.add_memories([memory._replace(vector=bad)], embedder.name)
        longer = array("f", [1.0] + [0.0] * embedder.dimensions)  # another dimension: it belongs to a space of its own
        await store.add_memories([memories[0]._replace(vector=longer)], embedder.name)
        await store.add_memories([each._replace(vector=None) for each in memories[1:10]], embedder.name)
        await store.add_memories(memories[10:], embedder.name)
        kept = found = 0
        for memory in memories[:10]:
            asked = (await embedder.embed_queries([memory.item.title]))[0]
            nearest = [each for each, _ in await store.nearest([HERE], embedder.name, asked, 10)]
            vectors = {each.item.id: each.vector for each in memories[10:] if each.vector is not None}
            by_force = sorted(vectors, key=lambda each: -sum(map(mul, vectors[each], asked)))[:10]
            kept += len(set(nearest) & set(by_force))
            query = SearchQuery((HERE,), embedder.name, asked, tokenize(memory.item.title), 10)
            found += memory.item.id in {each.id for each in (await store.search(query)).candidates}
            with pytest.raises(StorageError):
                await store.nearest([HERE], embedder.name, array("f", BAD[0](embedder.dimensions)), 10)
    assert kept == 100
    assert found == 10


CHANGED = "replace(pattern_data, 'look', 'jump')"


async def test_a_text_that_is_not_what_was_written_is_left_out_and_the_backup_has_it(database: Path) -> None:
    async with opened(database) as store:
        items = await fill(store, 5)
        backup = await store.back_up()
        broken = (await fill(store, 1, seed=9))[0]
        for item, change in ((items[0], CHANGED), (broken, "substr(pattern_data, 9)")):
            update = f"UPDATE patterns SET pattern_data = {change} WHERE id = '{item.id}'"
            await store.write(lambda connection, update=update: connection.execute(update).rowcount)
        found = await store.inspect()
        assert sorted(found.memories) == sorted([items[0].id, broken.id])
        with pytest.raises(StoreDamaged, match="doctor --repair"):
            await store.list_memories([HERE], EVERY)
    done = await asyncio.to_thread(repair, database, choose(), 5.0)
    assert {item.id for item in await listed(database)} == {item.id for item in items[1:]}
    assert all(any(item.id in action for action in done.actions) for item in (items[0], broken))
    assert done.kept in [copy.path for copy in list_backups(database)]
    assert (await inspected(database)).sound
    await asyncio.to_thread(restore, database, backup, choose(), 5.0)
    assert items[0] in await listed(database)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_log_deleted_under_an_open_bank_loses_nothing(database: Path, caplog: pytest.LogCaptureFixture) -> None:
    rounds, lost = (20 if FULL else 4), 0
    async with opened(database) as store:
        written = await fill(store, 2)
        for number in range(rounds):
            for suffix in ("-wal", "-shm") if number % 2 else ("-wal",):
                database.with_name(f"memory.db{suffix}").unlink()
            written += await fill(store, 2, seed=number + 10)
            lost += len(written) - len(await store.list_memories([HERE], EVERY))
    async with opened(database) as store:
        lost += len(written) - len(await store.list_memories([HERE], EVERY))
        assert (await store.inspect()).sound
    assert lost == 0
    assert "opened again" in caplog.text


async def test_a_log_that_goes_with_its_last_reader_while_a_bank_is_opened_is_no_loss(
    database: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await filled(database, 2)
    foreign = choose().module.connect(database, check_same_thread=False)
    foreign.execute("SELECT * FROM meta").fetchall()
    log = database.with_name("memory.db-wal")
    assert log.exists()

    def late(*args: Any, **kwargs: Any) -> Any:
        foreign.close()  # the last connection: the log is removed with it
        database.with_name("in_its_inode").touch()
        return connect(*args, **kwargs)

    monkeypatch.setattr(threads, "connect", late)
    async with opened(database) as store:
        await fill(store, 2, seed=8)
        assert len(await store.list_memories([HERE], EVERY)) == 4
    assert not caplog.text


async def test_a_read_outlasts_several_changes_of_its_bank_one_after_another(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened_again = threads.ConnectionThread.reconnect
    changes = 3

    async def changed_once_more(connection: threads.ConnectionThread) -> None:
        nonlocal changes
        await opened_again(connection)
        if changes:
            changes -= 1
            os.utime(database)  # as a process killed during a write leaves it: changed, and not noted

    monkeypatch.setattr(threads.ConnectionThread, "reconnect", changed_once_more)
    async with opened(database) as store:
        await fill(store, 2)
        os.utime(database)
        assert len(await store.list_memories([HERE], EVERY)) == 2
    assert not changes


async def test_a_moved_or_replaced_file_takes_no_write_unseen(database: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    elsewhere = database.parent / "elsewhere.db"
    async with opened(database) as store:
        first = await fill(store, 3)
        copy = await store.back_up()
        second = await fill(store, 3, seed=8)
        database.rename(elsewhere)
        (memory,) = await with_vectors([made_item("Written to a moved file")])
        for _ in range(3):
            with pytest.raises(StorageError) as refused:
                await store.add_memories([memory], StaticEmbedder().name)
            assert isinstance(refused.value, StoreReplaced | StoreDamaged | StorageError)
            with pytest.raises(StorageError):
                await store.list_memories([HERE], EVERY)
        assert not database.exists()
        elsewhere.rename(database)
        await store.add_memories([memory], StaticEmbedder().name)
        assert len(await store.list_memories([HERE], EVERY)) == len(first) + len(second) + 1
        await asyncio.to_thread(restore, database, copy, choose(), 5.0)
        assert {item.id for item in await store.list_memories([HERE], EVERY)} == {item.id for item in first}
        await store.add_memories([memory], StaticEmbedder().name)
    async with opened(database) as store:
        assert memory.item.id in {item.id for item in await store.list_memories([HERE], EVERY)}


async def test_a_repair_of_random_damage_ends_with_a_sound_bank_or_leaves_the_file(database: Path) -> None:
    await filled(database, 80)
    record = registry.find(database)
    assert record is not None
    whole, chance = database.read_bytes(), random.Random(11)
    mended = 0
    for _ in range(60 if FULL else 8):
        for path in (*database.parent.glob("memory.db*"), *database.parent.glob("backups/*")):
            path.unlink()
        damaged = _with_damage(whole, 4, chance)
        database.write_bytes(damaged)
        registry.register(database, record.banks[0], record.secrets[0])
        registry.note(database, 0)  # a decaying disk changes no file times
        try:
            await asyncio.to_thread(repair, database, choose(), 5.0)
        except StorageError:
            assert database.read_bytes() == damaged
        else:
            found = await inspected(database)
            assert found.sound, found
            mended += 1
    assert mended > 0


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
    """Write to a bank in another process that dies midway, with part of the write in the file."""
    done = subprocess.run([sys.executable, "-c", CRASH, str(database), before, within], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (9, "")
    assert database.with_name(f"{database.name}-journal").stat().st_size > 0


@pytest.fixture
def unshared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A path without a bank, where a new one keeps a rollback journal, as on a file system without shared memory."""
    monkeypatch.setattr(connection_module, "JOURNAL", "delete")
    return tmp_path / "unshared" / "memory.db"


@pytest.mark.parametrize("driver_name", POSSIBLE)
async def test_what_a_journal_would_bring_back_is_looked_at_before_it_is_trusted(
    unshared: Path, driver_name: str
) -> None:
    await filled(unshared, 5)
    crash(unshared, STEAL, "DROP TRIGGER steal")
    assert b"TRIGGER steal" not in unshared.read_bytes()
    with pytest.raises(StoreUntrusted, match="steal"):
        connect(unshared, driver=choose(driver_name))


@pytest.mark.parametrize("driver_name", POSSIBLE)
async def test_readers_of_an_open_bank_survive_the_crash_of_another_writer(unshared: Path, driver_name: str) -> None:
    async with opened(unshared, sqlite=driver_name) as store:
        items = await fill(store, 5)
        crash(unshared, "SELECT 1", "DELETE FROM patterns")
        found = await store.list_memories([HERE], EVERY)
        sound = (await store.inspect()).sound
    assert {item.id for item in found} == {item.id for item in items}
    assert sound


@pytest.fixture
def small_disk(tmp_path: Path) -> Generator[Path]:
    """A disk of 3 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m,mode=0700", "tmpfs", str(folder)]
    if sys.platform != "linux" or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("a small disk can be mounted by root on Linux only")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


async def test_a_full_disk_refuses_whole_memories_reads_on_and_recovers_by_itself(small_disk: Path) -> None:
    database, acknowledged, refused = small_disk / "memory.db", list[str](), 0
    async with opened(database) as store:
        ballast = small_disk / "ballast"
        await fill(store, 10)
        with ballast.open("wb") as file:
            while file.tell() < 1_400_000:
                file.write(bytes(100_000))
        for number in range(400):
            (memory,) = await with_vectors([made_item(f"Number {number} " + "word " * 200)])
            try:
                acknowledged += await store.add_memories([memory], StaticEmbedder().name)
            except StorageError as error:
                refused += 1
                assert isinstance(error, StoreFull), error  # noqa: PT017 - one of many may be refused
                if refused == 3:
                    break
        read = len(await store.list_memories([HERE], EVERY))
        inside = await store.inspect()
        ballast.unlink()
        (memory,) = await with_vectors([made_item("There is room again")])
        again = await store.add_memories([memory], StaticEmbedder().name)
    found = await inspected(database)
    there = await present(database, acknowledged)
    assert refused == 3
    assert len(there) == len(acknowledged) > 0
    assert read == len(acknowledged) + 10
    assert inside.sound, inside
    assert found.sound, found
    assert again == [memory.item.id]


async def test_what_opens_a_bank_on_a_full_disk_reads_it_and_once_there_is_room_writes(small_disk: Path) -> None:
    database, ballast = small_disk / "memory.db", small_disk / "ballast"
    items = await filled(database, 5)
    for companion in ("-wal", "-shm"):
        database.with_name(database.name + companion).unlink(missing_ok=True)
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    (memory,) = await with_vectors([made_item("There is room again")])
    async with opened(database) as store:
        assert len(await store.list_memories([HERE], EVERY)) == len(items)
        assert (await store.health()).read_only
        with pytest.raises(StoreReadOnly, match="and disk space"):
            await store.add_memories([memory], StaticEmbedder().name)
    ballast.unlink()
    async with opened(database) as store:
        assert await store.add_memories([memory], StaticEmbedder().name) == [memory.item.id]


READ_ONLY = """
import asyncio, sys
from pathlib import Path
from tests.faults.rig import EVERY, HERE, made_item, opened, with_vectors
from swarm_memory.schema.errors import StoreReadOnly
from swarm_memory.server.embedding.static import StaticEmbedder

async def main(database):
    async with opened(database) as store:
        print(len(await store.list_memories([HERE], EVERY)), (await store.health()).read_only)
        try:
            await store.add_memories(await with_vectors([made_item("No")]), StaticEmbedder().name)
        except StoreReadOnly:
            print("refused")

asyncio.run(main(Path(sys.argv[1])))
"""


def _under_modes() -> list[str]:
    """Return the command prefix under which file modes are enforced even if root runs the tests."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("root is bound by modes of files only where setpriv is")
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]


@contextmanager
def _made_read_only(what: str, database: Path) -> Generator[None]:
    """Remove write permission, and restore it afterwards."""
    folder = database.parent
    if what == "mounted read-only":
        bind, remount = ["mount", "--bind", folder, folder], ["mount", "-o", "remount,ro,bind", folder]
        if sys.platform != "linux" or subprocess.run(bind, capture_output=True).returncode != 0:
            pytest.skip("only root mounts, on Linux")
        try:
            subprocess.run(remount, check=True)
            yield
        finally:
            subprocess.run(["umount", "-l", folder], check=True)
        return
    modes = {each: each.stat().st_mode for each in (folder, *folder.iterdir())}
    for each in modes:
        if each == folder:
            each.chmod(0o700 if what == "file" else 0o500)
        elif what != "folder":
            each.chmod(0o400)
    try:
        yield
    finally:
        for each, mode in modes.items():
            each.chmod(mode)


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX's")
@pytest.mark.parametrize("what", ["file", "folder", "file and folder", "mounted read-only"])
async def test_what_may_only_be_read_is_read_and_writes_are_refused(database: Path, what: str) -> None:
    await filled(database, 3)
    with _made_read_only(what, database):
        done = await asyncio.to_thread(run_program, READ_ONLY, database, behind=_under_modes())
    assert done.stderr == ""
    assert done.stdout.split() == ["3", "True", "refused"]


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("cc") is None, reason="needs Linux and a C compiler")
async def test_a_disk_that_fails_to_flush_gets_no_acknowledgement_that_is_false(database: Path, tmp_path: Path) -> None:
    shim = built(WORKER.with_name("refusing_fsync.c"), tmp_path / "refusing.so", "-ldl")
    rounds, refused = (30 if FULL else 2), 0
    for number in range(rounds):
        command = [sys.executable, str(WORKER), "write", str(database), "auto", f"eio{number}", "12"]
        variables = environment(LD_PRELOAD=str(shim), REFUSE_FROM=str(2 + number * 3))
        done = await asyncio.to_thread(
            subprocess.run, command, env=variables, capture_output=True, text=True, timeout=HANG_S, check=False
        )
        lines = [line.split() for line in done.stdout.splitlines()]
        ids = [line[1] for line in lines if line[0] == "ack"]
        refused += sum(line[0] == "error" for line in lines)
        assert await present(database, ids) == set(ids)
        assert (await inspected(database)).sound
    assert refused > 0
