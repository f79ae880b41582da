"""`promote`: memories written into files that agents read, and taken back."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import click

from swarm_memory.server.cli.changes import carry_out
from swarm_memory.server.cli.command import command
from swarm_memory.server.cli.console import say_notices
from swarm_memory.server.cli.invocation import Invocation
from swarm_memory.server.operations.operation import Word
from swarm_memory.tools.promote.marks import Place

if TYPE_CHECKING:
    from swarm_memory.server.hosts.settings_files import FileChange
    from swarm_memory.tools.promote.promote import Promotion
    from swarm_memory.tools.toolbox import Toolbox

NONE_PROVEN = "no memory is proven yet: too few tasks that used one are known to have succeeded"


@command()
def promote(
    invocation: Invocation,
    ids: Annotated[tuple[str, ...], Word("[ID]...")],
    to: Annotated[Place | None, "Default: skill."] = None,
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

    \b
    Examples:
      swarm-memory promote --proven
      swarm-memory promote rm_01J8… rm_01J9…
      swarm-memory promote rm_01J8… --to agents-md --dry-run
      swarm-memory promote --demote rm_01J8…
    """
    if proven and (ids or demote):
        raise click.UsageError("--proven goes with neither ids nor --demote")
    from swarm_memory.server.hosts.files.skills import plan_demoted, plan_promoted, write_promotion

    root, meant = invocation.root, _ids(invocation, ids, proven)

    async def plan(toolbox: "Toolbox") -> "tuple[Promotion, list[FileChange]]":
        if demote:
            return await plan_demoted(toolbox, root, meant, to, overwrite=overwrite)
        return await plan_promoted(toolbox, root, meant, to or "skill", overwrite=overwrite)

    planned, changes = invocation.run(plan, reads=True)
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

    return invocation.run(look, reads=True)
