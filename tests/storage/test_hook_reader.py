"""What hook commands use of the bank, in fresh interpreters: the same rows, and nothing heavy imported."""

import asyncio
import os
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
from swarm_memory.server.storage import hook_reader
from swarm_memory.server.storage.engine.lock import writer_lock
from swarm_memory.tools.ports.journal import HostSession
from swarm_memory.tools.ports.memories import StoredMemory

Make = Callable[..., MemoryItem]
WithIndexes = Callable[..., StoredMemory]
HEAVY = {"pydantic", "mcp", "openai", "numpy", "aiosqlite", "asyncio", "sqlite_vec", "importlib.metadata"}

USE = """
import sys
from pathlib import Path
from swarm_memory.server.storage.hook_reader import open_for_hook
with open_for_hook(Path(sys.argv[1]), ("default", "here"), 1.0) as bank:
    bank.briefing_rows(5)
    bank.end_turn("s", "/t.jsonl", 20.0)
    bank.end_session("s", "/t.jsonl")
print(" ".join(sys.modules))
"""

WHERE = ("default", "here")


async def test_a_session_that_ends_frees_its_jobs_and_queues_one_for_the_rest(
    open_bank: Any, database: Path, here: Scope
) -> None:
    now = datetime.now(UTC)
    held = Job(
        id="job_1", scope=here, kind="learn", key="s:1", run_after=now.replace(year=now.year + 1), created_at=now
    )
    async with open_bank() as store:
        await store.enqueue(held)
        with hook_reader.open_for_hook(database, WHERE, 1.0) as bank:
            first = bank.end_session("s", "/t.jsonl")
            assert bank.end_session("s", "/t2.jsonl") == first
        jobs = {job.key: job for job in await store.list_jobs(here, ["queued"], 9)}
        assert set(jobs) == {"s:1", "s:all"}
        assert jobs["s:all"].payload == {"transcript_path": "/t2.jsonl", "session_id": "s"}
        assert jobs["s:1"].run_after < datetime.now(UTC)
        assert (await store.claim("w", datetime.now(UTC), 60, ("learn",))) is not None


async def test_a_turn_that_ends_queues_the_task_for_when_it_may_no_longer_go_on(
    open_bank: Any, database: Path, here: Scope
) -> None:
    async with open_bank() as store:
        with hook_reader.open_for_hook(database, WHERE, 1.0) as bank:
            assert bank.end_turn("s", "/t.jsonl", 20.0) is None, "nobody told of a task"
            assert await store.list_jobs(here, ["queued"], 9) == []
            noted = HostSession(session_id="s", scope=here, task_id="s:1", task_number=1, updated_at=datetime.now(UTC))
            await store.put_session(noted)
            first = bank.end_turn("s", "/t.jsonl", 3600.0)
            (held,) = await store.list_jobs(here, ["queued"], 9)
            assert held.run_after > datetime.now(UTC)
            assert bank.end_turn("s", "/t2.jsonl", 0.0) == first
        (job,) = await store.list_jobs(here, ["queued"], 9)
        assert (job.id, job.kind, job.key) == (first, "learn", "s:1")
        assert job.payload == {"transcript_path": "/t2.jsonl", "session_id": "s", "task_id": "s:1"}
        assert job.run_after <= datetime.now(UTC)


async def test_the_ends_of_sessions_of_another_project_are_its_own(open_bank: Any, database: Path, here: Scope) -> None:
    async with open_bank() as store:
        with hook_reader.open_for_hook(database, ("default", "there"), 1.0) as bank:
            bank.end_session("s", "/t.jsonl")
        assert await store.list_jobs(here, ["queued"], 9) == []
        (job,) = await store.list_jobs(Scope(project="there"), ["queued"], 9)
        assert job.key == "s:all"


async def test_the_briefing_gives_the_surest_active_items_of_the_project_first(
    open_bank: Any, embedder: Any, item: Make, with_indexes: WithIndexes, database: Path
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
    with hook_reader.open_for_hook(database, WHERE, 1.0) as bank:
        rows = bank.briefing_rows(5)
        assert [title for _, title, _, _ in rows] == ["Sure", "Unsure", "Global"]
        assert rows[0] == (items[0].id, items[0].title, items[0].content, 0)
        assert len(bank.briefing_rows(1)) == 1
    with hook_reader.open_for_hook(database, ("default", GLOBAL_PROJECT), 1.0) as bank:
        assert [title for _, title, _, _ in bank.briefing_rows(5)] == ["Global"]


async def test_a_hook_waits_no_longer_than_it_may(open_bank: Any, database: Path) -> None:
    async with open_bank():
        pass
    with writer_lock(database, 1), pytest.raises(StoreBusy), hook_reader.open_for_hook(database, WHERE, 0.02) as bank:
        bank.end_session("s", "/t.jsonl")


async def test_a_hook_makes_no_bank_and_trusts_no_file(open_bank: Any, database: Path) -> None:
    with pytest.raises(StorageError, match="there is no bank"), hook_reader.open_for_hook(database, WHERE, 1.0):
        pass
    database.parent.mkdir()
    database.write_bytes(b"something else" * 100)  # noqa: ASYNC240 - a test may wait
    with pytest.raises(StoreUntrusted), hook_reader.open_for_hook(database, WHERE, 1.0):
        pass


async def test_a_hook_imports_nothing_heavy(open_bank: Any, database: Path, driver_name: str) -> None:
    async with open_bank():
        pass
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "SWARM_MEMORY_SQLITE": driver_name}
    command = [sys.executable, "-c", USE, str(database)]
    run = partial(subprocess.run, command, env=environment, capture_output=True, text=True, check=False)
    done = await asyncio.to_thread(run)
    assert done.stderr == ""
    assert HEAVY.isdisjoint(done.stdout.split())
