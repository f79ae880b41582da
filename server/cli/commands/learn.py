"""`judge`, `verdict`, `distill`, `learn`, `post-task` and `record-outcome`: what trajectories show and teach."""

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

import click

from swarm_memory.schema.base import counted
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.trajectory import Label, Verdict
from swarm_memory.server.cli.console import as_report, json_option, print_json, progress, say
from swarm_memory.server.cli.invocation import Invocation
from swarm_memory.tools.text.cleaning import one_line

if TYPE_CHECKING:
    from swarm_memory.schema.outcome import OutcomeRecord, OutcomeStatus
    from swarm_memory.schema.settings import LearnSettings, Settings
    from swarm_memory.schema.trajectory import Trajectory
    from swarm_memory.server.cli.invocation import OpenBank
    from swarm_memory.tools.toolbox import Toolbox

Row: TypeAlias = dict[str, Any]
"""One answer as JSON; it has `id`, the task's."""

FORMATS = (
    "Transcripts of Claude Code and other agents, message lists, or JSON or JSONL of {id, task, steps}; also .gz; "
    "- is standard input."
)

SHOWN = 5
"""So many files are named that were skipped."""

files_argument = click.argument("files", nargs=-1, required=True, metavar="FILE...")

task_option = click.option("--task-id", help="Only this task of the transcript.")


@click.command(epilog=FORMATS)
@files_argument
@task_option
@json_option
@click.pass_obj
def judge(invocation: Invocation, files: tuple[str, ...], task_id: str | None, as_json: bool) -> None:
    """Say for each task in FILE... whether it was met, how sure that is, and why.

    Evidence judges, and the chat model too if one is set. Nothing is stored but what the model cost.

    \b
    Examples:
      swarm-memory judge session.jsonl
      zcat runs.jsonl.gz | swarm-memory judge - --json
    """

    async def operate(trajectory: "Trajectory", settings: "Settings", toolbox: "Toolbox | None") -> Row:
        _, verdict = await _judged(trajectory, settings, toolbox)
        return {"id": trajectory.task_id, **verdict.model_dump(mode="json", exclude_none=True)}

    _look(invocation, files, task_id, operate, as_json, _show_verdict)


@click.command(epilog=FORMATS)
@files_argument
@task_option
@json_option
@click.pass_obj
def distill(invocation: Invocation, files: tuple[str, ...], task_id: str | None, as_json: bool) -> None:
    """Show what each task in FILE... would teach.

    It is drawn by rules, or by the chat model if one is set. Nothing is stored but what the model cost.

    \b
    Example:
      swarm-memory distill session.jsonl --task-id 3f6c9b:2
    """
    from swarm_memory.tools.distill.distill import distill as distill_judged
    from swarm_memory.tools.distill.distill import distill_by_extraction

    async def operate(trajectory: "Trajectory", settings: "Settings", toolbox: "Toolbox | None") -> Row:
        kept, verdict = await _judged(trajectory, settings, toolbox)
        if toolbox is not None:
            found = await distill_judged(toolbox, kept, verdict)
        else:
            found = distill_by_extraction(kept, verdict, settings)
        verdict_row = verdict.model_dump(mode="json", exclude_none=True)
        return {"id": kept.task_id, "verdict": verdict_row, **found.model_dump(mode="json", exclude_none=True)}

    _look(invocation, files, task_id, operate, as_json, _show_drafts)


