"""What the tool memory costs with 100,000 logged calls of 300 tools: logging over a bare insert, and guidance.

    python benchmarks/speed_tool_memory.py [--calls 100000] [--tools 300] [--rounds 300]

Calls are seeded random text. Windows are full when timing begins, so that each logged call also trims one. Bare is the
same row inserted in a transaction of its own under the writer's lock, over the same thread of the same bank; both are
timed in turns. All calls that the windows hold are evaluated by evidence, and every tool is summarized.
"""

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from made_banks import open_bank

from swarm_memory.schema.base import Scope
from swarm_memory.schema.tool_memory import LoggedCall
from swarm_memory.server.storage.store import SqliteStore
from swarm_memory.tools.tool_memory.advise import retrieve_tool_memory
from swarm_memory.tools.tool_memory.evaluate import evaluate_tool_calls
from swarm_memory.tools.tool_memory.log import log_tool_calls
from swarm_memory.tools.tool_memory.summarize import summarize_tool_memory
from swarm_memory.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import Connection

SEED = 7
SYLLABLES = "ba ce di fo gu ka le mi no pu ra se ti vo xu za".split()  # noqa: SIM905
BARE = (
    "INSERT INTO tool_calls"
    " (scope_id, tool_name, input, output, success, time_cost_s, token_cost, created_at, session_id)"
    " VALUES (1, 'bare', ?, ?, 1, 0.5, 40, ?, 's')"
)


class Calls:
    """Seeded calls: each tool has words of its own, and words by Zipf's law that all share."""

    def __init__(self, tools: int) -> None:
        self.draw = random.Random(SEED)
        self.words = ["".join(self.draw.choices(SYLLABLES, k=3)) for _ in range(4000)]
        self.weights = [1 / (rank + 10) for rank in range(len(self.words))]
        self.own = {f"tool_{number}": self.draw.sample(self.words, 12) for number in range(tools)}
        self.start = datetime(2026, 1, 1, tzinfo=UTC)
        self.count = 0

    def query(self, tool: str) -> str:
        """Return a request as the tool gets it."""
        return " ".join([*self.draw.sample(self.own[tool], 3), *self.draw.choices(self.words, self.weights, k=5)])

    def make(self) -> LoggedCall:
        """Return the next call of some tool."""
        self.count += 1
        tool = self.draw.choice(list(self.own))
        query = self.query(tool)
        answer = " ".join([query, *self.draw.choices(self.words, self.weights, k=30)])
        good = self.draw.random() < 0.7
        return LoggedCall(
            tool_name=tool,
            input={"query": query, "limit": self.draw.choice([10, 50, 100])},
            output=answer if good else "Error: service busy",
            success=good,
            time_cost=self.draw.random(),
            create_time=self.start + timedelta(seconds=self.count),
            session_id=f"s{self.count // 50}",
            call_id=f"c{self.count}",
        )


async def seconds(work: Callable[[], Awaitable[Any]]) -> float:
    """Return the wall time of one piece of work."""
    begin = time.perf_counter()
    await work()
    return time.perf_counter() - begin


def told(name: str, values: list[float]) -> float:
    """Print median and 95th percentile in ms; return the latter."""
    p95 = statistics.quantiles(values, n=20)[-1]
    print(f"{name:44}{1000 * statistics.median(values):9.2f}{1000 * p95:9.2f}", flush=True)
    return p95


async def fill(toolbox: Toolbox, calls: Calls, count: int) -> None:
    """Log all calls, evaluate those that are kept, summarize every tool; say how long each took."""
    begin = time.perf_counter()
    for start in range(0, count, 1000):
        batch = [calls.make() for _ in range(min(1000, count - start))]
        await log_tool_calls(toolbox, batch, evaluate_later=False)
    logged = time.perf_counter()
    done = await evaluate_tool_calls(toolbox, limit=10**9)
    evaluated = time.perf_counter()
    summarized = await summarize_tool_memory(toolbox, evaluate=False)
    ended = time.perf_counter()
    print(f"{count} calls logged in {logged - begin:.1f} s, {done.evaluated} kept ones evaluated in", end=" ")
    print(f"{evaluated - logged:.1f} s, {summarized.summarized} tools summarized in {ended - evaluated:.1f} s")


async def measure(toolbox: Toolbox, calls: Calls, rounds: int) -> None:
    bare_s: list[float] = []
    log_s: list[float] = []
    names_s: list[float] = []
    task_s: list[float] = []

    def insert(connection: "Connection") -> None:
        connection.execute(BARE, ('{"query": "x"}', "y" * 200, f"2026-02-01T00:00:{len(bare_s) % 60:02d}.000000Z"))

    for _ in range(rounds):
        bare_s.append(await seconds(lambda: cast("SqliteStore", toolbox.store).write(insert)))
        call = calls.make()
        log_s.append(await seconds(lambda call=call: log_tool_calls(toolbox, [call], evaluate_later=False)))
    for _ in range(rounds):
        names = calls.draw.sample(list(calls.own), 3)
        names_s.append(await seconds(lambda names=names: retrieve_tool_memory(toolbox, names)))
        task = calls.query(calls.draw.choice(list(calls.own)))
        task_s.append(await seconds(lambda task=task: retrieve_tool_memory(toolbox, task=task)))
    print(f"{'ms':44}{'median':>9}{'p95':>9}")
    bare, log = told("bare insert", bare_s), told("log one call", log_s)
    told("guidance for 3 named tools", names_s)
    told("guidance for a task", task_s)
    print(f"log one call, p95 over p95 of the bare insert: {log / bare:.2f}")


async def run(count: int, tools: int, rounds: int) -> None:
    calls = Calls(tools)
    with tempfile.TemporaryDirectory() as folder:
        async with open_bank(Path(folder), Scope(project="speed")) as toolbox:
            await fill(toolbox, calls, count)
            await measure(toolbox, calls, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of the tool memory")
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--tools", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=300)
    given = parser.parse_args()
    asyncio.run(run(given.calls, given.tools, given.rounds))


if __name__ == "__main__":
    main()
