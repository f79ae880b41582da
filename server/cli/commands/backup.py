"""`backup` and `restore`: copies of the bank, made while it is in use, and put back."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from swarm_memory.schema.base import counted
from swarm_memory.schema.errors import InputError
from swarm_memory.server.cli.console import json_option, print_json, print_table, say
from swarm_memory.server.cli.invocation import Invocation

if TYPE_CHECKING:
    from swarm_memory.tools.ports.care import Backup


@click.command()
@click.argument("path", required=False, type=click.Path(dir_okay=False, path_type=Path))
@json_option
@click.pass_obj
def backup(invocation: Invocation, path: Path | None, as_json: bool) -> None:
    """Copy the bank to PATH, or into its folder `backups`, of which the newest five are kept.

    Sessions may go on meanwhile: the copy is of one moment, checked, and for you alone. One is made by itself before
    the schema changes. `memories forget` reaches the copies in that folder, and none that you put elsewhere.

    \b
    Examples:
      swarm-memory backup
      swarm-memory backup /mnt/disk/shop-memory.db
    """
    import anyio

    place = invocation.place
    if not place.database.exists():
        raise InputError(f"there is no bank at {place.database} yet")
    made = anyio.run(invocation.care().back_up, path)
    size = made.stat().st_size
    print_json({"path": str(made), "size_bytes": size}) if as_json else say(f"{made} ({size / 1e6:.1f} MB)")


@click.command()
@click.argument("path", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--list", "only_list", is_flag=True, help="Show the backups that are there.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@click.pass_obj
def restore(invocation: Invocation, path: Path | None, only_list: bool, yes: bool, as_json: bool) -> None:
    """Put the backup PATH, or the newest one, in the bank's place.

    The backup is checked first. What stood there is kept: as a backup, or as `memory.db.corrupt-<time>` when it is
    damaged. Running servers go over to the restored bank by themselves.

    \b
    Examples:
      swarm-memory restore --list
      swarm-memory restore .swarm/backups/memory-20260501T120000.000000Z-asked.db
    """
    place, care = invocation.place, invocation.care()
    found = care.backups()
    if only_list:
        _show(found, as_json)
        return
    if path is None and not found:
        raise InputError(f"there is no backup of {place.database}: name a file")
    chosen = path or found[0].path
    if not yes:
        click.confirm(f"Put {chosen} in the place of {place.database}? What is there is kept", abort=True, err=True)
    source, kept = care.restore(chosen)
    if as_json:
        print_json({"restored": str(source), "kept": str(kept) if kept else None})
    else:
        say(f"{place.database} is now what {source} holds.")
        say(f"What stood there is {kept}." if kept else "Nothing stood there before.")


def _age(age: timedelta) -> str:
    """Return an age as a person says it."""
    if age.days:
        return counted(age.days, "day")
    hours, minutes = divmod(age.seconds // 60, 60)
    return counted(hours, "hour") if hours else counted(minutes, "minute")


def _show(found: "list[Backup]", as_json: bool) -> None:
    if as_json:
        print_json([{**each._asdict(), "path": str(each.path), "made": each.made.isoformat()} for each in found])
    elif not found:
        say("No backups.")
    else:
        now = datetime.now(UTC)
        rows = (
            (f"{each.made:%F %T}", _age(now - each.made), each.reason, f"{each.size_bytes / 1e6:.1f} MB", each.path)
            for each in found
        )
        print_table(("made (UTC)", "age", "because", "size", "file"), rows)


COMMANDS = {"backup": backup, "restore": restore}
