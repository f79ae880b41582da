"""Compares memory servers that speak MCP over stdio, ours and others you have installed, in one interleaved run.

    python benchmarks/side_by_side.py other.json [another.json …] [--items 300] [--rounds 6] [--starts 5]

A file says how a server is started, and which of its tools stores and which searches, with what arguments:

    {"name": "other", "command": ["other-memory", "--stdio"],
     "store": {"tool": "add", "arguments": {"text": "{content}"}, "results": "id"},
     "search": {"tool": "search", "arguments": {"query": "{query}", "limit": "{k}"}, "results": "hits", "id": "id"}}

`results` is the path in the answer to the hits, or to the id of what was stored; `id` or `text` is the path in a hit.
Each server has its own home and folder, both empty at first. Servers take turns, in changing order, so that any other
load on the machine affects all of them alike: read the ratios. The stored items are paragraphs of the standard
library's docstrings; the questions are the first paragraphs that stood above them. any@5 is the share of questions with
the right item among five hits. Only the two tools are called: what a server refuses or merges by itself counts.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

sys.path += [str(Path(__file__).parent), str(Path(__file__).parent / "retrieval")]

from made_banks import docstrings, stdlib_modules
from systems.outside import OutsideMemory, OutsideSystem, ToolUse

from swarm_memory.schema.benchmark import BenchmarkDocument, BenchmarkQuestion
from swarm_memory.tools.text.tokens import count_tokens

K = 5
GROUP = "all"
OURS = OutsideSystem(
    name="swarm-memory",
    command=(sys.executable, "-I", "-m", "swarm_memory.server.cli", "serve"),
    store=ToolUse(tool="remember", arguments={"text": "{content}"}, results="id"),
    search=ToolUse(tool="retrieve_memories", arguments={"query": "{query}", "k": "{k}"}, results="memories", id="id"),
)


class Server(OutsideMemory):
    """A server with its own home, which can list its tools."""

    def __init__(self, config: OutsideSystem, home: Path, stack: AsyncExitStack) -> None:
        super().__init__(config.model_copy(update={"env": {"HOME": str(home), **config.env}}), stack)

    async def schema(self) -> str:
        """Return the tools as an agent is shown them, starting the server if necessary."""
        tools = (await (await self.client(GROUP)).list_tools()).tools
        shown = [tool.model_dump(include={"name", "description", "input_schema"}, exclude_none=True) for tool in tools]
        return json.dumps(shown)


@dataclass(slots=True)
class Side:
    """One server and its measurements; times in ms."""

    config: OutsideSystem
    server: Server
    home: Path
    start: list[float] = field(default_factory=list[float])
    store: list[float] = field(default_factory=list[float])
    search: list[float] = field(default_factory=list[float])
    found: int = 0
    schema_tokens: int = 0
    processes: set[int] = field(default_factory=set[int])
    begun: tuple[int, int] = (0, 0)
    """Bytes and items after the first round: an empty bank has its own size."""
    figures: dict[str, float] = field(default_factory=dict[str, float])

    @property
    def bytes_kept(self) -> int:
        """The size of the files in its home and in the folders where it runs."""
        files = [file for folder in (self.home, *self.server.folders) for file in folder.rglob("*")]
        return sum(file.lstat().st_size for file in files if file.is_file() and not file.is_symlink())

    def sum_up(self, items: int, questions: int) -> None:
        self.figures = {
            "start to tools/list, ms": statistics.median(self.start),
            "store, ms": statistics.median(self.store),
            "search, ms": statistics.median(self.search),
            f"any@{K}, %": 100 * self.found / questions,
            "bytes an item": (self.bytes_kept - self.begun[0]) / max(1, items - self.begun[1]),
            "schema, tokens": float(self.schema_tokens),
        }
        if (memory := resident_mb(self.processes)) is not None:
            self.figures["idle memory, MB"] = memory


def read_config(path: Path) -> OutsideSystem:
    """Return a server as its JSON file describes it. Raises `ValueError`, `OSError`."""
    return OutsideSystem.model_validate(json.loads(path.read_text("utf-8")))


async def compare(
    configs: Sequence[OutsideSystem], pairs: Sequence[tuple[str, str]], *, rounds: int, starts: int, settle_s: float
) -> list[Side]:
    """Measure servers in turns; `pairs` are (question, item). Raises `ConfigError` for one that fails or refuses."""
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncExitStack() as stack:
            sides: list[Side] = []
            for number, config in enumerate(configs):
                home = Path(folder) / f"home{number}"
                home.mkdir()
                sides.append(Side(config, Server(config, home, stack), home))
            for turn in range(starts):
                for side in in_turn(sides, turn):
                    side.start.append(await start_ms(side.config, Path(folder)))
            for side in sides:
                known = children()
                side.schema_tokens = count_tokens(await side.server.schema())
                side.processes = children() - known
            await store_and_search(sides, pairs, rounds)
            await asyncio.sleep(settle_s)
            for side in sides:
                side.sum_up(len(pairs), len(pairs))
    return sides


def in_turn(sides: Sequence[Side], turn: int) -> Sequence[Side]:
    """Return all servers, starting with another one each turn."""
    first = turn % len(sides)
    return [*sides[first:], *sides[:first]]


async def start_ms(config: OutsideSystem, folder: Path) -> float:
    """Return how long a server takes from its start to its list of tools, in an empty home."""
    with tempfile.TemporaryDirectory(dir=folder) as home:
        async with AsyncExitStack() as stack:
            began = time.perf_counter()
            await Server(config, Path(home), stack).schema()
            return (time.perf_counter() - began) * 1000


async def store_and_search(sides: Sequence[Side], pairs: Sequence[tuple[str, str]], rounds: int) -> None:
    """Store all items, then ask all questions, each in `rounds` rounds."""
    numbered = list(enumerate(pairs))
    parts = [numbered[at::rounds] for at in range(rounds)]
    for turn, part in enumerate(parts):
        for side in in_turn(sides, turn):
            for number, (_, text) in part:
                began = time.perf_counter()
                await side.server.ingest(GROUP, [BenchmarkDocument(id=f"item{number}", content=text, group=GROUP)])
                side.store.append((time.perf_counter() - began) * 1000)
            if turn == 0:
                side.begun = side.bytes_kept, len(part)
    for turn, part in enumerate(parts):
        for side in in_turn(sides, turn):
            for number, (question, _) in part:
                began = time.perf_counter()
                found = await side.server.retrieve(BenchmarkQuestion(query=question, group=GROUP), K)
                side.search.append((time.perf_counter() - began) * 1000)
                side.found += f"item{number}" in found.items


def children() -> set[int]:
    """Return the descendants of this process; none if the system does not report them."""
    return _below(os.getpid()) if Path("/proc/self/task").is_dir() else set()


def _below(process: int) -> set[int]:
    try:
        tasks = [each / "children" for each in Path(f"/proc/{process}/task").iterdir()]
        direct = {int(child) for task in tasks for child in task.read_text().split()}
    except OSError:  # it has ended meanwhile
        return set()
    return direct.union(*map(_below, direct))


def resident_mb(processes: set[int]) -> float | None:
    """Return the memory in MB that processes and their descendants hold; None if the system does not report it."""
    kilobytes = 0
    for process in processes.union(*map(_below, processes)):
        try:
            status = Path(f"/proc/{process}/status").read_text()
        except OSError:
            continue
        kilobytes += sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))
    return kilobytes / 1024 if kilobytes else None


def pairs_of(count: int) -> list[tuple[str, str]]:
    """Return `count` pairs (first paragraph, what follows) of the standard library's docstrings, in a fixed order."""
    found = dict(pair for path in stdlib_modules() for pair in paragraphs(path))
    pairs = [(first, rest) for rest, first in found.items()]
    random.Random(7).shuffle(pairs)
    if len(pairs) < count:
        raise ValueError(f"the standard library has only {len(pairs)} such docstrings: ask for fewer items")
    return pairs[:count]


