"""`consolidate` and `bank`: memories put in order; the bank's file backed up, restored, taken over, embedded again."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import anyio
import click

from swarm_memory.schema.base import counted
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.memory import Consolidation, Undone
from swarm_memory.server.cli.command import A_FILE, command, command_of
from swarm_memory.server.cli.console import print_json, print_table, progress, say
from swarm_memory.server.cli.invocation import Invocation
from swarm_memory.server.operations.memories import CONSOLIDATE_BANK
from swarm_memory.server.operations.operation import Word

if TYPE_CHECKING:
    from swarm_memory.server.jobs.reembed import Reembedded
    from swarm_memory.tools.ports.care import Backup, ForeignBank
    from swarm_memory.tools.toolbox import Toolbox

SHOWN = 20
"""Lines of each kind for people; `--json` has all."""

Yes: TypeAlias = Annotated[bool, "Do not ask."]


def _model(row: Mapping[str, Any]) -> Consolidation | Undone:
    """Return what a run did as what it was before it became a job's result."""
    return Undone.model_validate(row) if "restored" in row else Consolidation.model_validate(row)


def show_consolidation(row: Mapping[str, Any]) -> None:
    """Print a run, or what was taken back of one, for people."""
    done = _model(row)
    if isinstance(done, Undone):
        restored, links = counted(done.restored, "memory"), counted(done.links_removed, "link")
        say(f"{done.run_id} is taken back: {restored} restored, {links} removed.")
        for memory_id in done.skipped:
            say(f"    left alone, it was changed since: {memory_id}", fg="yellow")
        return
    would = "would be " if done.dry_run else ""
    say(f"{counted(done.compared, 'memory')} compared ({'all' if done.full else 'the new ones'}).", bold=True)
    _list(f"{would}archived as duplicates", ("memory", "kept", "likeness"), [
        (each.id, each.kept, f"{each.similarity:.2f}") for each in done.merged
    ])  # fmt: skip
    _list(f"{would}linked", ("memory", "relation", "to", "probability", "by"), [
        (each.link.src_id, each.link.relation, each.link.dst_id, f"{each.link.weight:.2f}", each.method)
        for each in done.related
    ])  # fmt: skip
    _list(f"{would}quarantined", ("memory", "contradicts"), [
        (each.id, ", ".join(each.contradicts)) for each in done.quarantined
    ])  # fmt: skip
    _list(f"{would}archived, never used", ("memory", "confidence", "days old"), [
        (each.id, f"{each.confidence:.2f}", f"{each.age_days:.0f}") for each in done.pruned
    ])  # fmt: skip
    if done.aged:
        say(f"{counted(done.aged, 'memory')} {would}less sure for want of use.")
    changed = done.aged or any((done.merged, done.related, done.quarantined, done.pruned))
    if not changed:
        say("Nothing to put in order." if done.dry_run else "Nothing was to be put in order.")
    for notice in done.notices:
        say(f"Note: {notice}", fg="yellow")
    if changed and not done.dry_run:
        say(f"To take it back: swarm-memory consolidate --undo {done.run_id}", dim=True)