@click.command(epilog=FORMATS)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@task_option
@json_option
@click.pass_obj
def learn(invocation: Invocation, paths: tuple[str, ...], task_id: str | None, as_json: bool) -> None:
    """Judge each task in PATH..., distill what it teaches, and store that.

    Without PATH it learns from all sessions of this project, of every agent; of a folder from all .jsonl files (.gz
    too) below it. What each task of a file taught is shown; of folders, and without PATH, how many they were. The
    calls of tools are logged too. Learning twice from the same task changes nothing.

    \b
    Examples:
      swarm-memory learn
      swarm-memory learn session.jsonl
      swarm-memory learn runs/*.jsonl.gz --json > learned.jsonl
    """
    for path in paths:
        if not path:
            raise InputError("a path is empty: name a file or a folder")
        if _holds_memories(Path(path)):
            raise InputError(f"{path} holds memories or calls, not a transcript: `swarm-memory import` reads it")
    if not paths or any(Path(path).is_dir() for path in paths):
        if task_id is not None:
            raise click.UsageError("--task-id needs the transcript in which the task is, not a folder")
        _learn_from_all(invocation, paths, as_json)
        return

    async def operate(open_bank: "OpenBank") -> int:
        async def learned(trajectory: "Trajectory") -> Row:
            return await _learn(await open_bank(), trajectory)

        limits = invocation.settings().settings.learn
        return await _answer_files(paths, task_id, limits, learned, as_json, _show_learned)

    _end(invocation.run_with(operate), paths)


def _holds_memories(path: Path) -> bool:
    from swarm_memory.server.jobs.exports import format_of

    return path.is_file() and format_of(path) is not None


def _learn_from_all(invocation: Invocation, paths: tuple[str, ...], as_json: bool) -> None:
    """Learn from files and folders, or from all transcripts of the project, and tell how many that were."""
    from swarm_memory.server.hosts.host import hosts
    from swarm_memory.server.hosts.transcript import ACCEPTED
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
    with progress("reading", quiet=as_json) as moved:
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
        sys.exit(1)


@click.command("post-task", epilog=FORMATS)
@click.option("--task-id", required=True, help="The id that pre-task was given.")
@click.option("--trajectory", "file", required=True, metavar="FILE|-", help="What was done; - is standard input.")
@json_option
@click.pass_obj
def post_task(invocation: Invocation, task_id: str, file: str, as_json: bool) -> None:
    """For agents without hooks: record what was done on a task and learn from it.

    \b
    Example:
      swarm-memory post-task --task-id T-17 --trajectory run.json
    """

    async def operate(open_bank: "OpenBank") -> Row:
        found: list[Trajectory] = []
        async with aclosing(_read(file, None, invocation.settings().settings.learn)) as stream:
            async for trajectory in stream:
                found.append(trajectory)
                if len(found) > 1:
                    raise InputError(f"{file} holds more than one task: give the trajectory of {task_id} alone")
        if not found:
            raise InputError(f"{file} holds no task")
        return await _learn(await open_bank(), found[0].model_copy(update={"task_id": task_id}))

    row = invocation.run_with(operate)
    print_json(row) if as_json else _show_learned(row)


async def _learn(toolbox: "Toolbox", trajectory: "Trajectory") -> Row:
    from swarm_memory.tools.tool_memory.transfer import learn_and_log

    result = await learn_and_log(toolbox, trajectory)
    return {"id": result.task_id, **result.model_dump(mode="json", exclude_none=True)}


