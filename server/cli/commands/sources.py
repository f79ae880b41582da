"""`sources`: tools, documents, code and API descriptions, indexed, searched, listed and removed."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from swarm_memory.schema.base import counted
from swarm_memory.schema.errors import ConfigError, InputError, NotFoundError
from swarm_memory.schema.source import SOURCE_KINDS, IndexedSource, SourceInfo, SourceKind, SourceSearch
from swarm_memory.server.cli.console import as_report, json_option, print_json, print_table, progress, say
from swarm_memory.server.cli.invocation import Invocation

if TYPE_CHECKING:
    from swarm_memory.tools.toolbox import Toolbox

SHOWN_CHARS = 400
SHOWN_FAULTS = 20

_kind = click.option("--kind", type=click.Choice(SOURCE_KINDS), help="Only this; by default all that are there.")


@click.group()
def sources() -> None:
    """Find the right tool, passage or function: index what there is, then search it.

    \b
    Examples:
      swarm-memory sources index
      swarm-memory sources index --kind tool --start-servers
      swarm-memory sources search "where is the retry limit set" --kind code
    """


@sources.command(short_help="Index PATH; a second time only what changed.")
@click.argument("path", required=False, type=click.Path())
@_kind
@click.option("--start-servers", is_flag=True, help="Start the MCP servers that the file names, to list their tools.")
@json_option
@click.pass_obj
def index(
    invocation: Invocation, path: str | None, kind: SourceKind | None, start_servers: bool, as_json: bool
) -> None:
    """Index PATH (default: the project); a second time only what changed.

    What it is, document, code, API description or list of functions, is told from the files, and a folder may hold
    several; --kind chooses one. Tools also come from a .mcp.json, for --kind tool that of the project. Starting a
    server that a cloned repository names is running its code: without --start-servers none is started.

    With --kind github PATH is OWNER/REPO or OWNER/REPO@REF, read from GitHub's API with the token in GH_TOKEN or
    GITHUB_TOKEN where there is one.

    \b
    Examples:
      swarm-memory sources index
      swarm-memory sources index openapi.yaml
      swarm-memory sources index --kind tool --start-servers
      swarm-memory sources index --kind github OWNER/REPO@v2
    """
    if kind == "github":
        if not _index(invocation, kind, path, start_servers, as_json, False):
            sys.exit(1)
        return
    # What a person names is relative to where they stand, what is left out to the project.
    named = None if path is None else Path(path).absolute()
    kinds: list[SourceKind] = [kind] if kind else _kinds_in(named or invocation.root)
    failed = [each for each in kinds if not _index(invocation, each, named, start_servers, as_json, kind is None)]
    if failed:
        sys.exit(1)


def _kinds_in(path: Path) -> list[SourceKind]:
    from swarm_memory.server.sources.indexing import kinds_of

    found = kinds_of(path)
    if not found:
        raise InputError(f"{path} holds nothing that is known: no document, code, API description or list of functions")
    return found


def _index(
    invocation: Invocation, kind: SourceKind, path: Path | str | None, start_servers: bool, as_json: bool, told: bool
) -> bool:
    """Index one kind, and say what came of it; return whether something did.

    Where the kind was `told` from the files, what stands in its way, such as an extra that is not installed, is said.
    """
    from swarm_memory.server.sources.indexing import IndexRequest, Leave
    from swarm_memory.server.sources.indexing import index as operation

    where = "." if told and path is None else None if path is None else str(path)
    asked, leave = (
        IndexRequest(kind=kind, path=where),
        Leave(any_folder=True, start_servers=start_servers, any_repository=True),
    )

    async def operate(toolbox: "Toolbox") -> IndexedSource:
        with progress("reading", quiet=as_json) as moved:
            return await operation(toolbox, asked, invocation.root, leave, as_report(moved))

    try:
        done = invocation.run(operate)
    except (ConfigError, InputError) as error:
        if not told:
            raise
        click.echo(f"swarm-memory: {kind}: {error}", err=True)
        return False
    print_json(done) if as_json else _show_indexed(done)
    return bool(not done.faults or done.added or done.changed or done.unchanged)


@sources.command()
@click.argument("query")
@click.option("--kind", type=click.Choice(SOURCE_KINDS), help="Only of this kind.")
@click.option("-k", type=click.IntRange(1, 50), help="How many; 5 by default.")
@click.option("--offset", type=click.IntRange(0, 1000), default=0, help="Leave out so many of the best.")
@click.option("--in-project", "project", help="Name of another project; this one by default.")
@json_option
@click.pass_obj
def search(
    invocation: Invocation,
    query: str,
    kind: SourceKind | None,
    k: int | None,
    offset: int,
    project: str | None,
    as_json: bool,
) -> None:
    """Find what fits QUERY, best first."""
    from swarm_memory.tools.sources.sources import search_sources

    async def operate(toolbox: "Toolbox") -> SourceSearch:
        return await search_sources(toolbox, query, kind=kind, k=k, offset=offset, project=project)

    found = invocation.read(operate)
    print_json(found) if as_json else _show_found(found)


@sources.command("list")
@json_option
@click.pass_obj
def list_sources(invocation: Invocation, as_json: bool) -> None:
    """List what is indexed in this project."""
    found = invocation.read(lambda toolbox: toolbox.store.sources.list_sources(toolbox.scope))
    if as_json:
        print_json(found)
    elif not found:
        say("Nothing is indexed yet: swarm-memory sources index")
    else:
        print_table(("kind", "location", "groups", "passages", "indexed"), map(_row, found))


@sources.command(short_help="Delete what was indexed from LOCATION.")
@click.argument("location")
@_kind
@json_option
@click.pass_obj
def remove(invocation: Invocation, location: str, kind: SourceKind | None, as_json: bool) -> None:
    """Delete what was indexed from LOCATION (as `sources list` shows it), with every trace of it."""
    from swarm_memory.tools.ports.sources import SourceKey

    async def operate(toolbox: "Toolbox") -> int:
        store = toolbox.store.sources
        kinds: list[SourceKind] = [kind] if kind else []
        if kind is None:
            kinds = [each.kind for each in await store.list_sources(toolbox.scope) if each.location == location]
        if not kinds:
            raise NotFoundError(f"nothing is indexed from {location}: `swarm-memory sources list` shows what is")
        keys = [SourceKey(toolbox.scope, each, location) for each in kinds]
        return sum([await store.remove(key) for key in keys])

    count = invocation.read(operate)
    print_json({"passages": count}) if as_json else say(f"{counted(count, 'passage')} removed.")


def _row(source: SourceInfo) -> tuple[object, ...]:
    return (source.kind, source.location, source.groups, source.passages, f"{source.indexed_at:%Y-%m-%d %H:%M}")


def _show_indexed(done: IndexedSource) -> None:
    say(
        f"{done.kind} {done.location}: {done.added} new, {done.changed} changed, {done.unchanged} unchanged, "
        f"{done.removed} gone; {counted(done.passages, 'passage')} written."
    )
    if done.reason:
        say(f"{done.reason[0].upper()}{done.reason[1:]}.", fg="yellow")
    for fault in done.faults[:SHOWN_FAULTS]:
        say(f"    not read: {fault.group}: {fault.reason}", fg="yellow")
    if len(done.faults) > SHOWN_FAULTS:
        say(f"    … and {len(done.faults) - SHOWN_FAULTS} more", fg="yellow")
    for notice in done.notices:
        say(f"Note: {notice}", fg="yellow")


def _show_found(found: SourceSearch) -> None:
    from swarm_memory.server.mcp.answers import of_passage

    for number, hit in enumerate(found.hits, start=found.offset + 1):
        shown = of_passage(hit)
        say(f"{number}. {shown['title']}", bold=True)
        ranked = f", reranked {shown['rerank_score']:.3f}" if "rerank_score" in shown else ""
        say(f"   {shown['kind']} · {shown['where']} · {shown['source']} · {shown['score']:.3f}{ranked}", dim=True)
        if "url" in shown:
            say(f"   {shown['url']} · {shown.get('sha', '')}".rstrip(" ·"), dim=True)
        if hit.justification:
            say(f"   {hit.justification}")
        text = " ".join(shown.get("description", hit.passage.content).split())
        say(f"   {text[:SHOWN_CHARS]}{' …' if len(text) > SHOWN_CHARS else ''}")
    if found.reason:
        say(found.reason)
    for notice in found.notices:
        say(f"Note: {notice}", fg="yellow")
    by = f" · reranked by {found.reranker}" if found.reranker else ""
    of = counted(found.passages, "passage")
    say(f"{', '.join(found.legs)} · {found.embedder}{by} · {of} · {found.latency_ms:.1f} ms", dim=True)
