"""Two versions of the code on one bank, in turns within one run: what `retrieve` takes with each, and the ratio.

    git worktree add ../before COMMIT
    python benchmarks/scale.py --bank FOLDER
    python benchmarks/speed_pair.py --before ../before --bank FOLDER [--rounds 20] [--queries 20] [--clients 1]

Each version is a process of its own on a copy of the bank. They take turns of `--queries` queries, so that whatever
else the machine does meets both alike. CPU is that of the whole process, all its threads. With `--clients` so many
queries are under way at once.
"""

import argparse
import asyncio
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

HERE = Path(__file__).parent
READY = "ready"


async def work(bank: Path, count: int, clients: int) -> None:
    """Answer each line of input with the milliseconds of so many queries and of the processor, as JSON."""
    from scale import PROJECT

    from swarm_memory.schema.settings import Settings
    from swarm_memory.server.embedding.static import StaticEmbedder
    from swarm_memory.server.storage.store import open_store
    from swarm_memory.server.wiring import SystemClock
    from swarm_memory.tools.ports.memories import MemoryFilter
    from swarm_memory.tools.retrieve.retrieve import retrieve
    from swarm_memory.tools.toolbox import Toolbox

    embedder, chance = StaticEmbedder(), random.Random(5)
    store = await open_store(bank, embedder=embedder)
    toolbox = Toolbox(store, embedder, SystemClock(), Settings(), PROJECT)
    known = [f"{item.title} {item.content}".split() for item in await store.list_memories([PROJECT], MemoryFilter())]

    async def ask() -> float:
        words = chance.choice(known)
        query = " ".join(chance.sample(words, min(18, len(words))))
        began = time.perf_counter()
        await retrieve(toolbox, query)
        return (time.perf_counter() - began) * 1000

    async def client(queries: int) -> list[float]:
        return [await ask() for _ in range(queries)]

    await client(count * 5)
    print(READY, flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        used = time.process_time()
        took = await asyncio.gather(*(client(-(-count // clients)) for _ in range(clients)))
        calls = [each for own in took for each in own]
        print(json.dumps({"wall": calls, "cpu": (time.process_time() - used) * 1000 / len(calls)}), flush=True)
    await store.close()


def start(tree: Path, bank: Path, args: argparse.Namespace) -> "subprocess.Popen[str]":
    command = [sys.executable, __file__, "--worker", str(bank), "--queries", str(args.queries)]
    environment = os.environ | {"PYTHONPATH": str(tree.resolve() / "src")}
    return subprocess.Popen(
        [*command, "--clients", str(args.clients)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def turn(process: "subprocess.Popen[str]") -> dict[str, Any]:
    asked, answers = _pipes(process)
    asked.write("\n")
    asked.flush()
    return json.loads(answers.readline())


def _pipes(process: "subprocess.Popen[str]") -> tuple[IO[str], IO[str]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


def compare(processes: Sequence["subprocess.Popen[str]"], rounds: int) -> None:
    """Let both take turns, each first in every other round; print what each took and the medians of the ratios."""
    seen: list[list[dict[str, Any]]] = [[], []]
    for process in processes:
        if _pipes(process)[1].readline().strip() != READY:
            sys.exit("a version did not start: see above")
    for number in range(rounds):
        for which in (0, 1) if number % 2 else (1, 0):
            seen[which].append(turn(processes[which]))
    for name, turns in zip(("before", "after"), seen, strict=True):
        wall = [each for one in turns for each in one["wall"]]
        cuts, cpu = statistics.quantiles(wall, n=20), statistics.median(one["cpu"] for one in turns)
        print(
            f"{name:7} p50 {cuts[9]:6.2f} ms, p95 {cuts[18]:6.2f} ms, CPU {cpu:5.2f} ms a query ({len(wall)} queries)"
        )
    before, after = seen
    walls = [statistics.median(b["wall"]) / statistics.median(a["wall"]) for b, a in zip(before, after, strict=True)]
    cpus = [b["cpu"] / a["cpu"] for b, a in zip(before, after, strict=True)]
    print(f"before / after: p50 {statistics.median(walls):.2f}, CPU {statistics.median(cpus):.2f}")


def _own(copy: Path) -> None:
    """Have a copy taken for a bank that was made here. An earlier version asks for no such record, and has none."""
    from swarm_memory.server.storage.engine import registry

    registry.begin(copy)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="a checkout of the other version")
    parser.add_argument("--bank", type=Path, help="a folder that scale.py made")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--queries", type=int, default=20)
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker is not None:
        asyncio.run(work(args.worker, args.queries, args.clients))
        return
    if args.before is None or args.bank is None:
        parser.error("--before and --bank are needed")
    with tempfile.TemporaryDirectory() as name:
        copies = [Path(name) / which / "memory.db" for which in ("before", "after")]
        for copy in copies:
            copy.parent.mkdir(mode=0o700)
            shutil.copyfile(args.bank / "memory.db", copy)
            copy.chmod(0o600)
            _own(copy)
        processes = [start(tree, copy, args) for tree, copy in zip((args.before, HERE.parent), copies, strict=True)]
        try:
            compare(processes, args.rounds)
        finally:
            for process in processes:
                _pipes(process)[0].close()
                process.wait()


if __name__ == "__main__":
    main()
