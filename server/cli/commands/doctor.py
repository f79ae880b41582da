"""`doctor`: the state of each part of the installation and the bank, with advice; it repairs the bank when asked."""

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import anyio
import click

from swarm_memory.schema.base import counted
from swarm_memory.schema.errors import InputError, SwarmMemoryError, TeamUnavailable
from swarm_memory.schema.status import StorageHealth
from swarm_memory.server.cli.agents import examined
from swarm_memory.server.cli.command import command
from swarm_memory.server.cli.console import Finding, say, say_findings
from swarm_memory.server.cli.invocation import Invocation
from swarm_memory.server.embedding.minilm import MiniLMEmbedder
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.jobs.reembed import reembed
from swarm_memory.server.missed_hooks import KEPT_DAYS, lines_of_missed
from swarm_memory.server.switch import off_by
from swarm_memory.server.wiring import embedder_fallback_reason, empty_toolbox, make_embedder
from swarm_memory.tools.guard.person_names import check_detector
from swarm_memory.tools.memories.status import memory_status

UNSEEN = "whether a chat model or a reranker answers, whether backups can be restored, other projects' banks"
REPAIR = "run `swarm-memory doctor --repair`"


def _show(findings: list[Finding]) -> None:
    """Print what is wrong or could be better, and how many checks passed."""
    *checks, unseen = findings
    odd = [each for each in checks if each.state != "ok" or each.advice]
    if click.get_current_context().params["verbose"] or any(each.state == "fail" for each in odd):
        say_findings(findings if click.get_current_context().params["verbose"] else [*odd, unseen])
    else:
        say_findings(odd)
        well = counted(len(checks) - len(odd), "check")
        say(f"All {'else ' if odd else ''}is well ({well}; -v lists them)", fg="green")


@command(show=_show, failed=lambda findings: any(finding.state == "fail" for finding in findings))
def doctor(
    invocation: Invocation,
    mend: Annotated[bool, "Repair the bank first; what was there before is kept.", "--repair"] = False,
    verbose: Annotated[bool, "Also list what is in order.", "-v"] = False,
) -> list[Finding]:
    """Check the installation and the bank, and say what is wrong and what to do. Exits with 1 if something fails.

    With --repair, indexes are rebuilt from the rows, and what can still be read of a damaged file becomes a new bank;
    a row whose text changed is left out and named. The damaged file, or a backup of it, is kept. Incomplete copies that
    a killed process left behind are removed.
    """
    invocation.has_said_notices = True
    if mend:
        _repair(invocation)
    return examine(invocation)


def _repair(invocation: Invocation) -> None:
    """Repair the bank, and report on stderr what was done."""
    if not invocation.place.has_bank:
        raise InputError(f"there is no bank at {invocation.place.database}")
    care = invocation.care()
    halves = care.half_copies()
    for path in halves:
        path.unlink(missing_ok=True)
    done = care.repair()
    if done.actions:  # what lost its vector, or had one that cannot be right, is embedded again
        invocation.run(reembed)
    removed = [f"removed {path}, an incomplete copy that a killed process left behind" for path in halves]
    kept = [f"what was there before is kept as {done.kept}"] if done.kept else []
    for action in [*removed, *done.actions, *kept] or ["nothing to repair"]:
        say(f"repair: {action}", err=True)


def examine(invocation: Invocation) -> list[Finding]:
    """Return the findings on each part. A part that cannot be examined does not stop the others.

    Settings that cannot be used do: every other part depends on them and would only report the same error again.
    """
    findings = [
        Finding("Python", "ok", f"{platform.python_version()} at {sys.executable}"),
        Finding("swarm-memory", "ok", f"{version('swarm-memory')} in {Path(__file__).resolve().parents[3]}"),
    ]
    unseen = [UNSEEN]
    for at, (what, part) in enumerate(PARTS.items(), 1):
        try:
            findings.extend(part(invocation))
        except (SwarmMemoryError, OSError) as error:
            findings.append(Finding(what, "fail", str(error)))
            if what == "settings":
                unseen = [*list(PARTS)[at:], UNSEEN]
                break
    return [*findings, Finding("not checked", "ok", ", ".join(unseen))]


def _settings(invocation: Invocation) -> Iterator[Finding]:
    resolved = invocation.settings()
    check_detector(resolved.settings.distill.redact_pii)
    files = ", ".join(map(str, resolved.files)) or "no files"
    changed = f"{len(resolved.origin)} changed ({files})" if resolved.origin else "all at their defaults"
    yield Finding("settings", "warn" if resolved.notices else "ok", "; ".join((changed, *resolved.notices)))


def _sqlite(invocation: Invocation) -> Iterator[Finding]:
    """Try the driver on a temporary bank, so that none is created in the project."""

    async def health() -> StorageHealth:
        async with empty_toolbox(*invocation.bank()) as toolbox:
            return await toolbox.store.health()

    found = anyio.run(health)
    yield Finding("SQLite", "ok", f"{found.sqlite_version} via {found.driver}: {found.driver_reason}")
    if not found.wal_reset_safe:
        advice = "nothing to do: a lock around every write guards against it; SQLite 3.51.3 has the fix"
        yield Finding("WAL", "warn", f"SQLite {found.sqlite_version} has the WAL-reset bug", advice)
    if found.sqlite_vec_version is None:
        advice = "install pysqlite3, or a Python whose sqlite3 loads extensions; until then, searches use an exact scan"
        yield Finding("sqlite-vec", "warn", "not loaded", advice)
    else:
        yield Finding("sqlite-vec", "ok", f"{found.sqlite_vec_version}, searched with {found.vector_search}")


