"""`import --all`: what agents on this machine did in the last months is learned from at once; a page tells of it."""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from swarm_memory.schema.base import counted
from swarm_memory.schema.memory import LearnResult, MemoryItem, Use
from swarm_memory.server.cli.console import Moved, as_report, print_json, print_table, progress, say
from swarm_memory.server.cli.invocation import Invocation
from swarm_memory.server.hosts.host import Host, hosts
from swarm_memory.server.jobs.transcripts import Tally, import_files
from swarm_memory.tools.toolbox import Toolbox

MONTH = timedelta(days=30.5)
SHOWN = 8
"""So many memories of a kind are named on the page."""

_USES: Mapping[Use, str] = {
    "way_out": "Ways past an error", "strategy": "Strategies and conventions", "open_problem": "Still unsolved"
}  # fmt: skip


class Found(NamedTuple):
    """The sessions of an agent that are read, and how many are not."""

    host: Host
    files: list[Path]
    older: int
    elsewhere: int
    """Of other projects."""


class Learned(NamedTuple):
    """What came of them."""

    found: list[Found]
    tallies: list[Tally]
    items: list[MemoryItem]
    took_s: float

    @property
    def faults(self) -> dict[str, str]:
        """Files that could not be read, and why."""
        return {name: fault for tally in self.tallies for name, fault in tally.faults.items()}


def find_sessions(root: Path, since: datetime, *, everywhere: bool) -> list[Found]:
    """Return of each agent the files of sessions that were written since then: of a project, or of all."""
    found: list[Found] = []
    for host in hosts():
        every = {path: path.stat().st_mtime for path in host.transcripts.find(None) if path.is_file()}
        held = set(every if everywhere else host.transcripts.find(root)) & every.keys()
        files = sorted(path for path in held if every[path] >= since.timestamp())
        found.append(Found(host, files, len(held) - len(files), len(every) - len(held)))
    return found


def import_sessions(invocation: Invocation, months: float, *, everywhere: bool, quiet: bool) -> Learned:
    """Learn from the sessions of every agent, without any model."""
    since = datetime.now(UTC) - months * MONTH
    found, began = find_sessions(invocation.root, since, everywhere=everywhere), time.monotonic()
    items: dict[str, MemoryItem] = {}

    def keep(result: LearnResult) -> None:
        items.update({item.id: item for item in result.stored})
        for gone in result.superseded:
            items.pop(gone, None)

    async def learn(toolbox: Toolbox) -> list[Tally]:
        offline, tallies, done = replace(toolbox, chat=None), list[Tally](), 0
        for each in found:
            report = as_report(_after(moved, done, total, each.host.title))
            tallies.append(await import_files(offline, each.files, False, report, since=since, on_learned=keep))
            done += len(each.files)
        return tallies

    total = sum(len(each.files) for each in found)
    with progress("learning", quiet=quiet) as moved:
        tallies = invocation.run(learn) if total else [Tally() for _ in found]
    return Learned(found, tallies, list(items.values()), time.monotonic() - began)


def _after(moved: Moved, before: int, of: int, title: str) -> Moved:
    """Return what tells of the files of one agent as part of all."""

    def after(done: int, total: int | None = None, message: str = "") -> None:
        moved(before + done, of, f"{title}: {message}")

    return after


def print_learned(learned: Learned) -> None:
    """Print what came of the sessions as JSON."""
    agents = {
        each.host.name: {
            "sessions": tally.files, "tasks": tally.tasks, "known": tally.known, "verdicts": tally.verdicts,
            "stored": tally.stored, "calls": tally.calls, "older": each.older, "of_other_projects": each.elsewhere,
        }
        for each, tally in zip(learned.found, learned.tallies, strict=True)
    }  # fmt: skip
    items = [
        {"id": item.id, "title": item.title, "use": item.use, "confidence": item.confidence} for item in learned.items
    ]
    print_json({"agents": agents, "learned": items, "faults": learned.faults, "took_s": round(learned.took_s, 1)})


def say_learned(learned: Learned, months: float, *, everywhere: bool) -> None:
    """Say on a page what was read, what it taught, and what was left out."""
    rows = [
        (each.host.title, tally.files, tally.tasks, *(tally.verdicts.get(label, 0) for label in _LABELS),
         tally.stored, tally.calls)
        for each, tally in zip(learned.found, learned.tallies, strict=True)
        if tally.files
    ]  # fmt: skip
    where = "in all projects" if everywhere else "in this project"
    if rows:
        say(f"What the agents on this machine did {where} in the last {months:g} months", bold=True)
        print_table(["agent", "sessions", "tasks", *map(str.lower, _LABELS), "memories", "tool calls"], rows)
        known = sum(tally.known for tally in learned.tallies)
        before = f"{counted(known, 'task')} known already; " if known else ""
        say(f"\n{before}{learned.took_s:.0f} s, no model was asked, nothing was sent.")
        if any(tally.verdicts.get("Undecided") for tally in learned.tallies):
            say("Undecided: neither a check nor a word of yours shows what came of the task.", dim=True)
        _say_items(learned.items)
    else:
        say(f"No session was held {where} in the last {months:g} months.")
    _say_left_out(learned, everywhere)


_LABELS = ("Success", "Failure", "Undecided")


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
        say('\n`swarm-memory memories list` shows them all, `swarm-memory retrieve "a task"` what a task is told.')


def _say_left_out(learned: Learned, everywhere: bool) -> None:
    older = sum(each.older for each in learned.found)
    elsewhere = {each.host.title: each.elsewhere for each in learned.found if each.elsewhere}
    if older:
        say(f"{counted(older, 'older session')} left out: `--months` reads further back.")
    if elsewhere and not everywhere:
        told = ", ".join(f"{count:,} of {title}" for title, count in Counter(elsewhere).most_common())
        say(f"Of other projects, or of no one project, and left out: {told}. `--everywhere` learns from them too.")
