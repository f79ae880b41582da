"""What one warm retrieval costs: the statements that it runs, and the files and functions of ours that it enters."""

import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from driver_names import AVAILABLE

import swarm_memory.tools.toolbox as anchor
from swarm_memory.schema.base import GLOBAL_PROJECT
from swarm_memory.schema.memory import Provenance
from swarm_memory.server.storage.engine.threads import ConnectionThread
from swarm_memory.server.storage.sqlite import SqliteStore
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.toolbox import Toolbox

MOST_STATEMENTS = 16
"""The maximum, with two scopes that contain memories, and memories that only a model vouches for."""

UNTIL_ANSWERED, WITH_ITS_RECORD = (20, 115), (26, 150)
"""The most files and named functions: until the answer is there, and with its record, which is written afterwards."""

OURS = Path(os.path.realpath(anchor.__file__)).parents[1]
ROOMS = [(*OURS.parts, folder) for folder in ("server", "tools", "schema")]


class Counted:
    """A connection that records each statement."""

    def __init__(self, connection: Any, statements: list[str]) -> None:
        self._connection, self._statements = connection, statements

    def execute(self, sql: str, *values: Any) -> Any:
        self._statements.append(sql)
        return self._connection.execute(sql, *values)

    def executemany(self, sql: str, rows: Any) -> Any:
        listed = list(rows)
        self._statements += [sql] * len(listed)
        return self._connection.executemany(sql, listed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


@contextmanager
def counting(monkeypatch: pytest.MonkeyPatch) -> Generator[tuple[list[str], set[tuple[str, str]]]]:
    """Collect the statements that are run and the functions that are entered, by file and name, on any thread."""
    statements: list[str] = []
    entered: set[tuple[str, str]] = set()
    run = ConnectionThread.run

    def note(frame: Any, event: str, argument: Any) -> None:
        entered.add((frame.f_code.co_filename, frame.f_code.co_qualname))

    async def counted(self: ConnectionThread, function: Callable[[Any], Any]) -> Any:
        def on_thread(connection: Any) -> Any:
            sys.setprofile(note)
            try:
                return function(Counted(connection, statements))
            finally:
                sys.setprofile(None)

        return await run(self, on_thread)

    monkeypatch.setattr(ConnectionThread, "run", counted)
    sys.setprofile(note)
    try:
        yield statements, entered
    finally:
        sys.setprofile(None)


def sizes_of(entered: set[tuple[str, str]]) -> tuple[int, int]:
    """Return how many files of ours were entered, and how many of their named functions."""
    real = [(Path(os.path.realpath(file)), name.rpartition(".")[2]) for file, name in entered]
    ours = [(file, name) for file, name in real if file.parts[: len(OURS.parts) + 1] in ROOMS]
    return len({file for file, _ in ours}), sum(not name.startswith("<") for _, name in ours)


@pytest.mark.skipif(AVAILABLE[0] == "scan", reason="without sqlite-vec the nearest are found by other statements")
async def test_a_warm_retrieval_runs_few_statements_and_goes_through_few_files(
    toolbox: Toolbox, add: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = toolbox.store
    assert isinstance(store, SqliteStore)
    doubtful = Provenance(judge="model", distiller="model")
    for number in range(12):
        await add(f"Retry uploads {number}", f"1. Retry an upload that timed out, case {number}.", provenance=doubtful)
    await add("Ask before force", "1. Ask before an upload replaces a file.", project=GLOBAL_PROJECT)
    for _ in range(2):
        assert (await retrieve(toolbox, "retry the upload that timed out")).memories
    await store.recorder.settle()
    monkeypatch.setattr("swarm_memory.server.storage.engine.engine.GATHER_S", 60.0)  # written once it is waited for
    with counting(monkeypatch) as (statements, entered):
        found = await retrieve(toolbox, "retry the upload that timed out")
        until_answered = entered.copy()
        await store.recorder.settle()
    assert len(found.memories) == 3
    assert len(statements) <= MOST_STATEMENTS, "\n".join(statements)
    assert any("COMMIT" in each for each in statements), "the record of the retrieval is counted too"
    for reached, most in ((until_answered, UNTIL_ANSWERED), (entered, WITH_ITS_RECORD)):
        assert all(number <= limit for number, limit in zip(sizes_of(reached), most, strict=True)), sorted(reached)
