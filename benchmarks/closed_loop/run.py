"""Does memory help an agent that only reads? Small tasks with hidden rules, without any model; it prints tables.

    python benchmarks/closed_loop/run.py --seeds 20 --tasks 12
    python benchmarks/closed_loop/run.py --quick
    python benchmarks/closed_loop/run.py --planted --seeds 1000 --tasks 200

Arms on the same tasks and random streams: no memory; notes at the prompt, what ended an error beside its failure,
and notes of another task (which must not help), by rules alone and with an agent that teaches. Figures and every result
go to `benchmarks/results/closed_loop.json`, which `swarm-memory benchmark report` reads. `--planted` instead
says how soon harmful memories are withdrawn and what good ones suffer, by simulation; it writes no file.
"""

import argparse
import asyncio
import platform
import tempfile
import time
from collections.abc import AsyncGenerator, Iterable
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

from world.experiment import ARMS, Arm, Result, run_arm, schedule
from world.planted import planted_tables
from world.report import WorldReport

from swarm_memory.schema.base import new_id
from swarm_memory.schema.benchmark import BenchmarkRun, Table
from swarm_memory.schema.settings import RetrieveSettings, Settings, StorageSettings
from swarm_memory.server.cli.console import print_table
from swarm_memory.server.wiring import SystemClock, opened_toolbox, place_of
from swarm_memory.tools.toolbox import Toolbox

FILE = Path(__file__).resolve().parent.parent / "results" / "closed_loop.json"


@dataclass(frozen=True, slots=True)
class Work:
    """One arm of one seed: what a process does at a time."""

    seed: int
    tasks: int
    arm: Arm
    retrieved: int = RetrieveSettings().k
    """Notes for a task at most."""


def main() -> None:
    """Run all arms, write the results, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--tasks", type=int, default=12, help="of each family")
    parser.add_argument("--retrieve-k", type=int, default=RetrieveSettings().k, help="notes for a task at most")
    parser.add_argument("--quick", action="store_true", help="4 seeds of 4 tasks, in under two minutes")
    parser.add_argument("--planted", action="store_true", help="harmful memories among good ones")
    parser.add_argument("--first-seed", type=int, default=0, help="of --planted")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    if options.quick:
        options.seeds, options.tasks = 4, 4
    if options.planted:
        seeds = range(options.first_seed, options.first_seed + options.seeds)
        show(planted_tables(seeds, options.tasks))
        return
    started, clock = time.perf_counter(), SystemClock()
    begun = clock.now()
    with ProcessPoolExecutor(options.processes) as pool:
        works = [Work(seed, options.tasks, arm, options.retrieve_k) for arm in ARMS for seed in range(options.seeds)]
        results = [result for part in pool.map(do, works) for result in part]
    run = BenchmarkRun(
        run_id=new_id("bench"),
        suite="closed loop",
        status="completed",
        options=vars(options),
        settings={"embedder": "as shipped"},
        seed=0,
        versions={"swarm-memory": version("swarm-memory"), "python": platform.python_version()},
        machine={"system": platform.system(), "architecture": platform.machine()},
        started_at=begun,
        ended_at=clock.now(),
        results=WorldReport(results).results(),
    )
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(run.model_dump_json(indent=1), encoding="utf-8")
    show(run.results.tables)
    print(f"\n{len(results)} tasks in {time.perf_counter() - started:.0f} s; {FILE}")


def show(tables: Iterable[Table]) -> None:
    """Print tables."""
    for table in tables:
        print(f"\n{table.title}")
        print_table(table.headings, table.rows)


def do(work: Work) -> list[Result]:
    """Do one arm of one seed in a bank of its own."""
    return asyncio.run(_results(work))


async def _results(work: Work) -> list[Result]:
    done = run_arm(work.arm, schedule(work.seed, work.tasks), partial(open_bank, work.retrieved))
    return [result async for result in done]


@asynccontextmanager
async def open_bank(retrieved: int = RetrieveSettings().k) -> AsyncGenerator[Toolbox]:
    """Open a new bank in a folder that goes away with it; a task gets at most `retrieved` notes."""
    with tempfile.TemporaryDirectory() as folder:
        storage = StorageSettings(db=str(Path(folder, "memory.db")), project="closed-loop")
        settings = Settings(storage=storage, retrieve=RetrieveSettings(k=retrieved))
        async with opened_toolbox(place_of(Path(folder), settings), settings) as toolbox:
            yield toolbox


if __name__ == "__main__":
    main()
