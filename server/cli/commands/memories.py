"""`retrieve`, `pre-task`, `remember`, `memories`, `promote`: memories found, kept, corrected, forgotten, and
written into files that agents read.
"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import click
from pydantic import Field

from swarm_memory.schema.base import counted
from swarm_memory.schema.errors import ConfigError, InputError
from swarm_memory.server.cli.command import Yes, command, command_of
from swarm_memory.server.cli.console import print_answer, say, say_notices
from swarm_memory.server.cli.file_changes import carry_out
from swarm_memory.server.cli.invocation import Invocation
from swarm_memory.server.location import address_of_pages
from swarm_memory.server.operations import memories as operations
from swarm_memory.server.operations.operation import Positional, Row, row

if TYPE_CHECKING:
    from swarm_memory.server.hosts.settings_files import FileChange
    from swarm_memory.tools.promote.promote import Promotion
    from swarm_memory.tools.toolbox import Toolbox


SHOWN = 10
"""At most this many memories are named before they are deleted."""

Ids: TypeAlias = Annotated[tuple[str, ...], Positional("[ID]...")]

retrieve = command_of(
    operations.RETRIEVE,
    "retrieve",
    examples=('retrieve "the login form test is flaky"', 'retrieve "add an index" -k 5 --tag postgres --json'),
)


@command(show=lambda found: say(found.preamble) if found.preamble else None)
async def pre_task(
    site: Invocation,
    task_id: Annotated[str, Field(min_length=1, max_length=500, description="Your id for the task, as for post-task.")],
    query: Annotated[str, "The task, in its original words."],
    k: Annotated[int | None, Field(ge=1, le=50, description="Maximum number; 3 by default."), "-k"] = None,
    wanted: Annotated[Literal["true", "false"], "false: print nothing.", "--retrieve-reasoningbank"] = "true",
) -> operations.RetrieveAnswer:
    """For agents without hooks: print what to put into the prompt before a task starts.

    Prints nothing when nothing fits.

    \b
    Example:
      swarm-memory pre-task --task-id T-17 --query "make the importer handle empty files"
    """
    if wanted == "false":
        raise click.exceptions.Exit(0)
    return await operations.retrieve_memories(site, query, k, task_id=task_id)


remember = command_of(
    operations.REMEMBER,
    "remember",
    help="""Keep what you say as your own word: it outranks what was learned, and never fades.

    - reads it from standard input.""",
    examples=(
        'remember "We use pnpm here, never npm" --kind convention',
        'remember "Answer in German" --kind preference --scope global',
    ),
)

memories = click.Group(
    "memories",
    help="""List, show, edit, quarantine, restore, forget, export or import memories.

    \b
    Examples:
      swarm-memory memories list --status quarantined
      swarm-memory memories edit rm_01J8… --title "Run migrations before the tests"
      swarm-memory memories forget rm_01J8…
      swarm-memory memories forget --run run_01J8…
    """,
)


def _memories(answer: Row) -> Any:
    return answer.get("memories", answer)


def _show_list(answer: Row) -> None:
    long = {"description", "content", "provenance"}
    short = [{name: value for name, value in each.items() if name not in long} for each in answer["memories"]]
    _show({**answer, "memories": short or "none (`swarm-memory status` counts those that are not in use)"})


def _show(answer: Row) -> None:
    print_answer({name: value for name, value in answer.items() if name != "action"})


command_of(
    operations.MANAGE,
    "list",
    of=memories,
    fixed={"action": "list"},
    takes=("status", "domain", "tags", "task_id", "text", "limit", "offset"),
    help="List this project's memories and global ones, newest first; active ones unless --status says otherwise.",
    show=_show_list,
    json=_memories,
)

command_of(
    operations.MANAGE,
    "edit",
    of=memories,
    fixed={"action": "edit"},
    takes=("ids", "title", "description", "content", "tags", "domain", "reason", "confirm"),
    json=lambda answer: answer["memories"][0],
    help="""Change a memory; its history keeps the previous text.

    --confirm turns an agent's note into your own word: it outranks what was learned, and never fades.""",
)

command_of(
    operations.MANAGE,
    "restore",
    of=memories,
    fixed={"action": "restore"},
    takes=("ids", "run_id", "reason"),
    help="Restore quarantined or archived memories, so that they are retrieved again.",
)


@command(of=memories, show=_show, json=_memories)
async def show(
    site: Invocation, ids: Ids, history: Annotated[bool, "Show what happened to one memory instead."] = False
) -> Row:
    """Show memories with their steps and where they came from; `swarm-memory show ID` does the same.

    While `swarm-memory ui` runs, the addresses of their pages are shown too.
    """
    answer = await operations.manage_memories(site, "history" if history else "get", list(ids))
    address = address_of_pages(site.place.database)
    return {**answer, "pages": [f"{address}/ui/memories/{each}" for each in ids]} if address else answer


