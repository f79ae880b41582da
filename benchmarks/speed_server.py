"""Speed of the running server, as ratios and percentiles measured in one run on one machine.

1. Process start to the answer of `tools/list`: `swarm-memory serve` against an MCPServer with nothing in it.
2. UserPromptSubmit through `handle_hook` over stdio, with a bank of 10,000 memories.

    python benchmarks/speed_server.py [--runs 15] [--memories 10000] [--prompts 300]
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

LIMIT_START_RATIO = 1.25
LIMIT_PROMPT_P95_MS = 15.0

EMPTY_SERVER = "from mcp.server import MCPServer; MCPServer('empty').run()"
SERVE = ("-I", "-m", "swarm_memory.server.cli", "serve")

WORDS = str.split(
    "migration index deadlock retry timeout parser encoding locale timezone fixture snapshot lint typecheck bundle "
    "cache session token login upload queue worker cron webhook schema column constraint rollback transaction pool "
    "socket proxy header redirect cookie template render layout style router state hydration query cursor page sort"
)
VERBS = ("fix", "add", "speed up", "refactor", "test", "remove", "upgrade", "document")


class Peer:
    """A server process, spoken to in JSON lines."""

    def __init__(self, *arguments: str, cwd: str, environ: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=cwd,
            env=dict(environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        self._id = 0

    def send(self, method: str, params: dict[str, Any], **extra: Any) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params, **extra}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._id += 1
        self.send(method, params, id=self._id)
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():
            answer = json.loads(line)
            if answer.get("id") == self._id:
                return answer
        raise RuntimeError("the server ended without an answer")

    def initialize(self) -> None:
        client = {"name": "benchmark", "version": "1"}
        self.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})
        self.send("notifications/initialized", {})

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)


def start_to_tools_ms(arguments: tuple[str, ...], cwd: str, environ: Mapping[str, str]) -> float:
    """Return the milliseconds from the start of the process to its list of tools."""
    began = time.perf_counter()
    peer = Peer(*arguments, cwd=cwd, environ=environ)
    peer.initialize()
    peer.ask("tools/list", {})
    took = (time.perf_counter() - began) * 1000
    peer.end()
    return took


async def fill(root: Path, count: int) -> None:
    """Write `count` memories into a new bank."""
    from swarm_memory.schema.ids import MEMORY, new_id
    from swarm_memory.schema.memory import MemoryItem
    from swarm_memory.schema.settings import Settings
    from swarm_memory.server.wiring import open_toolbox, place_of
    from swarm_memory.tools.indexing import prepare

    chance = random.Random(7)
    toolbox = await open_toolbox(place_of(root, Settings()), Settings())
    items = [
        MemoryItem(
            id=new_id(MEMORY),
            scope=toolbox.scope,
            title=f"{chance.choice(VERBS)} the {' '.join(chance.sample(WORDS, 3))}",
            description=f"Of use when the {' '.join(chance.sample(WORDS, 4))} fails.",
            content="\n".join(
                f"{step}. {chance.choice(VERBS)} {' '.join(chance.sample(WORDS, 6))}." for step in (1, 2, 3)
            ),
            confidence=round(chance.uniform(0.3, 0.95), 3),
            created_at=datetime.now(UTC),
        )
        for _ in range(count)
    ]
    for start in range(0, count, 500):
        prepared = await prepare(toolbox, items[start : start + 500])
        await toolbox.store.add_memories(prepared, toolbox.embedder.name)
    await toolbox.store.close()


def prompt_times_ms(root: Path, environ: Mapping[str, str], count: int) -> list[float]:
    """Return the milliseconds of each UserPromptSubmit, after a first one that opens the bank."""
    chance = random.Random(11)
    peer = Peer(*SERVE, cwd=str(root), environ=environ)
    peer.initialize()
    times: list[float] = []
    for number in range(count + 1):
        prompt = f"Please {chance.choice(VERBS)} the {' '.join(chance.sample(WORDS, 5))} of module {number}."
        event = {
            "hook_event_name": "UserPromptSubmit",
            "session_id": f"bench-{number}",
            "transcript_path": "",
            "cwd": str(root),
            "prompt": prompt,
        }
        began = time.perf_counter()
        answer = peer.ask("tools/call", {"name": "handle_hook", "arguments": {"event": event}})
        times.append((time.perf_counter() - began) * 1000)
        if "error" in answer or answer["result"].get("isError"):
            raise RuntimeError(f"handle_hook failed: {answer}")
        if "additionalContext" not in json.dumps(answer):
            raise RuntimeError(f"nothing was retrieved: {answer}")
    peer.end()
    return times[1:]


def main() -> int:
    """Measure, print one JSON object, and return 1 when a limit is passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--prompts", type=int, default=300)
    options = parser.parse_args()
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("SWARM_MEMORY_", "CLAUDE"))}
    with tempfile.TemporaryDirectory() as folder:
        environ |= {"HOME": folder}
        root = Path(folder) / "project"
        root.mkdir()
        pairs = [
            (
                start_to_tools_ms(SERVE, str(root), environ),
                start_to_tools_ms(("-I", "-c", EMPTY_SERVER), str(root), environ),
            )
            for _ in range(options.runs)
        ]
        ours, empty = (statistics.median(times) for times in zip(*pairs, strict=True))
        asyncio.run(fill(root, options.memories))
        prompts = prompt_times_ms(root, environ, options.prompts)
    p95 = statistics.quantiles(prompts, n=20)[-1]
    figures = {
        "serve_start_ms": round(ours, 1),
        "empty_start_ms": round(empty, 1),
        "start_ratio": round(ours / empty, 3),
        "start_ratio_limit": LIMIT_START_RATIO,
        "memories": options.memories,
        "prompt_p50_ms": round(statistics.median(prompts), 2),
        "prompt_p95_ms": round(p95, 2),
        "prompt_p95_limit_ms": LIMIT_PROMPT_P95_MS,
    }
    print(json.dumps(figures))
    return 0 if ours / empty <= LIMIT_START_RATIO and p95 <= LIMIT_PROMPT_P95_MS else 1


if __name__ == "__main__":
    sys.exit(main())
