"""What `promote` shows, asks and writes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from swarm_memory.server.cli.console import print_json, printable, say
from swarm_memory.server.cli.invocation import Invocation

if TYPE_CHECKING:
    from swarm_memory.server.hosts.settings_files import FileChange
    from swarm_memory.tools.promote.marks import Place
    from swarm_memory.tools.promote.promote import Promotion
    from swarm_memory.tools.toolbox import Toolbox


class Wish(NamedTuple):
    """What was asked for."""

    ids: Sequence[str]
    proven: bool
    to: "Place | None"
    demote: bool
    overwrite: bool
    dry_run: bool
    yes: bool
    as_json: bool


def carry_out(invocation: Invocation, wish: Wish) -> None:
    """Show what changes, ask, write it, and note it. Raises `ConfigError`, and as the operations do."""
    from swarm_memory.server.hosts.files.skills import plan_demoted, plan_promoted, write_promotion

    if wish.proven and (wish.ids or wish.demote):
        raise click.UsageError("--proven goes with neither ids nor --demote")
    root = invocation.root

    async def plan(toolbox: "Toolbox") -> "tuple[Promotion, list[FileChange]]":
        if wish.demote:
            return await plan_demoted(toolbox, root, wish.ids, wish.to, overwrite=wish.overwrite)
        ids = await _proven(toolbox) if wish.proven else wish.ids
        done, changes = await plan_promoted(toolbox, root, ids, wish.to or "skill", overwrite=wish.overwrite)
        if wish.proven and not ids:
            done.notices.append("no memory is proven yet: too few tasks that used one are known to have succeeded")
        return done, changes

    done, changes = invocation.read(plan)
    if not wish.as_json:
        _show(done, changes)
    copies: list[str] = []
    if changes and not wish.dry_run:
        if not wish.yes:
            click.confirm("Write this?", abort=True, err=True)
        copies = [str(path) for path in invocation.run(lambda tools: write_promotion(tools, root, done, changes))]
    status = "nothing to change" if not changes else "planned" if wish.dry_run else "written"
    if wish.as_json:
        files = [{"path": str(change.path), "diff": change.diff()} for change in changes]
        told = {"promoted": sorted(done.added), "demoted": sorted(done.taken_out), "left": done.left}
        print_json({"status": status, **told, "notices": done.notices, "files": files, "backups": copies})
        return
    for change in changes if status == "written" else ():
        say(f"{'Removed' if change.after is None else 'Wrote'} {change.path}")
    for copy in copies:
        say(f"A copy of what stood there is {copy}", dim=True)
    if status != "written":
        say("Nothing was written." if changes else "Nothing to change.")


async def _proven(toolbox: "Toolbox") -> list[str]:
    from swarm_memory.tools.promote.paying import proven

    found = await toolbox.store.get_memories((toolbox.scope,), await proven(toolbox))
    return [item.id for item in found if item.status == "active"]


def _show(done: "Promotion", changes: "Sequence[FileChange]") -> None:
    for change in changes:
        for line in change.diff().splitlines():
            colour = {"+": "green", "-": "red"}.get(line[:1])
            click.secho(printable(line), fg=colour)
    for memory_id, why in done.left.items():
        say(f"{memory_id} is not promoted: {why}", fg="yellow")
    for notice in done.notices:
        say(f"Note: {notice}", fg="yellow")
