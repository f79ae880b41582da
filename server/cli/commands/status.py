"""`status`, `metrics` and `jobs`: how everything stands, and the queued work."""

import csv
import os
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import click
from pydantic import Field

from swarm_memory.schema.base import counted
from swarm_memory.schema.errors import SwarmMemoryError
from swarm_memory.schema.job import Job, JobStatus
from swarm_memory.schema.outcome import WeekMetrics
from swarm_memory.server.cli.command import command
from swarm_memory.server.cli.console import print_json, print_table, say
from swarm_memory.server.cli.invocation import Invocation
from swarm_memory.server.cli.main import Group

if TYPE_CHECKING:
    from swarm_memory.schema.outcome import Difference, Effect
    from swarm_memory.schema.status import ChatDay, ChatStatus, MemoryStatus
    from swarm_memory.tools.toolbox import Toolbox


MEASURED = "0.1"
"""The share of tasks that work without notes while that is measured."""

CHAT_DAYS = 30
"""So many days `metrics` looks back at what models took."""


@command()
def status(
    invocation: Invocation,
    settings: Annotated[bool, "Show each setting instead, its value and where it came from."] = False,
    changed: Annotated[bool, "With --settings: only those not at their default."] = False,
    as_json: bool = False,
) -> None:
    """Say how the bank stands: counts, database, embedder, who judges, waiting jobs, and what the hooks missed.

    \b
    Settings come from, the later over the earlier: defaults, .swarm/config.yaml of the project,
    ~/.config/swarm-memory/config.yaml, environment SWARM_MEMORY_<SECTION>__<NAME>
    (also SWARM_MEMORY_DB and SWARM_MEMORY_SQLITE), --set KEY=VALUE.

    The project's file may come with a cloned repository: it is the weakest, and may not say which database is
    used or where texts are sent.
    """
    from swarm_memory.server.config import off_by
    from swarm_memory.server.missed import told
    from swarm_memory.tools.memories.status import memory_status
    from swarm_memory.tools.team.cache import how_it_stands

    if settings or changed:
        _show_settings(invocation, changed, as_json)
        return
    notices = told(invocation.root)
    if by := off_by(invocation.root, invocation.settings()):
        notices.insert(0, f"switched off by {by}: hooks say nothing and nothing is learned")
    if not invocation.place.has_bank:
        _no_bank(invocation.place.database, notices, as_json)
        return

    async def operate(toolbox: "Toolbox") -> tuple["MemoryStatus", list[str]]:
        return await memory_status(toolbox), await how_it_stands(toolbox)

    found, of_team = invocation.run(operate)
    found = found.model_copy(update={"notices": (*notices, *of_team, *found.notices)})
    print_json(found) if as_json else _show_status(found)


def _no_bank(database: Path, notices: Sequence[str], as_json: bool) -> None:
    if as_json:
        print_json({"storage": {"path": str(database)}, "statistics": None, "notices": list(notices)})
        return
    say(f"No bank yet: {database} is made by the first task of an agent, or by `swarm-memory learn`.")
    for notice in notices:
        say(f"Note: {notice}", fg="yellow")


def _show_status(found: "MemoryStatus") -> None:
    storage, counts = found.storage, found.statistics
    rows: list[tuple[str, object]] = [
        ("version", found.version),
        ("database", f"{storage.path} (schema {storage.schema_version}, {storage.size_bytes / 1e6:.1f} MB)"),
        (
            "PostgreSQL" if storage.driver == "postgresql" else "SQLite",
            f"{storage.sqlite_version}, {storage.driver}: {storage.driver_reason}",
        ),
        ("vector search", storage.vector_search),
        ("embedder", found.embedder),
        ("judge", found.judge),
        ("learning in the background", found.learning),
        *(_chat_rows(found.chat) if found.chat else ()),
        ("project", counts.scope.project),
        ("memories", _counts(counts.memories)),
        ("memories drawn from", _counts(counts.by_outcome)),
        ("trajectories", f"{counts.trajectories} ({_counts(counts.verdicts)})" if counts.trajectories else "none"),
        ("retrievals", counts.retrievals),
        ("jobs", _counts(counts.jobs)),
        ("sources", found.sources),
        ("consolidation", found.consolidation),
        ("retention", found.retention),
        ("tool memory", found.tools),
        ("effect of memory", found.effect.says if found.effect else "no task has an outcome yet"),
    ]
    print_table(("", ""), rows)
    for notice in found.notices:
        say(f"Note: {notice}", fg="yellow")