def paragraphs(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (what follows, first paragraph) for the docstrings of a module."""
    for docstring in docstrings(path):
        first, _, rest = docstring.partition("\n\n")
        words, text = first.split(), " ".join(rest.split()[:80])
        if len(words) >= 5 and len(text.split()) >= 12:
            yield text, " ".join(words)


def show(sides: Sequence[Side]) -> None:
    """Print a row for each figure, with the ratios of the others to the first server, ours."""
    names = [side.config.name for side in sides]
    print(
        "".join(
            [f"{'':26}", *(f"{name[:16]:>18}" for name in names), *(f"{f'/ {names[0]}'[:16]:>18}" for _ in names[1:])]
        )
    )
    for figure in sides[0].figures:
        values = [side.figures.get(figure) for side in sides]
        ratios = [value / values[0] if value is not None and values[0] else None for value in values[1:]]
        cells = ["-" if each is None else f"{each:,.2f}" for each in (*values, *ratios)]
        print(f"{figure:26}" + "".join(f"{cell:>26}" for cell in cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("servers", type=Path, nargs="*", help="files that describe other servers")
    parser.add_argument("--items", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--settle", type=float, default=10.0, help="seconds of rest before memory is read")
    args = parser.parse_args()
    configs = [OURS, *map(read_config, args.servers)]
    measured = compare(configs, pairs_of(args.items), rounds=args.rounds, starts=args.starts, settle_s=args.settle)
    show(asyncio.run(measured))


if __name__ == "__main__":
    main()
