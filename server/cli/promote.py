"""What `promote` shows, asks and writes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import click

from swarm_memory.server.cli.changes import carry_out as write_changes
from swarm_memory.server.cli.console import print_answer, print_json, say, say_notices
from swarm_memory.server.cli.invocation import Invocation

if TYPE_CHECKING:
    from swarm_memory.server.hosts.settings_files import FileChange
    from swarm_memory.tools.promote.marks import Place
    from swarm_memory.tools.promote.promote import Promotion
    from swarm_memory.tools.toolbox import Toolbox

NONE_PROVEN = "no memory is proven yet: too few tasks that used one are known to have succeeded"


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
    elif not wish.ids and not wish.proven:
        raise click.UsageError("name the memories")
    else:
        _share(invocation, wish)


async def _ids(toolbox: "Toolbox", wish: Wish) -> list[str]:
    """Return the memories that are meant: those named, or those proven that are active."""
    if not wish.proven:
        return list(wish.ids)
    from swarm_memory.tools.promote.paying import proven

    found = await toolbox.store.get_memories((toolbox.scope,), await proven(toolbox))
    return [item.id for item in found if item.status == "active"]


def _share(invocation: Invocation, wish: Wish) -> None:
    """Have every project of the bank be shown the memories, or with `demote` their own one alone again."""
    from swarm_memory.tools.memories.decide import demote, promote
    from swarm_memory.tools.memories.edit import get_memories

    async def look(toolbox: "Toolbox") -> dict[str, str]:
        ids = await _ids(toolbox, wish)
        return {item.id: item.title for item in await get_memories(toolbox, ids)} if ids else {}

    async def change(toolbox: "Toolbox") -> None:
        for memory_id in titles:
            await (demote if wish.demote else promote)(toolbox, memory_id)

    titles = invocation.read(look)
    if titles and not wish.dry_run:
        if not (wish.yes or wish.demote):
            named = ", ".join(f"{memory_id} {title}" for memory_id, title in titles.items())
            click.confirm(f"Show in every project: {named}?", abort=True, err=True)
        invocation.run(change)
    status = "planned" if wish.dry_run or not titles else "written"
    changed = {"demoted": list(titles)} if wish.demote else {"promoted": [{"id": memory_id} for memory_id in titles]}
    if wish.as_json:
        print_json({"status": status, **changed})
    else:
        print_answer({"status": status, **changed}) if titles else say(f"Nothing was written: {NONE_PROVEN}.")


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
            done.notices.append(NONE_PROVEN)
        return done, changes

    done, changes = invocation.read(plan)
    if not wish.as_json:
        say_notices([f"{memory_id} is not promoted: {why}" for memory_id, why in done.left.items()])
        say_notices(done.notices)
    write_changes(
        changes,
        "written",
        dry_run=wish.dry_run,
        as_json=wish.as_json,
        asks=not wish.yes,
        write=lambda planned: invocation.run(lambda toolbox: write_promotion(toolbox, root, done, planned)),
        promoted=sorted(done.added),
        demoted=sorted(done.taken_out),
        left=done.left,
        notices=done.notices,
    )
