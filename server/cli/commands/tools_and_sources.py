"""`tools` and `sources`: what is known of tools, and tools, documents and code that are indexed and searched."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, TypeAlias, cast

import click

from swarm_memory.schema.base import counted, plural
from swarm_memory.schema.errors import ConfigError, InputError, NotFoundError
from swarm_memory.schema.source import SourceInfo, SourceKind, SourceSearch
from swarm_memory.server.cli.command import command, command_of
from swarm_memory.server.cli.console import as_report, print_json, print_table, progress, say
from swarm_memory.server.cli.invocation import Invocation
from swarm_memory.server.operations.operation import Flag, Word
from swarm_memory.server.operations.tools_and_sources import SEARCH, TOOL_GUIDANCE, of_passage

if TYPE_CHECKING:
    from swarm_memory.schema.source import IndexedSource
    from swarm_memory.schema.tool_memory import SummarizeResult, ToolMemory
    from swarm_memory.server.storage.stores.tool_memory import ToolMemoryCounts
    from swarm_memory.tools.tool_memory.log import LogResult
    from swarm_memory.tools.toolbox import Toolbox

MAX_INPUT_BYTES = 50_000_000
SHOWN_CHARS = 400
SHOWN_FAULTS = 20

tools = click.Group(
    "tools",
    help="""What each tool is good for, from the calls that were made.

    \b
    Examples:
      swarm-memory tools list
      swarm-memory tools show Bash WebFetch
      swarm-memory tools show --task "look up the weather in a city"
      swarm-memory tools log calls.jsonl
    """,
)

show = command_of(TOOL_GUIDANCE, "show", of=tools, show=lambda found: say(found.markdown))


@command(of=tools, name="log")
def log_command(
    invocation: Invocation,
    file: Annotated[BinaryIO, Word("[FILE]", click.File("rb"))] = "-",  # type: ignore[assignment]
    as_json: bool = False,
) -> None:
    """Log calls: JSON lines, one object or one array, from FILE or standard input.

    A call is {tool_name, input, output, success} and may have time_cost (seconds), token_cost, create_time, task_id,
    session_id, call_id, task, tool_schema.
    """
    from swarm_memory.tools.tool_memory.log import MAX_CALLS, log_tool_calls

    calls = _read_calls(file.read(MAX_INPUT_BYTES + 1))

    async def operate(toolbox: "Toolbox") -> "list[LogResult]":
        return [
            await log_tool_calls(toolbox, calls[start : start + MAX_CALLS])
            for start in range(0, max(1, len(calls)), MAX_CALLS)
        ]

    results = invocation.run(operate)
    logged, known = sum(each.logged for each in results), sum(each.known for each in results)
    names = sorted({name for each in results for name in each.tools})
    if as_json:
        print_json({"logged": logged, "known": known, "tools": names})
    else:
        told = f"{counted(logged, 'call')} logged, {known} known already"
        say(f"{told}; {plural(len(names), 'tool')}: {', '.join(names)}.")


def _read_calls(data: bytes) -> list[dict[str, Any]]:
    if len(data) > MAX_INPUT_BYTES:
        raise InputError(f"the file has more than {MAX_INPUT_BYTES:,} bytes; log it in parts")
    text = data.decode("utf-8", "replace").lstrip("\ufeff").strip()
    if not text:
        raise InputError("there are no calls: give JSON with at least one")
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        found = [_line(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    calls = cast(list[object], found) if isinstance(found, list) else [found]
    if not all(isinstance(each, dict) for each in calls):
        raise InputError("each call must be a JSON object with tool_name and success")
    return cast(list[dict[str, Any]], calls)


def _line(number: int, line: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"line {number} is not JSON: {error}") from error


def _show_summarized(result: "SummarizeResult") -> None:
    say(result.message + ".")
    done = result.evaluation
    if done.evaluated or done.failed:
        how = ", ".join(f"{count} by {method}" for method, count in done.methods.items()) or "none"
        say(f"Calls evaluated: {how}; {done.failed} failed and are tried again later.", dim=True)
    for reason in (*done.reasons, *(f"{each.tool_name}: {each.reason}" for each in result.tools if each.reason)):
        click.echo(f"swarm-memory: {reason}", err=True)


@command(of=tools, name="list")
def list_command(
    invocation: Invocation,
    summarize: Annotated[bool, "Evaluate what was logged first, and summarize tools with news."] = False,
    as_json: bool = False,
) -> None:
    """List the tools of this project with their totals over all time."""
    from swarm_memory.tools.tool_memory.summarize import summarize_tool_memory

    if summarize:
        result = invocation.run(lambda toolbox: summarize_tool_memory(toolbox, None))
        print_json(result) if as_json else _show_summarized(result)
        if result.failed:
            raise click.exceptions.Exit(1)
        if as_json:
            return

    async def operate(toolbox: "Toolbox") -> "tuple[list[ToolMemory], ToolMemoryCounts]":
        store = toolbox.store.tool_memory
        return await store.memories(toolbox.scope, None), await store.counts(toolbox.scope)

    found, counts = invocation.read(operate)
    if as_json:
        rows = [each.totals.model_dump(mode="json") | {"summarized": each.summary is not None} for each in found]
        print_json({"tools": rows, "not_evaluated": counts.not_evaluated})
        return
    if not found:
        say("No calls of any tool were logged here.")
        return
    print_table(
        ("tool", "calls", "succeeded", "evaluated", "good", "kept", "summary"),
        (
            (each.tool_name, each.calls, each.succeeded, each.evaluated, each.good, each.kept, _when(memory))
            for memory in found
            for each in (memory.totals,)
        ),
    )
    if counts.not_evaluated:
        say(f"{counts.not_evaluated} kept calls are not evaluated yet.", dim=True)


def _when(memory: "ToolMemory") -> str:
    return f"{memory.summarized_at:%F %R}" if memory.summarized_at else "none"


Kind: TypeAlias = Annotated[SourceKind | None, "Only this; by default all that are there."]

sources = click.Group(
    "sources",
    help="""Find the right tool, passage or function: index what there is, then search it.

    \b
    Examples:
      swarm-memory sources index
      swarm-memory sources index --kind tool --start-servers
      swarm-memory sources search "where is the retry limit set" --kind code
    """,
)


@command(of=sources)
def index(
    invocation: Invocation,
    path: Annotated[str | None, Word("[PATH]")] = None,
    kind: Kind = None,
    start_servers: Annotated[bool, "Start the MCP servers that the file names, to list their tools."] = False,
    as_json: bool = False,
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
    from swarm_memory.server.sources.indexing import IndexRequest, Leave, kinds_of
    from swarm_memory.server.sources.indexing import index as operation

    # What a person names is relative to where they stand, what is left out to the project.
    where = path if path is None or kind == "github" else str(Path(path).absolute())
    kinds: Sequence[SourceKind] = [kind] if kind else kinds_of(Path(where or invocation.root))
    if not kinds:
        raise InputError(f"{path} holds nothing that is known: no document, code, API description or list of functions")
    leave, has_failed = Leave(any_folder=True, start_servers=start_servers, any_repository=True), False
    for each in kinds:
        asked = IndexRequest(kind=each, path="." if kind is None and where is None else where)

        async def operate(toolbox: "Toolbox", asked: IndexRequest = asked) -> "IndexedSource":
            with progress("reading") as moved:
                return await operation(toolbox, asked, invocation.root, leave, as_report(moved))

        try:
            done = invocation.run(operate)
        except (ConfigError, InputError) as error:
            if kind is not None:
                raise
            click.echo(f"swarm-memory: {each}: {error}", err=True)  # such as an extra that is not installed
            has_failed = True
            continue
        print_json(done) if as_json else _show_indexed(done)
        has_failed |= bool(done.faults) and not (done.added or done.changed or done.unchanged)
    if has_failed:
        raise click.exceptions.Exit(1)


def _show_indexed(done: "IndexedSource") -> None:
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


search = command_of(SEARCH, "search", of=sources, show=_show_found)


@command(of=sources, name="list")
def list_sources(
    invocation: Invocation,
    remove: Annotated[
        str | None, "Delete what was indexed from there, with every trace of it.", Flag("LOCATION")
    ] = None,
    kind: Kind = None,
    as_json: bool = False,
) -> None:
    """List what is indexed in this project, or remove what was indexed from a location that it shows."""

    async def listed(toolbox: "Toolbox") -> list[SourceInfo]:
        every = await toolbox.store.sources.list_sources(toolbox.scope)
        return [each for each in every if kind in (None, each.kind)]

    if remove is not None:
        count = invocation.read(lambda toolbox: _remove(toolbox, remove, kind))
        print_json({"passages": count}) if as_json else say(f"{counted(count, 'passage')} removed.")
        return
    found = invocation.read(listed)
    if as_json:
        print_json(found)
    elif not found:
        say("Nothing is indexed yet: swarm-memory sources index")
    else:
        rows = ((each.kind, each.location, each.groups, each.passages, f"{each.indexed_at:%F %R}") for each in found)
        print_table(("kind", "location", "groups", "passages", "indexed"), rows)


async def _remove(toolbox: "Toolbox", location: str, kind: SourceKind | None) -> int:
    from swarm_memory.tools.ports.sources import SourceKey

    store = toolbox.store.sources
    kinds: Sequence[SourceKind] = (
        [kind] if kind else [each.kind for each in await store.list_sources(toolbox.scope) if each.location == location]
    )
    if not kinds:
        raise NotFoundError(f"nothing is indexed from {location}: `swarm-memory sources list` shows what is")
    return sum([await store.remove(SourceKey(toolbox.scope, each, location)) for each in kinds])
