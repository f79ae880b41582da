"""What was indexed is indexed again after a change: when a server starts, and only what was requested before."""

import asyncio
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from laid_bank import BY_TABLE
from made_files import written
from mcp.client import Client
from patience import HANG_S
from shell import Shell, project, swarm
from stdio_server import serving

from swarm_memory.schema.settings import Settings
from swarm_memory.schema.source import IndexingReport, ReadKind, SourceKind
from swarm_memory.server.location import Location
from swarm_memory.server.mcp.app import build_server
from swarm_memory.server.served_bank import ServedBank
from swarm_memory.server.sources import indexing
from swarm_memory.server.sources.indexing import REFRESH, IndexRequest, Rights, index
from swarm_memory.server.wiring import make_worker, open_toolbox, opened_toolbox
from swarm_memory.tools.ports.sources import SourceKey
from swarm_memory.tools.sources.sources import search_sources
from swarm_memory.tools.toolbox import Toolbox
from tests.sources.made_source import MadeSource
from tests.sources.tiny_server import tiny_server

__all__ = ["project", "swarm"]


@pytest.fixture
def place(place: Location) -> Location:
    """The project with a second page."""
    (place.root / "docs" / "old.md").write_text("# Old\n\nThe carrier pigeon brings the mail.\n")
    return place


def settings_of(**sources: Any) -> Settings:
    return Settings.model_validate({"sources": sources, "embedding": BY_TABLE})


async def indexed(place: Location, kind: ReadKind, path: str) -> None:
    """Index a source as the user does from the command line."""
    async with opened_toolbox(place, settings_of()) as toolbox:
        mine = Rights(any_folder=True, start_servers=True)
        done = await index(toolbox, IndexRequest(kind=kind, path=path), place.root, mine)
        assert done.reason is None


async def started(place: Location, monkeypatch: pytest.MonkeyPatch, **sources: Any) -> dict[str, Any]:
    """Start a server, wait for its automatic refresh, and return the result of that job."""
    monkeypatch.setattr("swarm_memory.server.served_bank.FIRST_LOOK_S", 0.0)
    settings = settings_of(**sources)
    async with opened_toolbox(place, settings) as toolbox:
        former = await toolbox.store.find_job(toolbox.scope, REFRESH, REFRESH)
    bank = ServedBank(lambda: open_toolbox(place, settings), lambda toolbox: make_worker(toolbox, place), place.root)
    async with Client(build_server(bank)):
        toolbox = await bank.toolbox()
        with anyio.fail_after(HANG_S):
            while True:
                job = await toolbox.store.find_job(toolbox.scope, REFRESH, REFRESH)
                if job is not None and job.ended_at is not None and job != former:
                    assert job.status == "completed", job.error
                    return job.result or {}
                await anyio.lowlevel.checkpoint()


async def titles(place: Location, query: str, kind: SourceKind = "document") -> list[str]:
    async with opened_toolbox(place, settings_of()) as toolbox:
        return [hit.passage.title for hit in (await search_sources(toolbox, query, kind=kind)).hits]


def test_a_server_of_a_host_finds_what_was_written_since_without_being_asked(project: Path, swarm: Shell) -> None:
    (project / "guide.md").write_text("# Guide\n\nThe retry limit stands in settings.toml.\n")
    by_table = ("--set", "embedding.provider=static")
    assert swarm(*by_table, "sources", "index", "--kind", "document").code == 0
    (project / "pigeons.md").write_text("# Pigeons\n\nThe carrier pigeon brings the mail.\n")
    with serving(project, *by_table) as server:
        server.initialize()
        jobs: list[Any] = []
        while not jobs:
            listed = server.call("job", action="list")["structuredContent"]["jobs"]
            jobs = [each["job_id"] for each in listed if each["kind"] == REFRESH]
        done = server.call("job", action="result", job_id=jobs[0])["structuredContent"]
        found = server.call("search_sources", query="who brings the mail")["structuredContent"]
    assert done["jobs"][0]["result"]["changed"] == {"document .": 1}
    assert found["hits"][0]["title"] == "Pigeons"


