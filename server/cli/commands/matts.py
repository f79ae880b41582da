"""`matts`: do a task several times, compare the rollouts, learn from the comparison."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click
from pydantic import Field

from swarm_memory.schema.base import RUN, counted, new_id
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.rollout import MAX_ROLLOUTS, MattsResult, MattsRun, ToolName
from swarm_memory.server.cli.command import EXISTING_FILE, command
from swarm_memory.server.cli.console import print_json, progress, say
from swarm_memory.server.cli.invocation import Invocation
from swarm_memory.server.operations.operation import Flag, Word

if TYPE_CHECKING:
    from swarm_memory.schema.job import Progress
    from swarm_memory.server.runners.build import MattsJob
    from swarm_memory.tools.toolbox import Toolbox


@command()
def matts(
    invocation: Invocation,
    task: Annotated[str, Word("TASK")] = "",
    called: Annotated[
        str | None, "The agent's command line, exactly as in matts.allowed_commands.", "--command"
    ] = None,
    check: Annotated[str | None, "A test command that is run after each rollout; it must be allowed too."] = None,
    folder: Annotated[str | None, "Folder of the project that each rollout gets a copy of. Default: all of it."] = None,
    tools: Annotated[tuple[ToolName, ...], "With --model: what it may use there.", "--tool"] = (),
    files: Annotated[tuple[Path, ...], "A made rollout.", "--given", Flag(type=EXISTING_FILE)] = (),
    by_model: Annotated[bool, "Let the chat model of the settings do it.", "--model"] = False,
    k: Annotated[int | None, Field(ge=1, le=MAX_ROLLOUTS, description="Parallel rollouts; 6 by default."), "-k"] = None,
    r: Annotated[
        int | None, Field(ge=1, le=MAX_ROLLOUTS, description="Refine one rollout so often, instead of -k."), "-r"
    ] = None,
    task_id: Annotated[str | None, "Id of the task, for credit."] = None,
    run_id: Annotated[str | None, "Go on with a run that was interrupted or failed."] = None,
    as_json: bool = False,
) -> None:
    """Do TASK several times with an agent's command, with the chat model, or compare rollouts that were made before.

    Ctrl-C ends a run; the rollouts that have ended are kept, and --run-id goes on with it.

    \b
    Examples:
      swarm-memory matts "make the tests pass" --command "claude -p" --check "pytest -q" -k 4
      swarm-memory matts "make the tests pass" --command "claude -p" -r 3
      swarm-memory matts "book a flight" --given one.json --given two.json
    """
    if sum((called is not None, by_model, bool(files))) != 1:
        raise click.UsageError("name one of --command, --model and --given")
    if k is not None and r is not None:
        raise click.UsageError("-k and -r exclude each other")

    async def operate(toolbox: "Toolbox") -> MattsResult:
        from swarm_memory.server.hosts.input import Given, read_one
        from swarm_memory.server.runners.build import MattsJob, RunnerSpec

        kind = "given" if files else "command" if called else "model"
        read = tuple([await read_one(Given(transcript_path=str(file)), toolbox.settings.learn) for file in files])
        asked = MattsJob(
            task=task,
            mode="parallel" if r is None else "sequential",
            count=r if r is not None else (k or len(files) or None),
            task_id=task_id,
            run_id=run_id or new_id(RUN),
            runner=RunnerSpec(kind=kind, command=called, check=check, folder=folder, tools=tools, trajectories=read),
        )
        return await _run(toolbox, asked, invocation.root)

    result = invocation.run(operate)
    if as_json:
        from swarm_memory.server.jobs.handlers import matts_row

        print_json(matts_row(result))
    else:
        _show(result)
    if result.run.status != "completed":
        raise click.exceptions.Exit(1)


async def _run(toolbox: "Toolbox", asked: "MattsJob", root: Path) -> MattsResult:
    from swarm_memory.server.runners.build import make_runner
    from swarm_memory.server.runners.workplace import scratch_folder
    from swarm_memory.tools.matts.matts import run_matts

    if not asked.task.strip() and await toolbox.store.get_run(toolbox.scope, asked.run_id) is None:
        raise InputError("TASK is missing: say what is to be done, or name a run that is there with --run-id")
    click.echo(f"run {asked.run_id}", err=True)
    runner = make_runner(asked.runner, toolbox, root, scratch_folder(os.environ))
    with progress("rollouts") as moved:

        async def told(how_far: "Progress") -> None:
            moved(how_far.done, how_far.total, how_far.message)
            if not sys.stderr.isatty():
                click.echo(f"{how_far.done}/{how_far.total} {how_far.message}", err=True)

        return await run_matts(toolbox, asked, runner, told)


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
