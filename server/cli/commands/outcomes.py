"""`record-outcome` and `metrics`: what came of tasks, and what that adds up to."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, get_args

import click

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.trajectory import Label, Verdict
from swarm_memory.server.cli.console import json_option, print_json, print_table, say
from swarm_memory.server.cli.invocation import Invocation

if TYPE_CHECKING:
    from swarm_memory.schema.outcome import Effect, OutcomeRecord, OutcomeStatus, WeekMetrics
    from swarm_memory.schema.settings import Settings
    from swarm_memory.schema.trajectory import Trajectory
    from swarm_memory.tools.toolbox import Toolbox


@click.command("record-outcome")
@click.option("--task-id", required=True, help="The id that pre-task was given.")
@click.option(
    "--label",
    "--outcome",
    "label",
    required=True,
    type=click.Choice(get_args(Label), case_sensitive=False),
    help="What came of it.",
)
@click.option("--trajectory", "file", metavar="FILE|-", help="What was done; the one learned from when not given.")
@click.option("--used", multiple=True, metavar="ID", help="A memory that helped; may be given again.")
@click.option("--reason", "reasons", multiple=True, help="Why; may be given again.")
@json_option
@click.pass_obj
def record_outcome(
    invocation: Invocation,
    task_id: str,
    label: Label,
    file: str | None,
    used: tuple[str, ...],
    reasons: tuple[str, ...],
    as_json: bool,
) -> None:
    """Say what came of a task: the memories that it was given are trusted more, or less.

    Those that it used count most. Saying the same twice changes nothing; saying something else replaces it. Learning
    from a task records its outcome by itself.

    \b
    Example:
      swarm-memory record-outcome --task-id T-17 --label Success
    """
    from swarm_memory.tools.credit.outcome import record_outcome as operation

    verdict = Verdict(label=label, confidence=0.0 if label == "Undecided" else 1.0, reasons=reasons, judge="agent")

    async def operate(toolbox: "Toolbox") -> "OutcomeRecord":
        given = None if file is None else _one_trajectory(file, task_id, toolbox.settings)
        return await operation(toolbox, task_id, verdict, given, given=True, named=used)

    record = invocation.run(operate)
    print_json(record) if as_json else _show_record(record)


def _one_trajectory(file: str, task_id: str, settings: "Settings") -> "Trajectory":
    import sys

    from swarm_memory.server.hosts.transcript import read_trajectories
    from swarm_memory.tools.guard.redact import archivable

    source = sys.stdin.buffer if file == "-" else file
    found = list(read_trajectories(source, limits=settings.learn))
    if len(found) != 1:
        raise InputError(f"{file} holds {len(found)} tasks: give the trajectory of {task_id} alone")
    return archivable(found[0].model_copy(update={"task_id": task_id}), settings)


_CREDITED: "Mapping[OutcomeStatus, str]" = {
    "credited": "credited to its memories",
    "already_credited": "recorded before; nothing changed",
    "undecided": "recorded; an undecided task credits no memory",
    "nothing_injected": "recorded; no memory was given to this task, so none is credited",
}


def _show_record(record: "OutcomeRecord") -> None:
    say(f"{record.label}  {record.task_id}: {_CREDITED[record.status]}")
    for credit in record.credits:
        use = "no use of it seen" if credit.method == "none" else credit.method
        say(f"  {credit.applied:+.4f}  {credit.memory_id} ({use})")


@click.command()
@click.option("--csv", "as_csv", is_flag=True, help="Print the weeks as CSV.")
@json_option
@click.pass_obj
def metrics(invocation: Invocation, as_csv: bool, as_json: bool) -> None:
    """Show what came of this project's tasks by week, and the effect of memory.

    The effect is only known when some tasks get no memories: set credit.holdout_rate, such as 0.1.

    \b
    Examples:
      swarm-memory metrics
      swarm-memory metrics --csv > weeks.csv
    """
    from swarm_memory.tools.credit.metrics import memory_effect, weekly_metrics

    if as_csv and as_json:
        raise click.UsageError("--csv and --json exclude each other")

    async def operate(toolbox: "Toolbox") -> "tuple[list[WeekMetrics], Effect | None]":
        return await weekly_metrics(toolbox), await memory_effect(toolbox)

    weeks, effect = invocation.run(operate)
    if as_csv:
        click.echo(_csv(weeks), nl=False)
    elif as_json:
        rows = [week.model_dump(mode="json") for week in weeks]
        print_json({"weeks": rows, "effect": effect.model_dump(mode="json") if effect else None})
    else:
        _show_weeks(weeks)
        say(effect.says if effect else "no task has an outcome yet")


def _csv(weeks: "Sequence[WeekMetrics]") -> str:
    """Return the weeks with a heading; what is not known is empty."""
    from swarm_memory.schema.outcome import WeekMetrics

    text = io.StringIO()
    writer = csv.DictWriter(text, list(WeekMetrics.model_fields), lineterminator="\n")
    writer.writeheader()
    writer.writerows(week.model_dump(mode="json") for week in weeks)
    return text.getvalue()


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


COMMANDS = {"record-outcome": record_outcome, "metrics": metrics}
