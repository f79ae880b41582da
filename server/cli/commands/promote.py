"""`promote`: memories written into files that agents read, or shown in every project; and taken back."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import click

from swarm_memory.server.cli.changes import carry_out
from swarm_memory.server.cli.command import command
from swarm_memory.server.cli.console import print_answer, print_json, say_notices
from swarm_memory.server.cli.invocation import Invocation
from swarm_memory.server.operations.operation import Row, Word

if TYPE_CHECKING:
    from swarm_memory.server.hosts.settings_files import FileChange
    from swarm_memory.tools.promote.promote import Promotion
    from swarm_memory.tools.toolbox import Toolbox

To: TypeAlias = Literal["skill", "agents-md", "claude-md", "user"]

NONE_PROVEN = "no memory is proven yet: too few tasks that used one are known to have succeeded"


@command()
def promote(
    invocation: Invocation,
    ids: Annotated[tuple[str, ...], Word("[ID]...")],
    to: Annotated[To | None, "Default: skill."] = None,
    proven: Annotated[bool, "All that are proven: surely most tasks with them succeeded."] = False,
    demote: Annotated[bool, "Take them out again; without ids all, of every file."] = False,
    overwrite: Annotated[bool, "Write again also what somebody edited by hand."] = False,
    dry_run: Annotated[bool, "Show the changes and write nothing."] = False,
    yes: Annotated[bool, "Do not ask."] = False,
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
    if proven and (ids or demote):
        raise click.UsageError("--proven goes with neither ids nor --demote")
    if to == "user":
        if not ids and not proven:
            raise click.UsageError("name the memories")
        done = _share(invocation, _ids(invocation, ids, proven), demote=demote, dry_run=dry_run, yes=yes)
        print_json(done) if as_json else print_answer(done)
        return
    from swarm_memory.server.hosts.files.skills import plan_demoted, plan_promoted, write_promotion

    root, meant = invocation.root, _ids(invocation, ids, proven)

    async def plan(toolbox: "Toolbox") -> "tuple[Promotion, list[FileChange]]":
        if demote:
            return await plan_demoted(toolbox, root, meant, to, overwrite=overwrite)
        return await plan_promoted(toolbox, root, meant, to or "skill", overwrite=overwrite)

    planned, changes = invocation.read(plan)
    notices = [*planned.notices, *([NONE_PROVEN] if proven and not meant else [])]
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


def _ids(invocation: Invocation, ids: Sequence[str], proven: bool) -> Sequence[str]:
    """Return the memories that are meant: those named, or those proven that are active."""
    if not proven:
        return ids

    async def look(toolbox: "Toolbox") -> list[str]:
        from swarm_memory.tools.promote.paying import proven

        found = await toolbox.store.get_memories((toolbox.scope,), await proven(toolbox))
        return [item.id for item in found if item.status == "active"]

    return invocation.read(look)


def _share(invocation: Invocation, ids: Sequence[str], *, demote: bool, dry_run: bool, yes: bool) -> Row:
    """Have every project of the bank be shown the memories, or with `demote` their own one alone again."""
    from swarm_memory.tools.memories.decide import demote as take_back
    from swarm_memory.tools.memories.decide import promote as lift
    from swarm_memory.tools.memories.edit import get_memories

    if not ids:
        return {"status": "planned", "promoted": [], "notices": [NONE_PROVEN]}

    async def change(toolbox: "Toolbox") -> None:
        for memory_id in ids:
            await (take_back if demote else lift)(toolbox, memory_id)

    found = invocation.read(lambda toolbox: get_memories(toolbox, ids))
    if not dry_run:
        if not (yes or demote):
            named = ", ".join(f"{item.id} {item.title}" for item in found)
            click.confirm(f"Show in every project: {named}?", abort=True, err=True)
        invocation.run(change)
    changed = {"demoted": list(ids)} if demote else {"promoted": [{"id": memory_id} for memory_id in ids]}
    return {"status": "planned" if dry_run else "written", **changed}
