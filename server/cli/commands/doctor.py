"""`doctor`: how each part of the installation and the bank is and what to do; it mends the bank when asked."""

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import anyio
import click

from swarm_memory.schema.base import counted
from swarm_memory.schema.errors import InputError, SwarmMemoryError, TeamUnavailable
from swarm_memory.schema.status import StorageHealth
from swarm_memory.server.cli.agents import CLAUDE, Agent, all_agents
from swarm_memory.server.cli.command import command
from swarm_memory.server.cli.console import say
from swarm_memory.server.cli.invocation import Invocation
from swarm_memory.server.config import off_by
from swarm_memory.server.embedding.minilm import MiniLMEmbedder
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.hosts.entries import SERVER_NAME
from swarm_memory.server.hosts.host import InstallScope
from swarm_memory.server.missed import KEPT_DAYS, told
from swarm_memory.server.wiring import make_embedder, without_minilm
from swarm_memory.tools.memories.status import memory_status
from swarm_memory.tools.ports.care import Inspection
from swarm_memory.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from swarm_memory.server.storage.care.care import SqliteCare


class Finding(NamedTuple):
    """How one part is."""

    what: str
    state: Literal["ok", "warn", "fail"]
    found: str
    advice: str = ""


def _show(findings: list[Finding]) -> None:
    for finding in findings:
        mark, colour = {"ok": ("ok  ", "green"), "warn": ("warn", "yellow"), "fail": ("FAIL", "red")}[finding.state]
        click.secho(mark, fg=colour, nl=False)
        say(f"  {finding.what}: {finding.found}")
        if finding.advice:
            say(f"      → {finding.advice}")


@command(
    show=_show,
    json=lambda findings: [finding._asdict() for finding in findings],
    failed=lambda findings: any(finding.state == "fail" for finding in findings),
)
def doctor(
    invocation: Invocation,
    mend: Annotated[bool, "Mend the bank first; what stood there is kept.", "--repair"] = False,
) -> list[Finding]:
    """Check the installation and the bank, and say what to do. Exits with 1 when something fails.

    With --repair indexes are made again from the rows, texts are brought back from backups, and what can still be read
    of a damaged file becomes a new bank. The damaged file is kept, or a backup of it. Half copies that a killed process
    left are removed.
    """
    if mend:
        _repair(invocation)
    return examine(invocation)


def _repair(invocation: Invocation) -> None:
    """Mend the bank, and say on stderr what was done."""
    place = invocation.place
    if not place.has_bank:
        raise InputError(f"there is no bank at {place.database}")
    dropped = invocation.care().drop_half_copies()
    done = invocation.care().repair()
    if done.actions:
        invocation.run(_embed_missing)
    halves = [f"removed {path}, half a copy that a killed process left" for path in dropped]
    for action in [*halves, *done.actions] or ["nothing to repair"]:
        say(f"repair: {action}", err=True)
    if done.kept:
        say(f"repair: what stood there before is {done.kept}", err=True)


async def _embed_missing(toolbox: Toolbox) -> None:
    """Embed what lost its vector, or had one that cannot be right."""
    from swarm_memory.server.jobs.reembed import reembed as operation

    await operation(toolbox.store, toolbox.embedder, drop_others=False, on_progress=lambda _: None)


def examine(invocation: Invocation) -> list[Finding]:
    """Return the findings, one or more for each part. One that cannot be examined does not stop the others.

    Settings that cannot be read do: every other part rests on them and would only say the same again.
    """
    findings = [*_python()]
    for what, part in _parts(invocation).items():
        try:
            findings.extend(part())
        except SwarmMemoryError as error:
            findings.append(Finding(what, "fail", str(error)))
            if what == "settings":
                break
    return findings


def _parts(invocation: Invocation) -> dict[str, Callable[[], Iterator[Finding]]]:
    return {
        "settings": lambda: _settings(invocation),
        "SQLite": lambda: _sqlite(invocation),
        "embedder": lambda: _embedder(invocation),
        "chat model": lambda: _chat(invocation),
        "bank": lambda: _bank(invocation),
        "team": lambda: _team(invocation),
        "agents": lambda: _agents(invocation),
        "hooks": lambda: _hooks(invocation),
    }


def _team(invocation: Invocation) -> Iterator[Finding]:
    """Say whether the team's server knows the user; nothing without a team."""
    settings = invocation.settings().settings.team
    if settings.url is None:
        return
    from swarm_memory.server.team.client import TeamClient

    try:
        member = anyio.run(TeamClient(settings).me)
    except TeamUnavailable as error:
        yield Finding("team", "warn", str(error), "what was pulled last is used; it is asked again by itself")
    else:
        who = member.name or "its own user"
        yield Finding("team", "ok", f"{settings.url} knows you as {who}, with the role {member.role}")


