"""What hook commands use of the bank, in fresh interpreters: the same rows, and nothing heavy imported."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from swarm_memory.schema.base import GLOBAL_PROJECT, Scope
from swarm_memory.schema.errors import StorageError, StoreBusy, StoreUntrusted
from swarm_memory.schema.job import Job
from swarm_memory.schema.memory import MemoryItem
from swarm_memory.server.location import Location
from swarm_memory.server.storage import hook_reader
from swarm_memory.server.storage.engine.lock import writer_lock
from swarm_memory.tools.ports.memories import StoredMemory

Make = Callable[..., MemoryItem]
WithIndexes = Callable[..., StoredMemory]
HEAVY = {"pydantic", "mcp", "openai", "numpy", "aiosqlite", "asyncio", "ulid", "sqlite_vec", "importlib.metadata"}

USE = """
import sys
from pathlib import Path
from swarm_memory.server.storage.hook_reader import open_for_hook
from swarm_memory.server.location import Location
with open_for_hook(Location(Path(sys.argv[1]), Path(sys.argv[2])), 1.0) as bank:
    bank.briefing_rows(5)
    bank.end_session("s", "/t.jsonl")
print(" ".join(sys.modules))
"""


@pytest.fixture
def place(database: Path, tmp_path: Path) -> Location:
    return Location(tmp_path / "here", database)


async def test_a_session_that_ends_frees_its_jobs_and_queues_one_for_the_rest(
    open_bank: Any, place: Location, here: Scope
) -> None:
    now = datetime.now(UTC)
    held = Job(
        id="job_1", scope=here, kind="learn", key="s:1", run_after=now.replace(year=now.year + 1), created_at=now
    )
    async with open_bank() as store:
        await store.enqueue(held)
        with hook_reader.open_for_hook(place, 1.0) as bank:
            first = bank.end_session("s", "/t.jsonl")
            assert bank.end_session("s", "/t2.jsonl") == first
        jobs = {job.key: job for job in await store.list_jobs(here, ["queued"], 9)}
        assert set(jobs) == {"s:1", "s:all"}
        assert jobs["s:all"].payload == {"transcript_path": "/t2.jsonl", "session_id": "s"}
        assert jobs["s:1"].run_after < datetime.now(UTC)
        assert (await store.claim("w", datetime.now(UTC), 60, ("learn",))) is not None


async def test_the_briefing_gives_the_surest_active_items_of_the_project_first(
    open_bank: Any,
    embedder: Any,
    item: Make,
    with_indexes: WithIndexes,
    place: Location,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared = Scope(project=GLOBAL_PROJECT)
    items = [
        item("Sure", confidence=0.9),
        item("Unsure", confidence=0.2),
        item("Global", confidence=1.0, scope=shared),
        item("Put aside", status="quarantined"),
        item("Elsewhere", scope=Scope(project="there")),
        item("Of another tenant", scope=Scope(tenant_id="t", project="here")),
    ]
    async with open_bank() as store:
        await store.add_memories([with_indexes(each, embedder) for each in items], embedder.name)
    with hook_reader.open_for_hook(place, 1.0) as bank:
        rows = bank.briefing_rows(5)
        assert [title for _, title, _ in rows] == ["Sure", "Unsure", "Global"]
        assert rows[0] == (items[0].id, items[0].title, items[0].content)
        assert len(bank.briefing_rows(1)) == 1
    monkeypatch.setenv("SWARM_MEMORY_STORAGE__PROJECT", GLOBAL_PROJECT)
    with hook_reader.open_for_hook(place, 1.0) as bank:
        assert [title for _, title, _ in bank.briefing_rows(5)] == ["Global"]


async def test_a_hook_waits_no_longer_than_it_may(open_bank: Any, place: Location) -> None:
    async with open_bank():
        pass
    with writer_lock(place.database, 1), pytest.raises(StoreBusy), hook_reader.open_for_hook(place, 0.02) as bank:
        bank.end_session("s", "/t.jsonl")


async def test_a_hook_makes_no_bank_and_trusts_no_file(open_bank: Any, place: Location) -> None:
    with pytest.raises(StorageError, match="there is no bank"), hook_reader.open_for_hook(place, 1.0):
        pass
    place.database.parent.mkdir()
    place.database.write_bytes(b"something else" * 100)
    with pytest.raises(StoreUntrusted), hook_reader.open_for_hook(place, 1.0):
        pass


async def test_a_hook_imports_nothing_heavy(open_bank: Any, place: Location, rung: str) -> None:
    async with open_bank():
        pass
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "SWARM_MEMORY_SQLITE": rung}
    command = [sys.executable, "-c", USE, str(place.root), str(place.database)]
    run = partial(subprocess.run, command, env=environment, capture_output=True, text=True, check=False)
    done = await asyncio.to_thread(run)
    assert done.stderr == ""
    assert HEAVY.isdisjoint(done.stdout.split())


def test_a_lean_id_is_a_ulid_that_sorts_by_time() -> None:
    from ulid import ULID

    made = [hook_reader.plain_id("job") for _ in range(50)]
    assert len(set(made)) == 50
    assert all(re.fullmatch(r"job_[0-7][0-9A-HJKMNP-TV-Z]{25}", each) for each in made)
    stamps = [ULID.from_str(each.removeprefix("job_")).timestamp for each in made]
    assert stamps == sorted(stamps)
    assert abs(stamps[0] - datetime.now(UTC).timestamp()) < 5
