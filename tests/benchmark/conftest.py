"""A project with a bank, and a small dataset whose right answers are known."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import pytest
from laid_bank import BY_TABLE, laid

from swarm_memory.schema.benchmark import BenchmarkRun, Dataset
from swarm_memory.schema.job import Progress
from swarm_memory.schema.settings import Settings
from swarm_memory.server.benchmark.running import read_run, run_benchmark
from swarm_memory.server.wiring import opened_toolbox, place_of
from swarm_memory.tools.toolbox import Toolbox

TASKS = Path(__file__).resolve().parents[2] / "benchmarks" / "tasks"

ITEMS = [
    {"id": "a1", "content": "The login page needs the session cookie to be secure.", "group": "a"},
    {"id": "a2", "content": "Database migrations run before the tests of the shop.", "group": "a"},
    {"id": "a3", "content": "Pictures are converted to sRGB before upload.", "group": "a"},
    {"id": "b1", "content": "The login of the other project uses one-time codes.", "group": "b"},
    {"id": "b2", "content": "Kafka consumers rebalance when a batch takes too long.", "group": "b"},
]
QUESTIONS = [
    {"query": "database migrations before tests", "gold": ["a2"], "group": "a", "category": "words"},
    {"query": "session cookie of the login page", "gold": ["a1"], "group": "a", "category": "words"},
    {"query": "login with one-time codes", "gold": ["b1"], "group": "b", "category": "other", "answer": "codes"},
]
NORMALIZED: dict[str, Any] = {"name": "tiny", "items": ITEMS, "questions": QUESTIONS}


@pytest.fixture
def dataset() -> Dataset:
    """The small dataset."""
    return Dataset.model_validate(NORMALIZED)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project's folder with the small dataset as a file."""
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "tiny.json").write_text(json.dumps(NORMALIZED), encoding="utf-8")
    return folder


@pytest.fixture
async def toolbox(root: Path) -> AsyncGenerator[Toolbox]:
    """The opened bank of the project."""
    settings = Settings(embedding=BY_TABLE)
    place = place_of(root, settings)
    laid(place.database)
    async with opened_toolbox(place, settings) as opened:
        yield opened


async def benchmarked(
    toolbox: Toolbox, root: Path, suite: str, options: dict[str, Any]
) -> tuple[BenchmarkRun, Path, list[Progress]]:
    """Run a suite; return the run, its file, and the reported progress."""
    reports: list[Progress] = []

    async def note(progress: Progress) -> None:
        reports.append(progress)

    return *await run_benchmark(toolbox, root, suite, options, report=note), reports


async def interrupted(toolbox: Toolbox, root: Path, suite: str, options: dict[str, Any], at: str) -> BenchmarkRun:
    """Interrupt a run once a progress message begins with `at`; return the run as it was stored."""
    with anyio.CancelScope() as scope:

        async def stop(progress: Progress) -> None:
            if progress.message.startswith(at):
                scope.cancel()
                await anyio.lowlevel.checkpoint()

        await run_benchmark(toolbox, root, suite, options, report=stop)
    assert scope.cancelled_caught
    (row,) = await toolbox.store.benchmarks.list_benchmarks(toolbox.scope, 5)
    kept = await read_run(toolbox, row.run_id)
    assert kept.status == "interrupted"
    return kept
