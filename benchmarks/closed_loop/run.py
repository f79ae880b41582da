"""Does memory help an agent that only reads? A small world with hidden rules, without any model; it prints a table.

    python benchmarks/closed_loop/run.py --seeds 20 --tasks 12

Arms on the same tasks and random streams: no memory, memory, memory of shuffled tasks (which must not help); and, on
fewer seeds and tasks, parallel scaling with k = 1, 3, 6 with the notes of earlier tasks and, as best-of-k alone,
without. Every result goes to a JSON file in `benchmarks/results`.
"""

import argparse
import asyncio
import json
import platform
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

from swarm_memory.schema.settings import RetrieveSettings, Settings, StorageSettings
from swarm_memory.server.wiring import open_toolbox, place_of
from swarm_memory.tools.benchmark.world.experiment import (
    ARMS,
    Arm,
    Place,
    Result,
    result_record,
    run_arm,
    run_scaled,
    scaled_arm,
    schedule,
)
from swarm_memory.tools.benchmark.world.figures import calls, each_rollout, gain, judged, level, success
from swarm_memory.tools.benchmark.world.rules import FAMILIES
from swarm_memory.tools.toolbox import Toolbox

K = (1, 3, 6)
SCALED = tuple(scaled_arm(k, with_notes=with_notes) for with_notes in (False, True) for k in K)
PAIRS = (
    ("memory", "none"),
    ("shuffled", "none"),
    ("memory", "shuffled"),
    ("k=6", "k=1"),
    *((scaled_arm(k, with_notes=True), scaled_arm(k, with_notes=False)) for k in K),
)
"""What is compared: each seed is its own control. The last ones are what notes add to as many attempts without."""

RESULTS = Path(__file__).resolve().parent.parent / "results"


@dataclass(frozen=True, slots=True)
class Work:
    """One arm of one seed: what a process does at a time."""

    seed: int
    tasks: int
    arm: Arm | None
    k: int = 0
    with_notes: bool = True
    retrieved: int = RetrieveSettings().k
    """Notes for a task at most."""


def main() -> None:
    """Run all arms, write the results, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--tasks", type=int, default=12, help="of each family")
    parser.add_argument("--scaling-seeds", type=int, default=8)
    parser.add_argument("--scaling-tasks", type=int, default=4, help="of each family")
    parser.add_argument("--retrieve-k", type=int, default=RetrieveSettings().k, help="notes for a task at most")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    started = time.perf_counter()
    top = options.retrieve_k
    work = [Work(seed, options.tasks, arm, retrieved=top) for seed in range(options.seeds) for arm in ARMS]
    work += [
        Work(seed, options.scaling_tasks, None, k, with_notes=with_notes, retrieved=top)
        for seed in range(options.scaling_seeds) for with_notes in (True, False) for k in K
    ]  # fmt: skip
    with ProcessPoolExecutor(options.processes) as pool:
        results = [result for part in pool.map(do, work) for result in part]
    arms = {name: [each for each in results if each.arm == name] for name in (*ARMS, *SCALED)}
    figures = figures_of(arms)
    path = write(vars(options), figures, results, time.perf_counter() - started)
    show(arms, figures)
    print(f"\n{len(results)} tasks in {time.perf_counter() - started:.0f} s; {path}")


def do(work: Work) -> list[Result]:
    """Do one arm of one seed in a bank of its own."""
    return asyncio.run(_results(work))


async def _results(work: Work) -> list[Result]:
    places: Sequence[Place] = schedule(work.seed, work.tasks)
    if work.arm:
        return [result async for result in run_arm(work.arm, places, partial(open_bank, work.retrieved))]
    found = run_scaled(work.k, places, partial(open_bank, work.retrieved), with_notes=work.with_notes)
    return [result async for result in found]


@asynccontextmanager
async def open_bank(retrieved: int) -> AsyncGenerator[Toolbox]:
    """Open a new bank in a folder that goes away with it; a task gets at most `retrieved` notes."""
    with tempfile.TemporaryDirectory() as folder:
        storage = StorageSettings(db=str(Path(folder, "memory.db")), project="closed-loop")
        settings = Settings(storage=storage, retrieve=RetrieveSettings(k=retrieved))
        toolbox = await open_toolbox(place_of(Path(folder), settings), settings)
        try:
            yield toolbox
        finally:
            await toolbox.store.close()


def figures_of(arms: dict[str, list[Result]]) -> dict[str, object]:
    """Return levels, curves, paired gains and the judge's table."""
    measures = {"success": success, "each rollout": each_rollout, "steps": calls}
    numbers = sorted({each.number for each in arms["none"]})
    levels = {
        arm: {name: asdict(level(found, measure)) for name, measure in measures.items()}
        for arm, found in arms.items()
        if found
    }
    curves = {
        arm: {
            name: [asdict(level([r for r in arms[arm] if r.number == n], measure)) for n in numbers]
            for name, measure in measures.items()
        }
        for arm in ARMS
    }
    gains = {
        f"{left} - {right}": {name: asdict(gain(arms[left], arms[right], m)) for name, m in measures.items()}
        for left, right in PAIRS
        if arms[left]
    }
    by_family: dict[str, dict[str, str]] = {}
    for family in FAMILIES:
        ours, theirs = (of_family(arms[arm], family) for arm in ("memory", "none"))
        by_family[family] = {name: str(gain(ours, theirs, measure)) for name, measure in measures.items()}
    judge = {arm: judged(found) for arm, found in arms.items() if arm != "none" and found}
    return {
        "levels": levels, "curves": curves, "paired gains": gains, "memory - none by family": by_family, "judge": judge,
    }  # fmt: skip


