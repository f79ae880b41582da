"""`retrieve`, `pre-task`, `remember`, `memories` and `promote`: memories found, kept, mended and forgotten."""

import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias, TypeVar

import click
from pydantic import Field

from swarm_memory.schema.base import counted, plural
from swarm_memory.schema.memory import Kind, MemoryItem, MemoryStatus, Retrieval
from swarm_memory.server.cli.command import A_FILE, command, command_of
from swarm_memory.server.cli.console import print_json, say, write_lines
from swarm_memory.server.cli.invocation import Invocation
from swarm_memory.server.operations.memories import RETRIEVE, Found
from swarm_memory.server.operations.operation import Flag, Word

if TYPE_CHECKING:
    from swarm_memory.tools.memories.remember import Remembered
    from swarm_memory.tools.ports.journal import Event
    from swarm_memory.tools.ports.memories import Forgotten
    from swarm_memory.tools.toolbox import Toolbox

T = TypeVar("T")

SHOWN = 10
"""So many memories are named before they are deleted."""

Ids: TypeAlias = Annotated[tuple[str, ...], Word("ID...")]
Chosen: TypeAlias = Annotated[tuple[str, ...], Word("[ID]...")]
OfRun: TypeAlias = Annotated[str | None, "All that this run of learning, scaling or importing added.", "--run"]
Id: TypeAlias = Annotated[str, Word("ID")]
Reason: TypeAlias = Annotated[str | None, "Why; kept in the history."]
Yes: TypeAlias = Annotated[bool, "Do not ask."]


def show_retrieval(found: Found, *, scores: Annotated[bool, "Show how each score came to be."] = False) -> None:
    """Print what was found for people."""
    result = found.retrieval
    for memory in result.memories:
        item, parts = memory.item, memory.parts
        say(f"{memory.score:.3f}  {item.title}", bold=True)
        say(f"       {item.id} · {item.outcome} · {item.scope.project}", dim=True)
        if scores:
            made = f"relevance {parts.relevance:.3f}, recency {parts.recency:.3f}, confidence {parts.confidence:.3f}"
            say(f"       {made}, less {parts.diversity_penalty:.3f} for likeness", dim=True)
            say(f"       cosine {_number(parts.cosine)}, keyword {_number(parts.keyword)}", dim=True)
        for line in item.content.splitlines():
            say(f"       {line}")
    if result.reason:
        say(result.reason)
    if result.nearest is not None:
        near = result.nearest
        say(f"Nearest: {near.title} (cosine {_number(near.cosine)}, keyword coverage {near.keyword_coverage:.2f})")
    for notice in result.notices:
        say(f"Note: {notice}", fg="yellow")
    say(f"{', '.join(result.legs)} · {result.embedder} · {result.latency_ms:.1f} ms · {result.retrieval_id}", dim=True)


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.2f}"


retrieve = command_of(
    RETRIEVE,
    "retrieve",
    show=show_retrieval,
    json=lambda found: found.retrieval,
    examples=('retrieve "the login form test is flaky"', 'retrieve "add an index" -k 5 --tag postgres --json'),
)


@command(reads=True, show=lambda found: say(found.preamble) if found.preamble else None)
async def pre_task(
    toolbox: "Toolbox",
    task_id: Annotated[str, "Your id of the task; give it to post-task again."],
    query: Annotated[str, "The task, in its own words."],
    k: Annotated[int | None, Field(ge=1, le=50, description="How many at most; 3 by default."), "-k"] = None,
) -> Retrieval:
    """For agents without hooks: print what to put into the prompt before a task starts.

    Prints nothing when nothing fits. What the task itself taught before is left out.

    \b
    Example:
      swarm-memory pre-task --task-id T-17 --query "make the importer handle empty files"
    """
    from swarm_memory.tools.ports.memories import SearchFilter
    from swarm_memory.tools.retrieve.retrieve import retrieve as operation

    return await operation(toolbox, query, k=k, only=SearchFilter(exclude_task=task_id), task_id=task_id)


