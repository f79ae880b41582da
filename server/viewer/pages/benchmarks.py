"""Benchmarks: the runs of this bank, and one with its tables."""

from swarm_memory.schema.errors import NotFoundError
from swarm_memory.server.viewer.page import Asked, Page, Route
from swarm_memory.tools.benchmark.report import described

SHOWN = 100


async def benchmarks(asked: Asked) -> Page:
    """List the newest runs."""
    runs = await asked.toolbox.store.benchmarks.list_benchmarks(asked.toolbox.scope, SHOWN)
    return Page("benchmarks.html", {"runs": runs, "most": SHOWN})


async def benchmark(asked: Asked) -> Page:
    """Show one run. Raises `NotFoundError`."""
    run_id = asked.path["run_id"]
    run = await asked.toolbox.store.benchmarks.get_benchmark(asked.toolbox.scope, run_id)
    if run is None:
        raise NotFoundError(f"no run {run_id[:60]!r} of a benchmark in project {asked.toolbox.scope.project!r}")
    return Page("benchmark.html", {"run": run, "described": described(run)})


ROUTES = (Route("/benchmarks", benchmarks), Route("/benchmarks/{run_id}", benchmark))
