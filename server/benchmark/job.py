"""A benchmark as a job: what its payload asks for, and what a caller gets to see of the run."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from pydantic import JsonValue

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.job import Job, Report

if TYPE_CHECKING:
    from swarm_memory.schema.benchmark import BenchmarkRun
    from swarm_memory.tools.toolbox import Toolbox

BENCHMARK = "benchmark"
ONLY_FROM_A_COMMAND = ("command", "tasks")
"""Options that start programs: only the user may give them, on the command line, and no model."""


def list_suites() -> list[dict[str, JsonValue]]:
    """Return the suites with what each measures and costs, and its options."""
    from swarm_memory.server.benchmark.running import SUITES, find_suite

    return [
        {
            "suite": each.name,
            "measures": each.summary,
            "cost": each.cost,
            "options": {name: field.description or "" for name, field in each.options.model_fields.items()},
        }
        for each in map(find_suite, SUITES)
    ]


def checked_payload(suite: str, options: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the payload of a job. Raises `InputError` for a suite or option that is wrong or not for a model."""
    from swarm_memory.server.benchmark.running import find_suite

    for name in options:
        if name in ONLY_FROM_A_COMMAND:
            raise InputError(f"option {name} is for the user alone, who can pass it to `swarm-memory benchmark run`")
    find_suite(suite).checked(options)
    return {"suite": suite, "options": dict(options)}


async def benchmark_from_job(toolbox: "Toolbox", job: Job, report: Report, *, root: Path) -> Mapping[str, JsonValue]:
    """Run the suite that the payload names; a run that is cancelled keeps what it has."""
    from swarm_memory.server.benchmark.running import run_benchmark

    suite, options = job.payload.get("suite"), job.payload.get("options")
    if not isinstance(suite, str) or not isinstance(options, dict):
        raise InputError("the job's payload is not that of a benchmark: it needs suite and options")
    checked_payload(suite, options)
    await anyio.to_thread.run_sync(_check_path, options, root)
    run, file = await run_benchmark(toolbox, root, suite, options, report=report, when_cancelled="cancelled")
    return brief(run, file)


def _check_path(options: Mapping[str, JsonValue], root: Path) -> None:
    """Raise `InputError` for an option `path` outside the project, which only the user may give."""
    given = options.get("path")
    if not isinstance(given, str):
        return
    try:
        inside = (root / Path(given).expanduser()).resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError, ValueError) as error:
        raise InputError(f"option path is not a valid path: {error}") from error
    if not inside:
        raise InputError("option path is outside the project: the user can pass it to `swarm-memory benchmark run`")


def brief(run: "BenchmarkRun", file: Path) -> dict[str, JsonValue]:
    """Return the tables of a run as text, and the file with everything."""
    from swarm_memory.tools.benchmark.report import table_lines

    lines = [line for table in run.results.tables for line in ("", *table_lines(table))]
    return {
        "run_id": run.run_id,
        "status": run.status,
        "tables": "\n".join(lines).strip(),
        "notes": list(run.results.notes),
        "file": str(file),
    }