def _list(title: str, headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    if not rows:
        return
    say(f"{len(rows)} {title}:")
    print_table(headings, rows[:SHOWN])
    if len(rows) > SHOWN:
        say(f"    … and {len(rows) - SHOWN} more", dim=True)


consolidate = command_of(
    CONSOLIDATE_BANK,
    "consolidate",
    show=show_consolidation,
    json=_model,
    examples=("consolidate --dry-run", "consolidate --full", "consolidate --undo run_01JXYZ..."),
)

bank = click.Group(
    "bank",
    help="""Look after the bank: back it up, restore it, take one over that was made elsewhere, embed it again.

    \b
    Examples:
      swarm-memory bank backup
      swarm-memory bank restore --list
    """,
)


@command(of=bank)
def backup(
    invocation: Invocation,
    to: Annotated[str | None, Word("[FILE|URL]")] = None,
    as_json: bool = False,
) -> None:
    """Copy the bank to FILE, or into its folder `backups`, of which the newest five are kept.

    Sessions may go on meanwhile: the copy is of one moment, checked, and for you alone. One is made by itself before
    the schema changes. `memories forget` reaches the copies in that folder, and none that you put elsewhere.

    To a postgresql:// URL, or of a bank that is in PostgreSQL, every row is copied with its ids and compared on both
    sides; what was cut off goes on when it is asked for again, and nothing may write to either bank meanwhile. A
    password is better kept out of the command: in ~/.pgpass, or in PGPASSWORD. The bank that was copied stays as it
    is, and in use until `storage.url` in your own settings says otherwise.

    \b
    Examples:
      swarm-memory bank backup
      swarm-memory bank backup /mnt/disk/shop-memory.db
      swarm-memory bank backup postgresql://memory@db.example.org/memory
    """
    place = invocation.place
    if not place.has_bank:
        raise InputError(f"there is no bank at {place.database} yet")
    if to is not None and (place.is_remote or "://" in to):
        from swarm_memory.server.wiring import move_bank

        def tell(text: str) -> None:
            say(text, err=True)

        rows = anyio.run(move_bank, *invocation.bank(), to, tell)
        print_json({"rows": rows}) if as_json else say(f"{counted(rows, 'row')}, the same on both sides.")
        return
    made = anyio.run(invocation.care().back_up, None if to is None else Path(to))
    size = made.stat().st_size
    print_json({"path": str(made), "size_bytes": size}) if as_json else say(f"{made} ({size / 1e6:.1f} MB)")


@command(of=bank)
def restore(
    invocation: Invocation,
    path: Annotated[Path | None, Word("[FILE]", A_FILE)] = None,
    only_list: Annotated[bool, "Show the backups that are there.", "--list"] = False,
    yes: Yes = False,
    as_json: bool = False,
) -> None:
    """Put the backup FILE, or the newest one, in the bank's place.

    The backup is checked first. What stood there is kept: as a backup, or as `memory.db.corrupt-<time>` when it is
    damaged. Running servers go over to the restored bank by themselves.

    \b
    Examples:
      swarm-memory bank restore --list
      swarm-memory bank restore .swarm/backups/memory-20260501T120000.000000Z-asked.db
    """
    place, care = invocation.place, invocation.care()
    found = care.backups()
    if only_list:
        _show_backups(found, as_json)
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


def _show_backups(found: "list[Backup]", as_json: bool) -> None:
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


def _age(age: timedelta) -> str:
    """Return an age as a person says it."""
    if age.days:
        return counted(age.days, "day")
    hours, minutes = divmod(age.seconds // 60, 60)
    return counted(hours, "hour") if hours else counted(minutes, "minute")


async def _embed(toolbox: "Toolbox", *, drop_others: bool = False) -> "Reembedded":
    from swarm_memory.server.jobs.reembed import reembed as operation

    with progress("embedding") as moved:
        return await operation(toolbox.store, toolbox.embedder, drop_others=drop_others, on_progress=moved)


def _show_embedded(done: "Reembedded") -> None:
    passages = f" and {counted(done.passages, 'passage')}" if done.passages else ""
    say(f"{counted(done.embedded, 'memory')}{passages} embedded by {done.embedder}, {done.skipped} skipped.")
    if done.dropped:
        say(f"Vectors deleted of {', '.join(done.dropped)}.")


@command(of=bank, show=_show_embedded)
async def reembed(
    toolbox: "Toolbox",
    drop_others: Annotated[bool, "Then delete the vectors of other embedders."] = False,
    indexes: Annotated[bool, "Rebuild the indexes of words and vectors too."] = False,
) -> "Reembedded":
    """Give every memory a vector of the current embedder.

    Needed after the embedder was changed. It may be stopped at any time and goes on where it was.

    \b
    Example:
      SWARM_MEMORY_EMBEDDING__PROVIDER=fastembed swarm-memory bank reembed
    """
    done = await _embed(toolbox, drop_others=drop_others)
    if indexes:
        await toolbox.store.reindex()
    return done


@command(of=bank)
def trust(
    invocation: Invocation,
    read_only: Annotated[bool, "Only look: nothing is taken over."] = False,
    yes: Yes = False,
    as_json: bool = False,
) -> None:
    """Look at a bank that was not made here by you, and take it over.

    A bank that came with a clone, a pull or an archive, or that you moved or copied yourself, is not opened before.
    Each memory is screened as if it were new and counts as unverified; jobs, sources and links are left out. The old
    file is kept beside the new bank.
    """
    place, care = invocation.place, invocation.care()
    found = care.look_at_foreign()
    if not as_json:
        _show_foreign(found, place.database)
    if read_only:
        if as_json:
            print_json(_foreign(found))
        return
    if not yes:
        click.confirm(f"Take it over as your own bank {place.database}?", abort=True, err=True)
    taken = care.take_over()
    invocation.run(_embed)
    print_json(_foreign(taken)) if as_json else say(f"Taken over. What stood there is {taken.kept}.")


def _foreign(found: "ForeignBank") -> dict[str, object]:
    memories = [each.model_dump(mode="json", exclude_none=True) for each in found.memories]
    return {**found._asdict(), "memories": memories, "kept": str(found.kept) if found.kept else None}


def _show_foreign(found: "ForeignBank", database: Path) -> None:
    say(
        f"{database} was not made here by you. It holds {counted(len(found.memories), 'memory')}, "
        f"{counted(found.trajectories, 'trajectory')} and {counted(found.calls, 'tool call')}."
    )
    if found.memories:
        rows = (
            (each.id, each.status, each.title, each.status_reason or each.provenance.suspect or "")
            for each in found.memories
        )
        print_table(("id", "would be", "title", "because"), rows)
    if found.faulty:
        say(f"Left out: {counted(found.faulty, 'memory')} that cannot be read.", fg="yellow")
    if found.jobs:
        say(f"Left out: {counted(found.jobs, 'job')} that wait in it.", fg="yellow")
