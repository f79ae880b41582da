"""A disk that is full, cannot be written, is somebody else's over a network, or loses what it was to keep."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from patience import FULL, HANG_S

from swarm_memory.schema.errors import StorageError, StoreFull
from swarm_memory.server.embedding.static import StaticEmbedder
from tests.faults.rig import (
    EVERY,
    HERE,
    WORKER,
    built,
    environment,
    fill,
    inspected,
    made_item,
    opened,
    present,
    run_program,
    with_vectors,
)

pytestmark = pytest.mark.fault


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
    """Return what a command is put behind so that the modes of files bind it, though root should run the tests."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("root is bound by modes of files only where setpriv is")
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]


@contextmanager
def _made_read_only(what: str, database: Path) -> Generator[None]:
    """Take the right to write away, and give it back."""
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
    async with opened(database) as store:
        await fill(store, 3)
    with _made_read_only(what, database):
        done = await asyncio.to_thread(run_program, READ_ONLY, database, behind=_under_modes())
    assert done.stderr == ""
    assert done.stdout.split() == ["3", "True", "refused"]


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("cc") is None, reason="needs Linux and a C compiler")
async def test_a_disk_that_fails_to_flush_gets_no_acknowledgement_that_is_false(database: Path, tmp_path: Path) -> None:
    shim = built(WORKER.with_name("refusing_fsync.c"), tmp_path / "refusing.so", "-ldl")
    rounds, refused = (30 if FULL else 3), 0
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
