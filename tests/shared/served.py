"""A real bank in the test's own project, a client connected to its server, and a task to learn from."""

import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from anyio import fail_after, lowlevel, to_thread
from laid_bank import BY_TABLE, laid
from mcp.client import Client
from mcp.types import CallToolResult
from patience import HANG_S

from swarm_memory.schema.settings import JobSettings, Settings, StorageSettings
from swarm_memory.server.hooks.client import ask, run_folder
from swarm_memory.server.hooks.listener import listen
from swarm_memory.server.location import Location
from swarm_memory.server.mcp.app import build_server
from swarm_memory.server.served_bank import ServedBank
from swarm_memory.server.wiring import make_worker, open_toolbox, place_of
from swarm_memory.tools.toolbox import Toolbox


@pytest.fixture
def place(tmp_path: Path, settings: Settings) -> Location:
    """The location of the project's bank."""
    folder = tmp_path / "shop"
    folder.mkdir(exist_ok=True)
    return place_of(folder, settings)


@pytest.fixture
def settings(request: pytest.FixtureRequest) -> Settings:
    """Settings with a lease that a test can wait out, the static table, and the driver that the environment forces.

    If the test uses `database_url` and that is an address, the bank is in that database.
    """
    url = request.getfixturevalue("database_url") if "database_url" in request.fixturenames else None
    storage = StorageSettings.model_validate({"sqlite": os.environ.get("SWARM_MEMORY_SQLITE") or "auto", "url": url})
    return Settings(
        embedding=BY_TABLE,
        storage=storage,
        jobs=JobSettings(lease_s=0.3, max_attempts=2, retry_s=0.0, timeout_s=HANG_S),
    )


@pytest.fixture
async def toolbox(place: Location, settings: Settings) -> AsyncGenerator[Toolbox]:
    """The toolbox of the open bank."""
    laid(place.database)
    opened = await open_toolbox(place, settings)
    yield opened
    await opened.store.close()


class Caller:
    """A client connected to the server in memory."""

    def __init__(self, client: Client, bank: Any = None) -> None:
        self.client, self.bank = client, bank

    async def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool that must succeed, and return its structured content."""
        result = await self.client.call_tool(tool, arguments)
        assert isinstance(result, CallToolResult)
        assert not result.is_error, result.content
        return result.structured_content or {}

    async def hook(self, root: Path, **event: Any) -> dict[str, Any]:
        """Send an event to the server as a hook command of the host that started it; return hook JSON."""
        called = f"claude {event['hook_event_name']} 0"
        answer = await to_thread.run_sync(partial(ask, called=called), root, json.dumps(event).encode(), HANG_S)
        assert answer is not None, "the server did not take it"
        return json.loads(answer)

    async def error(self, tool: str, /, **arguments: Any) -> str:
        """Call a tool that must fail, and return its error text."""
        result = await self.client.call_tool(tool, arguments)
        assert isinstance(result, CallToolResult)
        assert result.is_error
        return getattr(result.content[0], "text", "")


@pytest.fixture
def connected(place: Location, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """Return a context manager that connects a client to a server with a real bank, worker and socket for hooks."""
    monkeypatch.setattr("swarm_memory.server.hooks.client.READY_S", HANG_S)

    @asynccontextmanager
    async def connect() -> AsyncGenerator[Caller]:
        bank = ServedBank(
            lambda: open_toolbox(place, settings),
            lambda toolbox: make_worker(toolbox, place),
            place.root,
            lambda: place,
        )
        server = build_server(bank, listen=lambda bank: listen(bank, lambda: True))
        sockets = Path(run_folder())
        async with Client(server) as client:
            with fail_after(HANG_S):
                while not list(sockets.glob("*.sock")):  # noqa: ASYNC240 - it is there at once
                    await lowlevel.checkpoint()
            yield Caller(client, bank)

    return connect


Operation = Callable[[Toolbox], Awaitable[Any]]


def ran(call: str, command: str, output: str) -> list[dict[str, Any]]:
    """Return a command and its output as chat messages."""
    function = {"name": "Bash", "arguments": json.dumps({"command": command})}
    return [
        {"role": "assistant", "content": "", "tool_calls": [{"id": call, "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": call, "content": output},
    ]


def fixed_task(**named: str) -> dict[str, Any]:
    """Return a task that failed first and was then fixed, with the proof."""
    failure = "Exit code 1\nE sqlite3.OperationalError: no such table: orders\n1 failed in 0.02s"
    steps = [
        *ran("c1", "pytest -q", failure),
        *ran("c2", "python -m shop.migrate", "migrated shop_test.db: 1 table"),
        *ran("c3", "pytest -q", "2 passed in 0.01s"),
        {"role": "assistant", "content": "Done: the tests pass after the migration."},
    ]
    return {**named, "task": "Make the tests of the shop pass.", "steps": steps}


@pytest.fixture
def fixed() -> dict[str, Any]:
    """The task `fix-1` of `fixed_task`, as arguments of a tool."""
    return fixed_task(task_id="fix-1")
