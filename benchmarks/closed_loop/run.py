"""Does memory help an agent that only reads? Small tasks with hidden rules, without any model; it prints tables.

    python benchmarks/closed_loop/run.py --seeds 20 --tasks 12
    python benchmarks/closed_loop/run.py --quick
    python benchmarks/closed_loop/run.py --planted --seeds 1000 --tasks 200

Arms on the same tasks and random streams: no memory; notes at the prompt; what ended an error, next to its failure; and
notes of another task (which must not help). Each of the last three is run by rules alone and with an agent that
teaches. Figures and every result go to `benchmarks/results/closed_loop.json`, which `swarm-memory benchmark report`
reads. `--planted` simulates how soon harmful memories are withdrawn and what good ones suffer; it writes no file.
"""

import argparse
import asyncio
import platform
import tempfile
import time
from collections.abc import AsyncGenerator, Iterable
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from importlib.metadata import version
from itertools import product, repeat
from pathlib import Path

from world.experiment import ARMS, Arm, Result, run_arm, schedule
from world.planted import planted_tables
from world.report import WorldReport

from swarm_memory.schema.base import new_id
from swarm_memory.schema.benchmark import BenchmarkRun, Table
from swarm_memory.schema.settings import Settings, StorageSettings
from swarm_memory.server.cli.console import print_table
from swarm_memory.server.wiring import SystemClock, opened_toolbox, place_of
from swarm_memory.tools.toolbox import Toolbox

FILE = Path(__file__).resolve().parent.parent / "results" / "closed_loop.json"


def main() -> None:
    """Run all arms, write the results, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--tasks", type=int, default=12, help="of each family")
    parser.add_argument("--quick", action="store_true", help="4 seeds of 4 tasks, in under two minutes")
    parser.add_argument("--planted", action="store_true", help="harmful memories among good ones")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    if options.quick:
        options.seeds, options.tasks = 4, 4
    if options.planted:
        show(planted_tables(range(options.seeds), options.tasks))
        return
    started, clock = time.perf_counter(), SystemClock()
    begun = clock.now()
    with ProcessPoolExecutor(options.processes) as pool:
        arms, seeds = zip(*product(ARMS, range(options.seeds)), strict=True)
        parts = pool.map(do, arms, seeds, repeat(options.tasks))
        results = [result for part in parts for result in part]
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


def do(arm: Arm, seed: int, tasks: int) -> list[Result]:
    """Run one arm of one seed in a bank of its own."""

    async def results() -> list[Result]:
        return [result async for result in run_arm(arm, schedule(seed, tasks), open_bank)]

    return asyncio.run(results())


@asynccontextmanager
async def open_bank() -> AsyncGenerator[Toolbox]:
    """Open a new bank in a folder that is deleted with it."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(storage=StorageSettings(db=str(Path(folder, "memory.db")), project="closed-loop"))
        async with opened_toolbox(place_of(Path(folder), settings), settings) as toolbox:
            yield toolbox


if __name__ == "__main__":
    main()