async def test_what_changed_and_went_is_seen_and_what_is_gone_or_lies_outside_stays(
    place: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "outside" / "far.md", "# Far\n\nThe lighthouse keeper sleeps at noon.\n")
    (place.root / "notes.md").write_text("# Notes\n\nThe baker opens at six.\n")
    for path in ("docs", "notes.md", str(tmp_path / "outside")):
        await indexed(place, "document", path)
    (place.root / "docs" / "old.md").unlink()
    (place.root / "docs" / "guide.md").write_text("# Guide\n\nThe time limit stands in limits.toml.\n")
    (place.root / "notes.md").unlink()
    (tmp_path / "outside" / "far.md").write_text("# Other\n\nThe owl sleeps at noon.\n")
    result = await started(place, monkeypatch)
    assert (result["looked_at"], result["changed"]) == (1, {"document docs": 1})
    assert "does not exist" in result["left"]["document notes.md"]
    assert "is outside the project" in result["left"][f"document {tmp_path / 'outside'}"]
    assert await titles(place, "carrier pigeon mail") != ["Old"]
    assert (await titles(place, "baker opens"))[0] == "Notes"
    assert (await titles(place, "sleeps at noon"))[0] == "Far"
    result = await started(place, monkeypatch, allowed_folders=str(tmp_path / "outside"))
    assert (result["looked_at"], result["changed"]) == (2, {f"document {tmp_path / 'outside'}": 1})


@pytest.mark.parametrize(
    ("path", "target", "why"),
    [
        ("docs", "../outside", "is outside the project"),
        ("notes.md", ".env", "notes.md is now a link to .env"),
        ("notes.md", "docs/old.md", "notes.md is now a link to docs/old.md"),
    ],
)
async def test_a_link_that_was_put_in_place_of_what_was_indexed_is_not_followed(
    place: Location, monkeypatch: pytest.MonkeyPatch, path: str, target: str, why: str
) -> None:
    written(place.root.parent / "outside" / "key.md", "# Key\n\nThe password of the vault.\n")
    written(place.root / ".gitignore", ".env\n")
    written(place.root / ".env", "The launch word is xylophone.\n")
    written(place.root / "notes.md", "# Notes\n\nThe baker opens at six.\n")
    await indexed(place, "document", path)
    asked = "xylophone launch word, the password of the vault, or the carrier pigeon"
    before = await titles(place, asked)
    (place.root / path).rename(place.root.parent / "former")
    (place.root / path).symlink_to(place.root / target)
    result = await started(place, monkeypatch)
    assert why in result["left"][f"document {path}"]
    assert await titles(place, asked) == before


