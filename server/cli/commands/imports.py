"""`import`: memories from a file, or what agents on this machine did in the last months, with a page about it."""

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, NamedTuple

import click
from pydantic import Field

from swarm_memory.schema.base import counted
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.memory import LearnResult, MemoryItem, Use
from swarm_memory.server.cli.command import EXISTING_FILE, command
from swarm_memory.server.cli.console import as_report, print_json, print_table, progress, say
from swarm_memory.server.cli.invocation import CommandSite, Invocation
from swarm_memory.server.hosts.host import Host, hosts
from swarm_memory.server.hosts.transcript import ACCEPTED
from swarm_memory.server.jobs.transcripts import Tally, as_row, import_files, is_export
from swarm_memory.server.operations.operation import Word
from swarm_memory.tools.toolbox import Toolbox

MONTH = timedelta(days=30.5)
SHOWN = 8
"""So many memories of a kind are named on the page."""

LABELS = ("Success", "Failure", "Undecided")

_USES: Mapping[Use, str] = {
    "way_out": "Ways past an error",
    "strategy": "Strategies and conventions",
    "open_problem": "Still unsolved",
}


class Learned(NamedTuple):
    """What the sessions of one agent taught, and how many were left out."""

    host: Host
    tally: Tally
    older: int
    elsewhere: int
    """Of other projects."""


@command()
def import_(
    invocation: Invocation,
    files: Annotated[tuple[Path, ...], Word("[FILE]...", EXISTING_FILE)],
    quarantine: Annotated[bool, "Retrieve nothing of it before it is restored."] = False,
    everything: Annotated[bool, "Instead: learn from the sessions of every coding agent here.", "--all"] = False,
    months: Annotated[float, Field(ge=0.1, le=1200, description="With --all: how far back.")] = 6,
    everywhere: Annotated[bool, "With --all: also from sessions of other projects."] = False,
    as_json: bool = False,
) -> None:
    """Read memories that `memories export` wrote, of another project or machine; or with --all what agents did.

    Doing it again changes nothing: what was read before is known. From transcripts `swarm-memory learn` learns.

    With --all it learns from the sessions that Claude Code, Codex CLI and the other agents on this machine held in this
    project in the last six months, without a model, and ends with a page of what that taught.

    \b
    Examples:
      swarm-memory import memories.jsonl --quarantine
      swarm-memory import --all
    """
    if everything == bool(files):
        raise click.UsageError("give files that `memories export` wrote, or --all")
    if everything:
        faults = _import_sessions(invocation, months, everywhere, as_json)
    else:
        faults = _import_files(invocation, files, quarantine, as_json)
    for name, fault in faults.items():
        click.echo(f"swarm-memory: {name}: {fault}", err=True)
    if faults:
        raise click.exceptions.Exit(1)


def _import_files(
    invocation: Invocation, files: tuple[Path, ...], quarantine: bool, as_json: bool
) -> Mapping[str, str]:
    for file in files:
        if not is_export(file):
            raise InputError(
                f"{file} holds no memories that `memories export` wrote; from transcripts learns `swarm-memory learn`"
            )
    with progress("reading") as moved:
        tally = invocation.run(lambda toolbox: import_files(toolbox, files, quarantine, as_report(moved)))
    if as_json:
        print_json(as_row(tally)["exports"])
    for name, each in () if as_json else tally.exports.items():
        say(f"{name}: {counted(each.added, 'memory')} added, {each.known} known already, {each.faulty} faulty.")
        if each.added:
            say(f"    To take it back: swarm-memory memories forget --run {each.run_id}")
        for fault in (*each.faults, *each.notices):
            say(f"    {fault}")
    faulty = {name: f"{each.faulty} faulty" for name, each in tally.exports.items() if each.faulty}
    return faulty | tally.faults


