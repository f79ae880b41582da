"""`matts`: do a task several times, compare the rollouts, learn from the comparison; look at runs and cancel them."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from swarm_memory.schema.base import counted
from swarm_memory.schema.errors import InputError, NotFoundError
from swarm_memory.schema.rollout import MAX_ROLLOUTS, MattsRun, RunStatus, ToolName
from swarm_memory.server.cli.console import json_option, print_json, print_table, progress, say
from swarm_memory.server.cli.invocation import Invocation

if TYPE_CHECKING:
    from swarm_memory.schema.job import Progress
    from swarm_memory.schema.rollout import MattsResult
    from swarm_memory.server.runners.build import MattsJob
    from swarm_memory.tools.toolbox import Toolbox

_OPEN: tuple[RunStatus, ...] = ("queued", "running")
_ENDED: tuple[RunStatus, ...] = ("completed", "failed", "cancelled")


@click.group()
def matts() -> None:
    """Do a task several times and learn from the comparison (memory-aware test-time scaling)."""


@matts.command(short_help="Do TASK several times, or compare attempts that were made.")
@click.argument("task", required=False, default="")
@click.option("--command", help="The agent's command line, exactly as in matts.allowed_commands.")
@click.option("--check", help="A test command that is run after each rollout; it must be allowed too.")
@click.option("--folder", help="Folder of the project that each rollout gets a copy of. Default: all of it.")
@click.option(
    "--tool", "tools", multiple=True, type=click.Choice(get_args(ToolName)), help="With --model: what it may use there."
)
@click.option("--given", "files", multiple=True, type=click.Path(exists=True, path_type=Path), help="A made rollout.")
@click.option("--model", "by_model", is_flag=True, help="Let the chat model of the settings do it.")
@click.option("-k", type=click.IntRange(1, MAX_ROLLOUTS), help="Parallel rollouts; 6 by default.")
@click.option("-r", type=click.IntRange(1, MAX_ROLLOUTS), help="Refine one rollout so often, instead of -k.")
@click.option("--task-id", help="Id of the task, for credit.")
@click.option("--run-id", help="Go on with a run that was interrupted or failed.")
@json_option
@click.pass_obj
def run(
    invocation: Invocation,
    task: str,
    command: str | None,
    check: str | None,
    folder: str | None,
    tools: tuple[ToolName, ...],
    files: tuple[Path, ...],
    by_model: bool,
    k: int | None,
    r: int | None,
    task_id: str | None,
    run_id: str | None,
    as_json: bool,
) -> None:
    """Do TASK with an agent's command, with the chat model, or take rollouts that were made before.

    \b
    Examples:
      swarm-memory matts run "make the tests pass" --command "claude -p" --check "pytest -q" -k 4
      swarm-memory matts run "make the tests pass" --command "claude -p" -r 3
      swarm-memory matts run "book a flight" --given one.json --given two.json
    """
    if sum((command is not None, by_model, bool(files))) != 1:
        raise click.UsageError("name one of --command, --model and --given")
    if k is not None and r is not None:
        raise click.UsageError("-k and -r exclude each other")

    async def operate(toolbox: "Toolbox") -> "MattsResult":
        from swarm_memory.schema.base import RUN, new_id
        from swarm_memory.server.hosts.input import Given, read_one
        from swarm_memory.server.runners.build import MattsJob, RunnerSpec

        kind = "given" if files else "command" if command else "model"
        read = tuple([await read_one(Given(transcript_path=str(file)), toolbox.settings.learn) for file in files])
        asked = MattsJob(
            task=task,
            mode="parallel" if r is None else "sequential",
            count=r if r is not None else (k or len(files) or None),
            task_id=task_id,
            run_id=run_id or new_id(RUN),
            runner=RunnerSpec(kind=kind, command=command, check=check, folder=folder, tools=tools, trajectories=read),
        )
        return await _run(toolbox, asked, invocation.root, quiet=as_json)

    result = invocation.run(operate)
    print_json(_row(result)) if as_json else _show(result)
    if result.run.status != "completed":
        sys.exit(1)


async def _run(toolbox: "Toolbox", asked: "MattsJob", root: Path, *, quiet: bool) -> "MattsResult":
    from swarm_memory.server.runners.build import make_runner
    from swarm_memory.server.runners.workplace import scratch_folder
    from swarm_memory.tools.matts.matts import run_matts

    if not asked.task.strip() and await toolbox.store.get_run(toolbox.scope, asked.run_id) is None:
        raise InputError("TASK is missing: say what is to be done, or name a run that is there with --run-id")
    if not quiet:
        click.echo(f"run {asked.run_id}", err=True)
    runner = make_runner(asked.runner, toolbox, root, scratch_folder(os.environ))
    with progress("rollouts", quiet=quiet) as moved:

        async def told(how_far: "Progress") -> None:
            moved(how_far.done, how_far.total, how_far.message)
            if not quiet and not sys.stderr.isatty():
                click.echo(f"{how_far.done}/{how_far.total} {how_far.message}", err=True)

        return await run_matts(toolbox, asked, runner, told)


def _row(result: "MattsResult") -> dict[str, Any]:
    from swarm_memory.server.jobs.handlers import matts_row

    return dict(matts_row(result))


def _show(result: "MattsResult") -> None:
    _show_run(result.run)
    for item in result.stored:
        say(f"  + {item.title} ({item.id}, {item.outcome}, confidence {item.confidence:.2f})", bold=True)
        for line in item.content.splitlines():
            say(f"    {line}")


def _show_run(shown: MattsRun) -> None:
    summary = shown.summary
    made = f"{len(summary.rollouts)} of at most {counted(shown.total, 'rollout')}"
    say(f"{shown.run_id}  {shown.status}  {shown.mode}, {made}")
    say(f"  {shown.task}", dim=True)
    for each in summary.rollouts:
        mark = "*" if each.number == summary.best else " "
        label = each.label or each.status.replace("_", " ")
        detail = f"{counted(each.steps, 'step')}, {each.duration_s:.1f} s, temperature {each.temperature:g}"
        say(
            f" {mark}{each.number:>3}  {label:10} {each.confidence:.2f}  {detail}"
            + (f"  {each.error}" if each.error else "")
        )
    if summary.best_folder:
        say(f"  files of the best: {summary.best_folder}")
    for text in (*summary.notes, *filter(None, (summary.reason,))):
        say(f"  {text}", dim=True)


@matts.command()
@click.argument("run_id")
@json_option
@click.pass_obj
def status(invocation: Invocation, run_id: str, as_json: bool) -> None:
    """Show how a run stands."""
    found = invocation.read(lambda toolbox: toolbox.store.get_run(toolbox.scope, run_id))
    if found is None:
        raise NotFoundError(f"there is no run {run_id!r} in this project; `swarm-memory matts list --all` shows all")
    print_json(found) if as_json else _show_run(found)


@matts.command()
@click.argument("run_id")
@json_option
@click.pass_obj
def cancel(invocation: Invocation, run_id: str, as_json: bool) -> None:
    """Cancel a run; the rollouts that have ended are kept."""
    if not invocation.read(lambda toolbox: toolbox.store.cancel_run(toolbox.scope, run_id)):
        raise NotFoundError(f"there is no run {run_id!r} that has not ended; `swarm-memory matts list` shows those")
    print_json({"run_id": run_id, "status": "cancelled"}) if as_json else say(f"{run_id} is cancelled.")


@matts.command("list", short_help="Show the runs that have not ended; --all shows every one.")
@click.option("--all", "everything", is_flag=True, help="Also runs that have ended.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1000))
@json_option
@click.pass_obj
def list_runs(invocation: Invocation, everything: bool, limit: int, as_json: bool) -> None:
    """Show the runs of this project that have not ended, newest first; --all shows every one."""
    wanted = (*_OPEN, *_ENDED) if everything else _OPEN
    found = invocation.read(lambda toolbox: toolbox.store.list_runs(toolbox.scope, wanted, limit))
    if as_json:
        print_json(found)
    elif not found:
        say("No runs." if everything else "No open runs; --all shows those that have ended too.")
    else:
        rows = (
            (each.run_id, each.status, each.mode, f"{len(each.summary.rollouts)}/{each.total}", each.task[:60])
            for each in found
        )
        print_table(("run", "status", "mode", "rollouts", "task"), rows)
