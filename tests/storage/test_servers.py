"""Several servers on one PostgreSQL database: what one began another finishes."""

import asyncio
import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from indexed_items import NUMBERS, stored
from made_items import HERE, made_item
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from swarm_memory.schema.errors import StorageError, StoreBusy
from swarm_memory.server.storage.postgres.connection import Place
from swarm_memory.server.storage.postgres.store import PostgresStore, open_postgres

AT = datetime(2026, 5, 1, 9, 30, tzinfo=UTC)
NOBODY = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


async def opened(place: Place) -> PostgresStore:
    return await open_postgres(place, pool_size=2, embedder=NUMBERS)


def drop_every_connection(place: Place) -> None:
    with psycopg.connect(place.url, autocommit=True) as raw:
        raw.execute(NOBODY.encode())


async def test_work_goes_on_after_the_database_dropped_every_connection(place: Place) -> None:
    item = made_item("Retry the upload")
    async with await opened(place) as store:
        await store.add_memories([stored(item, NUMBERS)], NUMBERS.name)
        drop_every_connection(place)
        assert await store.get_memories([HERE], [item.id]) == [item]
        drop_every_connection(place)
        assert await store.set_status([HERE], [item.id], "archived", "old") == 1


async def test_two_that_change_the_same_memories_in_different_order_both_succeed(place: Place) -> None:
    items = [made_item(f"Retry the upload {number}") for number in range(6)]
    async with await opened(place) as one, await opened(place) as other:
        await one.add_memories([stored(each, NUMBERS) for each in items], NUMBERS.name)
        ids = [each.id for each in items]
        done = await asyncio.gather(
            *(
                store.set_status([HERE], asked, status, "x")
                for store, asked in ((one, ids), (other, ids[::-1]))
                for status in ("archived", "active")
            )
        )
        assert sum(done) > 0
        found = await one.statistics(HERE, NUMBERS.name)
        assert sum(found.memories.values()) == len(items)
    with psycopg.connect(place.url) as raw:
        assert raw.execute("SELECT active FROM swarm_memory.scopes").fetchone() == (found.memories["active"],)


async def test_a_caller_that_leaves_breaks_no_transaction(place: Place) -> None:
    item = made_item("Retry the upload")
    async with await opened(place) as store:
        writing = asyncio.create_task(store.add_memories([stored(item, NUMBERS)], NUMBERS.name))
        await asyncio.sleep(0)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        await store.add_memories([], NUMBERS.name)
    async with await opened(place) as store:  # closing let running work finish: all of it is there, or nothing
        found = await store.get_memories([HERE], [item.id])
        assert found in ([], [item])
        assert (await store.statistics(HERE, NUMBERS.name)).memories["active"] == len(found)


async def test_a_statement_that_takes_too_long_is_ended_and_a_closed_bank_says_so(place: Place) -> None:
    store = await open_postgres(place._replace(statement_timeout_s=0.05), pool_size=1, embedder=NUMBERS)
    with pytest.raises(StorageError, match="took longer than"):
        await store.read(lambda connection: connection.raw.execute("SELECT pg_sleep(3)"))  # pyright: ignore
    await store.close()
    with pytest.raises(StorageError, match="closed"):
        await store.get_memories([HERE], ["rm_x"])


async def test_a_server_has_no_more_connections_than_it_may_and_all_calls_are_answered(place: Place) -> None:
    def busy(connection: Any) -> int:
        asked = "SELECT count(*), pg_sleep(0.01) FROM pg_stat_activity WHERE datname = current_database()"
        return int(connection.raw.execute(asked.encode()).fetchone()[0])

    store = await open_postgres(place, pool_size=3, embedder=NUMBERS)
    most = max(await asyncio.gather(*(store.read(busy) for _ in range(30))))
    await store.close()
    assert 2 <= most <= 3


async def test_a_scope_that_somebody_holds_is_waited_for_no_longer_than_the_limit_and_reads_go_on(place: Place) -> None:
    item = made_item("Retry the upload")
    store = await open_postgres(place._replace(busy_timeout_s=0.1), pool_size=2, embedder=NUMBERS)
    await store.add_memories([stored(item, NUMBERS)], NUMBERS.name)
    with psycopg.connect(place.url) as raw:
        raw.execute(b"SELECT * FROM swarm_memory.scopes FOR UPDATE")
        with pytest.raises(StoreBusy, match="busy with the same memories"):
            await store.set_status([HERE], [item.id], "archived", "old")
        assert await store.get_memories([HERE], [item.id]) == [item]
    assert await store.set_status([HERE], [item.id], "archived", "old") == 1
    await store.close()


class Road:
    """A connection path to the database that can be cut."""

    def __init__(self, place: Place) -> None:
        parts = conninfo_to_dict(place.url)
        self._to, self._road = str(parts["host"]), Path(tempfile.mkdtemp(), "s")
        self.place = Place(make_conninfo(place.url, host=str(self._road)), connect_timeout_s=0.3)

    def mend(self) -> None:
        self._road.symlink_to(self._to)

    def cut(self, place: Place) -> None:
        self._road.unlink()
        drop_every_connection(place)

    def end(self) -> None:
        shutil.rmtree(self._road.parent)


async def test_a_database_that_is_away_is_said_to_be_away_and_used_again_when_it_is_back(place: Place) -> None:
    road = Road(place)
    road.mend()
    store = await open_postgres(road.place, pool_size=1, embedder=NUMBERS)
    assert await store.get_memories([HERE], ["rm_x"]) == []
    road.cut(place)
    with pytest.raises(StorageError, match="does not answer"):
        await store.get_memories([HERE], ["rm_x"])
    road.mend()
    assert await store.get_memories([HERE], ["rm_x"]) == []
    await store.close()
    road.end()