def _show_remembered(done: "Remembered") -> None:
    say(f"{'Kept' if done.is_new else 'Known already'}: {done.item.title}", bold=True)
    say(f"  {_stands_in_short(done.item)}")
    for notice in done.notices:
        say(f"  {notice}", fg="yellow")


@command(show=_show_remembered, json=lambda done: {"memory": done.item, "new": done.is_new, "notices": done.notices})
async def remember(
    toolbox: "Toolbox",
    text: Annotated[tuple[str, ...], Word("TEXT...")],
    kind: Annotated[Kind, "What it is."] = "fact",
    scope: Annotated[Literal["project", "global"], "For this project, or for all of yours."] = "project",
) -> "Remembered":
    """Keep what you say, as your own word: it goes before what was learned, and it never fades.

    - reads it from standard input.

    \b
    Examples:
      swarm-memory remember "We use pnpm here, never npm" --kind convention
      swarm-memory remember "Answer in German" --kind preference --scope global
    """
    from swarm_memory.tools.memories.remember import remember as keep

    said = sys.stdin.read() if text == ("-",) else " ".join(text)
    return await keep(toolbox, said, kind, everywhere=scope == "global", by_hand=True)


memories = click.Group(
    "memories",
    help="""List, get, edit, quarantine, restore, forget or export memories.

    \b
    Examples:
      swarm-memory memories list --status quarantined
      swarm-memory memories edit rm_01J8… --title "Run migrations before the tests"
      swarm-memory memories forget rm_01J8…
      swarm-memory memories forget --run run_01J8…
    """,
)


class Listed(NamedTuple):
    """A part of the list of memories, and from where on there are more; None: it is the last."""

    items: list[MemoryItem]
    next_offset: int | None


def _show_list(listed: Listed) -> None:
    for item in listed.items:
        say(item.title, bold=True)
        say(f"  {_stands_in_short(item)}")
    if not listed.items:
        say("No memories.")
    elif listed.next_offset is not None:
        say(f"There are more: --offset {listed.next_offset} shows the next ones, --limit up to 500.", fg="yellow")


@command(of=memories, name="list", reads=True, show=_show_list, json=lambda listed: listed.items)
async def list_command(
    toolbox: "Toolbox",
    statuses: Annotated[tuple[MemoryStatus, ...], "Default: active.", "--status"] = (),
    domain: Annotated[str | None, "Only of this domain."] = None,
    tags: Annotated[tuple[str, ...], "Only with this tag; repeatable.", "--tag"] = (),
    task_id: Annotated[str | None, "Only what this task taught."] = None,
    text: Annotated[str | None, "Only with this in title or content."] = None,
    limit: Annotated[int, Field(ge=1, le=500)] = 50,
    offset: Annotated[int, Field(ge=0)] = 0,
) -> Listed:
    """List memories of this project and the global ones, newest first; quarantined and archived ones too."""
    from swarm_memory.tools.memories.edit import MAX_OFFSET, list_memories
    from swarm_memory.tools.ports.memories import MemoryFilter

    which = MemoryFilter(statuses or ("active",), domain, tags, task_id, text, limit=limit, offset=offset)
    items = await list_memories(toolbox, which)
    beyond = which._replace(limit=1, offset=min(offset + limit, MAX_OFFSET))
    has_more = len(items) == limit and bool(await list_memories(toolbox, beyond))
    return Listed(items, offset + limit if has_more else None)


@command(of=memories, name="get")
def get_command(
    invocation: Invocation,
    ids: Ids,
    history: Annotated[bool, "Show what happened to one instead."] = False,
    as_json: bool = False,
) -> None:
    """Show memories with their steps and where they came from."""
    from swarm_memory.tools.memories.edit import get_memories, memory_history, with_authors

    if history:
        if len(ids) != 1:
            raise click.UsageError("--history is of one memory")
        _show_history(invocation.read(lambda toolbox: memory_history(toolbox, ids[0])), as_json)
        return

    async def operate(toolbox: "Toolbox") -> list[MemoryItem]:
        return await with_authors(toolbox, await get_memories(toolbox, ids))

    found = invocation.read(operate)
    if as_json:
        print_json(found)
        return
    for item in found:
        _show(item)


