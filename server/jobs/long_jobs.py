"""The jobs that take long and tell how far they are: scaling, consolidation, embedding, imports. They know no queue."""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
from pydantic import JsonValue, ValidationError

from swarm_memory.schema.errors import ConfigError, InputError
from swarm_memory.schema.job import Job, Progress
from swarm_memory.schema.rollout import MattsResult
from swarm_memory.server.benchmark.job import BENCHMARK, benchmark_from_job
from swarm_memory.server.jobs import tool_memory as tool_memory_jobs
from swarm_memory.server.jobs.job_tools import RUN_MATTS
from swarm_memory.server.jobs.worker import LongHandler, Report
from swarm_memory.server.runners.build import MattsJob, make_runner
from swarm_memory.server.sources.indexing import INDEX_SOURCES, index_as_job
from swarm_memory.tools.consolidate.upkeep import CONSOLIDATE
from swarm_memory.tools.retrieve.embed import EMBED, embed_backlog
from swarm_memory.tools.toolbox import Toolbox

IMPORT = "import"

TELL_S = 0.3
"""How often what an operation counts is passed on."""


def long_handlers(root: Path) -> Mapping[str, LongHandler]:
    """Return the handlers by kind, for the project in `root`."""
    return {
        RUN_MATTS: partial(scale, root=root),
        CONSOLIDATE: consolidate_bank,
        INDEX_SOURCES: partial(index_as_job, root=root),
        EMBED: embed_waiting,
        IMPORT: partial(import_given, root=root),
        BENCHMARK: partial(benchmark_from_job, root=root),
        tool_memory_jobs.EVALUATE: tool_memory_jobs.evaluate_logged,
        tool_memory_jobs.SUMMARIZE: tool_memory_jobs.summarize,
    }


def check_runner(toolbox: Toolbox, asked: MattsJob, root: Path) -> None:
    """Raises `InputError`, `ConfigError` for what the job would refuse as it begins."""
    from swarm_memory.server.runners.working_copy import scratch_folder

    if not toolbox.settings.matts.enabled:
        raise ConfigError("matts.enabled is false: set it to true to scale tasks")
    make_runner(asked.runner, toolbox, root, scratch_folder(os.environ))


async def scale(toolbox: Toolbox, job: Job, report: Report, *, root: Path) -> Mapping[str, JsonValue]:
    """Run MaTTS as the payload says; a second time with the same run id goes on with the run."""
    from swarm_memory.server.runners.working_copy import scratch_folder
    from swarm_memory.tools.matts.matts import run_matts

    try:
        asked = MattsJob.model_validate(job.payload)
    except ValidationError as error:
        raise InputError(f"the job's payload is not that of a scaling run: {error.errors()[0]['msg']}") from error
    runner = make_runner(asked.runner, toolbox, root, scratch_folder(os.environ))
    return matts_row(await run_matts(toolbox, asked, runner, report))


def matts_row(result: MattsResult) -> dict[str, JsonValue]:
    """Return what a caller gets to see of a run: how each rollout went, the best one's words, the items."""
    run, summary = result.run, result.run.summary
    said = [step.text for step in result.best.steps if step.kind == "message"] if result.best else []
    rollouts = [
        each.model_dump(mode="json", exclude_none=True, exclude_defaults=True, exclude={"notes"})
        for each in summary.rollouts
    ]
    row: dict[str, Any] = {
        "run_id": run.run_id,
        "status": run.status,
        "mode": run.mode,
        "k": run.k,
        "rollouts": rollouts,
        "best": summary.best,
        "best_answer": said[-1][:2_000] if said else None,
        "best_folder": summary.best_folder,
        "stored": [{"id": item.id, "title": item.title, "outcome": item.outcome} for item in result.stored],
        "reinforced": list(summary.reinforced),
        "distiller": summary.distiller,
        "notes": list(summary.notes),
        "reason": summary.reason,
        "consolidation_due": result.consolidation_due,
    }
    return {name: cast("JsonValue", value) for name, value in row.items() if value not in (None, [], False)}


async def consolidate_bank(toolbox: Toolbox, job: Job, report: Report) -> Mapping[str, JsonValue]:
    """Consolidate the project's bank; the payload may say `dry_run` and `full`, or `undo` with the id of a run."""
    from swarm_memory.tools.consolidate.consolidate import consolidate, undo_consolidation

    undone = job.payload.get("undo")
    if isinstance(undone, str):
        return (await undo_consolidation(toolbox, undone)).model_dump(mode="json")
    counted = Counted(report)
    row: dict[str, JsonValue] = {}
    async with anyio.create_task_group() as telling:
        telling.start_soon(counted.tell)
        result = await consolidate(
            toolbox,
            dry_run=job.payload.get("dry_run") is True,
            full=job.payload.get("full") is True,
            on_progress=counted.count,
        )
        row = result.model_dump(mode="json", exclude_defaults=True)
        telling.cancel_scope.cancel()
    await counted.tell_once()
    return row


async def embed_waiting(toolbox: Toolbox, job: Job, report: Report) -> Mapping[str, JsonValue]:
    """Embed the project's memories that were stored while the embedder failed."""

    async def on_progress(embedded: int) -> None:
        await report(Progress(done=embedded))

    done = await embed_backlog(toolbox, on_progress)
    return {"embedded": done.embedded, "left": done.left}


class Counted:
    """Passes on what an operation counts without waiting."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._progress = self._told = Progress(done=0)

    def count(self, done: int, total: int) -> None:
        """Take down how far the operation is."""
        self._progress = Progress(done=done, total=total)

    async def tell(self) -> None:
        """Pass on what changed, until cancelled."""
        while True:
            await self.tell_once()
            await anyio.sleep(TELL_S)

    async def tell_once(self) -> None:
        if self._progress != self._told:
            self._told = self._progress
            await self._report(self._progress)


def checked_files(paths: Sequence[str], root: Path) -> list[Path]:
    """Return the files that are meant. Raises `InputError` for none, or one that lies where no transcript may."""
    from swarm_memory.server.jobs.importing import files_of
    from swarm_memory.server.state_files import checked_transcript

    found = files_of(map(Path, paths))
    if not found:
        raise InputError(f"there are no .jsonl files in {', '.join(paths)}")
    return [Path(checked_transcript(str(path), root)) for path in found]


async def import_given(toolbox: Toolbox, job: Job, report: Report, *, root: Path) -> Mapping[str, JsonValue]:
    """Take in the payload's `paths`: transcripts, exports and folders of them, in the host's folder or the project."""
    from swarm_memory.server.jobs.importing import as_row, import_files

    named = job.payload.get("paths")
    if not isinstance(named, list) or not named:
        raise InputError("the job names no paths")
    files = checked_files([str(path) for path in named], root)

    async def on_file(number: int, file: Path) -> None:
        await report(Progress(done=number, total=len(files), message=file.name))

    tally = await import_files(toolbox, files, quarantine=job.payload.get("quarantine") is True, on_file=on_file)
    await report(Progress(done=len(files), total=len(files), message="all read"))
    return as_row(tally)
