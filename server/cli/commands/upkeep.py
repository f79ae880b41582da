"""`status`, `config`, `doctor`, `reembed`, `reindex` and `adopt`: how everything stands, and putting it in order."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING

import click

from swarm_memory.schema.base import counted
from swarm_memory.schema.errors import InputError
from swarm_memory.server.cli.console import json_option, print_json, print_table, say
from swarm_memory.server.cli.invocation import Invocation

if TYPE_CHECKING:
    from swarm_memory.schema.status import ChatStatus, MemoryStatus
    from swarm_memory.tools.toolbox import Toolbox


@click.command()
@json_option
@click.pass_obj
def status(invocation: Invocation, as_json: bool) -> None:
    """Say how the bank stands: counts, database, embedder, who judges, waiting jobs."""
    from swarm_memory.tools.memories.status import memory_status

    found = invocation.run(lambda toolbox: memory_status(toolbox, version=version("swarm-memory")))
    if as_json:
        print_json(found)
    else:
        _show_status(found)


def _show_status(found: "MemoryStatus") -> None:
    storage, counts = found.storage, found.statistics
    rows: list[tuple[str, object]] = [
        ("version", found.version),
        ("database", f"{storage.path} (schema {storage.schema_version}, {storage.size_bytes / 1e6:.1f} MB)"),
        ("SQLite", f"{storage.sqlite_version}, {storage.driver}: {storage.driver_reason}"),
        ("vector search", storage.vector_search),
        ("embedder", found.embedder),
        ("judge", found.judge),
        *(_chat_rows(found.chat) if found.chat else ()),
        ("project", counts.scope.project),
        ("memories", _counts(counts.memories)),
        ("outcomes", _counts(counts.by_outcome)),
        ("trajectories", f"{counts.trajectories} ({_counts(counts.verdicts)})" if counts.trajectories else "none"),
        ("retrievals", counts.retrievals),
        ("jobs", _counts(counts.jobs)),
        ("sources", found.sources),
        ("consolidation", found.consolidation),
        ("tool memory", found.tools),
        ("effect of memory", found.effect.says if found.effect else "no task has an outcome yet"),
    ]
    print_table(("", ""), rows)
    for notice in found.notices:
        say(f"Note: {notice}", fg="yellow")


def _chat_rows(chat: "ChatStatus") -> list[tuple[str, object]]:
    return [
        ("chat models", ", ".join(chat.models)),
        ("used today", chat.spent),
        ("audited verdicts", chat.agreement),
    ]


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.items() if number) or "none"


@click.command("config")
@click.option("--changed", is_flag=True, help="Only those that are not at their default.")
@json_option
@click.pass_obj
def show_config(invocation: Invocation, changed: bool, as_json: bool) -> None:
    """Show each setting, its value and where it came from.

    \b
    Sources, the later over the earlier: defaults, .swarm/config.yaml of the project,
    ~/.config/swarm-memory/config.yaml, environment SWARM_MEMORY_<SECTION>__<NAME>
    (also SWARM_MEMORY_DB and SWARM_MEMORY_SQLITE), --set KEY=VALUE.

    The project's file may come with a cloned repository: it is the weakest, and may not say which database is
    used or where texts are sent.
    """
    rows = [row for row in invocation.settings().rows() if not changed or row[2] != "default"]
    if not rows and not as_json:
        say("All settings are at their defaults.")
    elif as_json:
        print_json({key: {"value": value, "origin": origin} for key, value, origin in rows})
    else:
        print_table(
            ("setting", "value", "from"), ((key, "" if value is None else value, origin) for key, value, origin in rows)
        )


@click.command()
@click.option("--repair", "mend", is_flag=True, help="Mend the bank first; what stood there is kept.")
@json_option
@click.pass_obj
def doctor(invocation: Invocation, mend: bool, as_json: bool) -> None:
    """Check the installation and the bank, and say what to do. Exits with 1 when something fails.

    With --repair indexes are made anew from the rows, texts are brought back from backups, and what can still be read
    of a damaged file becomes a new bank. The damaged file is kept, or a backup of it.
    """
    if mend:
        _repair(invocation, quiet=as_json)
    from swarm_memory.server.cli.doctor import examine

    findings = examine(invocation)
    if as_json:
        print_json([finding._asdict() for finding in findings])
    else:
        for finding in findings:
            mark, colour = {"ok": ("ok  ", "green"), "warn": ("warn", "yellow"), "fail": ("FAIL", "red")}[finding.state]
            click.secho(mark, fg=colour, nl=False)
            say(f"  {finding.what}: {finding.found}")
            if finding.advice:
                say(f"      → {finding.advice}")
    if any(finding.state == "fail" for finding in findings):
        sys.exit(1)


def _repair(invocation: Invocation, *, quiet: bool) -> None:
    place = invocation.place
    if not place.database.exists():
        raise InputError(f"there is no bank at {place.database}")
    done = invocation.care().repair()
    if done.actions:
        invocation.run(_embed_missing)
    if quiet:
        return
    for action in done.actions or ("nothing to repair",):
        say(f"repair: {action}")
    if done.kept:
        say(f"repair: what stood there before is {done.kept}")


async def _embed_missing(toolbox: "Toolbox") -> None:
    """Embed what lost its vector, or had one that cannot be right."""
    from swarm_memory.server.jobs.reembed import reembed as operation

    await operation(toolbox.store, toolbox.embedder, drop_others=False, on_progress=lambda _: None)


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
        with _bar("embedding", quiet=as_json) as advance:
            return await operation(toolbox.store, toolbox.embedder, drop_others=drop_others, on_progress=advance)

    done = invocation.run(operate)
    if as_json:
        print_json(asdict(done))
    else:
        passages = f" and {counted(done.passages, 'passage')}" if done.passages else ""
        say(f"{counted(done.embedded, 'memory')}{passages} embedded by {done.embedder}, {done.skipped} skipped.")
        if done.dropped:
            say(f"Vectors deleted of {', '.join(done.dropped)}.")


@click.command()
@json_option
@click.pass_obj
def reindex(invocation: Invocation, as_json: bool) -> None:
    """Build the keyword and vector indexes anew from the plain tables. Nothing is lost if it is stopped."""

    async def operate(toolbox: "Toolbox") -> int:
        await toolbox.store.reindex()
        counts = await toolbox.store.statistics(toolbox.scope, toolbox.embedder.name)
        return sum(counts.memories.values())

    count = invocation.run(operate)
    told = f"Indexes built anew; {counted(count, 'memory')} in this project."
    print_json({"memories": count}) if as_json else say(told)


@click.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@click.pass_obj
def adopt(invocation: Invocation, yes: bool, as_json: bool) -> None:
    """Take over a claude-flow database that lies where the bank is to be.

    Its strategies are embedded anew and marked as imported. The old file is kept whole beside the new bank.
    """
    import anyio

    place, care = invocation.place, invocation.care()
    anyio.run(care.check_adoptable)
    if not yes:
        click.confirm(f"Put a new bank in the place of {place.database}? The old file is kept", abort=True, err=True)
    done = anyio.run(care.adopt)
    if as_json:
        print_json(done._asdict())
        return
    say(f"Strategies taken over into {place.database}: {done.imported}. The old database is {done.kept}.")
    for skipped in done.skipped:
        say(f"    left out: {skipped}", fg="yellow")


@contextmanager
def _bar(what: str, *, quiet: bool) -> Generator[Callable[[int], None]]:
    """Show a counter on stderr when a person looks."""
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

    with Progress(SpinnerColumn(), TextColumn(what), MofNCompleteColumn(), console=Console(stderr=True)) as progress:
        task = progress.add_task(what, total=None)
        yield lambda count: progress.advance(task, count)


COMMANDS = {
    "status": status,
    "config": show_config,
    "doctor": doctor,
    "reembed": reembed,
    "reindex": reindex,
    "adopt": adopt,
}
