"""`consolidate`: duplicates, contradictions and aging of the project's memories, shown beforehand or taken back."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

import click

from swarm_memory.schema.base import counted
from swarm_memory.schema.memory import Consolidation
from swarm_memory.server.cli.console import json_option, print_json, print_table, say
from swarm_memory.server.cli.invocation import Invocation

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

    with _bar(quiet=as_json) as advance:
        done = invocation.run(lambda toolbox: operation(toolbox, dry_run=dry_run, full=full, on_progress=advance))
    if as_json:
        print_json(done)
    else:
        show_consolidation(done)


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
    _list(f"{would}archived, a way out is known now", ("memory", "way out"), [
        (each.id, each.by) for each in done.superseded
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
    changed = done.aged or any((done.merged, done.superseded, done.related, done.quarantined, done.pruned))
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


@contextmanager
def _bar(*, quiet: bool) -> Generator[Callable[[int, int], None]]:
    """Show how far it is on stderr when a person looks."""
    if quiet or not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("consolidating", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


COMMANDS = {"consolidate": consolidate}