def _import_sessions(invocation: Invocation, months: float, everywhere: bool, as_json: bool) -> Mapping[str, str]:
    """Learn from the sessions of every agent, without any model, and print what came of it."""
    since, began = datetime.now(UTC) - months * MONTH, time.monotonic()
    items: dict[str, MemoryItem] = {}

    def keep(result: LearnResult) -> None:
        items.update({item.id: item for item in result.stored})
        for gone in result.superseded:
            items.pop(gone, None)

    async def learned_from(host: Host, files: list[Path], toolbox: Toolbox) -> Tally:
        offline = replace(toolbox, chat=None)
        with progress(host.title) as moved:
            return await import_files(offline, files, False, as_report(moved), since=since, on_learned=keep)

    async def learn(site: CommandSite) -> list[Learned]:
        learned: list[Learned] = []
        for host in hosts():
            every = {path: path.stat().st_mtime for path in host.transcripts.find(None) if path.is_file()}
            held = set(every if everywhere else host.transcripts.find(invocation.root)) & every.keys()
            files = sorted(path for path in held if every[path] >= since.timestamp())
            tally = await learned_from(host, files, await site.toolbox()) if files else Tally()
            learned.append(Learned(host, tally, len(held) - len(files), len(every) - len(held)))
        return learned

    learned = invocation.call(learn)
    every = (fault for each in learned for fault in each.tally.faults.items())
    faults = {name: fault.removesuffix(f"; {ACCEPTED}") for name, fault in every}
    took_s = time.monotonic() - began
    if as_json:
        agents = {each.host.name: _row(each) for each in learned}
        found = [
            {"id": item.id, "title": item.title, "use": item.use, "confidence": item.confidence}
            for item in items.values()
        ]
        print_json({"agents": agents, "learned": found, "faults": faults, "took_s": round(took_s, 1)})
    else:
        where = "in all projects" if everywhere else "in this project"
        _say_learned(learned, f"{where} in the last {months:g} months", took_s)
        _say_items(list(items.values()))
        _say_left_out(learned, everywhere)
    return faults


def _row(learned: Learned) -> dict[str, object]:
    tally = learned.tally
    return {
        "sessions": tally.files, "tasks": tally.tasks, "known": tally.known, "verdicts": tally.verdicts,
        "stored": tally.stored, "calls": tally.calls, "older": learned.older, "of_other_projects": learned.elsewhere,
    }  # fmt: skip


def _say_learned(learned: list[Learned], when: str, took_s: float) -> None:
    rows = [
        (
            each.host.title,
            each.tally.files,
            each.tally.tasks,
            *(each.tally.verdicts.get(label, 0) for label in LABELS),
            each.tally.stored,
            each.tally.calls,
        )
        for each in learned
        if each.tally.files
    ]
    if not rows:
        say(f"No session was held {when}.")
        return
    say(f"What the agents on this machine did {when}", bold=True)
    print_table(["agent", "sessions", "tasks", *map(str.lower, LABELS), "memories", "tool calls"], rows)
    known = sum(each.tally.known for each in learned)
    before = f"{counted(known, 'task')} known already; " if known else ""
    say(f"\n{before}{took_s:.0f} s, no model was asked, nothing was sent.")


def _say_items(items: list[MemoryItem]) -> None:
    for use, title in _USES.items():
        of_use = sorted((item for item in items if item.use == use), key=lambda item: -item.confidence)
        if of_use:
            say(f"\n{title} ({len(of_use):,})", bold=True)
        for item in of_use[:SHOWN]:
            say(f"  {item.confidence:.2f}  {item.title}")
        if len(of_use) > SHOWN:
            say(f"        … and {len(of_use) - SHOWN:,} more", dim=True)
    if items:
        say('\n`swarm-memory memories list` shows them all, `swarm-memory retrieve "a task"` what a task is shown.')


def _say_left_out(learned: list[Learned], everywhere: bool) -> None:
    if older := sum(each.older for each in learned):
        say(f"{counted(older, 'older session')} left out: `--months` reads further back.")
    elsewhere = [f"{each.elsewhere:,} of {each.host.title}" for each in learned if each.elsewhere]
    if elsewhere and not everywhere:
        told = ", ".join(elsewhere)
        say(f"Of other projects, or of no one project, and left out: {told}. `--everywhere` learns from them too.")