def _chat_rows(chat: "ChatStatus") -> list[tuple[str, object]]:
    return [
        ("chat models", ", ".join(chat.models) or "none"),
        ("used today", chat.spent),
        ("used by day", "; ".join(day.says for day in chat.days) or "nothing"),
        ("audited verdicts", chat.agreement),
    ]


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.items() if number) or "none"


def _show_settings(invocation: Invocation, changed: bool, as_json: bool) -> None:
    resolved = invocation.settings()
    rows = [row for row in resolved.rows() if not changed or row[2] != "default"]
    if not rows and not as_json:
        say("All settings are at their defaults.")
    elif as_json:
        print_json({key: {"value": value, "origin": origin} for key, value, origin in rows})
    else:
        print_table(
            ("setting", "value", "from"), ((key, "" if value is None else value, origin) for key, value, origin in rows)
        )
    for notice in resolved.notices:
        say(f"Note: {notice}", fg="yellow", err=True)


class Metrics(NamedTuple):
    """What came of a project's tasks."""

    weeks: "list[WeekMetrics]"
    effect: "Effect | None"
    promoted: list[str]
    chat_days: "list[ChatDay]"


@command()
def metrics(
    invocation: Invocation,
    as_csv: Annotated[bool, "Print the weeks as CSV.", "--csv"] = False,
    measure: Annotated[Literal["on", "off"] | None, "Measure what notes are worth, or do so no more."] = None,
    as_json: bool = False,
) -> None:
    """Show what came of this project's tasks by week, the effect of memory, and what models took by day.

    Of a week steps, tokens, dollars and minutes are those for each success; new are memories that were learned, used
    those that a task was seen to use.

    What notes are worth is known where some tasks work without any: --measure on lets one task in ten do so, at random.
    Success, steps, failed calls and tokens of both are then compared, with intervals.

    \b
    Examples:
      swarm-memory metrics
      swarm-memory metrics --measure on
      swarm-memory metrics --csv > weeks.csv
    """
    if as_csv + as_json + (measure is not None) > 1:
        raise click.UsageError("--csv, --json and --measure exclude each other")
    if measure is not None:
        _measure(invocation, MEASURED if measure == "on" else "0")
        return
    found = invocation.read(_metrics)
    if as_csv:
        writer = csv.DictWriter(sys.stdout, list(WeekMetrics.model_fields), lineterminator="\n")
        writer.writeheader()
        writer.writerows(week.model_dump(mode="json") for week in found.weeks)
    elif as_json:
        print_json(found._asdict())
    else:
        _show_metrics(found)


async def _metrics(toolbox: "Toolbox") -> Metrics:
    from swarm_memory.tools.credit.metrics import memory_effect, weekly_metrics
    from swarm_memory.tools.memories.status import promotions

    since = toolbox.clock.now() - timedelta(days=CHAT_DAYS)
    weeks, effect = await weekly_metrics(toolbox), await memory_effect(toolbox)
    return Metrics(weeks, effect, await promotions(toolbox), await toolbox.store.chat_days(since))


def _show_metrics(found: Metrics) -> None:
    if found.weeks:
        _show_weeks(found.weeks)
    say(f"Tasks with and without memory: {found.effect.says}" if found.effect else "no task has an outcome yet")
    if found.effect:
        _show_effect(found.effect)
    for line in found.promoted:
        say(line)
    if found.chat_days:
        say("\nCalls to chat models, in all projects of the bank:")
        rows = ((day.day, day.calls, f"{day.tokens:,}", _number(day.cost_usd, ".4f")) for day in found.chat_days)
        print_table(("day (UTC)", "calls", "tokens", "USD"), rows)


def _show_effect(effect: "Effect") -> None:
    """Print success, steps, failed calls and tokens with memory and without, and their differences."""
    from swarm_memory.tools.credit.metrics import COUNTED

    ours, theirs = effect.with_memory, effect.without_memory
    rows = [("success", *_row(ours.success_rate, theirs.success_rate, effect.success_rate, ".0%"))]
    rows += [
        (
            name.replace("_", " "),
            *_row(getattr(ours, f"mean_{name}"), getattr(theirs, f"mean_{name}"), getattr(effect, name)),
        )
        for name in COUNTED
    ]
    print_table(("mean of a task", "with", "without", "difference, 95 %"), rows)


def _row(
    one: float | None, other: float | None, found: "Difference | None", style: str = ",.1f"
) -> tuple[str, str, str]:
    difference = "-" if found is None else f"{found.value:+{style}} [{found.low:+{style}}, {found.high:+{style}}]"
    return _number(one, style), _number(other, style), difference


