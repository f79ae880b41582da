"""A bank goes from a file to PostgreSQL and back: every row with its ids, after a cut too, and never over another."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from laid_bank import laid
from made_items import made_item
from postgres_server import lent_database

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import InputError, StorageError
from swarm_memory.schema.source import Passage
from swarm_memory.schema.tool_memory import Evaluation, ToolCall
from swarm_memory.server.storage.driver import choose
from swarm_memory.server.storage.move import PostgresSide, SqliteSide, Table, move, postgres_side, sqlite_side
from swarm_memory.server.storage.postgres.connection import Place
from swarm_memory.server.storage.postgres.store import open_postgres
from swarm_memory.server.storage.store import open_store
from swarm_memory.tools.ports.journal import EvaluatedCall
from swarm_memory.tools.ports.memories import SearchQuery
from swarm_memory.tools.ports.sources import SourceKey, StoredGroup, StoredPassage

AT = datetime(2026, 5, 1, 9, 30, tzinfo=UTC)
ODD = 'a "quoted" % text: with\nlines, \\u0000, \x01 and ümläuts'


@pytest.fixture
def place() -> Iterator[Place]:
    with lent_database() as url:
        yield Place(url)


async def fill(store: Any, embedder: Any, here: Scope, with_indexes: Callable[..., Any]) -> list[str]:
    """Write rows of many kinds."""
    items = [made_item(f"Retry the upload {number}", tags=("net",), content=ODD) for number in range(3)]
    other = made_item("Close the file", scope=Scope(tenant_id="other", project="shop"), status="archived")
    await store.add_memories([with_indexes(each, embedder) for each in (*items, other)], embedder.name)
    await store.forget([here], [items[2].id])
    call = ToolCall(scope=here, tool_name="Bash", input=ODD, success=True, created_at=AT, session_id="s", call_id="c")
    await store.tool_memory.add_calls([call], 100)
    good = Evaluation(score=1.0, summary="listed", evaluation="it did", method="evidence")
    await store.tool_memory.save_evaluations(here, [EvaluatedCall(1, good, ("list",))], [], now=AT, retry_after_s=60)
    passage = Passage(kind="document", group="a.md", position=0, title="Uploads", content=ODD)
    stored = StoredPassage(passage, embedder.vector("up"), (), (), ("upload",))
    await store.sources.write_groups(
        SourceKey(here, "document", "/docs"), [StoredGroup("a.md", "h", ("a",), (stored,))], embedder.name
    )
    await store.put_common_words(here, ["upload"])
    return [each.id for each in items[:2]]


async def answers(store: Any, embedder: Any, here: Scope) -> list[Any]:
    """Return what the store says of what it holds, by its indexes and by its rows."""
    query = SearchQuery((here,), embedder.name, embedder.vector("upload"), ("retri", "upload"), 5)
    found = await store.search(query)
    ids = sorted(each.id for each in found.candidates)
    past = await store.tool_memory.past_calls(here, ("list",), None)
    told: list[Any] = [ids, found.documents, found.document_frequency, await store.get_memories([here], ids)]
    told += [past, await store.statistics(here, embedder.name), await store.common_words(here)]
    return told


def moved(path: Path, place: Place, embedder: Any, *, back: bool = False, tell: Callable[[str], object] = len) -> int:
    """Move, with the indexes rebuilt as the command does."""

    async def reindexed() -> None:
        store: Any = await (open_store(path, embedder=embedder) if back else open_postgres(place, embedder=embedder))
        await store.reindex()
        await store.close()

    with sqlite_side(path, choose(), 2.0) as own, postgres_side(place) as served:
        sides = (served, own) if back else (own, served)
        return move(*sides, own.tables(), tell, lambda: anyio.run(reindexed))


def rows_of(side: SqliteSide | PostgresSide, tables: list[Table]) -> dict[str, list[Any]]:
    own = ("bank", "forgotten_position")
    return {each.name: [row for row in side.rows(each) if row[0] not in own] for each in tables}


def test_a_bank_comes_back_from_postgresql_as_it_went_and_answers_the_same_there(
    tmp_path: Path, place: Place, embedder: Any, here: Scope, with_indexes: Any
) -> None:
    first, second = (laid(tmp_path / name / "memory.db", "auto") for name in ("first", "second"))
    told: list[list[Any]] = []

    async def ask(store: Any, *, filled: bool = False) -> None:
        await (fill(store, embedder, here, with_indexes) if filled else anyio.lowlevel.checkpoint())
        told.append(await answers(store, embedder, here))
        await store.close()

    async def on_file(path: Path, *, filled: bool = False) -> None:
        await ask(await open_store(path, embedder=embedder), filled=filled)

    async def on_server() -> None:
        store: Any = await open_postgres(place, pool_size=2, embedder=embedder)
        (newest,) = await store.add_memories([with_indexes(made_item("Later"), embedder)], embedder.name)
        await store.forget([here], [newest])
        await ask(store)

    anyio.run(lambda: on_file(first, filled=True))
    assert moved(first, place, embedder) > 20
    with sqlite_side(first, choose(), 2.0) as own, postgres_side(place) as served:
        assert rows_of(own, own.tables()) == rows_of(served, own.tables())
        assert own.last_position() == 4, "a position that was forgotten is not given again"
    with pytest.raises(InputError, match="there is a bank already"):
        moved(first, place, embedder)
    anyio.run(on_server)
    moved(second, place, embedder, back=True)
    with sqlite_side(second, choose(), 2.0) as own, postgres_side(place) as served:
        assert rows_of(own, own.tables()) == rows_of(served, own.tables())
        assert own.last_position() == 5
    anyio.run(lambda: on_file(second))
    assert told[0] == told[1] == told[2]


def test_a_move_that_was_cut_off_goes_on_and_one_into_another_bank_is_refused(
    tmp_path: Path, place: Place, embedder: Any, here: Scope, with_indexes: Any
) -> None:
    first, other = laid(tmp_path / "first.db", "auto"), tmp_path / "other.db"  # a laid bank is a copy

    async def filled(path: Path) -> None:
        async with await open_store(path, embedder=embedder) as store:
            await fill(store, embedder, here, with_indexes)

    class CutOff(Exception):
        pass

    def cut_off(text: str) -> None:
        if text.startswith("tool_calls"):
            raise CutOff

    anyio.run(filled, first)
    anyio.run(filled, other)
    with pytest.raises(CutOff):
        moved(first, place, embedder, tell=cut_off)
    with pytest.raises(InputError, match="another bank is being moved"):
        moved(other, place, embedder)
    written: list[str] = []
    moved(first, place, embedder, tell=written.append)
    assert not [each for each in written if each.startswith(("patterns", "events"))], "they were there"
    with sqlite_side(first, choose(), 2.0) as own, postgres_side(place) as served:
        assert rows_of(own, own.tables()) == rows_of(served, own.tables())


def test_a_bank_that_is_written_to_meanwhile_is_not_said_to_be_the_same(
    tmp_path: Path, place: Place, embedder: Any, here: Scope, with_indexes: Any
) -> None:
    path = laid(tmp_path / "memory.db", "auto")

    async def filled() -> None:
        async with await open_store(path, embedder=embedder) as store:
            await fill(store, embedder, here, with_indexes)

    def meddle(text: str) -> None:
        if text.startswith("words of"):
            with postgres_side(place) as served:
                served.put(Table("meta", ("key", "value"), ("key",)), [("aging:1", "{}")])

    anyio.run(filled)
    with pytest.raises(StorageError, match="a row of meta differs"):
        moved(path, place, embedder, tell=meddle)
    moved(path, place, embedder)
