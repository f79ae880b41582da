"""What each kind of long job does: scaling, consolidation, embedding, imports, and the tool memory."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import anyio
import anyio.to_thread
from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import to_jsonable_python

from swarm_memory.schema.errors import ConfigError, InputError, ModelError
from swarm_memory.schema.job import WITHDRAW, Job, Progress
from swarm_memory.schema.trajectory import Verdict
from swarm_memory.server.benchmark.job import BENCHMARK, benchmark_from_job
from swarm_memory.server.hosts.input import Given, GivenAttempt, read_one
from swarm_memory.server.jobs.control import RUN_MATTS
from swarm_memory.server.jobs.reembed import reembed
from swarm_memory.server.jobs.team import SYNC, sync_team
from swarm_memory.server.jobs.transcripts import IMPORT, import_given
from swarm_memory.server.jobs.worker import LongHandler, ProgressReporter
from swarm_memory.server.mirror.mirror import MIRROR, mirror
from swarm_memory.server.runners.build import MattsJob, make_runner
from swarm_memory.server.runners.workplace import scratch_folder
from swarm_memory.server.sources.indexing import INDEX_SOURCES, REFRESH, IndexRequest, index, refresh
from swarm_memory.tools.consolidate.upkeep import CONSOLIDATE, RETENTION, remove_old, withdraw_harmful
from swarm_memory.tools.guard.redact import archivable
from swarm_memory.tools.learn.learn import embed_stored
from swarm_memory.tools.retrieve.embed import EMBED, REEMBED, not_embedded
from swarm_memory.tools.text.cleaning import faults
from swarm_memory.tools.tool_memory.evaluate import RETRY_AFTER_S, evaluate_tool_calls
from swarm_memory.tools.tool_memory.log import EVALUATE, queue_evaluation
from swarm_memory.tools.tool_memory.summarize import SUMMARIZE_AFTER, summarize_tool_memory
from swarm_memory.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from swarm_memory.tools.matts.matts import MattsResult

SUMMARIZE = "summarize_tool_memory"

PROJECT_INDEPENDENT = (EMBED, REEMBED, RETENTION, WITHDRAW, EVALUATE, SUMMARIZE)
"""Run for any project: these need neither its folder, nor the files in it that agents read, nor its settings."""

AnyModel = TypeVar("AnyModel", bound=BaseModel)


def long_handlers(root: Path) -> Mapping[str, LongHandler]:
    """Return the handlers by kind, for the project in `root`."""
    embedding = anyio.Lock()  # else two lanes would send an endpoint the same texts
    return {
        RUN_MATTS: partial(run_matts_job, root=root),
        CONSOLIDATE: partial(consolidate_bank, embedding=embedding),
        RETENTION: lambda toolbox, _, report: remove_old(toolbox, report),
        WITHDRAW: withdraw_harmful_memories,
        INDEX_SOURCES: partial(index_sources, root=root),
        REFRESH: partial(refresh, root=root),
        EMBED: partial(embed_waiting, embedding=embedding),
        REEMBED: partial(reembed_bank, embedding=embedding),
        IMPORT: partial(import_given, root=root),
        BENCHMARK: partial(benchmark_from_job, root=root),
        EVALUATE: evaluate_logged,
        SUMMARIZE: summarize,
        SYNC: sync_team,
        MIRROR: mirror,
    }


def _asked(form: type[AnyModel], job: Job) -> AnyModel:
    """Return a job's validated payload. Raises `InputError`."""
    try:
        return form.model_validate(job.payload)
    except ValidationError as error:
        raise InputError(f"the payload of {job.kind} is invalid: {faults(error)}") from error


async def index_sources(toolbox: Toolbox, job: Job, report: ProgressReporter, *, root: Path) -> dict[str, JsonValue]:
    """Index what the payload names, with the permissions that the settings give."""
    done = await index(toolbox, _asked(IndexRequest, job), root, on_progress=report)
    return done.model_dump(mode="json", exclude_defaults=True)


def check_runner(toolbox: Toolbox, asked: MattsJob, root: Path) -> None:
    """Raise `InputError` or `ConfigError` for what the job would refuse when it begins."""
    if not toolbox.settings.matts.enabled:
        raise ConfigError("matts.enabled is false: set it to true to scale tasks")
    make_runner(asked.runner, toolbox, root, scratch_folder(os.environ))


async def with_attempts(toolbox: Toolbox, asked: MattsJob, attempts: Sequence[GivenAttempt]) -> MattsJob:
    """Return the request with the attempts in its runner. Raises `InputError` for what cannot be read."""
    if not asked.task.strip():
        raise InputError("task is empty: say what is to be done")
    read = [await read_one(Given(None, asked.task, each.steps, asked.task_id)) for each in attempts]
    read = [each.model_copy(update={"session_id": next(iter(toolbox.speakers), None)}) for each in read]
    # In the form in which they may be written into a job's row.
    trajectories = [await anyio.to_thread.run_sync(archivable, each, toolbox.settings) for each in read]
    verdicts = {
        number: Verdict.by_agent(each.verdict, each.confidence)
        for number, each in enumerate(attempts, 1)
        if each.verdict is not None
    }
    speakers = toolbox.speakers if asked.runner.kind == "given" else ()  # what a command does is no claim
    count, given = asked.count, {"trajectories": tuple(trajectories), "verdicts": verdicts, "speakers": speakers}
    runner = asked.runner.model_copy(update=given)
    if runner.kind == "given":
        count = len(attempts) if asked.mode == "parallel" else max(1, len(attempts) - 1)
    return asked.model_copy(update={"runner": runner, "count": count})


