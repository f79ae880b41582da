"""`learn` and `post-task`: what trajectories teach, what came of a task, and a verdict said otherwise."""

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_args

import click

from swarm_memory.schema.base import counted
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.trajectory import Label, Verdict
from swarm_memory.server.cli.command import command
from swarm_memory.server.cli.console import as_report, print_json, progress, say
from swarm_memory.server.cli.invocation import CommandSite, Invocation
from swarm_memory.server.hosts.transcript import ACCEPTED
from swarm_memory.server.jobs.transcripts import is_export
from swarm_memory.server.operations.operation import Flag, Word
from swarm_memory.tools.text.cleaning import one_line

if TYPE_CHECKING:
    from swarm_memory.schema.outcome import OutcomeRecord, OutcomeStatus
    from swarm_memory.schema.settings import LearnSettings
    from swarm_memory.schema.trajectory import Trajectory
    from swarm_memory.tools.toolbox import Toolbox

Row: TypeAlias = dict[str, Any]
"""One answer as JSON; it has `id`, the task's."""

FORMATS = (
    "Transcripts of Claude Code and other agents, message lists, or JSON or JSONL of {id, task, steps}; also .gz; - is "
    "standard input."
)

SHOWN = 5
"""So many files are named that were skipped."""


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
    too) below it. What each task of a file taught is shown; of folders, and without PATH, how many they were. The
    calls of tools are logged too. Learning twice from the same task changes nothing.

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
        _say_verdict(invocation, paths[0], verdict, reason, as_json)
        return
    for path in paths:
        if not path:
            raise InputError("a path is empty: name a file or a folder")
        if _holds_memories(Path(path)):
            raise InputError(f"{path} holds memories, not a transcript: `swarm-memory import` reads it")
    if not paths or any(Path(path).is_dir() for path in paths):
        if task_id is not None or dry_run:
            raise click.UsageError("--task-id and --dry-run need the files of the transcripts, not a folder")
        _learn_from_all(invocation, paths, as_json)
        return
    settings = invocation.settings().settings

    async def operate(site: CommandSite) -> int:
        async def learned(trajectory: "Trajectory") -> Row:
            if not dry_run:
                return await _learn(await site.toolbox(), trajectory)
            reads_bank = settings.chat.providers  # what a model spends is kept in the bank
            return await _looked_at(await (site.toolbox() if reads_bank else site.for_reading()), trajectory)

        return await _answer_files(paths, task_id, settings.learn, learned, as_json)

    if failed := invocation.call(operate):
        raise click.exceptions.Exit(2 if failed == len(paths) else 1)


def _holds_memories(path: Path) -> bool:
    return path.is_file() and is_export(path)


def _learn_from_all(invocation: Invocation, paths: tuple[str, ...], as_json: bool) -> None:
    """Learn from files and folders, or from all transcripts of the project, and say how many that were."""
    from swarm_memory.server.hosts.host import hosts
    from swarm_memory.server.jobs.transcripts import Tally, files_of, import_files

    given = tuple(map(Path, paths))
    given = given or tuple(path for each in hosts() for path in each.transcripts.find(invocation.root))
    if not given:
        looked = ", ".join(folder for each in hosts() for folder in each.folders())
        raise InputError(f"no transcripts of {invocation.root} in {looked}; name files or folders")
    below = files_of(given)
    if not below:
        raise InputError(f"there are no .jsonl files below {', '.join(paths)}")
    exports = [file for file in below if _holds_memories(file)]
    files = sorted({*below} - {*exports})
    with progress("reading") as moved:
        report = as_report(moved)
        tally = invocation.run(lambda toolbox: import_files(toolbox, files, False, report)) if files else Tally()
    unknown = [name for name, why in tally.faults.items() if why.endswith(ACCEPTED) and Path(name) not in given]
    for name in unknown:
        del tally.faults[name]
    skipped = [*unknown, *map(str, exports)]
    if as_json:
        print_json({name: value for name, value in asdict(tally).items() if name != "exports"} | {"skipped": skipped})
    else:
        verdicts = ", ".join(f"{count} {label}" for label, count in sorted(tally.verdicts.items())) or "none"
        read = f"{counted(tally.files, 'transcript')}, {counted(tally.tasks, 'task')}"
        say(f"{read} ({tally.known} known already); verdicts: {verdicts}.")
        say(f"{counted(tally.stored, 'memory')} stored, {counted(tally.calls, 'tool call')} logged.")
        if skipped:
            more = f" and {len(skipped) - SHOWN} more" if len(skipped) > SHOWN else ""
            named = ", ".join(skipped[:SHOWN])
            say(f"{counted(len(skipped), 'file')} skipped (no transcript): {named}{more}")
    for name, fault in tally.faults.items():
        click.echo(f"swarm-memory: {name}: {fault}", err=True)
    if tally.faults:
        raise click.exceptions.Exit(1)


