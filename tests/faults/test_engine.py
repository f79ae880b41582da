"""The bank on an SQLite with the WAL-reset bug, its race widened: our lock protects, and without it the rig notices.

The library is made by `scripts/build_affected_sqlite.py`, which `make faults` runs; nothing is fetched here.
"""

import asyncio
import os
from pathlib import Path

import pytest
from laid_bank import laid
from patience import FULL

from swarm_memory.schema.errors import StorageError
from tests.faults.rig import Crowd, inspected, present

ROOT = Path(__file__).parent.parent.parent
LIBRARY = Path(os.environ.get("AFFECTED_SQLITE") or ROOT / "build" / "affected" / "libsqlite3.so.0").resolve()
WRITERS, CHECKPOINTERS = 4, 2
RUNS = 10
WRITES = 60
"""How many writes each writer makes in each run."""

pytestmark = [
    pytest.mark.fault,
    pytest.mark.skipif(not FULL and "AFFECTED_SQLITE" not in os.environ, reason="make faults runs it"),
]


async def broken_run(database: Path, *, locked: bool) -> tuple[bool, int]:
    """Run writers and checkpointers; return whether anything was lost or damaged, and how much was written."""
    laid(database)
    crowd, role = Crowd(LD_PRELOAD=str(LIBRARY)), () if locked else ("unlocked",)
    for _ in range(CHECKPOINTERS):
        crowd.add(*role, "checkpoint", database, "scan")
    crowd.wait(lambda: len(crowd.said("ready")) == CHECKPOINTERS)
    assert {line[0] for line in crowd.said("ready")} == {"3.50.4"}, "the library that was made is not the one in use"
    writers = {crowd.add(*role, "write", database, "scan", number, WRITES) for number in range(WRITERS)}
    await asyncio.to_thread(crowd.wait_for_end, writers)
    await asyncio.to_thread(crowd.end)
    acknowledged = [line[0] for line in crowd.said("ack")]
    assert not locked or not (crowd.errors or crowd.said("error")), (crowd.errors, crowd.said("error"))
    try:
        there, found = await present(database, acknowledged), await inspected(database)
    except StorageError:
        return True, len(acknowledged)
    return len(there) < len(acknowledged) or not found.sound, len(acknowledged)


async def test_the_writer_lock_guards_a_bank_against_the_wal_reset_bug_of_its_sqlite(tmp_path: Path) -> None:
    if not LIBRARY.is_file():
        pytest.skip("python scripts/build_affected_sqlite.py makes what this needs")
    done: dict[bool, list[tuple[bool, int]]] = {True: [], False: []}
    for number in range(RUNS):
        for locked, runs in done.items():
            runs.append(await broken_run(tmp_path / f"{number}{locked}" / "memory.db", locked=locked))
    corrupt = {locked: sum(broken for broken, _ in runs) for locked, runs in done.items()}
    assert corrupt[True] == 0
    assert corrupt[False] > 0
    assert all(count == WRITERS * WRITES for _, count in done[True])
