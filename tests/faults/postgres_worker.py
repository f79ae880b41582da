"""A server's work on PostgreSQL, for the fault rig: `python postgres_worker.py ROLE URL NAME`. It says what it did."""

import asyncio
import os
import random
import sys
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

from rig import HERE, made_item, sentence, with_vectors

from swarm_memory.schema.base import new_id
from swarm_memory.schema.errors import StorageError
from swarm_memory.schema.job import JobEnd
from swarm_memory.schema.memory import Provenance
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.storage.postgres.connection import Place
from swarm_memory.server.storage.postgres.store import PostgresStore, open_postgres
from swarm_memory.tools.ports.trajectories import LearnRecord

LEASE_S = 3.0


def say(*words: object) -> None:
    """Write one whole line, which no kill can cut in two."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def write(store: PostgresStore, name: str) -> None:
    """Add memories until killed; say `ack ID` of each, `error TEXT` of what was refused."""
    draw, number = random.Random(name), 0
    while True:
        number += 1
        (memory,) = await with_vectors([made_item(f"{sentence(draw)} {name} {number}")])
        try:
            await store.add_memories([memory], StaticEmbedder().name)
        except StorageError as error:
            say("error", type(error).__name__, error)
            await asyncio.sleep(0.05)
        else:
            say("ack", memory.item.id)


async def learn(store: PostgresStore, name: str) -> None:
    """Take jobs until killed and learn from the task of each, as the worker does; say `learned TASK`."""
    while True:
        try:
            now = datetime.now(UTC)
            job = await store.claim(name, now, LEASE_S, ("learn",))
            if job is None:
                await asyncio.sleep(0.05)
                continue
            task_id = str(job.payload["task_id"])
            run_id = new_id("run")
            item = made_item(f"What {task_id} taught", provenance=Provenance(task_id=task_id, run_id=run_id))
            record = LearnRecord(
                scope=HERE,
                run_id=run_id,
                trajectory_id=new_id("tr"),
                trajectory=Trajectory(task_id=task_id, task=task_id),
                verdict=Verdict(label="Success", confidence=0.9, judge="evidence", reasons=()),
                embedder=StaticEmbedder().name,
                memories=tuple(await with_vectors([item])),
                reinforced=(),
                reinforcement=0.0,
                at=now,
            )
            await store.save_learning(record)
            if await store.finish(job.id, name, JobEnd("completed")):
                say("learned", task_id)
        except StorageError as error:
            say("error", type(error).__name__, error)


ROLES: dict[str, Callable[[PostgresStore, str], Coroutine[Any, Any, None]]] = {"write": write, "learn": learn}


async def main(role: str, url: str, name: str) -> None:
    """Open the bank, as soon as it can be, and work."""
    while True:
        try:
            store = await open_postgres(Place(url), pool_size=2, embedder=StaticEmbedder())
            break
        except StorageError as error:
            say("error", type(error).__name__, error)
            await asyncio.sleep(0.1)
    say("ready")
    await ROLES[role](store, name)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
