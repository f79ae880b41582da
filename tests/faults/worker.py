"""A process of the fault rig: `python worker.py ROLE ARGUMENT...`. It writes acknowledgements to stdout immediately.

A bank is named by its file or, for roles that also run on PostgreSQL, by its address.
"""

import asyncio
import os
import random
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from made_work import made_record

from swarm_memory.schema.errors import StorageError
from swarm_memory.schema.job import JobEnd
from swarm_memory.schema.memory import Provenance
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.storage.driver import choose
from swarm_memory.server.storage.engine import connection as storage_connection
from swarm_memory.server.storage.engine.connection import close, connect
from swarm_memory.server.storage.engine.files import writer_lock
from swarm_memory.server.storage.postgres.connection import Place
from swarm_memory.server.storage.postgres.store import open_postgres
from swarm_memory.server.storage.store import Store
from swarm_memory.tools.ports.memories import SearchQuery
from swarm_memory.tools.ports.records import LearnRecord
from swarm_memory.tools.text.tokens import tokenize
from tests.faults.rig import HERE, made_item, opened, sentence, with_vectors

PAUSE_S = 0.03
"""The pause between a reader's searches, which leaves time for the writers on a machine with two cores."""

LEASE_S = 3.0


def say(*words: object) -> None:
    """Write one whole line, which a kill cannot split."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


@asynccontextmanager
async def opened_bank(place: str, driver_name: str = "auto") -> AsyncGenerator[Store]:
    """Open a bank; one on PostgreSQL as soon as it can be opened."""
    if not place.startswith("postgresql:"):
        async with opened(Path(place), sqlite=driver_name) as store:
            yield store
        return
    while True:
        try:
            store = await open_postgres(Place(place), pool_size=2, embedder=StaticEmbedder())
            break
        except StorageError as error:
            say("error", type(error).__name__, error)
            await asyncio.sleep(0.1)
    async with store:
        yield store


async def write(bank: str, driver_name: str, name: str, limit: str) -> None:
    """Add memories until killed, or `limit` of them; say `ack ID` for each, `error TEXT` for a refusal."""
    chance = random.Random(name)
    async with opened_bank(bank, driver_name) as store:
        say("ready")
        number = 0
        while limit == "0" or number < int(limit):
            (memory,) = await with_vectors([made_item(f"{sentence(chance)} {name} {number}")])
            try:
                added = await store.add_memories([memory], StaticEmbedder().name)
            except StorageError as error:
                say("error", type(error).__name__, error)
                await asyncio.sleep(0.05)
            else:
                assert added == [memory.item.id]
                say("ack", memory.item.id)
            number += 1


async def read(database: str, driver_name: str, name: str, limit: str) -> None:
    """Search until killed, or `limit` times; say `torn ID` for an incomplete memory, and `read` after each search."""
    chance = random.Random(name)
    embedder = StaticEmbedder()
    async with opened(Path(database), sqlite=driver_name) as store:
        say("ready")
        number = 0
        while limit == "0" or number < int(limit):
            text = sentence(chance)
            query = SearchQuery((HERE,), embedder.name, (await embedder.embed_queries([text]))[0], tokenize(text), 10)
            found = await store.search(query)
            for candidate in found.candidates:
                if candidate.read_vector() is None or not candidate.read_item().title:
                    say("torn", candidate.id)
            say("read")
            number += 1
            await asyncio.sleep(PAUSE_S)


async def hold(database: str) -> None:
    """Take the writer lock, say `held`, and keep the lock until killed."""
    with writer_lock(Path(database), 10):
        say("held")
        while True:
            await asyncio.sleep(60)


async def migrate(database: str, driver_name: str) -> None:
    """Open the bank as a hook does, which creates or migrates it; say the number of memories and the schema version."""
    connection = connect(Path(database), driver=choose(driver_name), timeout_s=30)
    (count,) = connection.execute("SELECT count(*) FROM patterns").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    close(connection, Path(database))
    say("ok", count, version)


async def claim(database: str, name: str, work_s: str, lease_s: str) -> None:
    """Claim jobs and do them until there are none; say `claimed ID ATTEMPT` and `done ID BOOL`."""
    async with opened(Path(database)) as store:
        while True:
            job = await store.claim(name, datetime.now(UTC), float(lease_s), ("fault",), HERE)
            if job is None:
                if not await store.list_jobs(HERE, ("queued", "running"), 1):
                    return
                await asyncio.sleep(0.02)
                continue
            say("claimed", job.id, job.attempts)
            await asyncio.sleep(float(work_s))
            say("done", job.id, await store.finish(job.id, name, JobEnd("completed", {"by": name})))


async def learn(bank: str, name: str) -> None:
    """Claim jobs until killed and learn from the task of each, as a server's worker does."""
    async with opened_bank(bank) as store:
        say("ready")
        while True:
            try:
                now = datetime.now(UTC)
                job = await store.claim(name, now, LEASE_S, ("learn",), HERE)
                if job is None:
                    await asyncio.sleep(0.05)
                    continue
                await store.save_learning(await _learned(str(job.payload["task_id"]), now))
                await store.finish(job.id, name, JobEnd("completed"))
            except StorageError as error:
                say("error", type(error).__name__, error)


