"""The performance suite: its made data, the twelve measurements, growth, and how it ends."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from swarm_memory.schema.base import Scope
from swarm_memory.schema.benchmark import BenchmarkRun
from swarm_memory.server.benchmark.performance import DOMAINS, MEASUREMENTS, MadeMemories, steps_to
from swarm_memory.server.benchmark.running import run_benchmark
from swarm_memory.tools.toolbox import Toolbox
from tests.benchmark.conftest import Reports, interrupted

SMALL: dict[str, Any] = {"items": 100, "repeats": 3, "inserts": 3, "max_items": 1000}


async def _run(toolbox: Toolbox, root: Path, reports: Any, **options: Any) -> BenchmarkRun:
    run, _ = await run_benchmark(toolbox, root, "performance", SMALL | options, report=reports)
    return run


@pytest.mark.parametrize(
    ("limit", "steps"),
    [
        (1000, [1000]),
        (1500, [1000, 1500]),
        (10_000, [1000, 3000, 10_000]),
        (30_001, [1000, 3000, 10_000, 30_000, 30_001]),
    ],
)
def test_growth_is_measured_at_a_thousand_and_three_times_its_powers(limit: int, steps: list[int]) -> None:
    assert list(steps_to(limit)) == steps


def test_made_memories_are_the_same_for_a_seed_and_of_all_domains() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    first, second = (MadeMemories(3, Scope(), now).take(40) for _ in range(2))
    assert [each.content for each in first] == [each.content for each in second]
    assert {each.domain for each in first} == set(DOMAINS)
    assert len({each.title for each in first}) == 40


async def test_the_twelve_are_measured(toolbox: Toolbox, root: Path, reports: Reports) -> None:
    run = await _run(toolbox, root, reports, parts="operations")
    measured = {(each.subject, each.measure.removesuffix("_p50_ms")) for each in run.results.figures}
    assert {(toolbox.embedder.name, each.key) for each in MEASUREMENTS} <= measured
    (table,) = run.results.tables
    assert [row[0] for row in table.rows] == [str(number) for number in range(1, 13)]
    assert table.rows[4][2] == "ms per call"
    assert not any(cell == "-" for row in table.rows for cell in row)
    assert all(each.value > 0 and each.better == "lower" for each in run.results.figures)
    assert reports.all[-1].done == reports.all[-1].total == 13


async def test_growth_gives_a_figure_and_a_point_for_each_size(toolbox: Toolbox, root: Path, reports: Reports) -> None:
    run = await _run(toolbox, root, reports, parts="growth", max_items=1100)
    values = {(each.measure, each.part): each.value for each in run.results.figures}
    assert {part for _, part in values} == {"1000 items", "1100 items"}
    assert values["bytes_per_item", "1000 items"] > 200
    (retrieve,) = run.results.plots
    assert retrieve.log_x
    assert retrieve.series[0].x == (1000.0, 1100.0)
    own = await toolbox.store.statistics(toolbox.scope, toolbox.embedder.name)
    assert sum(own.memories.values()) == 0


async def test_an_interrupted_run_keeps_the_operations_that_were_timed(toolbox: Toolbox, root: Path) -> None:
    options = SMALL | {"parts": "operations"}
    kept = await interrupted(toolbox, root, "performance", options, "retrieve_domain")
    assert {each.measure for each in kept.results.figures} >= {"retrieve_p50_ms", "retrieve_domain_mean_ms"}
    assert len(kept.results.figures) == 6
