"""Calibration on the user's own bank: values for the settings, made without a change to it."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from laid_bank import RUNG

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.settings import RetrieveSettings, Settings
from swarm_memory.server.storage.store import open_store
from swarm_memory.tools.ports.memories import MemoryFilter
from swarm_memory.tools.retrieve.calibrate import LEAST_PAIRS, MAY_PASS, Calibration, calibrate, foreign_queries
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.toolbox import Toolbox

Add = Callable[..., Awaitable[str]]

SUBJECTS = ("upload", "migration", "login", "parser", "queue", "cache")
PROBLEMS = ("times out", "fails in the tests", "is slow on large files", "loses its last row", "answers twice")


async def calibrated(toolbox: Toolbox, tmp_path: Path) -> Calibration:
    scratch = await open_store(tmp_path / "scratch" / "memory.db", sqlite=RUNG, embedder=toolbox.embedder)
    try:
        return await calibrate(toolbox, scratch)
    finally:
        await scratch.close()


async def test_the_values_let_the_banks_own_titles_pass_and_few_foreign_queries(
    toolbox: Toolbox, add: Add, tmp_path: Path
) -> None:
    for subject in SUBJECTS:
        for problem in PROBLEMS:
            await add(
                f"When the {subject} {problem}", f"1. Log what the {subject} does first.\n2. Then mend: {problem}."
            )
    before = await toolbox.store.list_memories(toolbox.scope.readable(), MemoryFilter(limit=99))
    found = await calibrated(toolbox, tmp_path)
    assert (found.memories, found.queries) == (30, 30)
    assert found.fitting >= 0.9
    assert found.foreign <= MAY_PASS
    assert found.first >= found.first_before - 0.01
    assert await toolbox.store.list_memories(toolbox.scope.readable(), MemoryFilter(limit=99)) == before
    chosen: dict[str, Any] = {name: getattr(found, name) for name in ("min_cosine", "vector_weight")}
    own = replace(toolbox, settings=Settings(retrieve=RetrieveSettings(**chosen)))
    assert (await retrieve(own, "the upload times out on large files")).memories
    given = [bool((await retrieve(own, query)).memories) for query in foreign_queries()[:40]]
    assert sum(given) <= 4


async def test_a_bank_of_too_few_memories_is_told_so(toolbox: Toolbox, add: Add, tmp_path: Path) -> None:
    await add("When an upload fails", "1. Log it.")
    with pytest.raises(InputError, match=f"needs {LEAST_PAIRS} memories"):
        await calibrated(toolbox, tmp_path)


def test_foreign_queries_are_many_and_all_different() -> None:
    queries = foreign_queries()
    assert len(set(queries)) == len(queries) >= 100
    assert all(query.strip() == query for query in queries)