def of_family(results: Sequence[Result], family: str) -> list[Result]:
    """Return the results of one family."""
    return [each for each in results if each.family == family]


def write(options: dict[str, object], figures: dict[str, object], results: list[Result], seconds: float) -> Path:
    """Write one JSON file and return its path."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "closed_loop.json"
    versions = {"swarm-memory": version("swarm-memory"), "python": platform.python_version()}
    record = {
        "benchmark": "closed_loop",
        "settings": options,
        "families": list(FAMILIES),
        "versions": versions,
        "seconds": round(seconds, 1),
        "figures": figures,
        "results": [result_record(each) for each in results],
    }
    path.write_text(json.dumps(record, indent=1), encoding="utf-8")
    return path


def show(arms: dict[str, list[Result]], figures: dict[str, object]) -> None:
    """Print levels, the curve of success and steps, families, gains, and what the judge was worth."""
    print("arm            success                 steps                   each rollout")
    for arm, found in arms.items():
        if found:
            print(f"{arm:14} {level(found, success)!s:23} {level(found, calls)!s:23} {level(found, each_rollout)}")
    print("\ntask   " + "".join(f"{arm:>24}" for arm in ARMS) + "   (success / steps)")
    for number in sorted({each.number for each in arms["none"]}):
        at = {arm: [each for each in arms[arm] if each.number == number] for arm in ARMS}
        row = (f"{level(at[arm], success).mean:.2f} / {level(at[arm], calls).mean:.2f}" for arm in ARMS)
        print(f"{number:<7}" + "".join(f"{cell:>24}" for cell in row))
    print("\nfamily        " + "".join(f"{arm:>16}" for arm in arms) + "   notes, own")
    for family in FAMILIES:
        at = {arm: [each for each in found if each.family == family] for arm, found in arms.items()}
        row = (f"{level(of, success).mean:.2f} / {level(of, calls).mean:.2f}" if of else "-" for of in at.values())
        mine = at["memory"]
        notes = f"   {level(mine, lambda r: r.notes).mean:.2f}, {level(mine, lambda r: r.own_notes).mean:.2f}"
        print(f"{family:14}" + "".join(f"{cell:>16}" for cell in row) + notes)
    for name in ("paired gains", "memory - none by family", "judge"):
        print(f"\n{name}\n{json.dumps(figures[name], indent=1)}")


if __name__ == "__main__":
    main()