def _python() -> Iterator[Finding]:
    yield Finding("Python", "ok", f"{platform.python_version()} at {sys.executable}")
    yield Finding("swarm-memory", "ok", f"{version('swarm-memory')} in {Path(__file__).resolve().parents[3]}")


def _settings(invocation: Invocation) -> Iterator[Finding]:
    resolved = invocation.settings()
    files = ", ".join(map(str, resolved.files)) or "no files"
    changed = f"{len(resolved.origin)} changed ({files})" if resolved.origin else "all at their defaults"
    told = "; ".join((changed, *resolved.notices))
    yield Finding("settings", "warn" if resolved.notices else "ok", told)


def _sqlite(invocation: Invocation) -> Iterator[Finding]:
    """Try the driver on a bank that is thrown away, so that none is made where none is."""
    health = anyio.run(_health, invocation)
    yield from _driver(health)


async def _health(invocation: Invocation) -> StorageHealth:
    async with invocation.empty_toolbox() as toolbox:
        return await toolbox.store.health()


def _driver(health: StorageHealth) -> Iterator[Finding]:
    yield Finding("SQLite", "ok", f"{health.sqlite_version} by {health.driver}: {health.driver_reason}")
    if health.wal_reset_safe:
        yield Finding("WAL", "ok", "this SQLite has the fix of the WAL-reset bug")
    else:
        advice = "nothing to do: a lock around every write guards against it; SQLite 3.51.3 has the fix"
        yield Finding("WAL", "warn", f"SQLite {health.sqlite_version} has the WAL-reset bug", advice)
    if health.sqlite_vec_version is None:
        advice = "install pysqlite3, or a Python whose sqlite3 loads extensions; until then the exact scan answers"
        yield Finding("sqlite-vec", "warn", "not loaded", advice)
    else:
        yield Finding("sqlite-vec", "ok", f"{health.sqlite_vec_version}, searched by {health.vector_search}")


def _embedder(invocation: Invocation) -> Iterator[Finding]:
    settings = invocation.settings().settings.embedding
    embedder = make_embedder(settings)
    anyio.run(embedder.embed_query, "is this endpoint there?")
    answers = f"{embedder.name}, {embedder.dimensions} dimensions, answers"
    if isinstance(embedder, MiniLMEmbedder | StaticEmbedder):
        embedder.verify()
        answers += ", checksum right"
    if isinstance(embedder, MiniLMEmbedder):
        embedder.light.verify()
        answers += f"; {embedder.light.name} at hooks that no server answers"
    yield Finding("embedder", "ok", answers)
    if missing := without_minilm(settings):
        yield Finding("embedder", "warn", missing, "pip install onnxruntime, where there is a wheel for this system")


def _chat(invocation: Invocation) -> Iterator[Finding]:
    """Look for what each model needs; none is asked, because that may cost money."""
    chat = invocation.settings().settings.chat
    providers = (*chat.providers, *(each for each in chat.learning if each not in chat.providers))
    if not providers:
        yield Finding("chat model", "ok", "none: evidence judges and rules distill")
    for provider in providers:
        variable = provider.key_variable
        if variable and not os.environ.get(variable, "").strip():
            yield Finding("chat model", "warn", f"{provider.name}: {variable} is not set", f"set {variable}")
        elif provider.provider == "claude_cli" and shutil.which(provider.command) is None:
            advice = "install Claude Code, or take claude_cli from chat.providers"
            yield Finding("chat model", "warn", f"{provider.name}: {provider.command} was not found", advice)
        else:
            yield Finding("chat model", "ok", provider.name)


def _bank(invocation: Invocation) -> Iterator[Finding]:
    place = invocation.place
    if not place.has_bank:
        yield Finding("bank", "ok", f"none yet; the first use makes {place.database}")
        return
    status = invocation.run(memory_status)
    counts, health = status.statistics, status.storage
    memories = ", ".join(f"{number} {name}" for name, number in counts.memories.items()) or "no memories"
    yield Finding("bank", "ok", f"{health.path}: schema {health.schema_version}, {memories}")
    if failed := counts.jobs.get("failed"):
        yield Finding("jobs", "warn", f"{failed} failed", "see `swarm-memory jobs list --all`")
    if health.read_only:
        yield Finding(
            "bank", "fail", f"{health.path} cannot be written", "mend the permissions of the file and its folder"
        )
    yield from (Finding("bank", "warn", notice) for notice in status.notices)
    if place.is_remote:
        advice = "by the database server's own means (pg_dump, or what its provider offers)"
        yield Finding("backups", "ok", advice)
        return
    yield from _inside(anyio.run(invocation.care().inspect))
    yield from _copies(invocation.care())


