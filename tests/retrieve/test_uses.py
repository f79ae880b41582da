"""A fix is shown where its error or its program is spoken of; a problem that nobody solved is no advice."""

from collections.abc import Awaitable, Callable

import pytest

from swarm_memory.schema.memory import OPEN_PROBLEM, WAY_OUT, Provenance
from swarm_memory.tools.ports.memories import KnownFix
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
    shown = await add(**WAY)
    assert [each.item.id for each in (await retrieve(toolbox, query)).memories] == [shown]


async def test_nearness_alone_brings_no_way_out(toolbox: Toolbox, add: Add) -> None:
    await add(**WAY)
    query = "start up another database and migrate its tables"
    assert (await retrieve(toolbox, query)).memories == ()
    await add(**WAY | {"tags": ()})
    assert len((await retrieve(toolbox, query)).memories) == 1


async def test_what_an_agent_or_a_model_wrote_is_a_strategy_whatever_its_tags(toolbox: Toolbox, add: Add) -> None:
    shown = await add(**OPEN, provenance=Provenance(distiller="agent"))
    assert [each.item.id for each in (await retrieve(toolbox, "shipctl migrate")).memories] == [shown]


async def test_an_open_problem_is_not_told(toolbox: Toolbox, add: Add) -> None:
    await add(**OPEN)
    assert (await retrieve(toolbox, "shipctl migrate could not reach the ledger at all")).memories == ()


async def test_a_fix_says_how_often_it_worked_and_one_that_mostly_did_not_is_left_out(
    toolbox: Toolbox, add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = await add(**WAY)
    for worked, shown in ((3, True), (1, False)):

        async def known_fixes(scope: object, *, beside: object, worked: int = worked) -> list[KnownFix]:
            return [KnownFix("a", known, worked, 4)]

        monkeypatch.setattr(toolbox.store, "known_fixes", known_fixes)
        found = await retrieve(toolbox, "shipctl must release the shop")
        assert [each.item.id for each in found.memories] == [known] * shown
        assert ("(worked 3 of 4 times)" in found.preamble) is shown
