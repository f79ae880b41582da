"""`import`: memories from a file, or what agents on this machine did in the last months, with a page about it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import click
from pydantic import Field

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.memory import LearnResult, MemoryItem
from swarm_memory.server.cli.command import EXISTING_FILE, command
from swarm_memory.server.cli.console import print_answer
from swarm_memory.server.cli.invocation import CommandSite
from swarm_memory.server.hosts.host import hosts
from swarm_memory.server.hosts.transcript import ACCEPTED
from swarm_memory.server.jobs.transcripts import Tally, as_row, import_files, is_export
from swarm_memory.server.operations.operation import Row, Word, row

MONTH = timedelta(days=30.5)
SHOWN = 8
"""So many memories of a kind are named on the page."""

_USES = {
    "way_out": "fixes of errors",
    "strategy": "strategies and conventions",
    "open_problem": "still unsolved",
}


def _show(answer: Row) -> None:
    """Print what each agent's sessions taught, and the surest memories of each kind; or what files brought."""
    if "agents" not in answer:
        print_answer({name: value for name, value in answer.items() if name != "faults"})
        return
    agents = {name: counts for name, counts in answer["agents"].items() if counts["sessions"] or counts["left_out"]}
    print_answer({"agents": agents or "no session was held here in this time"})
    surest = sorted(answer["learned"], key=lambda each: -each["confidence"])
    for use, title in _USES.items():
        if of_use := [f"{each['confidence']:.2f}  {each['title']}" for each in surest if each["use"] == use]:
            more = [f"… and {len(of_use) - SHOWN:,} more: `swarm-memory memories list`"] if len(of_use) > SHOWN else []
            print_answer({f"{title} ({len(of_use):,})": "\n".join([*of_use[:SHOWN], *more, ""])})


@command(show=_show, failed=lambda answer: bool(answer["faults"]))
async def import_(
    site: CommandSite,
    files: Annotated[tuple[Path, ...], Word("[FILE]...", EXISTING_FILE)],
    quarantine: Annotated[bool, "Retrieve nothing of it before it is restored."] = False,
    everything: Annotated[bool, "Instead: learn from the sessions of every coding agent here.", "--all"] = False,
    months: Annotated[float, Field(ge=0.1, le=1200, description="With --all: how far back.")] = 6,
    everywhere: Annotated[bool, "With --all: also from sessions of other projects."] = False,
) -> Row:
    """Read memories that `memories export` wrote, of another project or machine; or with --all what agents did.

    Doing it again changes nothing: what was read before is known. From transcripts `swarm-memory learn` learns.
    `swarm-memory memories forget --run` with the run that it names takes back what a file brought.

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
        answer = await _import_sessions(site, datetime.now(UTC) - months * MONTH, everywhere)
    else:
        for file in files:
            if not is_export(file):
                raise InputError(
                    f"{file} holds no memories that `memories export` wrote; `swarm-memory learn` reads transcripts"
                )
        tally = await import_files(await site.toolbox(), files, quarantine, site.report)
        faulty = {name: f"{each.faulty} faulty" for name, each in tally.exports.items() if each.faulty}
        answer = row(exports=as_row(tally)["exports"], faults=faulty | tally.faults)
    for name, fault in answer["faults"].items():
        click.echo(f"swarm-memory: {name}: {fault}", err=True)
    return answer


async def _import_sessions(site: CommandSite, since: datetime, everywhere: bool) -> Row:
    """Learn from the sessions of every agent, without any model."""
    items: dict[str, MemoryItem] = {}
    agents: dict[str, Row] = {}
    faults: dict[str, str] = {}

    def keep(result: LearnResult) -> None:
        items.update({item.id: item for item in result.stored})
        for gone in result.superseded:
            items.pop(gone, None)

    for host in hosts():
        every = {path: path.stat().st_mtime for path in host.transcripts.find(None) if path.is_file()}
        held = set(every if everywhere else host.transcripts.find(site.root)) & every.keys()
        files = sorted(path for path in held if every[path] >= since.timestamp())
        tally = Tally()
        if files:
            offline = replace(await site.toolbox(), chat=None)
            tally = await import_files(offline, files, False, site.report, since=since, on_learned=keep)
        faults |= {name: why.removesuffix(f"; {ACCEPTED}") for name, why in tally.faults.items()}
        older, elsewhere = len(held) - len(files), len(every) - len(held)
        left_out = {"older than --months": older, "of other projects, without --everywhere": elsewhere}
        agents[host.name] = {
            "sessions": tally.files, "tasks": tally.tasks, "known": tally.known, "verdicts": tally.verdicts,
            "stored": tally.stored, "calls": tally.calls,
            "left_out": {why: count for why, count in left_out.items() if count},
        }  # fmt: skip
    learned = [
        {"id": item.id, "title": item.title, "use": item.use, "confidence": item.confidence} for item in items.values()
    ]
    return {"agents": agents, "learned": learned, "faults": faults}