def _say_verdict(invocation: Invocation, task: str, said: str, reason: str, as_json: bool) -> None:
    from swarm_memory.tools.tasks.verdict import Revised, judge_again, say_verdict

    async def operate(toolbox: "Toolbox") -> Revised:
        label = next((each for each in get_args(Label) if each.lower() == said), None)
        return await (judge_again(toolbox, task) if label is None else say_verdict(toolbox, task, label, reason))

    revised = invocation.run(operate)
    if as_json:
        row = revised._asdict() | {"verdict": revised.verdict.model_dump(mode="json")}
        print_json(row | {"former": None if revised.former is None else revised.former.model_dump(mode="json")})
        return
    _show_verdict({"id": revised.task_id, **revised.verdict.model_dump(mode="json")})
    if revised.former is not None:
        say(f"  before: {revised.former.label} {revised.former.confidence:.2f} by {revised.former.judge}", dim=True)
    for told, ids in (("+", revised.stored), ("-", revised.superseded), ("credit changed:", revised.credited)):
        if ids:
            say(f"  {told} {', '.join(ids)}")
    if not revised.stands:
        say("  your word stands; this changes nothing")


_CREDITED: "Mapping[OutcomeStatus, str]" = {
    "credited": "credited to its memories",
    "already_credited": "recorded before; nothing changed",
    "undecided": "recorded; an undecided task credits no memory",
    "nothing_injected": "recorded; no memory was given to this task, so none is credited",
}


@command(epilog=FORMATS)
def post_task(
    invocation: Invocation,
    task_id: Annotated[str, "The id that pre-task was given."],
    file: Annotated[str | None, "What was done; - is standard input.", "--trajectory", Flag("FILE|-")] = None,
    outcome: Annotated[Label | None, "What came of it; else it is judged."] = None,
    used: Annotated[tuple[str, ...], "With --outcome: a memory that helped; repeatable."] = (),
    reasons: Annotated[tuple[str, ...], "With --outcome: why; repeatable.", "--reason"] = (),
    as_json: bool = False,
) -> None:
    """For agents without hooks: record what was done on a task and learn from it.

    Without --trajectory it only says what came of the task: the memories that it was given are trusted more, or less;
    those that it used count most. Saying the same twice changes nothing; saying something else replaces it.

    \b
    Examples:
      swarm-memory post-task --task-id T-17 --trajectory run.json
      swarm-memory post-task --task-id T-17 --outcome Success
    """
    if file is None and outcome is None:
        raise click.UsageError("give --trajectory, --outcome, or both")
    if file is not None and used:
        raise click.UsageError("--used goes without --trajectory, which shows what was used")
    own = None if outcome is None else Verdict.by_agent(outcome, reasons=reasons)
    if file is None:
        assert own is not None
        record = invocation.run(lambda toolbox: _record(toolbox, task_id, own, used))
        print_json(record) if as_json else _show_record(record)
        return
    named = file

    async def operate(site: CommandSite) -> Row:
        found: list[Trajectory] = []
        async with aclosing(_read(named, None, invocation.settings().settings.learn)) as stream:
            async for trajectory in stream:
                found.append(trajectory)
                if len(found) > 1:
                    raise InputError(f"{named} holds more than one task: give the trajectory of {task_id} alone")
        if not found:
            raise InputError(f"{named} holds no task")
        return await _learn(await site.toolbox(), found[0].model_copy(update={"task_id": task_id}), own)

    row = invocation.call(operate)
    print_json(row) if as_json else _show_learned(row)


async def _record(toolbox: "Toolbox", task_id: str, own: Verdict, used: tuple[str, ...]) -> "OutcomeRecord":
    from swarm_memory.tools.credit.outcome import record_outcome

    return await record_outcome(toolbox, task_id, own, given=True, named=used)


