"""`learn` and `post-task`: what transcripts teach, and what came of a task."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal, get_args

import click
from pydantic import Field

from swarm_memory.schema.base import counted
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.memory import LearnResult
from swarm_memory.schema.trajectory import Label, Verdict
from swarm_memory.server.cli.command import command
from swarm_memory.server.cli.console import SHOWN, print_answer, print_json, printable, say
from swarm_memory.server.cli.file_changes import TASK_TOKENS
from swarm_memory.server.cli.invocation import Invocation
from swarm_memory.server.hosts.host import hosts
from swarm_memory.server.hosts.input import Given, read_all
from swarm_memory.server.hosts.transcript import ACCEPTED
from swarm_memory.server.jobs.transcripts import as_row, import_files, is_memory_export
from swarm_memory.server.operations import learning as operations
from swarm_memory.server.operations.operation import Positional, Row

FORMATS = (
    "Accepts transcripts of Claude Code and other agents, message lists, and JSON or JSONL of {id, task, steps}; - is "
    "standard input."
)

LOOKED_BACK = timedelta(days=183)


@command(epilog=FORMATS)
def learn(
    invocation: Invocation,
    paths: Annotated[tuple[str, ...], Positional("[PATH]...")],
    everything: Annotated[bool, "From what all coding agents did here; the default without PATH.", "--all"] = False,
    everywhere: Annotated[bool, "With --all: also from sessions of other projects, and OpenCode's."] = False,
    task_id: Annotated[str | None, "Only this task of the transcript."] = None,
    dry_run: Annotated[bool, "Show verdicts and what would be learned; store nothing."] = False,
    verdict: Annotated[
        Literal["success", "failure", "undecided", "again"] | None,
        "Instead, say how a task really ended; give its id in place of a path.",
    ] = None,
    reason: Annotated[str, "With --verdict: why, in a sentence."] = "",
    as_json: bool = False,
) -> None:
    """Judge each task in PATH..., distill what it teaches, and store that.

    In a folder, all .jsonl files below it are read; memories there that `memories export` wrote wait in quarantine. It
    shows what each task of a file taught, or how many tasks a folder had. Learning twice from a task changes nothing.

    With --all it learns from what Claude Code, Codex CLI and other agents did in this project in the last six months
    (OpenCode: only with --everywhere), and ends with a page on what they taught and what would teach more. The model of
    `install --learn-with` is asked about tasks that are worth it, including those that rules could not decide before.

    With --verdict your word replaces the verdict on a task (named by its id or its trajectory's): the credit given by
    the previous verdict is taken back, and the task is distilled again. Setting the previous one again restores it all.
    `again` has the current judge judge the task once more.

    \b
    Examples:
      swarm-memory learn --all
      swarm-memory learn session.jsonl --dry-run
      swarm-memory learn --verdict failure 4f2c9a-17:3 --reason "the wrong service was tested"
    """
    if verdict is not None:
        if len(paths) != 1 or dry_run or everything:
            raise click.UsageError("--verdict takes the id of one task; --dry-run and --all cannot be combined with it")
        _print(invocation.call(lambda site: _say_verdict(site, paths[0], verdict, reason)), as_json)
        return
    if (everything or everywhere or not paths) and (paths or task_id is not None or dry_run):
        raise InputError("--all, the default without PATH, cannot be combined with PATH, --task-id or --dry-run")
    for path in paths:
        if not path:
            raise InputError("a path is empty: give a file or a folder")
        if Path(path).is_file() and is_memory_export(Path(path)):
            raise InputError(f"{path} holds memories, not a transcript: `swarm-memory import` reads it")
    faults: dict[str, str] = {}
    answered = 0
    for path in paths or ("",):
        try:
            answer = invocation.call(
                lambda site, path=path: (
                    operations.learn_from_trajectory(site, path, task_id=task_id, dry_run=dry_run)
                    if path
                    else _learn_all(site, everywhere)
                )
            )
        except InputError as error:
            faults |= {path or "--all": str(error)}
            continue
        answered += 1
        faults |= {path: answer["fault"]} if "fault" in answer else {}
        faults |= answer.get("transcripts", {}).get("faults", {})
        if not as_json:
            answer.get("transcripts", {}).pop("faults", None)
        for each in answer.get("tasks", [answer]):
            _print(each, as_json)
    say_faults(faults)
    if faults:
        raise click.exceptions.Exit(1 if answered else 2)


def say_faults(faults: Mapping[str, str]) -> None:
    """Report on stderr why files could not be read, in one line for all with one reason."""
    by_reason: dict[str, list[str]] = {}
    for name, why in faults.items():
        reason = f"not a known kind of transcript; {ACCEPTED}" if why.endswith(ACCEPTED) else why
        by_reason.setdefault(reason, []).append(name)
    for reason, (name, *others) in by_reason.items():
        what, why = (f"{len(others) + 1} files, such as {name}", reason) if others else (name, faults[name])
        click.echo(f"swarm-memory: {printable(what)}: {why}", err=True)


def _print(answer: Row, as_json: bool) -> None:
    if as_json:
        print_json(answer)
        return
    if skipped := answer.get("skipped"):
        others = f" and {counted(len(skipped) - 1, 'more file')}" if len(skipped) > 1 else ""
        answer |= {"skipped": f"{skipped[0]}{others}: not a known kind of transcript"}
    if "learned" in answer:
        surest = sorted(answer["learned"], key=lambda each: (each["status"] != "active", -each["confidence"]))
        lines = [f"{each['confidence']:.2f}  {each['title']}  {each['id']}, {each['status']}" for each in surest]
        answer |= {"learned": lines[:SHOWN] or "nothing new"}
    print_answer(answer)
    say()


async def _learn_all(site: Invocation, everywhere: bool) -> Row:
    """Learn from the sessions of every agent, with the model that may learn from tasks, if any."""
    from swarm_memory.server.wiring import learning_model_getter

    since = datetime.now(UTC) - LOOKED_BACK
    begin, root = since.timestamp(), None if everywhere else site.root
    agents = {
        host.name: [each for each in host.transcripts.find(root) if each.is_file() and each.stat().st_mtime >= begin]
        for host in hosts()
    }
    if not (files := sorted(file for held in agents.values() for file in held)):
        looked = ", ".join(folder for each in hosts() for folder in each.folders())
        raise InputError(f"no sessions of {site.root} from the last six months in {looked}; give files or folders")
    toolbox, learned = await site.toolbox(), list[str]()
    asked = replace(toolbox, chat=learning_model_getter(toolbox, lambda: toolbox.settings)())

    def keep(result: LearnResult) -> None:
        learned.extend(item.id for item in result.stored)

    tally = await import_files(asked, files, False, site.report, since=since, on_learned=keep)
    items = await toolbox.store.get_memories((toolbox.scope,), list(dict.fromkeys(learned)))
    shown = {"id", "title", "confidence", "status"}
    kept = [item.model_dump(include=shown) | {"use": item.use} for item in items if item.status != "archived"]
    more = f"rules learn from failed calls: {tally.without_failed_call:,} of {counted(tally.tasks, 'task')} had none"
    if asked.chat is None and tally.worth_a_model:
        more += f"; a model would read {tally.worth_a_model:,}, about {tally.worth_a_model * TASK_TOKENS:,} tokens: "
        more += "run `swarm-memory install --learn-with claude`, then this again"
    if any(each["status"] != "active" for each in kept):
        more += "; what is only a candidate waits for another session, or for `swarm-memory memories restore ID`"
    held = {name: len(files) for name, files in agents.items() if files}
    return {"agents": held, "transcripts": as_row(tally)["transcripts"], "learned": kept, "more": more}


async def _say_verdict(site: Invocation, task: str, said: str, reason: str) -> Row:
    from swarm_memory.tools.tasks.verdict import judge_again, say_verdict

    toolbox = await site.toolbox()
    label = next((each for each in get_args(Label) if each.lower() == said), None)
    done = await (judge_again(toolbox, task) if label is None else say_verdict(toolbox, task, label, reason))
    former = None if done.former is None else f"{done.former.label} {done.former.confidence:.2f} by {done.former.judge}"
    changed = {"stored": done.stored, "superseded": done.superseded, "credited": done.credited}
    notice = None if done.stands else "your word stays in force; this changes nothing"
    return operations.of_verdict(done.task_id, done.verdict, former=former, **changed, notice=notice)


@command(epilog=FORMATS, show=print_answer)
async def post_task(
    site: Invocation,
    task_id: Annotated[str, Field(min_length=1, max_length=500, description="The id that pre-task was given.")],
    file: Annotated[str | None, "What was done; - reads standard input.", "--trajectory FILE|-"] = None,
    outcome: Annotated[Label | None, "How the task ended; if omitted, it is judged."] = None,
    used: Annotated[tuple[str, ...], "With --outcome: a memory that helped; repeatable."] = (),
    reasons: Annotated[tuple[str, ...], "With --outcome: why; repeatable.", "--reason"] = (),
    learns: Annotated[Literal["true", "false"], "false: only --outcome counts.", "--judge-and-distill"] = "true",
) -> Row:
    """For agents without hooks: record what was done on a task and learn from it.

    Without --trajectory it only records how the task ended: the memories that it was given gain or lose trust, above
    all those that it used. Recording the same outcome twice changes nothing; recording another one replaces it.

    \b
    Examples:
      swarm-memory post-task --task-id T-17 --trajectory run.json
      swarm-memory post-task --task-id T-17 --outcome Success
    """
    from swarm_memory.tools.tool_memory.log import learn_and_log

    if file is None or learns == "false":
        if outcome is None:
            raise click.UsageError("give --trajectory, --outcome or both; --outcome is required if nothing is judged")
        return await operations.record_outcome(site, task_id, outcome, list(used), list(reasons))
    if used:
        raise click.UsageError("--used cannot be combined with --trajectory, which shows what was used")
    found = [each async for each in read_all(Given(file))]
    if len(found) != 1:
        how_many = "more than one task" if found else "no task"
        raise InputError(f"{file} holds {how_many}: give only the trajectory of {task_id}")
    own = None if outcome is None else Verdict.by_agent(outcome, reasons=reasons)
    named = found[0].model_copy(update={"task_id": task_id})
    return operations.of_learned(await learn_and_log(await site.toolbox(), named, agent_verdict=own))
