"""`learn`, `post-task` and `import`: what transcripts teach and what came of a task, and memories from a file."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal, get_args

import click

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.memory import LearnResult, MemoryItem
from swarm_memory.schema.trajectory import Label, Verdict
from swarm_memory.server.cli.command import EXISTING_FILE, command
from swarm_memory.server.cli.console import SHOWN, print_answer, print_json, say
from swarm_memory.server.cli.invocation import Invocation
from swarm_memory.server.hosts.host import hosts
from swarm_memory.server.hosts.input import Given, read_all
from swarm_memory.server.hosts.transcript import ACCEPTED
from swarm_memory.server.jobs.transcripts import Tally, as_row, import_files, is_export
from swarm_memory.server.operations import learning as operations
from swarm_memory.server.operations.operation import Row, Word, row

FORMATS = (
    "Transcripts of Claude Code and other agents, message lists, or JSON or JSONL of {id, task, steps}; - is standard "
    "input."
)

LOOKED_BACK = timedelta(days=183)


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

    Without PATH it learns from all sessions of this project, of every agent; of a folder from all .jsonl files
    below it, where memories that `memories export` wrote wait in quarantine. What each task of a file taught is
    shown; of folders, and without PATH, how many they were. The calls of tools are logged too. Learning twice from the
    same task changes nothing.

    With --verdict your word replaces the verdict on a task (its id, or its trajectory's): the credit that it gave is
    taken back, and what was distilled under it is learned again. Saying the former one again gives all of it back.
    `again` has it judged once more, by what judges now.

    \b
    Examples:
      swarm-memory learn
      swarm-memory learn session.jsonl --dry-run
      swarm-memory learn runs/*.jsonl --json > learned.jsonl
      swarm-memory learn --verdict failure 4f2c9a-17:3 --reason "the wrong service was tested"
    """
    if verdict is not None:
        if len(paths) != 1 or dry_run:
            raise click.UsageError("--verdict takes the id of one task, and no --dry-run")
        _print(invocation.call(lambda site: _say_verdict(site, paths[0], verdict, reason)), as_json)
        return
    for path in paths:
        if not path:
            raise InputError("a path is empty: name a file or a folder")
        if Path(path).is_file() and is_export(Path(path)):
            raise InputError(f"{path} holds memories, not a transcript: `swarm-memory import` reads it")
    faults: list[str] = []
    answered = 0
    for path in paths or (None,):
        try:
            answer = invocation.call(lambda site, path=path: _learned(site, path, task_id, dry_run))
        except InputError as error:
            faults.append(str(error) if path is None else f"{path}: {error}")
            continue
        answered += 1
        for each in answer.get("tasks", [answer]):
            _print(each, as_json)
        faults += [f"{path}: {answer['fault']}"] if "fault" in answer else []
        faults += [f"{name}: {why}" for name, why in answer.get("transcripts", {}).get("faults", {}).items()]
    for fault in faults:
        click.echo(f"swarm-memory: {fault}", err=True)
    if faults:
        raise click.exceptions.Exit(1 if answered else 2)


def _print(answer: Row, as_json: bool) -> None:
    if as_json:
        print_json(answer)
    else:
        print_answer(answer)
        say()


async def _learned(site: Invocation, path: str | None, task_id: str | None, dry_run: bool) -> Row:
    """Learn from a file, a folder, or from all that the agents on this machine did in the project."""
    if path is not None:
        return await operations.learn_from_trajectory(site, path, task_id=task_id, dry_run=dry_run)
    if task_id is not None or dry_run:
        raise InputError("--task-id and --dry-run need the file of a transcript")
    found = [each for host in hosts() for each in host.transcripts.find(site.root)]
    if not found:
        looked = ", ".join(folder for each in hosts() for folder in each.folders())
        raise InputError(f"no transcripts of {site.root} in {looked}; name files or folders")
    return await operations.learn_from_files(site, found)


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
    task_id: Annotated[str, "The id that pre-task was given."],
    file: Annotated[str | None, "What was done; - is standard input.", "--trajectory FILE|-"] = None,
    outcome: Annotated[Label | None, "What came of it; else it is judged."] = None,
    used: Annotated[tuple[str, ...], "With --outcome: a memory that helped; repeatable."] = (),
    reasons: Annotated[tuple[str, ...], "With --outcome: why; repeatable.", "--reason"] = (),
    learns: Annotated[Literal["true", "false"], "false: --outcome alone counts.", "--judge-and-distill"] = "true",
) -> Row:
    """For agents without hooks: record what was done on a task and learn from it.

    Without --trajectory it only says what came of the task: the memories that it was given are trusted more, or less;
    those that it used count most. Saying the same twice changes nothing; saying something else replaces it.

    \b
    Examples:
      swarm-memory post-task --task-id T-17 --trajectory run.json
      swarm-memory post-task --task-id T-17 --outcome Success
    """
    from swarm_memory.tools.tool_memory.log import learn_and_log

    if file is None or learns == "false":
        if outcome is None:
            raise click.UsageError("give --trajectory, --outcome, or both; without judging --outcome is needed")
        return await operations.record_outcome(site, task_id, outcome, list(used), list(reasons))
    if used:
        raise click.UsageError("--used goes without --trajectory, which shows what was used")
    found = [each async for each in read_all(Given(file))]
    if len(found) != 1:
        how_many = "more than one task" if found else "no task"
        raise InputError(f"{file} holds {how_many}: give the trajectory of {task_id} alone")
    own = None if outcome is None else Verdict.by_agent(outcome, reasons=reasons)
    named = found[0].model_copy(update={"task_id": task_id})
    return operations.of_learned(await learn_and_log(await site.toolbox(), named, agent_verdict=own))