async def _learned(task_id: str, now: datetime) -> LearnRecord:
    """Return the record that stores one memory of a task."""
    memories = await with_vectors([made_item(f"What {task_id} taught", provenance=Provenance(task_id=task_id))])
    done = Trajectory(task_id=task_id, task=task_id)
    return made_record(done, *memories, embedder=StaticEmbedder().name, at=now)


async def again(database: str, what: str) -> None:
    """Call one method of the store, `reindex` or `back_up`, again and again, until killed."""
    async with opened(Path(database)) as store:
        say("ready")
        while True:
            await getattr(store, what)()


async def checkpoint(database: str, driver_name: str) -> None:
    """Checkpoint the log again and again, under the writer lock as the store does, until killed."""
    connection = connect(Path(database), driver=choose(driver_name), timeout_s=30)
    say("ready", choose(driver_name).sqlite_version)
    while True:
        with storage_connection.writing(Path(database), 30):
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        await asyncio.sleep(0.002)


async def unlocked(role: str, *arguments: str) -> None:
    """Perform a role without the writer lock: what the lock guards against must then be seen."""
    storage_connection.writer_lock = lambda database, timeout_s: nullcontext()  # type: ignore[assignment]
    await ROLES[role](*arguments)


def nursery() -> None:
    """Read lines `NAME<tab>ROLE<tab>ARGUMENT…` and run each in a child, so that slow modules are imported only once.

    Children print to the nursery's output; it also says `born NAME PID` and `gone NAME CODE`.
    """
    born: dict[int, str] = {}
    for line in sys.stdin:
        while born and (ended := os.waitpid(-1, os.WNOHANG))[0]:
            say("gone", born.pop(ended[0]), os.waitstatus_to_exitcode(ended[1]))
        name, role, *arguments = line.rstrip("\n").split("\t")
        if role == "poke":
            continue
        pid = os.fork()
        if pid == 0:
            os._exit(run(role, *arguments))
        born[pid] = name
        say("born", name, pid)
    while born:
        pid, status = os.wait()
        say("gone", born.pop(pid), os.waitstatus_to_exitcode(status))


def run(role: str, *arguments: str) -> int:
    """Perform a role; return the exit code."""
    try:
        asyncio.run(ROLES[role](*arguments))
    except StorageError as fault:
        say("error", type(fault).__name__, fault)
        return 4
    except KeyboardInterrupt:
        return 130
    return 0


ROLES: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {
    each.__name__: each for each in (write, read, hold, migrate, claim, learn, again, checkpoint, unlocked)
}

if __name__ == "__main__":
    if sys.argv[1] == "nursery":
        nursery()
    else:
        sys.exit(run(*sys.argv[1:]))