async def run_matts_job(toolbox: Toolbox, job: Job, report: ProgressReporter, *, root: Path) -> Mapping[str, JsonValue]:
    """Run MaTTS as the payload says; with the id of a run that has begun, resume that run."""
    from swarm_memory.tools.matts.matts import run_matts

    asked = _asked(MattsJob, job)
    runner = make_runner(asked.runner, toolbox, root, scratch_folder(os.environ))
    return matts_row(await run_matts(replace(toolbox, speakers=asked.runner.speakers), asked, runner, report))


def matts_row(result: "MattsResult") -> dict[str, JsonValue]:
    """Return what a caller sees of a run: how each rollout went, the best one's answer, the items."""
    said = [step.text for step in result.best.steps if step.kind == "message"] if result.best else []
    shown = {"rollouts", "best", "best_folder", "reinforced", "distiller", "notes", "reason"}
    row: dict[str, Any] = {
        **result.run.model_dump(mode="json", include={"run_id", "status", "mode", "k"}),
        **result.run.summary.model_dump(
            mode="json", include=shown, exclude={"rollouts": {"__all__": {"notes"}}}, exclude_defaults=True
        ),
        "best_answer": said[-1][:2_000] if said else None,
        "stored": [{"id": item.id, "title": item.title, "outcome": item.outcome} for item in result.stored],
        "consolidation_due": result.consolidation_due,
    }
    return {name: cast("JsonValue", value) for name, value in row.items() if value not in (None, [], False)}


def _unasked(toolbox: Toolbox) -> Toolbox:
    """Return the toolbox for a job that nobody requested: once the user has said who learns, models do nothing else."""
    return toolbox if toolbox.settings.chat.learn_with is None else replace(toolbox, chat=None)


async def consolidate_bank(
    toolbox: Toolbox, job: Job, report: ProgressReporter, *, embedding: anyio.Lock
) -> Mapping[str, JsonValue]:
    """Consolidate the project's bank; the payload may hold `dry_run` and `full`, or `undo` with the id of a run."""
    from swarm_memory.tools.consolidate.consolidate import consolidate, undo_consolidation

    undone = job.payload.get("undo")
    if isinstance(undone, str):
        return (await undo_consolidation(toolbox, undone)).model_dump(mode="json")
    toolbox = toolbox if job.payload else _unasked(toolbox)
    dry_run, full = job.payload.get("dry_run") is True, job.payload.get("full") is True
    if not dry_run:
        with suppress(ModelError):  # the result says how many were left out
            async with embedding:
                await embed_stored(toolbox)
    done = await consolidate(toolbox, dry_run=dry_run, full=full, on_progress=report.counts())
    return done.model_dump(mode="json", exclude_defaults=True)


async def withdraw_harmful_memories(toolbox: Toolbox, job: Job, report: ProgressReporter) -> Mapping[str, JsonValue]:
    """Withdraw those of the project's memories that do harm, and let suspected ones rest."""
    done = await withdraw_harmful(toolbox)
    return {"run_id": done.run_id, "withdrawn": list(done.withdrawn), "resting": len(done.trials.resting)}


async def embed_waiting(
    toolbox: Toolbox, job: Job, report: ProgressReporter, *, embedding: anyio.Lock
) -> Mapping[str, JsonValue]:
    """Embed what was stored without a vector; what is `left` up to `seen` was refused or is another embedder's."""
    async with embedding:
        done, asked = await embed_stored(toolbox, report.counts())
    return {"embedded": done, "left": await not_embedded(toolbox), **asked}


async def reembed_bank(
    toolbox: Toolbox, job: Job, report: ProgressReporter, *, embedding: anyio.Lock
) -> Mapping[str, JsonValue]:
    """Give items embedded by another embedder a vector of this one; the other's vectors stay."""
    count = report.counts("embedded")
    async with embedding:
        stored, _ = await embed_stored(toolbox, count)
        done = await reembed(toolbox, on_progress=count)
    return {"embedded": stored + done.embedded, "passages": done.passages, "skipped": done.skipped}


async def evaluate_logged(toolbox: Toolbox, job: Job, report: ProgressReporter) -> Mapping[str, JsonValue]:
    """Evaluate calls that have settled, summarize tools with enough new calls, and queue a retry for what failed."""
    toolbox = _unasked(toolbox)
    done = await evaluate_tool_calls(toolbox, settled=True)
    await report(Progress(done=done.evaluated, message="evaluated"))
    if done.failed:
        await queue_evaluation(toolbox, timedelta(seconds=RETRY_AFTER_S))
    made = await summarize_tool_memory(toolbox, min_new=SUMMARIZE_AFTER, evaluate=False)
    return {"evaluation": to_jsonable_python(done._asdict()), "message": made.message}


async def summarize(toolbox: Toolbox, job: Job, report: ProgressReporter) -> Mapping[str, JsonValue]:
    """Summarize the tools of the payload, or all, and report how many are done."""
    named: Any = job.payload.get("tool_names")
    await report(Progress(done=0, message="evaluating"))
    done = await summarize_tool_memory(toolbox, named, on_progress=report.counts("summarizing"))
    parts = {"tools": [each._asdict() for each in done.tools], "evaluation": done.evaluation._asdict()}
    return to_jsonable_python(done._asdict() | parts, exclude_none=True)