def _measure(invocation: Invocation, rate: str) -> None:
    """Set the share of tasks that work without notes in the user's own settings, and say what that means."""
    from swarm_memory.server.config import with_setting
    from swarm_memory.server.hosts.settings_files import FileChange, apply
    from swarm_memory.server.location import user_file

    path = user_file(os.environ)
    before = path.read_text(encoding="utf-8") if path.exists() else None
    after = with_setting(before or "", "credit.holdout_rate", rate, str(path))
    if after != before:
        apply([FileChange(path, before, after)])
    resolved = invocation.settings()
    share, origin = resolved.settings.credit.holdout_rate, resolved.origin.get("credit.holdout_rate")
    if share != float(rate):
        say(f"Note: {origin} sets credit.holdout_rate to {share:g}, which counts before {path}.", fg="yellow", err=True)
    elif share:
        say(f"One task in ten works without any notes from now on, in all your projects ({path}); `metrics` compares.")
    else:
        say(f"Every task is shown the notes that fit it ({path}).")


def _show_weeks(weeks: "Sequence[WeekMetrics]") -> None:
    headings = ("week", "tasks", "success", "steps", "k tokens", "USD", "minutes", "new", "used")
    print_table(
        headings,
        [
            (
                week.week,
                week.tasks,
                _number(week.success_rate, ".0%"),
                _number(week.steps_to_success, ".1f"),
                _number(week.tokens_per_success, ",.1f", 1000),
                _number(week.cost_usd_per_success, ".2f"),
                _number(week.time_to_resolution_s, ".1f", 60),
                week.new_items,
                _number(week.active_items_used_per_task, ".2f"),
            )
            for week in weeks
        ],
    )


def _number(value: float | None, style: str, unit: int = 1) -> str:
    return "-" if value is None else format(value / unit, style)


jobs = Group(
    "jobs",
    help="""Show queued work, or do it.

    A running server does this by itself. `jobs work` is for machines on which none runs.
    """,
)


def _show_jobs(found: Sequence[Job]) -> None:
    if not found:
        say("No jobs.")
        return
    rows = ((job.status, job.kind, job.key, job.attempts, f"{job.run_after:%F %T}", job.error or "") for job in found)
    print_table(("status", "kind", "key", "tries", "due (UTC)", "error"), rows)


@command(of=jobs, name="list", reads=True, show=_show_jobs)
async def list_jobs(
    toolbox: "Toolbox",
    everything: Annotated[bool, "Also jobs that ended.", "--all"] = False,
    limit: Annotated[int, Field(ge=1, le=1000)] = 50,
) -> list[Job]:
    """Show the jobs of this project, those that wait or run first."""
    wanted: tuple[JobStatus, ...] = ("queued", "running")
    if everything:
        wanted = (*wanted, "completed", "failed", "cancelled")
    return await toolbox.store.list_jobs(toolbox.scope, wanted, limit)


@command(of=jobs)
def work(
    invocation: Invocation,
    until_idle: Annotated[bool, "Do what is due, and end."] = False,
    early: Annotated[bool, "With --until-idle: also what is not due yet."] = False,
    session: Annotated[str | None, "With --transcript: a session to be queued first."] = None,
    transcript: Annotated[str | None, "Its transcript; hooks give it."] = None,
    as_json: bool = False,
) -> None:
    """Work off queued jobs: for ever, or with --until-idle until none is due.

    A job is due some seconds after its task's last turn, or at once when the session has ended.

    \b
    Example:
      swarm-memory jobs work --until-idle
    """
    from swarm_memory.server.config import off_by
    from swarm_memory.server.jobs.team import queue_sync
    from swarm_memory.server.jobs.transcripts import holds_task, queue_session
    from swarm_memory.server.jobs.worker import RECHECK_S
    from swarm_memory.server.missed import note_missed
    from swarm_memory.server.wiring import make_worker

    async def operate(toolbox: "Toolbox") -> int:
        if session is not None and transcript is not None:
            await queue_session(toolbox, session, transcript)
        await queue_sync(toolbox)
        worker = make_worker(toolbox, invocation.place, lambda: invocation.settings().settings)
        if until_idle:
            return await (worker.work_off_all() if early else worker.work_off_due())
        await worker.run(RECHECK_S)
        return 0

    try:
        off = transcript is not None and off_by(invocation.root, invocation.settings())
        if transcript is not None and (off or not holds_task(transcript)):
            return  # no bank is made for it
        done = invocation.run(operate)
    except SwarmMemoryError as error:
        if transcript is not None:  # started by a hook, that nobody looks at
            note_missed(invocation.root, "SessionEnd", str(error))
        raise
    print_json({"jobs": done}) if as_json else say(f"{counted(done, 'job')} done." if done else "No job was due.")
