"""`consolidate` and `bank`: memories put in order; the bank's file backed up, restored, taken over, embedded again."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import anyio
import click

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.job import Progress
from swarm_memory.schema.memory import Consolidation, Undone
from swarm_memory.server.cli.command import Yes, command, command_of
from swarm_memory.server.cli.console import print_answer, print_json, progress, say
from swarm_memory.server.cli.invocation import Invocation
from swarm_memory.server.operations.memories import CONSOLIDATE_BANK, of_memory
from swarm_memory.server.operations.operation import Positional

if TYPE_CHECKING:
    from swarm_memory.server.jobs.reembed import Reembedded
    from swarm_memory.tools.toolbox import Toolbox


def _show_run(row: Mapping[str, Any]) -> None:
    print_answer(row)
    if not row.get("dry_run") and row.keys() & {"merged", "related", "quarantined", "pruned", "aged"}:
        say(f"To undo this: swarm-memory consolidate --undo {row['run_id']}", dim=True)


consolidate = command_of(
    CONSOLIDATE_BANK,
    "consolidate",
    show=_show_run,
    json=lambda row: (Undone if "restored" in row else Consolidation).model_validate(row),  # with what a job leaves out
    examples=("consolidate --dry-run", "consolidate --full", "consolidate --undo run_01JXYZ..."),
)

bank = click.Group("bank", help="Back up, restore or re-embed the bank, or take over one made elsewhere.")


@command(of=bank, show=print_answer)
def backup(invocation: Invocation, to: Annotated[str | None, Positional("[FILE]")] = None) -> dict[str, object]:
    """Copy the bank to FILE, or into its folder `backups`, where the newest five copies are kept.

    Sessions may continue meanwhile: the copy is of one moment, is checked, and is readable only by you. A copy is made
    automatically before the schema changes. `memories forget` reaches the copies in that folder, but no others.

    \b
    Examples:
      swarm-memory bank backup
      swarm-memory bank backup /mnt/disk/shop-memory.db
    """
    place = invocation.place
    if not place.has_bank:
        raise InputError(f"there is no bank at {place.database} yet")
    if to is not None and "://" in to:
        raise InputError("a bank is copied to a file: give its path")
    made = anyio.run(invocation.care().back_up, None if to is None else Path(to))
    return {"path": made, "size_bytes": made.stat().st_size}


@command(of=bank, show=print_answer)
def restore(
    invocation: Invocation,
    path: Annotated[Path | None, Positional("[FILE]")] = None,
    only_list: Annotated[bool, "List the existing backups.", "--list"] = False,
    yes: Yes = False,
) -> object:
    """Replace the bank with the backup FILE, or with the newest backup.

    The backup is checked first. The replaced bank is kept: as a backup, or as `memory.db.corrupt-<time>` if it is
    damaged. Running servers switch to the restored bank by themselves.

    \b
    Examples:
      swarm-memory bank restore --list
      swarm-memory bank restore .swarm/backups/memory-20260501T120000.000000Z-asked.db
    """
    place, care = invocation.place, invocation.care()
    found = care.backups()
    if only_list:
        return found
    if path is None and not found:
        raise InputError(f"there is no backup of {place.database}: give the path of one")
    chosen = path or found[0].path
    if not yes:
        click.confirm(f"Replace {place.database} with {chosen}? The replaced bank is kept", abort=True, err=True)
    source, kept = care.restore(chosen)
    return {"restored": source, "kept": kept}


async def _embed(toolbox: "Toolbox") -> "Reembedded":
    from swarm_memory.server.jobs.reembed import reembed as operation

    with progress("embedding") as moved:
        return await operation(toolbox, on_progress=lambda count: moved(Progress(done=count)))


@command(of=bank, show=print_answer)
async def reembed(
    site: Invocation, indexes: Annotated[bool, "Also rebuild the indexes of words and vectors."] = False
) -> "Reembedded":
    """Give every memory a vector from the current embedder, then delete those of other embedders.

    Needed after you change the embedder. It can be stopped at any time, and continues where it left off.
    """
    toolbox = await site.toolbox()
    done = await _embed(toolbox)
    done.dropped = tuple(await toolbox.store.drop_other_spaces(toolbox.embedder.name, toolbox.embedder.dimensions))
    if indexes:
        await toolbox.store.reindex()
    return done


@command(of=bank)
def trust(
    invocation: Invocation,
    read_only: Annotated[bool, "Only look at it; take nothing over."] = False,
    yes: Yes = False,
    as_json: bool = False,
) -> None:
    """Look at a bank that was not made here by you, and take it over.

    A bank that came with a clone, a pull or an archive, or that you moved or copied yourself, is not opened until then.
    Each memory is screened as if it were new and counts as unverified; jobs, sources and links are left out. The old
    file is kept next to the new bank.
    """
    place, care = invocation.place, invocation.care()
    found = care.look_at_foreign()
    if not as_json:
        say(f"{place.database} was not made here by you. Its jobs, sources and links are not taken over.")
        print_answer(found._asdict() | {"memories": [of_memory(each, full=False) for each in found.memories]})
    if not read_only:
        if not yes:
            click.confirm(f"Take it over as your own bank, {place.database}?", abort=True, err=True)
        found = care.take_over()
        invocation.run(_embed)
    if as_json:
        print_json(found)
    elif found.kept:
        say(f"Taken over. The old file is kept as {found.kept}.")
