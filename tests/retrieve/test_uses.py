"""A way out is told where its error or its program is spoken of; a problem that nobody solved is no advice."""

from collections.abc import Awaitable, Callable

import pytest

from swarm_memory.schema.memory import OPEN_PROBLEM, WAY_OUT, Provenance
from swarm_memory.server.storage.store import SqliteStore
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.toolbox import Toolbox

Add = Callable[..., Awaitable[str]]

WAY = {
    "title": "Start the database before `shipctl migrate`",
    "content": "1. Run `shipctl up db`.\n2. Run `shipctl migrate` again.",
    "description": 'Of use when `shipctl migrate` ends with "could not reach the ledger at all".',
    "tags": (WAY_OUT, "error"),
    "domain": "shell.shipctl",
}
OPEN = {**WAY, "title": 'Not solved yet: "could not reach the ledger"', "tags": (OPEN_PROBLEM,)}


@pytest.mark.parametrize("query", ["shipctl must release the shop", "why could it not reach the ledger today"])
async def test_a_way_out_is_told_where_its_program_or_its_error_is_spoken_of(
    toolbox: Toolbox, add: Add, query: str
) -> None:
    told = await add(**WAY)
    assert [each.item.id for each in (await retrieve(toolbox, query)).memories] == [told]


async def test_nearness_alone_brings_no_way_out(toolbox: Toolbox, add: Add) -> None:
    await add(**WAY)
    query = "start up another database and migrate its tables"
    assert (await retrieve(toolbox, query)).memories == ()
    await add(**WAY | {"tags": ()})
    assert len((await retrieve(toolbox, query)).memories) == 1


async def test_what_an_agent_or_a_model_wrote_is_a_strategy_whatever_its_tags(toolbox: Toolbox, add: Add) -> None:
    told = await add(**OPEN, provenance=Provenance(distiller="agent"))
    assert [each.item.id for each in (await retrieve(toolbox, "shipctl migrate")).memories] == [told]


async def test_an_open_problem_is_not_told(toolbox: Toolbox, add: Add) -> None:
    await add(**OPEN)
    assert (await retrieve(toolbox, "shipctl migrate could not reach the ledger at all")).memories == ()


async def test_a_way_out_brings_another_of_its_error_though_that_fits_the_query_by_no_word(
    toolbox: Toolbox, add: Add
) -> None:
    store = toolbox.store
    assert isinstance(store, SqliteStore)
    known = await add(**WAY)
    far = await add(**WAY | {"title": "Wait for night", "content": "1. Wait.", "description": "", "domain": None})
    await add("Release at noon", "1. Use shipctl at noon.")
    await store.write(
        lambda connection: connection.execute("INSERT INTO handles (handle, seq) SELECT 'error:a', seq FROM patterns")
    )
    query = "shipctl must release the shop"
    found = await retrieve(toolbox, query, task_id="next")
    assert {known, far} < {each.item.id for each in found.memories}
    assert set((await store.injections(toolbox.scope, "next")).given) >= {known, far}
    assert len((await retrieve(toolbox, query, k=1)).memories) == 1