def _inside(found: Inspection) -> Iterator[Finding]:
    if found.sound:
        yield Finding("integrity", "ok", "pages, texts and indexes are what was written")
        return
    mend = "run `swarm-memory doctor --repair`"
    for what, ids in (("memories", found.memories), ("trajectories", found.trajectories)):
        if ids:
            told = f"{len(ids)} {what} are not what was written: {', '.join(ids[:3])}"
            yield Finding("integrity", "fail", told, mend)
    yield from (Finding("integrity", "fail", fault, mend) for fault in (*found.pages, *found.indexes))


def _copies(care: "SqliteCare") -> Iterator[Finding]:
    found = care.backups()
    newest = (
        f"newest of {found[0].made:%F %T} UTC, because {found[0].reason}" if found else "`swarm-memory bank backup`"
    )
    yield Finding("backups", "ok", f"{len(found)} in {care.backup_folder}: {newest}")
    for half in care.half_copies():
        advice = "run `swarm-memory doctor --repair`: it removes it, with what was forgotten since"
        yield Finding("backups", "warn", f"a killed process left half a copy as {half}", advice)
    for aside in care.damaged_files():
        advice = "look what you need of it and delete it; `memories forget` does not reach into it"
        yield Finding("backups", "warn", f"a damaged bank was put aside as {aside}", advice)


def _agents(invocation: Invocation) -> Iterator[Finding]:
    """Look at every agent that is here; Claude Code lacks us only where we are installed nowhere."""
    agents, root = list(all_agents()), invocation.root
    installed = {agent.host.name: agent.settings.installed_scopes(root) for agent in agents}
    for agent in agents:
        scopes, plugin, title = installed[agent.host.name], agent.settings.plugin(root), agent.host.title
        if plugin and scopes:
            advice = f"take one out: `swarm-memory uninstall` or `claude plugin uninstall {plugin}`"
            yield Finding(title, "warn", f"the plugin {plugin} is enabled too: its hooks stand back", advice)
        elif plugin:
            yield Finding(title, "ok", f"server and hooks are those of the plugin {plugin}")
        elif agent.host.name == CLAUDE and not any(installed.values()):
            advice = "run `swarm-memory install` (--dry-run shows what it writes)"
            yield Finding(title, "warn", "server and hooks are not installed", advice)
        elif not scopes and agent.settings.is_there():
            advice = f"`swarm-memory install --agent {agent.host.name}` shares this memory with it"
            yield Finding(title, "ok", "here, and not installed into", advice)
        yield from _agent(invocation, agent, scopes)


def _agent(invocation: Invocation, agent: Agent, scopes: list[InstallScope]) -> Iterator[Finding]:
    calls, title = invocation.settings().settings.hooks.at_calls, agent.host.title
    name = "" if agent.host.name == CLAUDE else f" --agent {agent.host.name}"
    flags: dict[InstallScope, str] = {
        "local": "`", "user": " --user`", "project": "`, with --project for all who work on it"
    }  # fmt: skip
    for scope in scopes:
        if agent.settings.plan_install(scope, invocation.root, calls):
            advice = f"run `swarm-memory install{name}{flags[scope]} (--dry-run shows what it changes)"
            yield Finding(title, "warn", f"not installed as this version does it ({scope})", advice)
        else:
            yield Finding(title, "ok", f"server and hooks are installed ({scope})")
    if untrusted := agent.settings.untrusted(invocation.root):
        yield Finding(title, "warn", f"{counted(untrusted, 'hook')} not trusted yet", agent.settings.after_install)
    if len(scopes) > 1:
        advice = "take out all but one: `swarm-memory uninstall`, with --user or --project"
        yield Finding(title, "warn", f"installed {len(scopes)} times: {', '.join(scopes)}", advice)
    if "project" in scopes and shutil.which(SERVER_NAME) is None:
        advice = "put it there, as with `uv tool install`"
        yield Finding(title, "warn", f"the project's files run {SERVER_NAME}, which is not on the PATH", advice)


def _hooks(invocation: Invocation) -> Iterator[Finding]:
    if by := off_by(invocation.root, invocation.settings()):
        yield Finding("hooks", "warn", f"switched off by {by}", "`swarm-memory pause --end` switches it on")
    missed = told(invocation.root)
    yield from (Finding("hooks", "warn", line) for line in missed)
    if not missed:
        yield Finding("hooks", "ok", f"nothing missed in {KEPT_DAYS} days")
