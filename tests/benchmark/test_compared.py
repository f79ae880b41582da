"""The repository's retrieval suite: other memory systems over MCP."""

import sys
from pathlib import Path
from typing import Any

import pytest

from swarm_memory.schema.benchmark import BenchmarkRun
from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.benchmark.running import SUITES, run_benchmark
from swarm_memory.tools.toolbox import Toolbox
from tests.benchmark.conftest import Reports


@pytest.fixture(autouse=True)
def compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the repository's suite in the place of the product's, as `benchmarks/retrieval/run.py` does."""
    monkeypatch.setitem(SUITES, "retrieval", "systems.suite")


async def _run(toolbox: Toolbox, root: Path, reports: Reports, **options: Any) -> BenchmarkRun:
    run, _ = await run_benchmark(
        toolbox, root, "retrieval", {"dataset": "file", "path": "tiny.json", **options}, report=reports
    )
    return run


def _first(run: BenchmarkRun, measure: str) -> dict[str, float]:
    return {each.subject: each.value for each in run.results.figures if (each.measure, each.part) == (measure, "")}


def _outside(search: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    store = {"tool": "remember", "arguments": {"text": "{content}"}, "results": "stored.id"}
    arguments = {"question": "{query}", "limit": "{k}"}
    found = {"tool": "recall", "arguments": arguments, "results": "hits", "id": "id"} | (search or {})
    command = [sys.executable, str(Path(__file__).with_name("echo_memory.py"))]
    return {"name": "echo", "command": command, "store": store, "search": found, "timeout_s": 20} | changes


@pytest.mark.parametrize("search", [{}, {"id": "", "text": "text"}])
async def test_an_outside_system_is_measured_by_its_own_ids_or_by_its_texts(
    toolbox: Toolbox, root: Path, reports: Reports, search: dict[str, Any]
) -> None:
    run = await _run(toolbox, root, reports, systems="bm25-okapi", outside=[_outside(search)])
    assert _first(run, "recall_any@1")["echo"] == 1.0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"command": ["no-such-program-anywhere"]}, "cannot be started"),
        ({"store": {"tool": "forgets", "arguments": {}}}, "forgets"),
    ],
)
async def test_an_outside_system_that_does_not_work_is_named(
    toolbox: Toolbox, root: Path, reports: Reports, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        await _run(toolbox, root, reports, systems="bm25-okapi", outside=[_outside(**changes)])
    assert said in str(refused.value)
    assert str(refused.value).startswith("echo:")
