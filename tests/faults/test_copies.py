"""Copies of a bank and what remains of it: backups under load, restoring, exports, forgetting, permissions, growth."""

import asyncio
import math
import os
import stat
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from clock import SetClock
from forked import ISOLATED, run
from made_items import rewrite
from made_work import made_job
from patience import FULL

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.job import JobEnd
from swarm_memory.schema.settings import Settings
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.storage.care.repair import restore
from swarm_memory.server.storage.driver import choose
from swarm_memory.server.storage.engine.backup import KEEP, list_backups
from swarm_memory.server.storage.sqlite import SqliteStore
from swarm_memory.server.wiring import SystemClock
from swarm_memory.tools.consolidate.consolidate import consolidate
from swarm_memory.tools.memories.transfer import export_memories, import_memories
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.toolbox import Toolbox
from tests.faults.rig import EVERY, HERE, Crowd, environment, fill, filled, importing, made_item, opened, with_vectors

pytestmark = pytest.mark.fault


async def test_backups_made_while_others_write_are_whole_and_hold_what_was_acknowledged_before(
    database: Path, tmp_path: Path
) -> None:
    await filled(database, 100)
    crowd = Crowd()
    for number in range(4 if FULL else 2):
        crowd.add("write", database, "auto", number, 0)
    crowd.wait(lambda: len(crowd.said("ack")) >= 4)
    rounds, consistent = (20 if FULL else 3), 0
    async with opened(database) as store:
        for number in range(rounds):
            before = {line[0] for line in crowd.said("ack")}
            copy = await store.back_up(tmp_path / f"copy{number}.db")
            target = tmp_path / f"restored{number}" / "memory.db"
            await asyncio.to_thread(restore, target, copy, choose(), 5.0)
            async with opened(target) as other:
                there = {item.id for item in await other.get_memories([HERE], sorted(before))}
                consistent += before <= there and (await other.inspect()).sound
    await asyncio.to_thread(crowd.end)
    assert consistent == rounds
    assert not crowd.said("error")


async def test_so_many_backups_are_kept_and_no_file_is_overwritten(database: Path, tmp_path: Path) -> None:
    async with opened(database) as store:
        made = [await store.back_up() for _ in range(KEEP + 3)]
        assert [copy.path for copy in list_backups(database)] == made[:2:-1]
        (tmp_path / "taken.db").write_text("mine", "utf-8")
        with pytest.raises(InputError, match="already exists"):
            await store.back_up(tmp_path / "taken.db")
    assert (tmp_path / "taken.db").read_text("utf-8") == "mine"


async def test_an_export_read_into_a_new_bank_gives_the_same_bank(database: Path, tmp_path: Path) -> None:
    async with opened(database) as first, opened(tmp_path / "other" / "memory.db") as second:
        items = await fill(first, 150)
        await first.set_status([HERE], [items[3].id], "archived", "old")
        await first.set_status([HERE], [items[4].id], "quarantined", "doubtful")
        boxes = [Toolbox(store, StaticEmbedder(), SystemClock(), Settings(), HERE) for store in (first, second)]
        lines = [line async for line in export_memories(boxes[0])]
        done = await import_memories(boxes[1], lines)
        again = await import_memories(boxes[1], lines)
        ids = [item.id for item in items]
        same = await first.get_memories([HERE], ids) == [
            each.model_copy(update={"provenance": each.provenance.model_copy(update={"suspect": None})})
            for each in await second.get_memories([HERE], ids)
        ]  # imports are screened again, and these texts are random words
        texts = ("retry the token", "merge config", "lock the queue")
        answers = [
            [found.item.id for found in (await retrieve(box, text, k=10)).memories] for box in boxes for text in texts
        ]
        assert (await second.inspect()).sound
    assert same
    assert (done.added, again.added, again.known) == (len(items), 0, len(items))
    assert answers[:3] == answers[3:]


