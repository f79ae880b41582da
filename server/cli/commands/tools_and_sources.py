"""`tools` and `sources`: what is known of tools, and tools, documents and code that are indexed and searched."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import click

from swarm_memory.schema.errors import ConfigError, InputError, NotFoundError
from swarm_memory.schema.source import ReadKind, SourceKind
from swarm_memory.server.cli.command import command, command_of
from swarm_memory.server.cli.console import print_answer, print_json, say
from swarm_memory.server.cli.invocation import Invocation
from swarm_memory.server.operations import tools_and_sources as operations
from swarm_memory.server.operations.operation import Positional, Row

MAX_INPUT_BYTES = 50_000_000

tools = click.Group("tools", help="Show what each tool is good for, learned from real calls.")

command_of(
    operations.TOOL_GUIDANCE,
    "show",
    of=tools,
    show=lambda found: say(found["markdown"]),
    examples=("tools show Bash WebFetch", 'tools show --task "look up the weather in a city"'),
)


@command(of=tools, show=print_answer)
async def log(
    site: Invocation,
    file: Annotated[BinaryIO, Positional("[FILE]", click.File("rb"))] = "-",  # type: ignore[assignment]
) -> Row:
    """Log at most 1,000 calls, as lines of JSON or one array, from FILE or standard input.

    A call is {tool_name, input, output, success} and may have time_cost (seconds), token_cost, create_time, task_id,
    session_id, call_id, task, tool_schema.
    """
    data = file.read(MAX_INPUT_BYTES + 1)
    if len(data) > MAX_INPUT_BYTES:
        raise InputError(f"the file has more than {MAX_INPUT_BYTES:,} bytes; log it in parts")
    text = data.decode("utf-8-sig", "replace").strip()
    try:
        found: Any = json.loads(text) if text[:1] == "[" else [json.loads(each) for each in text.splitlines() if each]
    except (ValueError, RecursionError) as error:
        raise InputError(f"this is neither a JSON array nor lines of JSON: {error}") from error
    if not found or not all(isinstance(each, dict) for each in found):
        raise InputError("give JSON with at least one call: an object with tool_name and success")
    return await operations.log_tool_call(site, found)


@command(of=tools, name="list", show=print_answer, failed=lambda answer: answer.get("summarized", {}).get("failed"))
async def list_tools(
    site: Invocation,
    summarize: Annotated[bool, "First evaluate what was logged, and summarize tools that have new calls."] = False,
) -> Row:
    """List the tools of this project with their totals over all time."""
    summarized = {"summarized": await operations.summarize_tool_memory(site)} if summarize else {}
    toolbox = await site.for_reading()
    found = await toolbox.store.tool_memory.memories(toolbox.scope, None)
    counts = await toolbox.store.tool_memory.counts(toolbox.scope)
    rows = [each.totals.model_dump(mode="json") | {"summarized_at": each.summarized_at} for each in found]
    return {**summarized, "tools": rows, "not_evaluated": counts.not_evaluated}


sources = click.Group("sources", help="Find the right tool, passage or function: index what there is, then search it.")


@command(of=sources)
def index(
    invocation: Invocation,
    path: Annotated[str | None, Positional("[PATH]")] = None,
    kind: Annotated[ReadKind | None, "Only this kind; by default all that are found."] = None,
    start_servers: Annotated[bool, "Start the MCP servers that the file names, to list their tools."] = False,
    as_json: bool = False,
) -> None:
    """Index PATH (default: the project); when repeated, only what changed.

    Documents, code, API descriptions and lists of functions are recognized from the files. A folder may hold several
    kinds; --kind chooses one. Tools also come from a .mcp.json, with --kind tool from the project's. Starting a server
    that a cloned repository names means running its code: without --start-servers none is started.

    \b
    Examples:
      swarm-memory sources index
      swarm-memory sources index openapi.yaml
      swarm-memory sources index --kind tool --start-servers
    """
    from swarm_memory.server.sources.indexing import kinds_of

    # A path that a person names is relative to the working folder; the default is the project.
    where = path if path is None else str(Path.cwd() / path)
    kinds: Sequence[ReadKind] = [kind] if kind else kinds_of(Path(where or invocation.root))
    place, has_failed, is_known = "." if kind is None and where is None else where, False, False
    for each in kinds:
        try:
            done = invocation.call(lambda site, each=each: operations.index_sources(site, each, place, start_servers))
        except (ConfigError, InputError) as error:
            if kind is not None:
                raise
            click.echo(f"swarm-memory: {each}: {error}", err=True)  # such as an extra that is not installed
            has_failed = is_known = True
            continue
        if len(kinds) > 1 and done["reason"] and not (done["faults"] or done["removed"]):
            continue  # the folder holds nothing of this kind
        is_known = True
        print_json(done) if as_json else print_answer(done)
        has_failed |= bool(done["faults"]) and not (done["added"] or done["changed"] or done["unchanged"])
    if not is_known:
        raise InputError(
            f"{path or invocation.root} holds no document, code, API description or list of functions of a known kind"
        )
    if has_failed:
        raise click.exceptions.Exit(1)


command_of(
    operations.SEARCH, "search", of=sources, examples=('sources search "where is the retry limit set" --kind code',)
)


@command(of=sources, name="list", show=print_answer)
async def list_sources(
    site: Invocation,
    remove: Annotated[
        str | None, "Delete what was indexed from LOCATION, with every trace of it.", "--remove LOCATION"
    ] = None,
    kind: Annotated[SourceKind | None, "Only this kind; by default all kinds."] = None,
) -> "list[Row] | Row":
    """List what is indexed in this project, or remove what was indexed from a location that it shows."""
    from swarm_memory.tools.ports.sources import SourceKey

    toolbox = await site.for_reading()
    store = toolbox.store.sources
    found = [each for each in await store.list_sources(toolbox.scope) if kind in (None, each.kind)]
    if remove is None:
        return [each.model_dump(mode="json") for each in found]
    kinds: Sequence[SourceKind] = [each.kind for each in found if each.location == remove]
    if not kinds:
        raise NotFoundError(f"nothing is indexed from {remove}: `swarm-memory sources list` shows what is")
    return {"passages": sum([await store.remove(SourceKey(toolbox.scope, each, remove)) for each in kinds])}
