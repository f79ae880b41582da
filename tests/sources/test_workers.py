"""Groups prepared in processes: the same as in threads, and a file that kills its parser costs only itself."""

import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from swarm_memory.schema.source import Fault
from swarm_memory.server.child_process import Finished
from swarm_memory.server.sources import workers
from swarm_memory.server.sources.documents import read_documents
from swarm_memory.server.sources.files import bad_group
from swarm_memory.server.sources.indexing import IndexRequest, index
from swarm_memory.server.sources.workers import prepare
from swarm_memory.tools.ports.sources import StoredGroup
from swarm_memory.tools.sources.sources import PreparationBatch, search_sources
from swarm_memory.tools.toolbox import Toolbox


def pages(folder: Path, count: int) -> list[str]:
    for number in range(count):
        (folder / f"page{number:03}.md").write_text(
            f"# Page {number}\n\nWrite to p{number}@firm.example.org.\n", "utf-8"
        )
    return [f"page{number:03}.md" for number in range(count)]


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """Do each preparation in a process, and return how each process ended; None: by its time limit."""
    ended: list[int | None] = []
    run = workers.run

    async def noted(*command: Any, **options: Any) -> Finished:
        ended.append(None)
        finished = await run(*command, **options)
        ended[-1] = finished.code
        return finished

    monkeypatch.setattr(workers, "run", noted)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr(workers, "MIN_GROUPS", 1)
    return ended


async def test_a_process_prepares_what_a_thread_does(tmp_path: Path, started: list[int | None]) -> None:
    pages(tmp_path, 3)
    preparation = PreparationBatch((*read_documents(tmp_path), bad_group("b.md", "is binary")), pii=True)
    assert await prepare(preparation) == preparation()
    assert started == [0]


async def test_the_model_that_finds_names_is_loaded_by_no_further_process(started: list[int | None]) -> None:
    (fault,) = await prepare(PreparationBatch((bad_group("b.md", "is binary"),), pii="names"))
    assert (fault, started) == (Fault(group="b.md", reason="is binary"), [])


async def test_a_file_that_ends_its_parser_is_a_fault_and_the_others_are_prepared(tmp_path: Path) -> None:
    (name,) = pages(tmp_path, 1)
    groups = (*read_documents(tmp_path), ("crash.md", "1", partial(os._exit, 3)))
    page, crashed = await prepare(PreparationBatch(groups, pii=True))
    assert isinstance(page, StoredGroup)
    assert page.name == name
    assert crashed == Fault(group="crash.md", reason="the process that parsed it died or took too long")


async def test_half_an_answer_of_a_process_that_was_ended_is_none(
    tmp_path: Path, started: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    half = "import os, pickle, sys; sys.stdin.buffer.read(); os.write(1, pickle.dumps(['x' * 99])[:50]); os._exit(1)"
    monkeypatch.setattr(workers, "_COMMAND", (sys.executable, "-c", half))
    pages(tmp_path, 1)
    (fault,) = await prepare(PreparationBatch((*read_documents(tmp_path),), pii=True))
    assert isinstance(fault, Fault)
    assert started == [1]


async def test_a_parser_without_end_is_ended(monkeypatch: pytest.MonkeyPatch, started: list[int | None]) -> None:
    monkeypatch.setattr(workers, "LIMIT_S", 0.01)
    endless: Any = partial(time.sleep, 600)
    (fault,) = await prepare(PreparationBatch((("endless.md", "1", endless),), pii=True))
    assert isinstance(fault, Fault)
    assert started == [None]


async def test_a_large_folder_is_indexed_in_processes_and_a_small_one_in_none(
    toolbox: Toolbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[int | None]
) -> None:
    monkeypatch.setattr(workers, "MIN_GROUPS", 11)
    for count, processes in ((10, 0), (30, 1)):
        folder = tmp_path / f"of{count}"
        folder.mkdir()
        pages(folder, count)
        done = await index(toolbox, IndexRequest(kind="document", path=folder.name), tmp_path)
        assert (done.added, done.faults) == (count, ())
        assert len(started) == processes
    (hit, *_) = (await search_sources(toolbox, "page 29")).hits
    assert "Write to [email]." in hit.passage.content