async def test_a_link_to_an_older_list_of_servers_starts_none(place: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = tiny_server(place.root, "add_numbers")
    (place.root / "docs" / "x.json").write_text(json.dumps({"mcpServers": {"tiny": entry}}))
    (place.root / ".mcp.json").write_text(json.dumps({"mcpServers": {"first": entry}}))
    await indexed(place, "tool", ".mcp.json")
    (place.root / "started").unlink()
    (place.root / ".mcp.json").unlink()
    (place.root / ".mcp.json").symlink_to(place.root / "docs" / "x.json")
    result = await started(place, monkeypatch, allow_mcp_servers=str(place.root))
    assert ".mcp.json is now a link to docs/x.json" in result["left"]["tool .mcp.json"]
    assert not (place.root / "started").exists()


async def test_a_server_is_started_only_where_it_is_allowed_and_its_entry_was_not_written_to_since(
    place: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = json.dumps({"mcpServers": {"tiny": tiny_server(place.root, "add_numbers")}})
    (place.root / ".mcp.json").write_text(servers)
    await indexed(place, "tool", ".mcp.json")
    times = place.root / "started"
    (place.root / "tools.txt").write_text("add_numbers paint_walls")
    result = await started(place, monkeypatch)
    assert "sources.allow_mcp_servers" in result["left"]["tool .mcp.json"]
    assert times.read_text() == "x"
    result = await started(place, monkeypatch, allow_mcp_servers=str(place.root))
    assert (result["changed"], times.read_text()) == ({"tool .mcp.json": 2}, "xx")
    assert (await titles(place, "paint walls", "tool"))[0] == "paint_walls"
    (place.root / ".mcp.json").write_text(servers)
    result = await started(place, monkeypatch, allow_mcp_servers=str(place.root))
    assert "has been written to since it was indexed" in result["left"]["tool .mcp.json"]
    assert times.read_text() == "xx"


async def test_sources_that_never_end_keep_no_other_from_being_looked_at(
    place: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = ["one.md", "two.md"]
    for name in (*slow, "notes.md"):
        (place.root / name).write_text(f"# {name}\n\nThe baker opens at six.\n")
        await indexed(place, "document", name)
    (place.root / "notes.md").write_text("# Notes\n\nThe baker opens at seven.\n")
    reader, loop = indexing.index, asyncio.get_running_loop()
    clock, ahead = loop.time, [0.0, 10.1, 17.7]

    async def endless(toolbox: Toolbox, asked: IndexRequest, *others: Any) -> IndexingReport:
        if asked.path not in slow:
            return await reader(toolbox, asked, *others)
        del ahead[0]  # its time is over immediately
        return await asyncio.Future()

    monkeypatch.setattr(loop, "time", lambda: clock() + ahead[0])
    monkeypatch.setattr(indexing, "index", endless)
    monkeypatch.setattr(indexing, "REFRESH_S", 40.0)
    result = await started(place, monkeypatch)
    assert (result["looked_at"], result["changed"]) == (1, {"document notes.md": 1})
    assert result["left"] == {
        "document one.md": "it did not finish within its 10 s",
        "document two.md": "it did not finish within its 7 s",
    }


async def test_what_an_earlier_version_read_from_github_is_found_and_removed_and_not_read_again(
    place: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    former = MadeSource("github", {"till.py": [("close_day", "Count the cash.", "def close_day(till): ...")]})
    async with opened_toolbox(place, settings_of()) as toolbox:
        await former.index(toolbox, "github:acme/shop")
    await indexed(place, "document", "docs")
    result = await started(place, monkeypatch)
    assert (result["looked_at"], result["left"]) == (1, {})
    assert await titles(place, "count the cash", "github") == ["close_day"]
    async with opened_toolbox(place, settings_of()) as toolbox:
        assert await toolbox.store.sources.remove(SourceKey(toolbox.scope, "github", "github:acme/shop")) == 1


async def test_the_worker_of_a_hook_leaves_it_to_a_server(place: Location) -> None:
    await indexed(place, "document", "docs")
    async with opened_toolbox(place, settings_of()) as toolbox:
        worker = make_worker(toolbox, place)
        with anyio.move_on_after(0.2):
            await worker.run()
        assert await toolbox.store.find_job(toolbox.scope, REFRESH, REFRESH) is None
        await toolbox.queue(REFRESH, REFRESH)
        assert await worker.work_off_all() == 0


@pytest.mark.parametrize("off", [{"sources": {"refresh": False}}, {"storage": {"url": "postgresql://db.example/bank"}}])
async def test_where_it_is_off_or_others_share_the_bank_a_server_looks_at_nothing(
    place: Location, off: dict[str, Any]
) -> None:
    await indexed(place, "document", "docs")
    settings = Settings.model_validate({"embedding": BY_TABLE, **off})
    async with opened_toolbox(place, settings_of()) as toolbox:
        with anyio.move_on_after(0.3):
            await make_worker(replace(toolbox, settings=settings), place).run(is_served=True)
        assert await toolbox.store.find_job(toolbox.scope, REFRESH, REFRESH) is None
        with anyio.fail_after(HANG_S):
            async with anyio.create_task_group() as group:
                group.start_soon(partial(make_worker(toolbox, place).run, is_served=True))
                while await toolbox.store.find_job(toolbox.scope, REFRESH, REFRESH) is None:
                    await anyio.lowlevel.checkpoint()
                group.cancel_scope.cancel()
