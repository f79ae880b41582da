"""What `promote` shows, asks and writes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import click

from swarm_memory.server.cli.console import print_json, printable, say
from swarm_memory.server.cli.invocation import Invocation

if TYPE_CHECKING:
    from swarm_memory.schema.memory import MemoryItem
    from swarm_memory.server.hosts.settings_files import FileChange
    from swarm_memory.tools.promote.marks import Place
    from swarm_memory.tools.promote.promote import Promotion
    from swarm_memory.tools.toolbox import Toolbox


class Wish(NamedTuple):
    """What was asked for."""

    ids: Sequence[str]
    proven: bool
    to: "Place | Literal['user'] | None"
    demote: bool
    overwrite: bool
    dry_run: bool
    yes: bool
    as_json: bool


def carry_out(invocation: Invocation, wish: Wish) -> None:
    """Show what changes, ask, do it, and note it. Raises `ConfigError`, and as the operations do."""
    if wish.proven and (wish.ids or wish.demote):
        raise click.UsageError("--proven goes with neither ids nor --demote")
    if wish.to != "user":
        _write(invocation, wish, wish.to)
    elif not wish.ids and (wish.demote or not wish.proven):
        raise click.UsageError("name the memories")
    elif wish.demote:
        _take_back(invocation, wish)
    else:
        _lift(invocation, wish)


async def _ids(toolbox: "Toolbox", wish: Wish) -> Sequence[str]:
    """Return the memories that are meant: those named, or those proven that are active."""
    if not wish.proven:
        return wish.ids
    from swarm_memory.tools.promote.paying import proven

    found = await toolbox.store.get_memories((toolbox.scope,), await proven(toolbox))
    return [item.id for item in found if item.status == "active"]


def _lift(invocation: Invocation, wish: Wish) -> None:
    """Lift memories into the user's global scope, so that every project of the bank is shown them."""
    from swarm_memory.tools.memories.decide import promote
    from swarm_memory.tools.memories.edit import get_memories

    async def look(toolbox: "Toolbox") -> "list[MemoryItem]":
        ids = await _ids(toolbox, wish)
        return await get_memories(toolbox, ids) if ids else []

    found = invocation.read(look)
    for item in () if wish.as_json else found:
        say(f"{item.id}  {item.title}", bold=True)
    is_done = bool(found) and not wish.dry_run
    if is_done:
        if not wish.yes:
            click.confirm(f"Show {'it' if len(found) == 1 else 'them'} in every project?", abort=True, err=True)

        async def lift_all(toolbox: "Toolbox") -> None:
            for item in found:
                await promote(toolbox, item.id)

        invocation.run(lift_all)
    if wish.as_json:
        rows = [{"id": item.id} for item in found]
        print_json({"status": "written" if is_done else "planned", "promoted": rows})
    elif not found:
        say("No memory is proven yet.")
    else:
        say(f"{len(found)} shown in every project from now on." if is_done else "Nothing was written.")


def _take_back(invocation: Invocation, wish: Wish) -> None:
    from swarm_memory.tools.memories.decide import demote

    async def take_all_back(toolbox: "Toolbox") -> None:
        for memory_id in wish.ids:
            await demote(toolbox, memory_id)

    if wish.dry_run:
        raise click.UsageError("--dry-run has nothing to show here")
    invocation.run(take_all_back)
    if wish.as_json:
        print_json({"status": "written", "demoted": list(wish.ids)})
    else:
        say(f"{len(wish.ids)} of this project alone again.")


def _write(invocation: Invocation, wish: Wish, place: "Place | None") -> None:
    """Write memories into files, or take them out."""
    from swarm_memory.server.hosts.files.skills import plan_demoted, plan_promoted, write_promotion

    root = invocation.root

    async def plan(toolbox: "Toolbox") -> "tuple[Promotion, list[FileChange]]":
        if wish.demote:
            return await plan_demoted(toolbox, root, wish.ids, place, overwrite=wish.overwrite)
        ids = await _ids(toolbox, wish)
        done, changes = await plan_promoted(toolbox, root, ids, place or "skill", overwrite=wish.overwrite)
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


def _show(done: "Promotion", changes: "Sequence[FileChange]") -> None:
    for change in changes:
        for line in change.diff().splitlines():
            colour = {"+": "green", "-": "red"}.get(line[:1])
            click.secho(printable(line), fg=colour)
    for memory_id, why in done.left.items():
        say(f"{memory_id} is not promoted: {why}", fg="yellow")
    for notice in done.notices:
        say(f"Note: {notice}", fg="yellow")
