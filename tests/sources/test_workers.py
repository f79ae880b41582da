"""Groups that are prepared in processes: the same as in threads, and a file that ends its parser costs only itself."""

import os
import time
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


async def test_a_process_prepares_what_a_thread_does(tmp_path: Path) -> None:
    pages(tmp_path, 3)
    preparation = Preparation((*read_documents(tmp_path), faulty("b.md", "is binary")), pii=True)
    async with Workers(2, in_threads=0) as prepare:
        assert await prepare(preparation) == preparation()
        assert await prepare(preparation) == preparation()
        (process,) = prepare.started
    assert process.returncode is not None


async def test_a_file_that_ends_its_parser_is_a_fault_and_the_others_are_prepared(tmp_path: Path) -> None:
    names = pages(tmp_path, 2)
    groups = (*read_documents(tmp_path), ("crash.md", "1", partial(os._exit, 3)))
    async with Workers(2, in_threads=0) as prepare:
        first, second, crashed = await prepare(Preparation(groups, pii=True))
    assert [each.name for each in (first, second) if isinstance(each, StoredGroup)] == names
    assert crashed == Fault(group="crash.md", reason="the process that parsed it ended, or took too long")


async def test_a_parser_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "LIMIT_S", 0.01)
    endless: Any = partial(time.sleep, 600)
    async with Workers(2, in_threads=0) as prepare:
        (fault,) = await prepare(Preparation((("endless.md", "1", endless),), pii=True))
        assert isinstance(fault, Fault)
        assert await prepare.started[0].wait() != 0


async def test_an_extra_that_is_missing_is_told_as_where_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def first(): pass\n", "utf-8")
    (group,) = read_code(tmp_path)
    missing = group.parse.args[1]._replace(package="tree_sitter_of_nowhere")  # pyright: ignore
    parse = partial(group.parse.func, "a.py", missing, b"x = 1")  # pyright: ignore
    async with Workers(2, in_threads=0) as prepare:
        with pytest.raises(ConfigError, match="swarm-memory"):
            await prepare(Preparation((("a.py", "1", parse),), pii=True))


async def test_a_large_folder_is_indexed_in_processes_and_a_small_one_in_none(
    toolbox: Toolbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarm_memory.tools.sources.sources.GROUPS_AT_ONCE", 4)
    made: list[Workers] = []

    class Noted(Workers):
        def __init__(self) -> None:
            super().__init__(2)
            made.append(self)

    monkeypatch.setattr("swarm_memory.server.sources.indexing.Workers", Noted)
    for count in (10, 30):
        folder = tmp_path / f"of{count}"
        folder.mkdir()
        pages(folder, count)
        done = await index(toolbox, IndexRequest(kind="document", path=folder.name), tmp_path)
        assert (done.added, done.faults) == (count, ())
    assert [len(each.started) > 0 for each in made] == [False, True]
    (hit, *_) = (await search_sources(toolbox, "page 29")).hits
    assert "Write to [email]." in hit.passage.content
