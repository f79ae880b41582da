"""Groups that are prepared in processes: the same as in threads, and a file that ends its parser costs only itself."""

import asyncio
import os
import signal
import sys
import time
from asyncio.subprocess import Process
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from swarm_memory.schema.errors import ConfigError
from swarm_memory.schema.source import Fault
from swarm_memory.server.sources import workers
from swarm_memory.server.sources.code import read_code
from swarm_memory.server.sources.documents import read_documents
from swarm_memory.server.sources.files import faulty
from swarm_memory.server.sources.indexing import IndexRequest, index
from swarm_memory.server.sources.workers import Workers
from swarm_memory.tools.ports.sources import StoredGroup
from swarm_memory.tools.sources.prepare import Preparation
from swarm_memory.tools.sources.sources import search_sources
from swarm_memory.tools.toolbox import Toolbox


def pages(folder: Path, count: int) -> list[str]:
    for number in range(count):
        (folder / f"page{number:03}.md").write_text(
            f"# Page {number}\n\nWrite to p{number}@firm.example.org.\n", "utf-8"
        )
    return [f"page{number:03}.md" for number in range(count)]


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> list[Process]:
    """Have each preparation done in a process, and return the processes that were started."""
    begun: list[Process] = []
    start = asyncio.create_subprocess_exec

    async def noted(*command: str, **options: Any) -> Process:
        begun.append(await start(*command, **options))
        return begun[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noted)
    monkeypatch.setattr(workers, "MIN_GROUPS", 1)
    return begun


async def test_a_process_prepares_what_a_thread_does(tmp_path: Path, started: list[Process]) -> None:
    pages(tmp_path, 3)
    preparation = Preparation((*read_documents(tmp_path), faulty("b.md", "is binary")), pii=True)
    assert await Workers(2)(preparation) == preparation() == await Workers(1)(preparation)
    assert [each.returncode for each in started] == [0]


async def test_a_file_that_ends_its_parser_is_a_fault_and_the_others_are_prepared(tmp_path: Path) -> None:
    names = pages(tmp_path, 2)
    groups = (*read_documents(tmp_path), ("crash.md", "1", partial(os._exit, 3)))
    first, second, crashed = await Workers(2)(Preparation(groups, pii=True))
    assert [each.name for each in (first, second) if isinstance(each, StoredGroup)] == names
    assert crashed == Fault(group="crash.md", reason="the process that parsed it ended, or took too long")


async def test_half_an_answer_of_a_process_that_was_ended_is_none(
    tmp_path: Path, started: list[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    half = "import os, pickle, sys; sys.stdin.buffer.read(); os.write(1, pickle.dumps(['x' * 99])[:50]); os._exit(1)"
    monkeypatch.setattr(workers, "_COMMAND", (sys.executable, "-c", half))
    pages(tmp_path, 1)
    (fault,) = await Workers(2)(Preparation((*read_documents(tmp_path),), pii=True))
    assert isinstance(fault, Fault)
    assert [each.returncode for each in started] == [1]


async def test_a_parser_without_end_is_ended(monkeypatch: pytest.MonkeyPatch, started: list[Process]) -> None:
    monkeypatch.setattr(workers, "LIMIT_S", 0.01)
    endless: Any = partial(time.sleep, 600)
    (fault,) = await Workers(2)(Preparation((("endless.md", "1", endless),), pii=True))
    assert isinstance(fault, Fault)
    assert [each.returncode for each in started] == [-signal.SIGKILL]


async def test_an_extra_that_is_missing_is_told_as_where_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def first(): pass\n", "utf-8")
    (group,) = read_code(tmp_path)
    missing = group.parse.args[1]._replace(package="tree_sitter_of_nowhere")  # pyright: ignore
    parse = partial(group.parse.func, "a.py", missing, b"x = 1")  # pyright: ignore
    with pytest.raises(ConfigError, match="swarm-memory"):
        await Workers(2)(Preparation((("a.py", "1", parse),), pii=True))


async def test_a_large_folder_is_indexed_in_processes_and_a_small_one_in_none(
    toolbox: Toolbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[Process]
) -> None:
    monkeypatch.setattr(workers, "MIN_GROUPS", 11)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    for count, processes in ((10, 0), (30, 1)):
        folder = tmp_path / f"of{count}"
        folder.mkdir()
        pages(folder, count)
        done = await index(toolbox, IndexRequest(kind="document", path=folder.name), tmp_path)
        assert (done.added, done.faults) == (count, ())
        assert len(started) == processes
    (hit, *_) = (await search_sources(toolbox, "page 29")).hits
    assert "Write to [email]." in hit.passage.content