@command(of=memories, show=print_answer)
async def quarantine(
    site: Invocation,
    ids: Ids,
    run_id: operations.OfRun = None,
    reason: Annotated[str | None, "Why; kept in the history."] = None,
    archive: Annotated[bool, "Archive them instead, so that nobody needs to look at them."] = False,
) -> Row:
    """Withdraw memories until somebody has looked at them; they are kept but not retrieved."""
    action = "archive" if archive else "quarantine"
    return await operations.manage_memories(site, action, list(ids), reason=reason, run_id=run_id)


@command(of=memories, show=print_answer)
def forget(
    invocation: Invocation,
    ids: Ids,
    run_id: operations.OfRun = None,
    with_trajectories: Annotated[bool, "Delete their task records even where other memories depend on them."] = False,
    person: Annotated[str | None, "Instead: someone on the team, with everything they brought."] = None,
    tools: Annotated[tuple[str, ...], "Instead: everything known about this tool; `*` means all tools.", "--tool"] = (),
    yes: Yes = False,
) -> Row:
    """Delete memories for good: rows, indexes, earlier texts, the records of their tasks with the tool calls logged in
    them, whatever quotes them elsewhere, and the backups next to the bank that hold them.

    Only the label and digest of a task stay, so that its transcript is not learned from again. If a memory that stays
    came from the same task, the task's record stays too and that memory is named. This cannot be undone.

    With --person, that person also loses access, and their name is removed from the audit trail.
    """
    if (bool(ids or run_id), person is not None, bool(tools)).count(True) != 1:
        raise click.UsageError("give either memory ids or --run, or --person, or --tool")
    if tools:
        _ask(yes, "Delete calls, totals and summaries for good?")
        names = None if tools == ("*",) else tools
        count = invocation.run(lambda toolbox: toolbox.store.tool_memory.forget_tools(toolbox.scope, names), reads=True)
        return {"forgotten": count}
    if person is not None:
        from swarm_memory.tools.team.people import find_person, forget_person

        name = invocation.run(lambda toolbox: find_person(toolbox, person)).name
        _ask(yes, f"Delete {name} and everything they brought for good?")
        done = invocation.run(lambda toolbox: forget_person(toolbox, person))
        return {"person": person, "forgotten": len(done.ids), "records": done.records, "alike": done.alike}
    manage = partial(operations.manage_memories, ids=list(ids), run_id=run_id)
    if not yes:  # what would be deleted is shown, so that nobody agrees to more than was meant
        found = invocation.call(partial(manage, action="get"))["memories"]
        for each in found[:SHOWN]:
            say(f"  {each['id']}  {each['title']}", err=True)
        _ask(yes, f"Delete {counted(len(found), 'memory')} for good, with every trace?")
    return invocation.call(partial(manage, action="forget", with_trajectories=with_trajectories))


def _ask(yes: bool, question: str) -> None:
    if not yes:
        click.confirm(question, abort=True, err=True)


@command(of=memories, name="export")
async def export_command(
    site: Invocation,
    output: Annotated[Path | None, "Write to this file instead of standard output.", "-o", "--output"] = None,
    own_only: Annotated[bool, "Leave out the global memories."] = False,
) -> None:
    """Write all memories, whatever their status, as JSON, one per line. `swarm-memory import` reads them."""
    from swarm_memory.tools.memories.transfer import export_memories

    toolbox, count = await site.for_reading(), 0
    try:
        with click.open_file(str(output or "-"), "w", encoding="utf-8", atomic=output is not None) as file:
            async for line in export_memories(toolbox, with_global=not own_only):
                file.write(line + "\n")
                count += 1
    except OSError as error:
        if output is None:
            raise  # a pipe that nobody reads any more
        raise ConfigError(f"{output} cannot be written: {error.strerror}") from error
    if output is not None:
        say(f"{counted(count, 'memory')} written to {output}.")


