"""Servers on real banks for abuse tests: tenants that share a file, counted answers, a look from outside."""

import json
import logging
import os
import random
import subprocess
import sys
import traceback
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import anyio
from laid_bank import BY_TABLE
from mcp import MCPError
from mcp.client import Client
from mcp.types import CallToolResult, Tool
from patience import FULL, HANG_S
from pydantic import BaseModel

from swarm_memory.schema.settings import JobSettings, Settings, StorageSettings
from swarm_memory.server.mcp.app import build_server
from swarm_memory.server.served_bank import ServedBank
from swarm_memory.server.wiring import make_worker, open_toolbox, place_of


@dataclass
class Tally:
    """How the calls were answered."""

    calls: int = 0
    refused: int = 0
    """Calls answered with an error that says what to change."""
    internal: list[str] = field(default_factory=list[str])
    unanswered: list[str] = field(default_factory=list[str])


class _Faults(logging.Handler):
    """Collects exceptions that a main caught and only logged as internal errors."""

    def __init__(self, tally: Tally) -> None:
        super().__init__(logging.ERROR)
        self._tally = tally

    def emit(self, record: logging.LogRecord) -> None:
        self._tally.internal.append(f"logged: {record.getMessage()[:300]} {self._end_of(record)}")

    @staticmethod
    def _end_of(record: logging.LogRecord) -> str:
        """Return the place and the message of an exception."""
        raised = record.exc_info[1] if record.exc_info else None
        if raised is None:
            return ""
        raised = raised.__cause__ or raised
        places = traceback.extract_tb(raised.__traceback__)
        return f"{type(raised).__name__}: {str(raised)[:200]} at {places[-1].filename}:{places[-1].lineno}"


class Abused:
    """A connected client that counts how its calls are answered."""

    def __init__(self, client: Client, tools: list[Tool]) -> None:
        self.client = client
        self.tools = tools
        self.tally = Tally()

    async def call(self, tool: str, arguments: dict[str, Any]) -> str:
        """Call a tool; return the whole answer as text. It is empty if no answer came."""
        self.tally.calls += 1
        asked = f"{tool} {json.dumps(arguments, default=repr)[:600]}"
        try:
            with anyio.fail_after(HANG_S):
                result = await self.client.call_tool(tool, arguments)
        except TimeoutError:
            self.tally.unanswered.append(asked)
            return ""
        except MCPError as error:
            self.tally.internal.append(f"{asked}: {error}")
            return str(error)
        assert isinstance(result, CallToolResult)
        text = result.model_dump_json()
        if result.is_error:
            self.tally.refused += 1
            said = getattr(result.content[0], "text", "")
            if said.startswith("Error executing tool") or not said:
                self.tally.internal.append(f"{asked}: {said}")
        return text


def settings_of(tenant: str = "default") -> Settings:
    """Return settings for a tenant, with the SQLite driver that the environment forces, or the database it names."""
    driver_name, url = os.environ.get("SWARM_MEMORY_SQLITE") or "auto", os.environ.get("SWARM_MEMORY_STORAGE__URL")
    storage = StorageSettings.model_validate({"sqlite": driver_name, "tenant_id": tenant, "url": url})
    jobs = JobSettings(lease_s=5, max_attempts=1, timeout_s=HANG_S, retry_s=0)
    return Settings(embedding=BY_TABLE, storage=storage, jobs=jobs)


@asynccontextmanager
async def abused(
    folder: Path, tenant: str = "default", changed: Mapping[str, BaseModel] | None = None
) -> AsyncGenerator[Abused]:
    """Connect to a tenant's server on a folder's bank; the groups of settings in `changed` replace the defaults."""
    settings = settings_of(tenant).model_copy(update=dict(changed or {}))
    place = place_of(folder, settings)
    bank = ServedBank(lambda: open_toolbox(place, settings), lambda toolbox: make_worker(toolbox, place), place.root)
    server = build_server(bank)
    async with Client(server) as client:
        server = Abused(client, (await client.list_tools()).tools)
        faults = _Faults(server.tally)
        logging.getLogger().addHandler(faults)
        try:
            yield server
        finally:
            logging.getLogger().removeHandler(faults)


_LOOK = """
import json, sqlite3, sys
bank = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
objects = bank.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name").fetchall()
plain = [name for kind, name, _, sql in objects if kind == "table" and not (sql or "").startswith("CREATE VIRTUAL")]
rows = {name: bank.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in plain}
kept = bank.execute("SELECT id, type, pattern_data FROM patterns ORDER BY id").fetchall()
whole = bank.execute("PRAGMA quick_check").fetchone()[0]
print(json.dumps({"objects": objects, "rows": rows, "patterns": kept, "check": whole}))
"""


def look(folder: Path) -> dict[str, Any]:
    """Return what a bank's file holds, read by another process: one process must not open it with two libraries."""
    database = folder / ".swarm" / "memory.db"
    done = subprocess.run([sys.executable, "-c", _LOOK, str(database)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


CALLS = 10_000 if FULL else 100
"""The calls of each row; the nightly run makes 10,000."""

BENCHMARK = "run_benchmark"
"""One call of this tool takes as long as hundreds of any other."""

T = TypeVar("T")


async def teach(server: Abused, marker: str, label: str | None = None) -> None:
    """Store one item whose texts and tags contain a marker; its task's id contains the label, or else the marker."""
    item = {
        "title": f"Migrate {marker} before testing",
        "description": f"Of use when tests of {marker} fail with a missing table.",
        "content": f"1. Run the migrations of {marker}.\n2. Run the tests again.",
        "tags": [f"tag-{marker}"],
        "domain": f"domain.{marker}",
    }
    steps = [{"role": "assistant", "content": f"I ran the migrations of {marker}."}]
    own = {
        "task_id": f"task-{label or marker}",
        "task": f"Fix the tests of {marker}",
        "steps": steps,
        "verdict": "Success",
    }
    assert '"is_error":false' in await server.call("distill_memories", {**own, "items": [item]})


def some(calls: list[T], chance: random.Random) -> list[T]:
    """Return a sample of the calls, as many as a row makes."""
    chance.shuffle(calls)
    return calls[:CALLS]