def _show_imported(answer: Row) -> None:
    """Print what files or each agent's sessions brought, and the surest memories of those that were learned."""
    shown = {name: value for name, value in answer.items() if name not in ("faults", "learned")}
    if "agents" in answer:
        held = {name: each for name, each in answer["agents"].items() if each["sessions"]}
        surest = sorted(answer["learned"], key=lambda each: -each["confidence"])
        shown["agents"] = held or "no session was held here in this time"
        shown["learned"] = [f"{each['confidence']:.2f}  {each['title']}" for each in surest[:SHOWN]]
        if len(surest) > SHOWN:
            shown["learned"].append(f"… and {len(surest) - SHOWN:,} more: `swarm-memory memories list`")
    print_answer(shown)


@command(show=_show_imported, failed=lambda answer: bool(answer["faults"]))
async def import_(
    site: Invocation,
    files: Annotated[tuple[Path, ...], Word("[FILE]...", EXISTING_FILE)],
    quarantine: Annotated[bool, "Retrieve nothing of it before it is restored."] = False,
    everything: Annotated[bool, "Instead: learn from the sessions of every coding agent here.", "--all"] = False,
    everywhere: Annotated[bool, "With --all: also from sessions of other projects."] = False,
) -> Row:
    """Read memories that `memories export` wrote, of another project or machine; or with --all what agents did.

    Doing it again changes nothing: what was read before is known. From transcripts `swarm-memory learn` learns.
    `swarm-memory memories forget --run` with the run that it names takes back what a file brought.

    With --all it learns from the sessions that Claude Code, Codex CLI and the other agents on this machine held in this
    project in the last six months, without a model, and ends with a page of what that taught.

    \b
    Examples:
      swarm-memory import memories.jsonl --quarantine
      swarm-memory import --all
    """
    if everything == bool(files):
        raise click.UsageError("give files that `memories export` wrote, or --all")
    if everything:
        answer = await _import_sessions(site, datetime.now(UTC) - LOOKED_BACK, everywhere)
    else:
        for file in files:
            if not is_export(file):
                raise InputError(
                    f"{file} holds no memories that `memories export` wrote; `swarm-memory learn` reads transcripts"
                )
        tally = await import_files(await site.toolbox(), files, quarantine, site.report)
        faulty = {name: f"{each.faulty} faulty" for name, each in tally.exports.items() if each.faulty}
        answer = row(exports=as_row(tally)["exports"], faults=faulty | tally.faults)
    for name, fault in answer["faults"].items():
        click.echo(f"swarm-memory: {name}: {fault}", err=True)
    return answer


async def _import_sessions(site: Invocation, since: datetime, everywhere: bool) -> Row:
    """Learn from the sessions of every agent, without any model."""
    items: dict[str, MemoryItem] = {}
    agents: dict[str, Row] = {}
    faults: dict[str, str] = {}

    def keep(result: LearnResult) -> None:
        items.update({item.id: item for item in result.stored})
        for gone in result.superseded:
            items.pop(gone, None)

    for host in hosts():
        held = host.transcripts.find(None if everywhere else site.root)
        files = sorted(path for path in held if path.is_file() and path.stat().st_mtime >= since.timestamp())
        tally = Tally()
        if files:
            offline = replace(await site.toolbox(), chat=None)
            tally = await import_files(offline, files, False, site.report, since=since, on_learned=keep)
        faults |= {name: why.removesuffix(f"; {ACCEPTED}") for name, why in tally.faults.items()}
        counts = {name: getattr(tally, name) for name in ("tasks", "known", "verdicts", "stored", "calls")}
        agents[host.name] = {"sessions": tally.files, **counts}
    learned = [item.model_dump(include={"id", "title", "confidence"}) | {"use": item.use} for item in items.values()]
    return {"agents": agents, "learned": learned, "faults": faults}
