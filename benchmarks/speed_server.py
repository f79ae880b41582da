"""Speed of the running server, as ratios and percentiles measured in one run on one machine.

1. Process start to the answer of `tools/list`: `swarm-memory serve` against an MCPServer with nothing in it.
2. UserPromptSubmit through `handle_hook` over stdio, with a bank of 10,000 memories.

    python benchmarks/speed_server.py [--runs 15] [--memories 10000] [--prompts 300]
"""

import argparse
import ast
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

LIMIT_START_RATIO = 1.25
LIMIT_PROMPT_P95_MS = 15.0

EMPTY_SERVER = "from mcp.server import MCPServer; MCPServer('empty').run()"
SERVE = ("-I", "-m", "swarm_memory.server.cli", "serve")

VERBS = ("Fix", "Speed up", "Test", "Document", "Rewrite", "Replace", "Port", "Review")


def paragraphs(count: int) -> list[str]:
    """Return so many distinct paragraphs of English: from the docstrings of the standard library, in a fixed order."""
    found: dict[str, None] = {}
    for path in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if not {"site-packages", "test", "tests", "idlelib"} & set(path.parts):
            found.update(dict.fromkeys(docstring_paragraphs(path)))
    every = list(found)
    random.Random(7).shuffle(every)
    if len(every) < count:
        raise RuntimeError(f"the standard library has only {len(every)} paragraphs; ask for fewer memories")
    return every[:count]


def docstring_paragraphs(path: Path) -> Iterator[str]:
    """Yield the paragraphs of a module's docstrings, in pieces of 8 to 40 words."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):
            return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for text in (ast.get_docstring(node) or "").split("\n\n"):
                words = text.split()
                for start in range(0, len(words), 40):
                    if len(piece := words[start : start + 40]) >= 8:
                        yield " ".join(piece)[:600]


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
        self.pid = self._process.pid

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


async def fill(root: Path, texts: list[str]) -> None:
    """Write a memory for each text into a new bank."""
    from swarm_memory.schema.base import MEMORY, new_id
    from swarm_memory.schema.memory import MemoryItem, Provenance
    from swarm_memory.schema.settings import Settings
    from swarm_memory.server.wiring import open_toolbox, place_of
    from swarm_memory.tools.retrieve.embed import prepare

    chance = random.Random(7)
    toolbox = await open_toolbox(place_of(root, Settings()), Settings())
    items = [
        MemoryItem(
            id=new_id(MEMORY),
            scope=toolbox.scope,
            title=" ".join(text.split()[:8])[:200],
            description=f"Of use when {' '.join(text.split()[8:20])}",
            content=f"1. {text}",
            confidence=round(chance.uniform(0.3, 0.95), 3),
            provenance=Provenance(distiller="user"),
            created_at=datetime.now(UTC),
        )
        for text in texts
    ]
    for start in range(0, len(items), 500):
        prepared = await prepare(toolbox, items[start : start + 500])
        await toolbox.store.add_memories(prepared, toolbox.embedder.name)
    await toolbox.store.close()


def prompt_times_ms(root: Path, environ: Mapping[str, str], about: list[str]) -> list[float]:
    """Return the milliseconds of each UserPromptSubmit, after a first one that opens the bank."""
    chance = random.Random(11)
    peer = Peer(*SERVE, cwd=str(root), environ=environ)
    peer.initialize()
    times: list[float] = []
    injected = 0
    for number, text in enumerate([about[0], *about]):
        prompt = f"{chance.choice(VERBS)} this: {' '.join(text.split()[:25])}"
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
        injected += "additionalContext" in json.dumps(answer)
    peer.end()
    if injected < len(about) / 2:
        raise RuntimeError(f"only {injected} of {len(about)} prompts were given memories")
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
        texts = paragraphs(options.memories + options.prompts)
        asyncio.run(fill(root, texts[options.prompts :]))
        prompts = prompt_times_ms(root, environ, texts[: options.prompts])
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
