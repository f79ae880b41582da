"""What `retrieve_memories` takes while the server consolidates many new memories, beside what it takes at rest.

One server over stdio with the static table, in one run: queries at rest, then queries for as long as the consolidation
runs, a moment between two of them as between an agent's calls.

    python benchmarks/speed_upkeep.py [--memories 6000] [--queries 150]
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

from speed_retrieve import SEED, fill, made_texts
from speed_server import SERVE, Peer

from swarm_memory.schema.settings import EmbeddingSettings, Settings
from swarm_memory.server.wiring import opened_toolbox, place_of

PAUSE_S = 0.02
LOOK_S = 1.0
STATIC = ("--set", "embedding.provider=static")


async def filled(root: Path, count: int) -> list[str]:
    """Write so many memories into the bank of a folder; return queries."""
    settings, draw = Settings(embedding=EmbeddingSettings(provider="static")), random.Random(SEED)
    async with opened_toolbox(place_of(root, settings), settings) as toolbox:
        return await fill(toolbox, made_texts(draw), count, draw)


def called(peer: Peer, tool: str, **arguments: Any) -> dict[str, Any]:
    return peer.ask("tools/call", {"name": tool, "arguments": arguments})["result"]["structuredContent"]


def ask_while(peer: Peer, asked: list[str], goes_on: Callable[[int], bool]) -> list[float]:
    """Ask one query after another as long as that is true of how many were asked; return the milliseconds of each."""
    taken: list[float] = []
    for query in cycle(asked):
        if not goes_on(len(taken)):
            return taken
        began = time.perf_counter()
        called(peer, "retrieve_memories", query=query)
        taken.append((time.perf_counter() - began) * 1000)
        time.sleep(PAUSE_S)
    return taken


def told(what: str, taken: list[float]) -> None:
    p95 = statistics.quantiles(taken, n=20)[-1]
    print(f"{what:24} p50 {statistics.median(taken):6.1f} ms, p95 {p95:6.1f} ms ({len(taken)} queries)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=6000)
    parser.add_argument("--queries", type=int, default=150)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        os.environ |= {"HOME": name, "XDG_STATE_HOME": f"{name}/state"}  # the bank is this user's for both processes
        asked = asyncio.run(filled(root, args.memories))
        environ = {key: os.environ[key] for key in ("PATH", "HOME", "XDG_STATE_HOME")}
        peer = Peer(*SERVE[:-1], *STATIC, "serve", cwd=name, environ=environ)
        peer.initialize()
        ask_while(peer, asked, lambda done: done < 20)
        rest = ask_while(peer, asked, lambda done: done < args.queries)
        began = looked = time.monotonic()
        peer.send("tools/call", {"name": "consolidate_memories", "arguments": {}}, id=0)
        jobs: list[dict[str, Any]] = []

        def runs(_: int) -> bool:
            nonlocal jobs, looked
            if time.monotonic() - looked >= LOOK_S:
                looked = time.monotonic()
                jobs = called(peer, "job", action="list")["jobs"]
            return not any(job["kind"] == "consolidate" and job["status"] == "completed" for job in jobs)

        beside = ask_while(peer, asked, runs)
        took = time.monotonic() - began
        peer.end()
    told("at rest", rest)
    told(f"beside it ({took:.0f} s)", beside)
    print(f"ratio of the medians: {statistics.median(beside) / statistics.median(rest):.2f}")
    print(json.dumps(jobs[0].get("result"))[:200])


if __name__ == "__main__":
    main()
