"""A bank goes from a file to PostgreSQL and back: every row with its ids or none, and never over another."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from indexed_items import NUMBERS, stored
from laid_bank import laid
from made_items import HERE, made_item
from postgres_server import lent_database

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import InputError, StorageError, StoreBusy
from swarm_memory.schema.source import Passage
from swarm_memory.schema.tool_memory import Evaluation, ToolCall
from swarm_memory.server.storage.driver import choose
from swarm_memory.server.storage.move import Side, Table, move, postgres_side, sqlite_side
from swarm_memory.server.storage.postgres.connection import Place
from swarm_memory.server.storage.postgres.store import open_postgres
from swarm_memory.server.storage.store import open_store
from swarm_memory.tools.ports.memories import SearchQuery
from swarm_memory.tools.ports.records import EvaluatedCall
from swarm_memory.tools.ports.sources import SourceKey, StoredGroup, StoredPassage

AT = datetime(2026, 5, 1, 9, 30, tzinfo=UTC)
ODD = 'a "quoted" % text: with\nlines, \\u0000, \x01 and ümläuts'


@pytest.fixture
def place() -> Iterator[Place]:
    with lent_database() as url:
        yield Place(url)


async def fill(store: Any) -> list[str]:
    """Write rows of many kinds."""
    items = [made_item(f"Retry the upload {number}", tags=("net",), content=ODD) for number in range(3)]
    other = made_item("Close the file", scope=Scope(tenant_id="other", project="shop"), status="archived")
    await store.add_memories([stored(each, NUMBERS) for each in (*items, other)], NUMBERS.name)
    await store.forget([HERE], [items[2].id])
    call = ToolCall(scope=HERE, tool_name="Bash", input=ODD, success=True, created_at=AT, session_id="s", call_id="c")
    await store.tool_memory.add_calls([call], 100)
    good = Evaluation(score=1.0, summary="listed", evaluation="it did", method="evidence")
    await store.tool_memory.save_evaluations(HERE, [EvaluatedCall(1, good, ("list",))], {}, now=AT, retry_after_s=60)
    passage = Passage(kind="document", group="a.md", position=0, title="Uploads", content=ODD)
    upload = StoredPassage(passage, NUMBERS.vector("up"), (), (), ("upload",))
    await store.sources.write_groups(
        SourceKey(HERE, "document", "/docs"), [StoredGroup("a.md", "h", ("a",), (upload,))], NUMBERS.name
    )
    await store.put_common_words(HERE, ["upload"])
    return [each.id for each in items[:2]]


async def answers(store: Any) -> list[Any]:
    """Return what the store says of what it holds, by its indexes and by its rows."""
    query = SearchQuery((HERE,), NUMBERS.name, NUMBERS.vector("upload"), ("retri", "upload"), 5)
    found = await store.search(query)
    ids = sorted(each.id for each in found.candidates)
    past = await store.tool_memory.past_calls(HERE, ("list",), None)
    said: list[Any] = [ids, found.documents, found.document_frequency, await store.get_memories([HERE], ids)]
    return [*said, past, await store.statistics(HERE, NUMBERS.name), await store.common_words(HERE)]


def moved(path: Path, place: Place, *, back: bool = False, report: Callable[[str], object] = len) -> int:
    with sqlite_side(path, choose(), 2.0) as own, postgres_side(place) as served:
        sides = (served, own) if back else (own, served)
        return move(*sides, own.tables(), report)


def rows_of(side: Side, tables: list[Table]) -> dict[str, list[Any]]:
    own = ("bank", "forgotten_position")
    return {each.name: [row for row in side.rows(each) if row[0] not in own] for each in tables}


def test_a_bank_comes_back_from_postgresql_as_it_went_and_answers_the_same_there(tmp_path: Path, place: Place) -> None:
    first, second = (laid(tmp_path / name / "memory.db", "auto") for name in ("first", "second"))
    said: list[list[Any]] = []

    async def ask(store: Any, *, filled: bool = False) -> None:
        await (fill(store) if filled else anyio.lowlevel.checkpoint())
        said.append(await answers(store))
        await store.close()

    async def on_file(path: Path, *, filled: bool = False) -> None:
        await ask(await open_store(path, embedder=NUMBERS), filled=filled)

    async def on_server() -> None:
        store: Any = await open_postgres(place, pool_size=2, embedder=NUMBERS)
        (newest,) = await store.add_memories([stored(made_item("Later"), NUMBERS)], NUMBERS.name)
        await store.forget([HERE], [newest])
        await ask(store)

    anyio.run(lambda: on_file(first, filled=True))
    assert moved(first, place) > 20
    with sqlite_side(first, choose(), 2.0) as own, postgres_side(place) as served:
        assert rows_of(own, own.tables()) == rows_of(served, own.tables())
        assert own.last_position() == 4, "a position that was forgotten is not given again"
    with pytest.raises(InputError, match="there is a bank already"):
        moved(first, place)
    anyio.run(on_server)
    moved(second, place, back=True)
    with sqlite_side(second, choose(), 2.0) as own, postgres_side(place) as served:
        assert rows_of(own, own.tables()) == rows_of(served, own.tables())
        assert own.last_position() == 5
    anyio.run(lambda: on_file(second))
    assert said[0] == said[1] == said[2]


@pytest.mark.parametrize("meddles", [False, True])
def test_a_move_that_was_cut_off_or_went_wrong_leaves_nothing_there_and_can_be_done_again(
    tmp_path: Path, place: Place, meddles: bool
) -> None:
    path = laid(tmp_path / "memory.db", "auto")

    async def filled() -> None:
        async with await open_store(path, embedder=NUMBERS) as store:
            await fill(store)

    class CutOff(Exception):
        pass

    anyio.run(filled)
    with sqlite_side(path, choose(), 2.0) as own, postgres_side(place) as served:
        tables = own.tables()
    (meta,) = (each for each in tables if each.name == "meta")

    def cut_off(text: str) -> None:
        if text.startswith("words of"):
            raise CutOff

    def meddle(text: str) -> None:
        if text.startswith("words of"):
            served.put(meta, [("aging:1", "{}")])

    with (
        pytest.raises(StorageError if meddles else CutOff, match="a row of meta differs" if meddles else None),
        sqlite_side(path, choose(), 2.0) as own,
        postgres_side(place) as served,
    ):
        move(own, served, tables, meddle if meddles else cut_off)
    with postgres_side(place) as served:
        assert not any(rows_of(served, tables).values())
    assert moved(path, place) > 20


def test_nobody_writes_to_a_bank_that_is_being_moved(tmp_path: Path, place: Place) -> None:
    path = laid(tmp_path / "memory.db", "auto")

    async def write(store: Any) -> None:
        async with store:
            await store.put_common_words(Scope(), ["upload"])

    async def try_both() -> None:
        with pytest.raises(StoreBusy):
            await write(await open_store(path, embedder=NUMBERS, busy_timeout_s=0.1))
        impatient = place._replace(busy_timeout_s=0.1)
        with pytest.raises(StoreBusy):
            await write(await open_postgres(impatient, embedder=NUMBERS))

    anyio.run(open_and_close, place)
    with sqlite_side(path, choose(), 2.0), postgres_side(place):
        anyio.run(try_both)


async def open_and_close(place: Place) -> None:
    """Have the schema made."""
    async with await open_postgres(place, embedder=NUMBERS):
        pass
