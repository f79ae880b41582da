"""The finished weeks of a project in a CSV file that grows by itself: what was written of a week stays as it was."""

import csv
import io
import os
import stat
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path

import anyio.to_thread
from pydantic import JsonValue

from swarm_memory.schema.base import Scope, digest
from swarm_memory.schema.errors import ConfigError, InputError
from swarm_memory.schema.job import Job, Report
from swarm_memory.schema.outcome import WeekMetrics
from swarm_memory.server.location import write_private
from swarm_memory.tools.credit.metrics import weekly_metrics
from swarm_memory.tools.toolbox import Toolbox

WEEKLY = "weekly_metrics"
"""The kind of the job, and its key: a project has one, which queues the next one."""

SETTLES = timedelta(days=1)
"""So long after its end a week is written: what its last sessions taught is known by then."""

MAX_BYTES = 10_000_000


def csv_of(weeks: Sequence[WeekMetrics], *, heading: bool = True) -> str:
    """Return weeks as CSV; what is not known is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(WeekMetrics.model_fields), lineterminator="\n")
    if heading:
        writer.writeheader()
    writer.writerows(week.model_dump(mode="json") for week in weeks)
    return text.getvalue()


def weekly_file(folder: Path, root: Path, scope: Scope) -> Path:
    """Return the file of a project in a folder; projects of one name in other places have others."""
    name = "".join(sign if sign.isalnum() or sign in "-_." else "-" for sign in scope.project)[:80]
    return folder / f"swarm-memory-{name}-{digest([str(root), scope.tenant_id])[:6]}.csv"


async def begin_weekly(toolbox: Toolbox, file: Path) -> int:
    """Write the weeks that are finished, from now on by itself; return how many were added.

    Raises `InputError`, `ConfigError`, `StorageError`.
    """
    added = await _write(toolbox, file)
    await _queue_next(toolbox, file)
    return added


async def end_weekly(toolbox: Toolbox) -> str | None:
    """Write no more weeks; return the file that stays as it is, None where none was written. Raises `StorageError`."""
    job = await toolbox.store.find_job(toolbox.scope, WEEKLY, WEEKLY)
    if job is None or not await toolbox.store.cancel_job(toolbox.scope, job.id):
        return None
    return str(job.payload.get("file"))


async def write_weekly(toolbox: Toolbox, job: Job, report: Report) -> Mapping[str, JsonValue]:
    """Add what has finished since; the next week is tried again whatever became of this one."""
    named = job.payload.get("file")
    if not isinstance(named, str):
        raise InputError("the job's payload names no file")
    await _queue_next(toolbox, Path(named))
    return {"file": named, "weeks": await _write(toolbox, Path(named))}


async def _queue_next(toolbox: Toolbox, file: Path) -> None:
    """Queue the job for when the week that is under way can be written."""
    now = toolbox.clock.now()
    monday = _monday((now - SETTLES).astimezone(UTC).date()) + timedelta(days=7)
    due = datetime.combine(monday, time(), UTC) + SETTLES
    await toolbox.queue(WEEKLY, WEEKLY, {"file": str(file)}, after=due - now)


async def _write(toolbox: Toolbox, file: Path) -> int:
    settled = _monday((toolbox.clock.now() - SETTLES).astimezone(UTC).date())
    finished = [week for week in await weekly_metrics(toolbox) if week.week < settled]
    return await anyio.to_thread.run_sync(_add, file, finished)


def _add(file: Path, weeks: Sequence[WeekMetrics]) -> int:
    try:
        before = _read(file)
        known = {row["week"] for row in csv.DictReader(io.StringIO(before))}
        new = [week for week in weeks if week.week.isoformat() not in known]
        if new or not before:
            write_private(file, (before or csv_of([])) + csv_of(new, heading=False))
    except OSError as error:
        raise ConfigError(f"the weeks cannot be written to {file}: {error.strerror or error}") from error
    return len(new)


def _read(file: Path) -> str:
    """Return what was written before, empty where nothing was. Raises `InputError` for what is no such file."""
    try:
        status = file.lstat()
    except FileNotFoundError:
        return ""
    if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
        raise InputError(f"{file} is no file of weeks: move it away, or name another folder")
    with os.fdopen(os.open(file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), "rb") as stream:
        text = stream.read().decode("utf-8", "replace")
    heading, columns = text.partition("\n")[0].rstrip("\r"), csv_of([]).strip()
    if heading and columns.startswith(f"{heading},"):  # an older version wrote fewer
        new = "," * (columns.count(",") - heading.count(","))
        text = "\n".join([columns, *(f"{row}{new}" for row in text.splitlines()[1:])]) + "\n"
    if text and not text.startswith(csv_of([])):
        raise InputError(f"{file} has other columns than this version writes: move it away, and a new one is begun")
    return text if text.endswith("\n") else f"{text}\n" if text else ""


def _monday(day: date) -> date:
    return day - timedelta(days=day.weekday())