async def _answer_files(
    files: tuple[str, ...],
    task_id: str | None,
    limits: "LearnSettings",
    operation: "Callable[[Trajectory], Awaitable[Row]]",
    as_json: bool,
    show: Callable[[Row], None],
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
                    if row is None:
                        continue
                    print_json(row) if as_json else show({**row, "task": redact(trajectory.task[:2000]).text})
        except InputError as error:
            failed += 1
            if as_json:
                print_json({"file": file, "error": str(error)})
            click.echo(f"swarm-memory: {file}: {error}", err=True)
        if contained.told is not None:
            failed += 1
            click.echo(f"swarm-memory: {file}: {contained.told}", err=True)
    return failed


def _look(
    invocation: Invocation,
    files: tuple[str, ...],
    task_id: str | None,
    operation: "Callable[[Trajectory, Settings, Toolbox | None], Awaitable[Row]]",
    as_json: bool,
    show: Callable[[Row], None],
) -> None:
    """Answer every trajectory. The bank is opened, and made, only for a chat model: what it spends is kept there."""
    import anyio

    settings = invocation.settings().settings

    async def answered(toolbox: "Toolbox | None" = None) -> int:
        def answer(each: "Trajectory") -> Awaitable[Row]:
            return operation(each, settings, toolbox)

        return await _answer_files(files, task_id, settings.learn, answer, as_json, show)

    _end(invocation.run(answered) if settings.chat.providers else anyio.run(answered), files)


def _end(failed: int, files: tuple[str, ...]) -> None:
    if failed:
        sys.exit(2 if failed == len(files) else 1)


async def _judged(
    trajectory: "Trajectory", settings: "Settings", toolbox: "Toolbox | None"
) -> "tuple[Trajectory, Verdict]":
    """Return a trajectory as it may be kept and the verdict on it; without a bank, evidence alone judges."""
    from swarm_memory.tools.guard.redact import archivable
    from swarm_memory.tools.judge.judge import judge_by_evidence, judge_given

    if toolbox is not None:
        return (await judge_given(toolbox, trajectory, None, store=False))[:2]
    kept = archivable(trajectory, settings)
    return kept, judge_by_evidence(kept, settings)


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


def _show_drafts(row: Row) -> None:
    _show_verdict({"id": row["id"], "task": row.get("task"), **row["verdict"]})
    say(f"  drawn by {row['distiller']}{_of_model(row)}", dim=True)
    for draft in row["drafts"]:
        say(f"  + {draft['title']}", bold=True)
        for line in draft["content"].splitlines():
            say(f"    {line}")
    if row.get("reason"):
        say(f"  {row['reason']}", dim=True)


def _show_learned(row: Row) -> None:
    _show_verdict({"id": row["id"], "task": row.get("task"), **row["verdict"]})
    if row["stored"]:
        say(f"  drawn by {row['distiller']}{_of_model(row['stored'][0]['provenance'])}", dim=True)
    for item in row["stored"]:
        say(f"  + {item['title']} ({item['id']}, confidence {item['confidence']:.2f})", bold=True)
    if row["reinforced"]:
        say(f"  ~ known already: {', '.join(row['reinforced'])}")
    if row.get("calls"):
        say(f"  {counted(row['calls'], 'tool call')} logged", dim=True)
    if row.get("reason"):
        say(f"  {row['reason']}", dim=True)
    elif not row["stored"]:
        say(f"  {row['status'].replace('_', ' ')}", dim=True)


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
    from swarm_memory.tools.guard.redact import archivable

    async def operate(toolbox: "Toolbox") -> "OutcomeRecord":
        settings, verdict = toolbox.settings, Verdict.by_agent(label, reasons=reasons)
        given = None
        if file is not None:
            found = [each async for each in _read(file, None, settings.learn)]
            if len(found) != 1:
                raise InputError(f"{file} holds {len(found)} tasks: give the trajectory of {task_id} alone")
            given = archivable(found[0].model_copy(update={"task_id": task_id}), settings)
        return await operation(toolbox, task_id, verdict, given, given=True, named=used)

    record = invocation.run(operate)
    print_json(record) if as_json else _show_record(record)


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
        if credit.worked is not None:
            use = "it ended its error" if credit.worked else "in vain against its error"
        say(f"  {credit.applied:+.4f}  {credit.memory_id} ({use})")


_SAID = ("success", "failure", "undecided", "again")


@click.command()
@click.argument("task", metavar="TASK")
@click.argument("said", type=click.Choice(_SAID, case_sensitive=False))
@click.option("--reason", default="", help="Why, in a sentence.")
@json_option
@click.pass_obj
def verdict(invocation: Invocation, task: str, said: str, reason: str, as_json: bool) -> None:
    """Say what really came of TASK (its id, or a trajectory's): your word replaces the verdict.

    The credit that it gave is taken back, and what was distilled under it is learned again. Saying the former one again
    gives all of it back. `again` has it judged once more, by what judges now.

    \b
    Example:
      swarm-memory verdict 4f2c9a-17:3 failure --reason "the wrong service was tested"
    """
    from swarm_memory.tools.tasks.verdict import Revised, judge_again, say_verdict

    async def operate(toolbox: "Toolbox") -> Revised:
        label = next((each for each in get_args(Label) if each.lower() == said.lower()), None)
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