@command(
    of=memories,
    name="import",
    show=lambda answer: print_answer(answer["exports"]),
    failed=lambda answer: bool(answer["faults"]),
)
async def import_command(
    site: Invocation,
    files: Annotated[tuple[Path, ...], Positional("FILE...", click.Path(exists=True, path_type=Path))],
    quarantine: Annotated[bool, "Retrieve none of them until they are restored."] = False,
) -> Row:
    """Read memories that `memories export` wrote in another project or on another machine.

    Doing it again changes nothing: what was read before is skipped. To learn from sessions, use `swarm-memory learn`.
    `swarm-memory memories forget --run`, with the run that this command names, deletes what a file brought.
    """
    from swarm_memory.server.cli.commands.learn import say_faults
    from swarm_memory.server.jobs.transcripts import as_row, import_files, is_memory_export

    for file in files:
        if file.is_dir() or not is_memory_export(file):
            what = "is a folder" if file.is_dir() else "holds no memories written by `memories export`"
            raise InputError(f"{file} {what}; `swarm-memory learn` reads sessions, also from folders")
    tally = await import_files(await site.toolbox(), files, quarantine, site.report)
    faulty = {name: f"{each.faulty} faulty" for name, each in tally.exports.items() if each.faulty}
    answer = row(exports=as_row(tally)["exports"], faults=faulty | tally.faults)
    say_faults(answer["faults"])
    return answer


@command(show=print_answer)
async def mirror(
    site: Invocation,
    folder: Annotated[str | None, Positional("[FOLDER]")] = None,
    now: Annotated[bool, "Only write and read the files of the existing mirror."] = False,
    off: Annotated[bool, "Stop mirroring; the files stay."] = False,
) -> Row:
    """Keep each active memory of this project as a Markdown file in FOLDER, or `.swarm/memories` if none is named.

    The files are written after each change. What you edit, add or delete there is read when a server starts or this
    command runs; a deleted file's memory is archived. What a commit brought waits for your review.
    """
    from swarm_memory.server.mirror.mirror import DEFAULT, MIRROR, mirror_folder, switch

    if (folder is not None) + now + off > 1:
        raise click.UsageError("FOLDER, --now and --off cannot be combined")
    if off:
        switch(site.root, "")
        return {"mirror": "off"}
    toolbox = await site.toolbox()
    if not now:
        switch(site.root, folder or mirror_folder(toolbox) or DEFAULT)
    return await site.work(MIRROR, {"reads": True})


@command()
def promote(
    invocation: Invocation,
    ids: Annotated[tuple[str, ...], Positional("[ID]...")],
    proven: Annotated[bool, "All proven memories: most tasks that used them succeeded, with 95 % confidence."] = False,
    demote: Annotated[bool, "Remove them from the skills again; without ids, all of them."] = False,
    overwrite: Annotated[bool, "Also overwrite what somebody edited by hand."] = False,
    dry_run: Annotated[bool, "Show the changes and write nothing."] = False,
    yes: Yes = False,
    as_json: bool = False,
) -> None:
    """Write memories into Claude Code skills, which it reads by itself.

    Memories on one subject become one skill in .claude/skills, in their own words. The change is shown, and you are
    asked. What an agent reads there is no longer shown at its prompts, but still is when an error occurs again.

    Run again (with or without ids), it rewrites skills whose memories changed. What you edited by hand stays as it is.
    --demote restores the files to what they were.

    \b
    Examples:
      swarm-memory promote --proven
      swarm-memory promote rm_01J8… rm_01J9…
      swarm-memory promote rm_01J8… --dry-run
      swarm-memory promote --demote rm_01J8…
    """
    if proven and (ids or demote):
        raise click.UsageError("--proven cannot be combined with ids or --demote")
    from swarm_memory.server.hosts.files.skills import plan_demoted, plan_promoted, write_promotion
    from swarm_memory.tools.promote.promote import proven as all_proven

    root, meant = invocation.root, list(ids)

    async def plan(toolbox: "Toolbox") -> "tuple[Promotion, list[FileChange]]":
        if proven:
            found = await toolbox.store.get_memories((toolbox.scope,), await all_proven(toolbox))
            meant.extend(item.id for item in found if item.status == "active")
        if demote:
            return await plan_demoted(toolbox, root, meant, overwrite=overwrite)
        return await plan_promoted(toolbox, root, meant, overwrite=overwrite)

    planned, changes = invocation.run(plan, reads=True)
    notices = list(planned.notices)
    if proven and not meant:
        notices.append("no memory is proven yet: too few tasks that used one are known to have succeeded")
    elif not (meant or demote or changes):
        notices.append("without ids, only what was promoted before is written again: give ids, or --proven")
    if not as_json:
        say_notices([*(f"{memory_id} is not promoted: {why}" for memory_id, why in planned.left.items()), *notices])
    carry_out(
        changes,
        "written",
        dry_run=dry_run,
        as_json=as_json,
        asks=not yes,
        write=lambda changes: invocation.run(lambda toolbox: write_promotion(toolbox, root, planned, changes)),
        promoted=sorted(planned.added),
        demoted=sorted(planned.taken_out),
        left=planned.left,
        notices=notices,
    )
