"""Which suites there are, and one run of a suite from beginning to end: its input, its file, its row."""

import os
import platform
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from pydantic import JsonValue, ValidationError

from swarm_memory.schema.base import new_id
from swarm_memory.schema.benchmark import BenchmarkRun, BenchmarkStatus, SuiteResults
from swarm_memory.schema.errors import ConfigError, InputError, NotFoundError
from swarm_memory.schema.job import Report
from swarm_memory.schema.settings import Settings
from swarm_memory.server.location import write_private
from swarm_memory.server.storage.store import Store
from swarm_memory.tools.benchmark.suite import Suite, SuiteContext, SuiteOptions
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.ports.models import Embedder
from swarm_memory.tools.text.cleaning import faults
from swarm_memory.tools.toolbox import Toolbox

SUITES = {
    "retrieval": "swarm_memory.tools.benchmark.retrieval.retrieval",
    "learning": "swarm_memory.server.benchmark.tasks",
    "performance": "swarm_memory.server.benchmark.performance",
    "tool-memory": "swarm_memory.tools.benchmark.tool_choice.tool_choice",
}
"""By name, the module that has the suite as `SUITE`; it is imported when it is needed."""

RUN = "bench"
FOLDER = "benchmarks"
"""The folder next to the database with the files of runs."""

_KEPT = ("retrieve", "judge", "distill", "consolidate", "credit", "learn")
"""The groups of settings that affect results and name no path, endpoint or key."""

_PACKAGES = ("swarm-memory", "sqlite-vec", "rank-bm25", "numpy", "mcp", "pydantic")


def find_suite(name: str) -> Suite[Any]:
    """Return a suite. Raises `InputError` for an unknown name."""
    if name not in SUITES:
        raise InputError(f"there is no suite {name!r}: the suites are {', '.join(SUITES)}")
    return import_module(SUITES[name]).SUITE


async def run_benchmark(
    toolbox: Toolbox,
    root: Path,
    suite_name: str,
    given: Mapping[str, JsonValue],
    *,
    report: Report,
    when_cancelled: BenchmarkStatus = "interrupted",
    out: Path | None = None,
) -> tuple[BenchmarkRun, Path]:
    """Run a suite; return the run and its file, which is `out`, or one of its own next to the database.

    If a run is cancelled or fails, its file and its row hold what was measured until then. Raises `InputError` for a
    wrong suite or option, and whatever error ends the suite.
    """
    suite = find_suite(suite_name)
    options = suite.checked(given)
    folder = await runs_folder(toolbox)
    run = await _begun(toolbox, suite_name, options)
    file = out or folder / f"{run.run_id}.json"
    kept: list[SuiteResults] = []

    async def end(status: BenchmarkStatus, results: SuiteResults, error: str | None = None) -> BenchmarkRun:
        changes = {"status": status, "results": results, "error": error, "ended_at": toolbox.clock.now()}
        ended = run.model_copy(update=changes)
        with anyio.CancelScope(shield=True):
            try:
                await anyio.to_thread.run_sync(_write, file, ended.model_dump_json())
            finally:
                await toolbox.store.benchmarks.save_benchmark(toolbox.scope, ended)
        return ended

    await toolbox.store.benchmarks.save_benchmark(toolbox.scope, run)
    try:
        with tempfile.TemporaryDirectory(prefix="swarm-memory-benchmark-") as scratch:
            bench = SuiteContext(
                toolbox=replace(toolbox, wake=None),  # nothing is embedded in the background while measuring
                root=root,
                folder=Path(scratch),
                open_store=partial(open_scratch_store, Path(scratch), toolbox.settings),
                report=report,
                keep=kept.append,
            )
            results = await suite.measure(bench, options)
    except BaseException as error:
        is_cancelled = isinstance(error, anyio.get_cancelled_exc_class())
        reason = None if is_cancelled else redact(str(error) or repr(error)).text
        await end(when_cancelled if is_cancelled else "failed", kept[-1] if kept else SuiteResults(), reason)
        raise
    return await end("completed", results), file


async def _begun(toolbox: Toolbox, suite: str, options: SuiteOptions) -> BenchmarkRun:
    health = await toolbox.store.health()
    given: dict[str, JsonValue] = options.model_dump(mode="json", exclude_defaults=True)
    settings = toolbox.settings.model_dump(mode="json", include=set(_KEPT))
    settings |= {"embedder": toolbox.embedder.name, "chat": None if toolbox.chat is None else toolbox.chat.name}
    versions = {name: version(name) for name in _PACKAGES}
    versions |= {"python": platform.python_version(), "sqlite": f"{health.sqlite_version} ({health.driver})"}
    return BenchmarkRun(
        run_id=new_id(RUN),
        suite=suite,
        status="running",
        options={name: _shown(value, name) for name, value in given.items()},
        settings=settings,
        seed=options.seed,
        versions=versions,
        machine={"system": platform.system(), "architecture": platform.machine(), "cpus": str(os.cpu_count() or 1)},
        started_at=toolbox.clock.now(),
    )


def _shown(value: JsonValue, key: str = "") -> JsonValue:
    """Return options in a form that anyone may see: redacted, with only the names of files and of variables."""
    if isinstance(value, dict):
        return list(value) if key == "env" else {name: _shown(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [_shown(each) for each in value]
    if isinstance(value, str):
        return Path(value).name if key in ("path", "tasks") else redact(value).text
    return value


@asynccontextmanager
async def open_scratch_store(folder: Path, settings: Settings, embedder: Embedder) -> AsyncGenerator[Store]:
    """Open an empty SQLite store with the driver that the settings name, in a file of its own in the folder."""
    from swarm_memory.server.storage.sqlite import open_store

    path = Path(tempfile.mkdtemp(dir=folder)) / "memory.db"
    store = await open_store(path, sqlite=settings.storage.sqlite, embedder=embedder)
    try:
        yield store
    finally:
        with anyio.CancelScope(shield=True):
            await store.close()


async def runs_folder(toolbox: Toolbox) -> Path:
    """Return the folder of the runs' files."""
    return Path((await toolbox.store.health()).path).parent / FOLDER


async def read_run(toolbox: Toolbox, named: str) -> BenchmarkRun:
    """Return a run by its id or its file; for an id without a file, return the row, which has no single cases.

    Raises `NotFoundError`, and `InputError` for a file that is not that of a run.
    """
    is_id = named.startswith(f"{RUN}_")
    file = await runs_folder(toolbox) / f"{named}.json" if is_id else Path(named)
    if not is_id or await anyio.to_thread.run_sync(file.is_file):
        return await anyio.to_thread.run_sync(read_file, file)
    found = await toolbox.store.benchmarks.get_benchmark(toolbox.scope, named)
    if found is None:
        raise NotFoundError(f"there is no run {named!r}; `swarm-memory benchmark report --list` shows those that exist")
    return found


def _write(file: Path, text: str) -> None:
    """Write a file atomically, readable by its owner alone. Raises `ConfigError`."""
    try:
        write_private(file, text)
    except OSError as error:
        raise ConfigError(f"the results cannot be written to {file}: {error.strerror}") from error


def read_file(file: Path) -> BenchmarkRun:
    """Return the run of a file. Raises `InputError`."""
    try:
        return BenchmarkRun.model_validate_json(file.read_bytes())
    except OSError as error:
        listed = "`swarm-memory benchmark report --list` shows the ids of runs"
        raise InputError(f"{file} cannot be read as a run's file: {error.strerror}; {listed}") from error
    except ValidationError as error:
        raise InputError(f"{file} is not a run's file: {faults(error)}") from error
