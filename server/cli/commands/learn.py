"""`learn` and `post-task`: what trajectories teach, what came of a task, and a verdict said otherwise."""

from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Literal, get_args

import click

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.trajectory import Label, Trajectory, Verdict
from swarm_memory.server.cli.command import command
from swarm_memory.server.cli.console import print_answer, print_json, say
from swarm_memory.server.cli.invocation import CommandSite, Invocation
from swarm_memory.server.hosts.input import Given, read_all
from swarm_memory.server.jobs.transcripts import is_export
from swarm_memory.server.operations.answers import of_learned, of_verdict
from swarm_memory.server.operations.learning import learn_from_files, learn_from_trajectory, record_outcome
from swarm_memory.server.operations.operation import Flag, Row, Word

FORMATS = (
    "Transcripts of Claude Code and other agents, message lists, or JSON or JSONL of {id, task, steps}; also .gz; - is "
    "standard input."
)


@command(epilog=FORMATS)
def learn(
    invocation: Invocation,
    paths: Annotated[tuple[str, ...], Word("[PATH]...")],
    task_id: Annotated[str | None, "Only this task of the transcript."] = None,
    dry_run: Annotated[bool, "Show verdicts and what would be learned; store nothing."] = False,
    verdict: Annotated[
        Literal["success", "failure", "undecided", "again"] | None,
        "Instead: say what really came of a task, whose id is given in place of a path.",
    ] = None,
    reason: Annotated[str, "With --verdict: why, in a sentence."] = "",
    as_json: bool = False,
) -> None:
    """Judge each task in PATH..., distill what it teaches, and store that.

    Without PATH it learns from all sessions of this project, of every agent; of a folder from all .jsonl files (.gz
    too) below it, where memories that `memories export` wrote wait in quarantine. What each task of a file taught is
    shown; of folders, and without PATH, how many they were. The calls of tools are logged too. Learning twice from the
    same task changes nothing.

    With --verdict your word replaces the verdict on a task (its id, or its trajectory's): the credit that it gave is
    taken back, and what was distilled under it is learned again. Saying the former one again gives all of it back.
    `again` has it judged once more, by what judges now.

    \b
    Examples:
      swarm-memory learn
      swarm-memory learn session.jsonl --dry-run
      swarm-memory learn runs/*.jsonl.gz --json > learned.jsonl
      swarm-memory learn --verdict failure 4f2c9a-17:3 --reason "the wrong service was tested"
    """
    if verdict is not None:
        if len(paths) != 1 or dry_run:
            raise click.UsageError("--verdict takes the id of one task, and no --dry-run")
        _answer(invocation.call(lambda site: _say_verdict(site, paths[0], verdict, reason)), as_json)
        return
    for path in paths:
        if not path:
            raise InputError("a path is empty: name a file or a folder")
        if Path(path).is_file() and is_export(Path(path)):
            raise InputError(f"{path} holds memories, not a transcript: `swarm-memory import` reads it")
    failed: list[str] = []
    answered = 0
    for path in paths or (None,):
        try:
            answer = invocation.call(lambda site, path=path: _learned(site, path, task_id, dry_run))
        except InputError as error:
            failed.append(str(error) if path is None else f"{path}: {error}")
            continue
        answered += 1
        for each in answer.get("tasks", [answer]):
            _answer(each, as_json)
        failed += [f"{path}: {answer['fault']}"] if "fault" in answer else []
        failed += [f"{name}: {why}" for name, why in answer.get("transcripts", {}).get("faults", {}).items()]
    for fault in failed:
        click.echo(f"swarm-memory: {fault}", err=True)
    if failed:
        raise click.exceptions.Exit(1 if answered else 2)


async def _learned(site: CommandSite, path: str | None, task_id: str | None, dry_run: bool) -> Row:
    """Learn from a file, a folder, or from all that the agents on this machine did in the project."""
    if path is not None:
        return await learn_from_trajectory(site, path, task_id=task_id, dry_run=dry_run)
    from swarm_memory.server.hosts.host import hosts

    if task_id is not None or dry_run:
        raise InputError("--task-id and --dry-run need the file of a transcript")
    found = [each for host in hosts() for each in host.transcripts.find(site.root)]
    if not found:
        looked = ", ".join(folder for each in hosts() for folder in each.folders())
        raise InputError(f"no transcripts of {site.root} in {looked}; name files or folders")
    return await learn_from_files(site, found)


def _answer(answer: Row, as_json: bool) -> None:
    if as_json:
        print_json(answer)
    else:
        print_answer(answer)
        say()


async def _say_verdict(site: CommandSite, task: str, said: str, reason: str) -> Row:
    from swarm_memory.tools.tasks.verdict import judge_again, say_verdict

    toolbox = await site.toolbox()
    label = next((each for each in get_args(Label) if each.lower() == said), None)
    done = await (judge_again(toolbox, task) if label is None else say_verdict(toolbox, task, label, reason))
    former = None if done.former is None else f"{done.former.label} {done.former.confidence:.2f} by {done.former.judge}"
    changed = {"stored": done.stored, "superseded": done.superseded, "credited": done.credited}
    notice = None if done.stands else "your word stays in force; this changes nothing"
    return of_verdict(done.task_id, done.verdict, former=former, **changed, notice=notice)


@command(epilog=FORMATS, show=print_answer)
async def post_task(
    site: CommandSite,
    task_id: Annotated[str, "The id that pre-task was given."],
    file: Annotated[str | None, "What was done; - is standard input.", "--trajectory", Flag("FILE|-")] = None,
    outcome: Annotated[Label | None, "What came of it; else it is judged."] = None,
    used: Annotated[tuple[str, ...], "With --outcome: a memory that helped; repeatable."] = (),
    reasons: Annotated[tuple[str, ...], "With --outcome: why; repeatable.", "--reason"] = (),
) -> Row:
    """For agents without hooks: record what was done on a task and learn from it.

    Without --trajectory it only says what came of the task: the memories that it was given are trusted more, or less;
    those that it used count most. Saying the same twice changes nothing; saying something else replaces it.

    \b
    Examples:
      swarm-memory post-task --task-id T-17 --trajectory run.json
      swarm-memory post-task --task-id T-17 --outcome Success
    """
    if file is None:
        if outcome is None:
            raise click.UsageError("give --trajectory, --outcome, or both")
        return await record_outcome(site, task_id, outcome, list(used), list(reasons))
    if used:
        raise click.UsageError("--used goes without --trajectory, which shows what was used")
    from swarm_memory.tools.tool_memory.log import learn_and_log

    found: list[Trajectory] = []
    async with aclosing(read_all(Given(file))) as stream:
        async for trajectory in stream:
            found.append(trajectory)
            if len(found) > 1:
                raise InputError(f"{file} holds more than one task: give the trajectory of {task_id} alone")
    if not found:
        raise InputError(f"{file} holds no task")
    own = None if outcome is None else Verdict.by_agent(outcome, reasons=reasons)
    named = found[0].model_copy(update={"task_id": task_id})
    return of_learned(await learn_and_log(await site.toolbox(), named, agent_verdict=own))
