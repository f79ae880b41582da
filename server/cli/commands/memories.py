"""`memories`, `export` and `import`: single memories looked at, mended and forgotten; all of them as JSON lines."""

import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import click

from swarm_memory.schema.base import counted, plural
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.memory import Kind, MemoryItem, MemoryStatus
from swarm_memory.server.cli.console import as_report, json_option, print_json, progress, say, write_lines
from swarm_memory.server.cli.invocation import Invocation
from swarm_memory.server.jobs.exports import is_export
from swarm_memory.server.jobs.transcripts import Tally, as_row, import_files

if TYPE_CHECKING:
    from swarm_memory.tools.ports.memories import Forgotten
    from swarm_memory.tools.promote.marks import Place
    from swarm_memory.tools.toolbox import Toolbox

T = TypeVar("T")

SHOWN = 10
"""So many memories are named before they are deleted."""

ids_argument = click.argument("ids", nargs=-1, required=True, metavar="ID...")
chosen_argument = click.argument("ids", nargs=-1, metavar="[ID...]")
run_option = click.option("--run", "run_id", help="All that this run of learning, scaling or importing added.")
id_argument = click.argument("memory_id", metavar="ID")
reason_option = click.option("--reason", help="Why; kept in the history.")


@click.command()
@click.argument("text", nargs=-1, required=True, metavar="TEXT...")
@click.option("--kind", type=click.Choice(get_args(Kind)), default="fact", show_default=True, help="What it is.")
@click.option(
    "--scope",
    type=click.Choice(["project", "global"]),
    default="project",
    show_default=True,
    help="For this project, or for all of yours.",
)
@json_option
@click.pass_obj
def remember(invocation: Invocation, text: tuple[str, ...], kind: Kind, scope: str, as_json: bool) -> None:
    """Keep what you say, as your own word: it goes before what was learned, and it never fades.

    - reads it from standard input.

    \b
    Examples:
      swarm-memory remember "We use pnpm here, never npm" --kind convention
      swarm-memory remember "Answer in German" --kind preference --scope global
    """
    from swarm_memory.tools.memories.remember import remember as keep

    said = sys.stdin.read() if text == ("-",) else " ".join(text)
    done = invocation.run(lambda toolbox: keep(toolbox, said, kind, everywhere=scope == "global", by_hand=True))
    if as_json:
        print_json({"memory": done.item, "new": done.is_new, "notices": done.notices})
        return
    say(f"{'Kept' if done.is_new else 'Known already'}: {done.item.title}", bold=True)
    say(f"  {_stands_in_short(done.item)}")
    for notice in done.notices:
        say(f"  {notice}", fg="yellow")


@click.group()
def memories() -> None:
    """List, show, edit, quarantine, archive, restore or forget memories.

    \b
    Examples:
      swarm-memory memories list --status quarantined
      swarm-memory memories edit rm_01J8… --title "Run migrations before the tests"
      swarm-memory memories forget rm_01J8…
      swarm-memory memories forget --run run_01J8…
    """


