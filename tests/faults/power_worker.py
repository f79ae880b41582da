"""The processes whose disk is recorded: `python power_worker.py ROLE DATABASE …`. They write what was done to a file.

That file is in the recorded folder, so that each of its lines has a position in the recording.
"""

import asyncio
import os
import random
import sys
from pathlib import Path

from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.storage.care.repair import restore
from swarm_memory.server.storage.driver import choose
from swarm_memory.server.storage.engine import connection, registry
from swarm_memory.server.storage.sqlite import SqliteStore
from tests.faults.power_survey import SAID
from tests.faults.rig import HERE, made_item, opened, sentence, with_vectors


def say(*words: object) -> None:
    """Write one thing that was done, or is about to be."""
    path = Path(os.environ["RECORD_FOLDER"], SAID)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, (" ".join(map(str, words)) + "\n").encode())
    os.close(descriptor)


async def add(store: SqliteStore, chance: random.Random, count: int) -> list[str]:
    """Add memories one by one and write `added ID MARK` for each."""
    added: list[str] = []
    for _ in range(count):
        mark = f"mark{chance.getrandbits(64):016x}"
        (memory,) = await with_vectors([made_item(f"{sentence(chance)} {mark}")])
        added += await store.add_memories([memory], StaticEmbedder().name)
        say("added", memory.item.id, mark)
    return added


async def write(database: Path, name: int, count: int) -> None:
    """Add `count` memories, and reopen the bank halfway."""
    chance = random.Random(name)
    for _ in range(2):
        async with opened(database) as store:
            say("opened")
            await add(store, chance, count // 2)


def writers(database: Path, processes: str, count: str) -> None:
    """Run several processes that write."""
    choose()  # slow modules are imported only once
    born: list[int] = []
    for number in range(int(processes)):
        if pid := os.fork():
            born.append(pid)
            continue
        asyncio.run(write(database, number, int(count)))
        os._exit(0)
    sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in born))


def with_journal(database: Path, processes: str, count: str) -> None:
    """Do the same with the rollback journal that SQLite keeps where it cannot share memory."""
    connection.JOURNAL = "delete"
    writers(database, processes, count)


def upkeep(database: Path, rounds: str) -> None:
    """Migrate, write, copy, forget, restore one of two copies and then the other; repeat all but the migration."""
    asyncio.run(_upkeep(database, int(rounds)))


async def _upkeep(database: Path, rounds: int) -> None:
    chance = random.Random(5)
    registry.begin(database)  # the bank of an older release that was put there
    for _ in range(rounds):
        async with opened(database) as store:
            say("opened")
            early = await add(store, chance, 3)
            await _copy(store)
            late = await add(store, chance, 2)
            victims = [early[0], late[0]]
            say("forgetting", *victims)
            await store.forget([HERE], victims)
            say("forgot", *victims)
            first = await _copy(store)
            await add(store, chance, 2)
            second = await _copy(store)
            for copy in (first, second):
                await add(store, chance, 2)
                say("restoring", copy.name)
                await asyncio.to_thread(restore, database, copy, choose(), 5.0)
                say("restored", copy.name)
            await add(store, chance, 2)


async def _copy(store: SqliteStore) -> Path:
    copy = await store.back_up()
    say("copied", copy.name)
    return copy


ROLES = {each.__name__: each for each in (writers, with_journal, upkeep)}

if __name__ == "__main__":
    ROLES[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