def _embedder(invocation: Invocation) -> Iterator[Finding]:
    settings = invocation.settings().settings.embedding
    embedder = make_embedder(settings)
    anyio.run(embedder.embed_queries, ["is this endpoint there?"])
    answers = f"{embedder.name}, {embedder.dimensions} dimensions, answers"
    if isinstance(embedder, MiniLMEmbedder | StaticEmbedder):
        embedder.verify()
        answers += ", checksum OK"
    if isinstance(embedder, MiniLMEmbedder):
        embedder.light.verify()
        answers += f"; {embedder.light.name} for hooks that no server answers"
    yield Finding("embedder", "ok", answers)
    if missing := embedder_fallback_reason(settings):
        yield Finding("embedder", "warn", missing, "pip install onnxruntime, if there is a wheel for this system")


def _chat(invocation: Invocation) -> Iterator[Finding]:
    """Check that each model has what it needs; none is called, because that may cost money."""
    chat = invocation.settings().settings.chat
    providers = (*chat.providers, *(each for each in chat.learning if each not in chat.providers))
    if not providers:
        yield Finding("chat model", "ok", "none: tasks are judged by evidence and distilled by rules")
    for provider in providers:
        variable = provider.key_variable
        if variable and not os.environ.get(variable, "").strip():
            yield Finding("chat model", "warn", f"{provider.name}: {variable} is not set", f"set {variable}")
        elif provider.provider == "claude_cli" and shutil.which(provider.command) is None:
            advice = "install Claude Code, or remove claude_cli from chat.providers"
            yield Finding("chat model", "warn", f"{provider.name}: {provider.command} was not found", advice)
        else:
            yield Finding("chat model", "ok", provider.name)


def _bank(invocation: Invocation) -> Iterator[Finding]:
    place = invocation.place
    if not place.has_bank:
        yield Finding("bank", "ok", f"none yet; the first use creates {place.database}")
        return
    status = invocation.run(memory_status)
    counts, health = status.statistics, status.storage
    memories = ", ".join(f"{number} {name}" for name, number in counts.memories.items()) or "no memories"
    yield Finding("bank", "ok", f"{health.path}: schema {health.schema_version}, {memories}")
    if failed := counts.jobs.get("failed"):
        yield Finding("jobs", "warn", f"{failed} failed", "see `swarm-memory jobs list --all`")
    if health.read_only:
        advice = "free some space on its disk, or fix the permissions of the file and its folder"
        yield Finding("bank", "fail", f"{health.path} cannot be written to", advice)
    yield from (Finding("bank", "warn", notice) for notice in status.notices)
    if place.is_remote:
        yield Finding("backups", "ok", "left to the database server's own tools (pg_dump, or what its provider offers)")
        return
    care = invocation.care()
    inside = anyio.run(care.inspect)
    if inside.sound:
        yield Finding("integrity", "ok", "pages, texts and indexes match what was written")
    rows = (("memories", inside.memories), ("trajectories", inside.trajectories))
    changed = [f"{what} that are not as written: {len(ids)} ({', '.join(ids[:3])})" for what, ids in rows if ids]
    yield from (Finding("integrity", "fail", fault, REPAIR) for fault in (*changed, *inside.pages, *inside.indexes))
    found = care.backups()
    newest = f"the newest, from {found[0].made:%F %T} UTC, is {found[0].path}" if found else "`bank backup` makes one"
    yield Finding("backups", "ok", f"{len(found)}: {newest}")
    for half in care.half_copies():
        advice = f"{REPAIR}: it removes the copy, which may still hold what was forgotten since"
        yield Finding("backups", "warn", f"a killed process left an incomplete copy at {half}", advice)
    for aside in care.damaged_files():
        advice = "copy out what you need, then delete it; `memories forget` does not reach it"
        yield Finding("backups", "warn", f"a damaged bank was set aside as {aside}", advice)


def _team(invocation: Invocation) -> Iterator[Finding]:
    """Report whether the team's server knows the user; nothing without a team."""
    settings = invocation.settings().settings.team
    if settings.url is None:
        return
    from swarm_memory.server.team.client import TeamClient

    try:
        member = anyio.run(TeamClient(settings).me)
    except TeamUnavailable as error:
        yield Finding("team", "warn", str(error), "what was pulled last is used; the server is asked again by itself")
    else:
        who = member.name or "its own user"
        yield Finding("team", "ok", f"{settings.url} knows you as {who}, with the role {member.role}")


def _hooks(invocation: Invocation) -> Iterator[Finding]:
    if by := off_by(invocation.root, invocation.settings().settings.enabled):
        yield Finding("hooks", "warn", f"switched off by {by}", "undo that; for a pause, run it with --end")
    missed = lines_of_missed(invocation.root)
    yield from (Finding("hooks", "warn", line) for line in missed)
    if not missed:
        yield Finding("hooks", "ok", f"nothing missed in the last {KEPT_DAYS} days")


PARTS: dict[str, Callable[[Invocation], Iterator[Finding]]] = {
    "settings": _settings,
    "SQLite": _sqlite,
    "embedder": _embedder,
    "chat model": _chat,
    "bank": _bank,
    "team": _team,
    "agents": lambda invocation: examined(invocation.root),
    "hooks": _hooks,
}
"""What is examined, in this order."""