@memories.command("list", short_help="List memories, newest first; quarantined and archived ones too.")
@click.option("--status", "statuses", multiple=True, type=click.Choice(get_args(MemoryStatus)), help="Default: active.")
@click.option("--domain", help="Only of this domain.")
@click.option("--tag", "tags", multiple=True, help="Only with this tag; may be given again.")
@click.option("--task-id", help="Only what this task taught.")
@click.option("--text", help="Only with this in title or content.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 500))
@click.option("--offset", default=0, type=click.IntRange(0))
@json_option
@click.pass_obj
def list_command(
    invocation: Invocation,
    statuses: tuple[MemoryStatus, ...],
    domain: str | None,
    tags: tuple[str, ...],
    task_id: str | None,
    text: str | None,
    limit: int,
    offset: int,
    as_json: bool,
) -> None:
    """List memories of this project and the global ones, newest first."""
    from swarm_memory.tools.memories.edit import MAX_OFFSET, list_memories
    from swarm_memory.tools.ports.memories import MemoryFilter

    async def operate(toolbox: "Toolbox") -> tuple[list[MemoryItem], bool]:
        which = MemoryFilter(statuses or ("active",), domain, tags, task_id, text, limit=limit, offset=offset)
        items = await list_memories(toolbox, which)
        beyond = which._replace(limit=1, offset=min(offset + limit, MAX_OFFSET))
        return items, len(items) == limit and bool(await list_memories(toolbox, beyond))

    found, has_more = invocation.read(operate)
    if as_json:
        print_json(found)
        return
    for item in found:
        say(item.title, bold=True)
        say(f"  {_stands_in_short(item)}")
    if not found:
        say("No memories.")
    elif has_more:
        say(f"There are more: --offset {offset + limit} shows the next ones, --limit up to 500 at once.", fg="yellow")


@memories.command("get")
@ids_argument
@json_option
@click.pass_obj
def get_command(invocation: Invocation, ids: tuple[str, ...], as_json: bool) -> None:
    """Show memories with their steps and where they came from."""
    from swarm_memory.tools.memories.edit import get_memories, with_authors

    async def operate(toolbox: "Toolbox") -> list[MemoryItem]:
        return await with_authors(toolbox, await get_memories(toolbox, ids))

    found = invocation.read(operate)
    if as_json:
        print_json(found)
    else:
        for item in found:
            _show(item)


memories.add_command(get_command, "show")


@memories.command("edit")
@id_argument
@click.option("--title", help="What to do, or not to.")
@click.option("--description", help="When it is of use.")
@click.option("--content", help="The steps; - reads them from standard input.")
@click.option("--tag", "tags", multiple=True, help="Its tags from now on; may be given again.")
@click.option("--domain", help="Such as python.testing; empty takes it away.")
@reason_option
@json_option
@click.pass_obj
def edit_command(
    invocation: Invocation,
    memory_id: str,
    title: str | None,
    description: str | None,
    content: str | None,
    tags: tuple[str, ...],
    domain: str | None,
    reason: str | None,
    as_json: bool,
) -> None:
    """Change a memory; the former text stays in its history."""
    from swarm_memory.tools.guard.gate import told_of
    from swarm_memory.tools.memories.decide import MemoryChange, edit

    steps = sys.stdin.read() if content == "-" else content
    change = MemoryChange(title, description, steps, tags or None, domain)
    (changed,) = invocation.run(lambda toolbox: edit(toolbox, memory_id, change, reason)).items
    print_json(changed) if as_json else _show(changed)
    if not as_json and (notice := told_of([changed])):
        say(f"  {notice}", fg="yellow")


@memories.command("confirm", short_help="Say that what an agent brought as your word is your word.")
@id_argument
@json_option
@click.pass_obj
def confirm_command(invocation: Invocation, memory_id: str, as_json: bool) -> None:
    """Make an agent's note your own word: it goes before what was learned, and it never fades.

    An agent brought it as your word by the tool remember, and no prompt of yours has it. The viewer takes it back.
    """
    from swarm_memory.tools.memories.decide import confirm

    (item,) = invocation.run(lambda toolbox: confirm(toolbox, memory_id)).items
    print_json(item) if as_json else say(f"Your word now: {item.title}", bold=True)


@memories.command("forget", short_help="Delete memories for good, with every trace.")
@chosen_argument
@run_option
@click.option(
    "--with-trajectories", is_flag=True, help="Take the records of their tasks even where other memories rest on them."
)
@click.option("--person", "name", metavar="NAME", help="Somebody of the team with all that they brought.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@click.pass_obj
def forget_command(
    invocation: Invocation,
    ids: tuple[str, ...],
    run_id: str | None,
    with_trajectories: bool,
    name: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Delete memories for good: rows, indexes, former texts, the records of their tasks with the tool calls logged in
    them, what quotes them elsewhere, and the backups beside the bank that hold them.

    Of a task only label and digest stay, so that its transcript does not teach it again. Where a memory that stays
    was drawn from the same task, its record stays and that memory is named. This cannot be undone.

    With --person nobody of that name comes in any more, and in the audit trail nobody is named in their place.
    """
    from swarm_memory.server.hosts.files.promoted import promoted_for
    from swarm_memory.tools.memories.edit import forget_memories, joined, what_stayed

    if name is not None:
        if ids or run_id:
            raise click.UsageError("--person takes all that somebody brought: no ids and no --run")
        _forget_person(invocation, name, yes, as_json)
        return
    if not yes:
        _ask_to_forget(invocation, (ids, run_id))

    async def forget(toolbox: "Toolbox", some: "Sequence[str]") -> "Forgotten":
        return await forget_memories(toolbox, some, with_trajectories=with_trajectories)

    done = joined(_in_parts(invocation, forget, (ids, run_id)))
    if as_json:
        told = {"records": done.records, "resting": done.resting, "alike": done.alike}
        print_json({"forgotten": len(done.ids), **{name: value for name, value in told.items() if value}})
        return
    records = f", and the {plural(done.records, 'record')} of {counted(done.records, 'task')}" if done.records else ""
    say(f"{counted(len(done.ids), 'memory')} forgotten{records}.")
    remedy = "forget these too and it goes (--with-trajectories takes it at once)"
    for line in what_stayed(done, remedy, promoted_for(invocation.root)):
        say(f"  {line}")


def _forget_person(invocation: Invocation, name: str, yes: bool, as_json: bool) -> None:
    from swarm_memory.tools.team.people import find_person, forget_person

    person = invocation.run(lambda toolbox: find_person(toolbox, name))
    if not yes:
        click.confirm(f"Delete {person.name} with all that they brought, for good?", abort=True, err=True)
    done = invocation.run(lambda toolbox: forget_person(toolbox, name))
    if as_json:
        print_json({"forgotten": len(done.ids), "records": done.records, "alike": done.alike})
        return
    count = counted(len(done.ids), "memory")
    say(f"{person.name} is forgotten, with {count} and the records of {counted(done.records, 'task')}.")


def _ask_to_forget(invocation: Invocation, chosen: tuple[tuple[str, ...], str | None]) -> None:
    """Show what would be deleted, so that nobody agrees to more than was meant."""
    from swarm_memory.tools.memories.edit import get_memories

    found = [item for part in _in_parts(invocation, get_memories, chosen) for item in part]
    for item in found[:SHOWN]:
        say(f"  {item.id}  {item.title}", err=True)
    if len(found) > SHOWN:
        say(f"  … and {len(found) - SHOWN} more", err=True)
    click.confirm(f"Delete {counted(len(found), 'memory')} for good, with every trace?", abort=True, err=True)


def _status_command(name: str, status: MemoryStatus, done: str, summary: str) -> None:
    @memories.command(name, help=summary)
    @chosen_argument
    @run_option
    @reason_option
    @json_option
    @click.pass_obj
    def command(  # pyright: ignore[reportUnusedFunction]
        invocation: Invocation, ids: tuple[str, ...], run_id: str | None, reason: str | None, as_json: bool
    ) -> None:
        from swarm_memory.tools.memories.decide import Decided, set_memory_status

        def change(toolbox: "Toolbox", some: "Sequence[str]") -> "Awaitable[Decided]":
            return set_memory_status(toolbox, some, status, reason)

        count = sum(len(done.items) for done in _in_parts(invocation, change, (ids, run_id)))
        print_json({done: count}) if as_json else say(f"{count} {done}.")


_status_command("restore", "active", "restored", "Have memories retrieved again.")
_status_command("quarantine", "quarantined", "quarantined", "Withdraw memories until somebody has looked at them.")
_status_command("archive", "archived", "archived", "Put memories away; they are kept and no longer retrieved.")


@memories.command("history")
@id_argument
@json_option
@click.pass_obj
def history_command(invocation: Invocation, memory_id: str, as_json: bool) -> None:
    """Show what happened to a memory."""
    from swarm_memory.tools.memories.edit import memory_history

    events = invocation.read(lambda toolbox: memory_history(toolbox, memory_id))
    if as_json:
        print_json([{"at": event.at.isoformat(), "kind": event.kind, "data": dict(event.data)} for event in events])
    else:
        for event in events:
            say(f"{event.at:%F %T}  {event.kind.removeprefix('reasoning_memory.')}  {_told(event.data)}")


def _told(data: "Mapping[str, Any]") -> str:
    """Return what an event holds in one line; of a former text its title, all of it stands in the JSON."""
    former = {"former title": json.loads(data["pattern_data"])["title"]} if "pattern_data" in data else {}
    rest = {
        name: value
        for name, value in data.items()
        if name != "pattern_data" and value is not None and not isinstance(value, dict | list)
    }
    return ", ".join(f"{name} {value}" for name, value in (former | rest).items())


def _in_parts(
    invocation: Invocation,
    operation: "Callable[[Toolbox, Sequence[str]], Awaitable[T]]",
    chosen: tuple[tuple[str, ...], str | None],
) -> list[T]:
    """Do something to the memories that are named, or to all of a run, so many at once as an operation takes."""
    ids, run_id = chosen
    if bool(ids) == (run_id is not None):
        raise click.UsageError("name memories by their ids, or all of a run by --run")

    async def in_parts(toolbox: "Toolbox") -> list[T]:
        from swarm_memory.tools.memories.edit import MAX_IDS, of_run

        every = ids if run_id is None else await of_run(toolbox, run_id)
        parts = [every[start : start + MAX_IDS] for start in range(0, len(every), MAX_IDS)]
        return [await operation(toolbox, part) for part in parts]

    return invocation.run(in_parts)


def _stands_in_short(item: MemoryItem) -> str:
    why = item.status != "active" and item.status_reason
    status = f"{item.status}: {why}" if why else item.status
    if item.provenance.suspect is not None:
        status += f", {'trusted less' if item.provenance.standing < 0 else 'marked'}: {item.provenance.suspect}"
    said = f"the user's {item.tags[0] if item.tags else 'word'}" if item.provenance.is_users_word else item.outcome
    return f"{item.id} · {status} · {said} · confidence {item.confidence:.2f} · used {item.usage_count}x"


def _show(item: MemoryItem) -> None:
    say(item.title, bold=True)
    say(f"  {_stands_in_short(item)}")
    if item.description:
        say(f"  {item.description}")
    for line in item.content.splitlines():
        say(f"    {line}")
    tags = ", ".join(item.tags) or "none"
    say(
        f"  tags {tags} · domain {item.domain or 'none'} · project {item.scope.project} · {item.created_at:%F %T}",
        dim=True,
    )
    source = item.provenance.model_dump(mode="json", exclude_none=True, exclude={"evidence"})
    say("  from " + ", ".join(f"{name} {value}" for name, value in source.items()), dim=True)


@click.command()
@chosen_argument
@click.option("--to", "to", type=click.Choice(["skill", "agents-md", "claude-md", "user"]), help="Default: skill.")
@click.option("--proven", is_flag=True, help="All that are proven: surely most tasks that used them succeeded.")
@click.option("--demote", is_flag=True, help="Take them out again; without ids all, of every file.")
@click.option("--overwrite", is_flag=True, help="Write again also what somebody edited by hand.")
@click.option("--dry-run", is_flag=True, help="Show the changes and write nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@click.pass_obj
def promote(
    invocation: Invocation,
    ids: tuple[str, ...],
    proven: bool,
    to: "Place | Literal['user'] | None",
    demote: bool,
    overwrite: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Write memories into files that agents read by themselves: skills of Claude Code, or AGENTS.md or CLAUDE.md.

    Memories of one subject become one skill in .claude/skills, or lines of one block; with a chat model of
    chat.providers in its words, which are checked, else in their own. The change is shown, and you are asked. What an
    agent reads there it is not told at its prompts any more; when an error comes again it still is.

    Named again, or without ids, what stands there is written again where its memories changed. What you edited by hand
    stays as it is. --demote gives files back as they were.

    --to user writes no file: it lifts memories into the global scope of the bank, so that every project of it is shown
    them; with --demote they are of their own project again.

    \b
    Examples:
      swarm-memory promote --proven
      swarm-memory promote rm_01J8… rm_01J9…
      swarm-memory promote rm_01J8… --to agents-md --dry-run
      swarm-memory promote --demote rm_01J8…
      swarm-memory promote rm_01J8… --to user
    """
    from swarm_memory.server.cli.promote import Wish, carry_out

    carry_out(invocation, Wish(ids, proven, to, demote, overwrite, dry_run, yes, as_json))


@click.command()
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="A file instead of the output.")
@click.option("--own-only", is_flag=True, help="Leave out the global memories.")
@click.pass_obj
def export(invocation: Invocation, output: Path | None, own_only: bool) -> None:
    """Write all memories, whatever their status, as JSON, one a line.

    \b
    Example:
      swarm-memory export > memories.jsonl
    """
    from swarm_memory.tools.memories.transfer import export_memories

    count = invocation.read(lambda toolbox: write_lines(export_memories(toolbox, with_global=not own_only), output))
    if output is not None:
        say(f"{counted(count, 'memory')} written to {output}.")


@click.command("import")
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--quarantine", is_flag=True, help="Retrieve nothing of it before it is restored.")
@click.option("--all", "everything", is_flag=True, help="Instead: learn from the sessions of every coding agent here.")
@click.option(
    "--months", type=click.FloatRange(0.1, 1200), default=6, show_default=True, help="With --all: how far back."
)
@click.option("--everywhere", is_flag=True, help="With --all: also from sessions of other projects.")
@json_option
@click.pass_obj
def import_(
    invocation: Invocation,
    files: tuple[Path, ...],
    quarantine: bool,
    everything: bool,
    months: float,
    everywhere: bool,
    as_json: bool,
) -> None:
    """Read memories that `export` wrote, of another project or machine; or with --all what agents did.

    What `jq` or another program wrote of an export is read too: one record a line, in an array, or over several lines.

    Doing it again changes nothing: what was read before is known. From transcripts `swarm-memory learn` learns.

    With --all it learns from the sessions that Claude Code, Codex CLI and the other agents on this machine held in this
    project in the last six months, without a model, and ends with a page of what that taught.

    \b
    Examples:
      swarm-memory import memories.jsonl --quarantine
      swarm-memory import --all
    """
    if everything == bool(files):
        raise click.UsageError("give files that `export` wrote, or --all")
    if everything:
        _import_sessions(invocation, months, everywhere, as_json)
        return
    for file in files:
        if not is_export(file):
            raise InputError(
                f"{file} holds no memories that `export` wrote; from transcripts learns `swarm-memory learn`"
            )
    with progress("reading", quiet=as_json) as moved:
        tally = invocation.run(lambda toolbox: import_files(toolbox, files, quarantine, as_report(moved)))
    print_json(as_row(tally)["exports"]) if as_json else _show_exports(tally)
    for name, fault in tally.faults.items():
        click.echo(f"swarm-memory: {name}: {fault}", err=True)
    if tally.faults or any(each.faulty for each in tally.exports.values()):
        sys.exit(1)


def _import_sessions(invocation: Invocation, months: float, everywhere: bool, as_json: bool) -> None:
    from swarm_memory.server.cli.sessions import import_sessions, print_learned, say_learned
    from swarm_memory.server.hosts.transcript import ACCEPTED

    learned = import_sessions(invocation, months, everywhere=everywhere, quiet=as_json)
    print_learned(learned) if as_json else say_learned(learned, months, everywhere=everywhere)
    for name, fault in learned.faults.items():
        click.echo(f"swarm-memory: {name}: {fault.removesuffix(f'; {ACCEPTED}')}", err=True)
    if learned.faults:
        sys.exit(1)


def _show_exports(tally: Tally) -> None:
    for name, each in tally.exports.items():
        say(f"{name}: {counted(each.added, 'memory')} added, {each.known} known already, {each.faulty} faulty.")
        if each.added:
            say(f"    To take it back: swarm-memory memories forget --run {each.run_id}")
        for fault in (*each.faults, *each.notices):
            say(f"    {fault}")
