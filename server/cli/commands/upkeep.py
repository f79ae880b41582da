"""`consolidate`, `backup`, `restore`, `trust`, `reembed` and `reindex`: the bank put in order."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from swarm_memory.schema.base import counted
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.memory import Consolidation
from swarm_memory.server.cli.console import json_option, print_json, print_table, progress, say
from swarm_memory.server.cli.invocation import Invocation

if TYPE_CHECKING:
    from swarm_memory.tools.ports.care import Backup, ForeignBank
    from swarm_memory.tools.toolbox import Toolbox

SHOWN = 20
"""Lines of each kind for people; `--json` has all."""


@click.command()
@click.option("--dry-run", is_flag=True, help="Show what would happen; change nothing.")
@click.option("--full", is_flag=True, help="Compare all memories with each other, not only the new ones.")
@click.option("--undo", "run_id", metavar="RUN", help="Take back all that a run did.")
@json_option
@click.pass_obj
def consolidate(invocation: Invocation, dry_run: bool, full: bool, run_id: str | None, as_json: bool) -> None:
    """Put the project's memories in order; nothing is deleted, and every run can be undone.

    Of memories that say the same the best is kept and the others are archived. Contradictions are linked. Confidence
    without use fades, and what nobody used or believes is archived.

    \b
    Examples:
      swarm-memory consolidate --dry-run
      swarm-memory consolidate --full
      swarm-memory consolidate --undo run_01JXYZ...
    """
    if run_id is not None:
        if dry_run or full:
            raise click.UsageError("--undo takes neither --dry-run nor --full")
        _undo(invocation, run_id, as_json)
        return
    from swarm_memory.tools.consolidate.consolidate import consolidate as operation

    with progress("consolidating", quiet=as_json) as moved:
        done = invocation.run(lambda toolbox: operation(toolbox, dry_run=dry_run, full=full, on_progress=moved))
    print_json(done) if as_json else show_consolidation(done)


def _undo(invocation: Invocation, run_id: str, as_json: bool) -> None:
    from swarm_memory.tools.consolidate.consolidate import undo_consolidation

    undone = invocation.run(lambda toolbox: undo_consolidation(toolbox, run_id))
    if as_json:
        print_json(undone)
        return
    restored, links = counted(undone.restored, "memory"), counted(undone.links_removed, "link")
    say(f"{undone.run_id} is taken back: {restored} restored, {links} removed.")
    for memory_id in undone.skipped:
        say(f"    left alone, it was changed since: {memory_id}", fg="yellow")


def show_consolidation(done: Consolidation) -> None:
    """Print a run for people."""
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
    if not place.has_bank:
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


def _age(age: timedelta) -> str:
    """Return an age as a person says it."""
    if age.days:
        return counted(age.days, "day")
    hours, minutes = divmod(age.seconds // 60, 60)
    return counted(hours, "hour") if hours else counted(minutes, "minute")


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


@click.command()
@click.option("--drop-others", is_flag=True, help="Then delete the vectors of other embedders.")
@json_option
@click.pass_obj
def reembed(invocation: Invocation, drop_others: bool, as_json: bool) -> None:
    """Give every memory a vector of the current embedder.

    Needed after the embedder was changed. It may be stopped at any time and goes on where it was.

    \b
    Example:
      SWARM_MEMORY_EMBEDDING__PROVIDER=fastembed swarm-memory reembed
    """
    from swarm_memory.server.jobs.reembed import Reembedded
    from swarm_memory.server.jobs.reembed import reembed as operation

    async def operate(toolbox: "Toolbox") -> Reembedded:
        with progress("embedding", quiet=as_json) as moved:
            return await operation(toolbox.store, toolbox.embedder, drop_others=drop_others, on_progress=moved)

    done = invocation.run(operate)
    if as_json:
        print_json(done)
    else:
        passages = f" and {counted(done.passages, 'passage')}" if done.passages else ""
        say(f"{counted(done.embedded, 'memory')}{passages} embedded by {done.embedder}, {done.skipped} skipped.")
        if done.dropped:
            say(f"Vectors deleted of {', '.join(done.dropped)}.")


@click.command()
@json_option
@click.pass_obj
def reindex(invocation: Invocation, as_json: bool) -> None:
    """Rebuild the keyword and vector indexes from the plain tables. Nothing is lost if it is stopped."""

    async def operate(toolbox: "Toolbox") -> int:
        await toolbox.store.reindex()
        counts = await toolbox.store.statistics(toolbox.scope, toolbox.embedder.name)
        return sum(counts.memories.values())

    count = invocation.run(operate)
    told = f"Indexes rebuilt; {counted(count, 'memory')} in this project."
    print_json({"memories": count}) if as_json else say(told)


@click.command()
@click.option("--read-only", is_flag=True, help="Only look: nothing is taken over.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@click.pass_obj
def trust(invocation: Invocation, read_only: bool, yes: bool, as_json: bool) -> None:
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
    from swarm_memory.server.jobs.reembed import Reembedded
    from swarm_memory.server.jobs.reembed import reembed as operation

    taken = care.take_over()

    async def embed(toolbox: "Toolbox") -> Reembedded:
        with progress("embedding", quiet=as_json) as moved:
            return await operation(toolbox.store, toolbox.embedder, drop_others=False, on_progress=moved)

    invocation.run(embed)
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


@click.command()
@click.option("--to", required=True, metavar="URL|FILE", help="postgresql://USER@HOST/DATABASE, or a file.")
@json_option
@click.pass_obj
def move(invocation: Invocation, to: str, as_json: bool) -> None:
    """Copy the bank to a PostgreSQL database, or from one into a file: every row, with its ids, compared on both sides.

    What was cut off goes on when it is asked for again. Nothing may write to either bank meanwhile: end what serves it.
    The bank that was moved stays as it is, and in use until `storage.url` in your own settings says otherwise. A
    password is better kept out of the command: in ~/.pgpass, or in PGPASSWORD.

    \b
    Examples:
      swarm-memory move --to postgresql://memory@db.example.org/memory
      SWARM_MEMORY_STORAGE__URL=postgresql://memory@db.example.org/memory swarm-memory move --to memory.db
    """
    import anyio

    from swarm_memory.server.wiring import move_bank

    place = invocation.place
    if not place.has_bank:
        raise InputError(f"there is no bank at {place.database} yet")

    def tell(text: str) -> None:
        say(text, err=True)

    rows = anyio.run(move_bank, place, invocation.settings().settings, to, tell)
    print_json({"rows": rows}) if as_json else say(f"{counted(rows, 'row')}, the same on both sides.")