def _show_history(events: "Sequence[Event]", as_json: bool) -> None:
    if as_json:
        print_json([{"at": event.at.isoformat(), "kind": event.kind, "data": dict(event.data)} for event in events])
        return
    for event in events:
        say(f"{event.at:%F %T}  {event.kind.removeprefix('reasoning_memory.')}  {_told(event.data)}")


def _told(data: "Mapping[str, Any]") -> str:
    """Return what an event holds in one line; of what stood there before the title and the status. JSON has all."""
    before = json.loads(data["pattern_data"]) if "pattern_data" in data else data.get("former", {})
    former = {f"former {name}": before[name] for name in ("title", "status") if name in before}
    left_out = {"pattern_data", "former", "after", "links"}
    rest = {name: value for name, value in data.items() if name not in left_out and value is not None}
    return ", ".join(f"{name} {value}" for name, value in (former | rest).items())


def _show_edited(item: MemoryItem) -> None:
    from swarm_memory.tools.guard.gate import notice_of

    _show(item)
    if notice := notice_of([item]):
        say(f"  {notice}", fg="yellow")


@command(of=memories, name="edit", show=_show_edited)
async def edit_command(
    toolbox: "Toolbox",
    memory_id: Id,
    title: Annotated[str | None, "What to do, or not to."] = None,
    description: Annotated[str | None, "When it is of use."] = None,
    content: Annotated[str | None, "The steps; - reads them from standard input."] = None,
    tags: Annotated[tuple[str, ...], "Its tags from now on; repeatable.", "--tag"] = (),
    domain: Annotated[str | None, "Such as python.testing; empty takes it away."] = None,
    reason: Reason = None,
    confirm: Annotated[bool, "Say that an agent's note is your own word."] = False,
) -> MemoryItem:
    """Change a memory; the former text stays in its history.

    --confirm makes a note that an agent brought your own word: it goes before what was learned, and it never fades.
    """
    from swarm_memory.tools.memories.decide import MemoryChange, edit
    from swarm_memory.tools.memories.decide import confirm as confirm_word

    if confirm:
        done = await confirm_word(toolbox, memory_id)
    else:
        steps = sys.stdin.read() if content == "-" else content
        change = MemoryChange(title, description, steps, tags or None, domain)
        done = await edit(toolbox, memory_id, change, reason)
    (item,) = done.items
    return item


def _set_status(
    invocation: Invocation, chosen: tuple[Sequence[str], str | None], status: MemoryStatus, reason: str | None
) -> dict[str, int]:
    from swarm_memory.tools.memories.decide import Decided, set_memory_status

    def change(toolbox: "Toolbox", some: "Sequence[str]") -> "Awaitable[Decided]":
        return set_memory_status(toolbox, some, status, reason)

    count = sum(len(done.items) for done in _in_parts(invocation, change, chosen))
    return {"restored" if status == "active" else status: count}


def _show_counts(counts: Mapping[str, int]) -> None:
    for done, count in counts.items():
        say(f"{count} {done}.")


@command(of=memories, name="quarantine", show=_show_counts)
def quarantine_command(
    invocation: Invocation,
    ids: Chosen,
    run_id: OfRun = None,
    reason: Reason = None,
    archive: Annotated[bool, "Put them away for good instead: nobody need look at them."] = False,
) -> dict[str, int]:
    """Withdraw memories until somebody has looked at them; they are kept and not retrieved."""
    return _set_status(invocation, (ids, run_id), "archived" if archive else "quarantined", reason)


@command(of=memories, name="restore", show=_show_counts)
def restore_command(invocation: Invocation, ids: Chosen, run_id: OfRun = None, reason: Reason = None) -> dict[str, int]:
    """Have memories retrieved again that were quarantined or archived."""
    return _set_status(invocation, (ids, run_id), "active", reason)