UMASK = """
import asyncio, os, sys
from pathlib import Path
os.umask(int(sys.argv[2], 8))
from tests.faults.rig import fill, opened

async def main(database):
    async with opened(database) as store:
        await fill(store, 3)
        await store.back_up()
        await store.back_up(database.parent / "mine.db")
        print("\\n".join(f"{path.stat().st_mode & 0o777:o} {path.is_dir():d} {path.name}"
              for path in [database.parent, *sorted(database.parent.rglob("*"))]))

asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX's")
@pytest.mark.parametrize("umask", ["000", "022", "777"])
async def test_all_files_are_for_their_user_alone_under_any_umask(tmp_path: Path, umask: str) -> None:
    command = [*ISOLATED, "-c", f"{importing(sys.path)}\n{UMASK}", tmp_path / "new" / "memory.db", umask]
    done = await asyncio.to_thread(run, command, env=environment(), text=True)
    assert done.stderr == ""
    rows = [line.split(" ", 2) for line in done.stdout.splitlines()]
    wrong = [row for row in rows if int(row[0], 8) & (stat.S_IRWXG | stat.S_IRWXO)]
    assert {"memory.db", "memory.db.lock", "memory.db-wal", "mine.db", "backups"} <= {row[2] for row in rows}
    assert not wrong


@pytest.mark.skipif(not FULL, reason="make faults runs it: 20,000 writes take minutes")
async def test_a_bank_that_is_rewritten_again_and_again_stays_small(database: Path, tmp_path: Path) -> None:
    live, rewritten, embedder = 2000, 20_000, StaticEmbedder().name
    async with opened(database) as store:
        items = await fill(store, live)
        for number in range(rewritten):
            at = number % live
            items[at] = items[at].model_copy(update={"content": f"Version {number} of a strategy"})
            await rewrite(store, (await with_vectors([items[at]]))[0], embedder, "again")
        used = await _bytes_without_events(store)
        assert (await store.inspect()).sound
    async with opened(tmp_path / "fresh" / "memory.db") as store:
        for start in range(0, live, 200):
            await store.add_memories(await with_vectors(items[start : start + 200]), embedder)
        assert used <= 2 * await _bytes_without_events(store)


async def _bytes_without_events(store: SqliteStore) -> int:
    """Delete the event log, and return the size of the pages that still contain data."""
    await store.write(lambda connection: connection.execute("DELETE FROM events").rowcount)
    pages = (
        "SELECT (page_count - freelist_count) * page_size "
        "FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
    )
    return (await store.read(lambda connection: connection.execute(pages).fetchone()))[0]


JUMPS = (
    *(timedelta(), timedelta(hours=-1), timedelta(days=3650), timedelta(days=-3650)),
    *(timedelta(days=-20_000), timedelta(days=2_900_000)),
)
"""The last two: before 1972, and near the end of what a date can express."""


async def test_whatever_the_clock_says_scores_are_finite_and_no_weight_exceeds_one(database: Path) -> None:
    clock, now, weights, found = SetClock(datetime.now(UTC)), datetime.now(UTC), list[float](), 0
    ages = (0, 1, 365, 36_500, -1 / 24, -1, -3650, -2_900_000)
    async with opened(database) as store:
        box = Toolbox(store, StaticEmbedder(), clock, Settings(), HERE)
        items = [
            made_item(f"Retry the token of session {number}", created_at=now - timedelta(days=age))
            for number, age in enumerate(ages)
        ]
        await store.add_memories(await with_vectors(items), StaticEmbedder().name)
        for jump in JUMPS:
            clock.at = now + jump
            result = await retrieve(box, "retry the token of the session", k=len(items))
            scores = [memory.score for memory in result.memories]
            assert all(map(math.isfinite, scores))
            assert scores == sorted(scores, reverse=True)
            weights += [memory.parts.recency for memory in result.memories]
            found += len(scores)
            await consolidate(box, full=True)
        kept = await store.list_memories([HERE], EVERY)
    assert found >= len(JUMPS) * 2
    assert 0 <= min(weights) <= max(weights) <= 1
    assert all(0 <= item.confidence <= 1 for item in kept)


async def test_a_job_of_a_dead_worker_is_taken_over_though_the_clock_was_set_back(database: Path) -> None:
    now, taken = datetime.now(UTC), 0
    jumps = (timedelta(hours=-2), timedelta(days=-3650), timedelta(hours=2))
    async with opened(database) as store:
        for number, jump in enumerate(jumps):
            await store.enqueue(made_job(str(number), now, kind="fault"))
            first = await store.claim("dead", now, 60.0, ("fault",), HERE)
            assert first is not None
            assert await store.claim("other", now + timedelta(seconds=59), 60.0, ("fault",), HERE) is None
            second = await store.claim("alive", now + jump, 60.0, ("fault",), HERE)
            taken += second is not None and second.id == first.id and second.attempts == 2
            assert await store.finish(first.id, "alive", JobEnd("completed", {}))
            assert not await store.finish(first.id, "dead", JobEnd("completed", {}))
    assert taken == len(jumps)