def _show_record(record: "OutcomeRecord") -> None:
    say(f"{record.label}  {record.task_id}: {_CREDITED[record.status]}")
    for credit in record.credits:
        use = "no use of it seen" if credit.method == "none" else credit.method
        if credit.worked is not None:
            use = "it ended its error" if credit.worked else "in vain against its error"
        say(f"  {credit.applied:+.4f}  {credit.memory_id} ({use})")


async def _learn(toolbox: "Toolbox", trajectory: "Trajectory", own: Verdict | None = None) -> Row:
    from swarm_memory.tools.tool_memory.log import learn_and_log

    result = await learn_and_log(toolbox, trajectory, agent_verdict=own)
    return {"id": result.task_id, **result.model_dump(mode="json", exclude_none=True)}


async def _looked_at(toolbox: "Toolbox", trajectory: "Trajectory") -> Row:
    """Judge and distill without storing anything; a chat model is asked where one is set."""
    from swarm_memory.tools.distill.distill import distill
    from swarm_memory.tools.judge.judge import judge_given

    kept, verdict, _ = await judge_given(toolbox, trajectory, None, store=False)
    found = await distill(toolbox, kept, verdict)
    told = verdict.model_dump(mode="json", exclude_none=True)
    return {"id": kept.task_id, "verdict": told, **found.model_dump(mode="json", exclude_none=True)}


async def _answer_files(
    files: tuple[str, ...],
    task_id: str | None,
    limits: "LearnSettings",
    operation: "Callable[[Trajectory], Awaitable[Row]]",
    as_json: bool,
) -> int:
    """Print the answer of every trajectory as it comes; return how many files failed. One does not stop the others."""
    from swarm_memory.tools.guard.redact import redact
    from swarm_memory.tools.learn.learn import Contained

    failed = 0
    for file in files:
        contained = Contained()
        try:
            async with aclosing(_read(file, task_id, limits)) as found:
                async for trajectory in found:
                    row = await contained.answer(trajectory.task_id, operation(trajectory))
                    if row is not None and as_json:
                        print_json(row)
                    elif row is not None:
                        _show_learned({**row, "task": redact(trajectory.task[:2000]).text})
        except InputError as error:
            failed += 1
            if as_json:
                print_json({"file": file, "error": str(error)})
            click.echo(f"swarm-memory: {file}: {error}", err=True)
        if contained.notice is not None:
            failed += 1
            click.echo(f"swarm-memory: {file}: {contained.notice}", err=True)
    return failed


def _read(file: str, task_id: str | None, limits: "LearnSettings") -> "AsyncGenerator[Trajectory]":
    """Yield the trajectories of a file, one at a time in memory."""
    from swarm_memory.server.hosts.transcript import read_asked
    from swarm_memory.server.streaming import in_thread

    source = sys.stdin.buffer if file == "-" else file
    return in_thread(lambda: read_asked(source, task_id, limits=limits))


def _show_verdict(row: Row) -> None:
    colour = {"Success": "green", "Failure": "red"}.get(row["label"], "yellow")
    say(f"{row['label']:9} {row['confidence']:.2f}  {row['id']}  by {row['judge']}{_of_model(row)}", fg=colour)
    if row.get("task"):
        say(f"    “{one_line(row['task'], 100)}”")
    for reason in row.get("reasons", ()):
        say(f"    {reason}")


def _of_model(row: Row) -> str:
    return f" ({row['model']})" if row.get("model") else ""


def _show_learned(row: Row) -> None:
    """Print what a task taught, or would teach."""
    _show_verdict({"id": row["id"], "task": row.get("task"), **row["verdict"]})
    drafts, stored = row.get("drafts", ()), row.get("stored", ())
    if drafts or stored:
        by = row if drafts else row["stored"][0]["provenance"]
        say(f"  distilled by {row['distiller']}{_of_model(by)}", dim=True)
    for draft in drafts:
        say(f"  + {draft['title']}", bold=True)
        for line in draft["content"].splitlines():
            say(f"    {line}")
    for item in stored:
        say(f"  + {item['title']} ({item['id']}, confidence {item['confidence']:.2f})", bold=True)
    if row.get("reinforced"):
        say(f"  ~ known already: {', '.join(row['reinforced'])}")
    if row.get("calls"):
        say(f"  {counted(row['calls'], 'tool call')} logged", dim=True)
    if row.get("reason"):
        say(f"  {row['reason']}", dim=True)
    elif not (drafts or stored) and "status" in row:
        say(f"  {row['status'].replace('_', ' ')}", dim=True)
