"""The tools of real MCP servers, listed over stdio and over HTTP, indexed and found."""

import asyncio
import json
import os
import shutil
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from patience import HANG_S

from swarm_memory.schema.settings import Settings
from swarm_memory.server.sources.indexing import IndexRequest, Rights, index
from swarm_memory.server.wiring import opened_toolbox, place_of
from swarm_memory.tools.sources.sources import search_sources
from swarm_memory.tools.toolbox import Toolbox

BIN = Path(__file__).parents[1] / "node" / "node_modules" / ".bin"
EVERYTHING, FILESYSTEM = BIN / "mcp-server-everything", BIN / "mcp-server-filesystem"

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        not (EVERYTHING.exists() and FILESYSTEM.exists() and shutil.which("node")),
        reason="needs Node.js and `npm ci --prefix tests/node`",
    ),
]
ALLOWED = Rights(start_servers=True)
TOOLS = IndexRequest(kind="tool")


@pytest.fixture
async def toolbox(tmp_path: Path) -> AsyncIterator[Toolbox]:
    async with opened_toolbox(place_of(tmp_path, Settings()), Settings()) as opened:
        yield opened


def configure(root: Path, **servers: object) -> None:
    (root / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))


async def best(toolbox: Toolbox, query: str) -> list[str]:
    found = await search_sources(toolbox, query, kind="tool", k=3)
    return [f"{hit.passage.group}/{hit.passage.title}" for hit in found.hits]


async def test_two_real_servers_are_indexed_over_stdio_searched_and_forgotten(toolbox: Toolbox, tmp_path: Path) -> None:
    everything = {"command": str(EVERYTHING), "args": ["stdio"]}
    files = {"command": str(FILESYSTEM), "args": ["${FOLDER:-.}"]}
    configure(tmp_path, everything=everything, files=files)
    done = await index(toolbox, TOOLS, tmp_path, ALLOWED)
    assert (done.added, done.faults) == (2, ())
    assert done.passages > 20
    assert "files/read_text_file" in await best(toolbox, "read what is in a text file")
    assert "files/search_files" in await best(toolbox, "find files whose name matches a pattern")
    assert "files/move_file" in await best(toolbox, "rename a file")
    assert (await best(toolbox, "add two numbers"))[0] == "everything/get-sum"
    again = await index(toolbox, TOOLS, tmp_path, ALLOWED)
    assert (again.unchanged, again.passages) == (2, 0)
    configure(tmp_path, files=files)
    gone = await index(toolbox, TOOLS, tmp_path, ALLOWED)
    assert (gone.removed, gone.unchanged) == (1, 1)
    assert not any(name.startswith("everything/") for name in await best(toolbox, "add two numbers"))


@pytest.mark.allow_hosts(["127.0.0.1"])
async def test_servers_that_cannot_be_asked_are_named_and_do_not_stop_the_others(
    toolbox: Toolbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent, dying = {"command": "/no/such/server"}, {"command": "false"}
    unreachable = {"type": "http", "url": "http://127.0.0.1:9/mcp"}
    files = {"command": str(FILESYSTEM), "args": ["."]}
    configure(tmp_path, absent=absent, dying=dying, unreachable=unreachable, files=files)
    done = await index(toolbox, TOOLS, tmp_path, ALLOWED)
    assert (done.added, {fault.group for fault in done.faults}) == (1, {"absent", "dying", "unreachable"})
    silent, talking = {"command": "sleep", "args": ["600"]}, {"command": "yes"}
    configure(tmp_path, silent=silent, talking=talking, absent=absent)
    monkeypatch.setattr("swarm_memory.server.sources.tool_lists.SERVER_TIMEOUT_S", 1.0)
    reasons = {fault.group: fault.reason for fault in (await index(toolbox, TOOLS, tmp_path, ALLOWED)).faults}
    assert set(reasons) == {"silent", "talking", "absent"}
    assert "within 1 s" in reasons["silent"]


async def test_a_server_gets_its_own_environment_and_not_ours(
    toolbox: Toolbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_SECRET", "hidden")
    file = tmp_path / "environment"
    script = tmp_path / "server.sh"
    script.write_text(f'#!/bin/sh\nenv > "{file}"\nexec "{FILESYSTEM}" .\n')
    script.chmod(0o755)
    configure(tmp_path, files={"command": str(script), "env": {"GIVEN": "${OUR_SECRET:-x}y", "PLAIN": "1"}})
    await index(toolbox, TOOLS, tmp_path, ALLOWED)
    names = {line.partition("=")[0] for line in file.read_text().splitlines()}
    assert {"GIVEN", "PLAIN", "PATH"} <= names
    assert "OUR_SECRET" not in names


@pytest.mark.allow_hosts(["127.0.0.1"])
async def test_a_real_server_is_indexed_over_http(toolbox: Toolbox, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "PORT": str(port)}
    process = await asyncio.create_subprocess_exec(
        str(EVERYTHING),
        "streamableHttp",
        env=environment,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        async with asyncio.timeout(HANG_S):
            while b"listening" not in (line := (await process.stderr.readline()).lower()):
                assert line, "the server ended"
        configure(tmp_path, web={"type": "http", "url": f"http://127.0.0.1:{port}/mcp"})
        done = await index(toolbox, TOOLS, tmp_path, ALLOWED)
    finally:
        process.terminate()
        await process.wait()
    assert (done.added, done.faults) == (1, ())
    assert (await best(toolbox, "add two numbers"))[0] == "web/get-sum"