@command(of=memories, name="forget")
def forget_command(
    invocation: Invocation,
    ids: Chosen,
    run_id: OfRun = None,
    with_trajectories: Annotated[
        bool, "Take the records of their tasks even where other memories rest on them."
    ] = False,
    person: Annotated[str | None, "Somebody of the team with all that they brought."] = None,
    tools: Annotated[tuple[str, ...], "Instead: all that is known of this tool, or of `*` all.", "--tool"] = (),
    yes: Yes = False,
    as_json: bool = False,
) -> None:
    """Delete memories for good: rows, indexes, former texts, the records of their tasks with the tool calls logged in
    them, what quotes them elsewhere, and the backups beside the bank that hold them.

    Of a task only label and digest stay, so that its transcript does not teach it again. Where a memory that stays
    was drawn from the same task, its record stays and that memory is named. This cannot be undone.

    With --person nobody of that name comes in any more, and in the audit trail nobody is named in their place.
    """
    from swarm_memory.server.hosts.files.promoted import promoted_for
    from swarm_memory.tools.memories.edit import forget_memories, joined, what_stayed

    if person is not None or tools:
        if ids or run_id or (person and tools):
            raise click.UsageError("--person and --tool each take all that there is: no ids and no --run")
        _forget_person(invocation, person, yes, as_json) if person else _forget_tools(invocation, tools, yes, as_json)
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


def _forget_tools(invocation: Invocation, tools: tuple[str, ...], yes: bool, as_json: bool) -> None:
    if not yes:
        click.confirm("Delete calls, totals and summaries for good?", abort=True, err=True)
    names = None if tools == ("*",) else tools
    count = invocation.read(lambda toolbox: toolbox.store.tool_memory.forget_tools(toolbox.scope, names))
    print_json({"forgotten": count}) if as_json else say(f"{counted(count, 'tool')} forgotten.")


def _ask_to_forget(invocation: Invocation, chosen: tuple[tuple[str, ...], str | None]) -> None:
    """Show what would be deleted, so that nobody agrees to more than was meant."""
    from swarm_memory.tools.memories.edit import get_memories

    found = [item for part in _in_parts(invocation, get_memories, chosen) for item in part]
    for item in found[:SHOWN]:
        say(f"  {item.id}  {item.title}", err=True)
    if len(found) > SHOWN:
        say(f"  … and {len(found) - SHOWN} more", err=True)
    click.confirm(f"Delete {counted(len(found), 'memory')} for good, with every trace?", abort=True, err=True)


@command(of=memories, name="export")
def export_command(
    invocation: Invocation,
    output: Annotated[Path | None, "A file instead of the output.", "-o", "--output", Flag(type=A_FILE)] = None,
    own_only: Annotated[bool, "Leave out the global memories."] = False,
) -> None:
    """Write all memories, whatever their status, as JSON, one a line. `swarm-memory import` reads it.

    \b
    Example:
      swarm-memory memories export > memories.jsonl
    """
    from swarm_memory.tools.memories.transfer import export_memories

    count = invocation.read(lambda toolbox: write_lines(export_memories(toolbox, with_global=not own_only), output))
    if output is not None:
        say(f"{counted(count, 'memory')} written to {output}.")


def _in_parts(
    invocation: Invocation,
    operation: "Callable[[Toolbox, Sequence[str]], Awaitable[T]]",
    chosen: tuple[Sequence[str], str | None],
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


@command()
def promote(
    invocation: Invocation,
    ids: Chosen,
    to: Annotated[Literal["skill", "agents-md", "claude-md", "user"] | None, "Default: skill."] = None,
    proven: Annotated[bool, "All that are proven: surely most tasks with them succeeded."] = False,
    demote: Annotated[bool, "Take them out again; without ids all, of every file."] = False,
    overwrite: Annotated[bool, "Write again also what somebody edited by hand."] = False,
    dry_run: Annotated[bool, "Show the changes and write nothing."] = False,
    yes: Yes = False,
    as_json: bool = False,
) -> None:
    """Write memories into files that agents read by themselves: skills of Claude Code, or AGENTS.md or CLAUDE.md.

    Memories of one subject become one skill in .claude/skills, or lines of one block, in their own words. The change
    is shown, and you are asked. What an agent reads there it is not shown at its prompts any more; when an error comes
    again it still is.

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
