"""What benchmarks need from outside, as Protocols: a memory system under test, and where runs are kept."""

from collections.abc import Sequence
from typing import Protocol

from swarm_memory.schema.base import Scope
from swarm_memory.schema.benchmark import BenchmarkItem, BenchmarkQuestion, BenchmarkRun


class MemorySystem(Protocol):
    """A memory under test: it is given the items of every group once, and then asked."""

    @property
    def name(self) -> str: ...

    async def ingest(self, group: str, items: Sequence[BenchmarkItem]) -> None:
        """Take in all items of one group, in their order."""
        ...

    async def retrieve(self, question: BenchmarkQuestion, k: int) -> Sequence[str]:
        """Return at most k ids of items of the question's group, best first."""
        ...

    async def size_bytes(self) -> int | None:
        """Return what all items take on disk or in memory; None when that cannot be told."""
        ...


class BenchmarkStore(Protocol):
    """Runs of benchmarks, newest first; the values of single cases stand only in a run's file."""

    async def save_benchmark(self, scope: Scope, run: BenchmarkRun) -> None:
        """Write a run, new or as it stands now."""
        ...

    async def get_benchmark(self, scope: Scope, run_id: str) -> BenchmarkRun | None: ...

    async def list_benchmarks(self, scope: Scope, limit: int) -> list[BenchmarkRun]: ...
