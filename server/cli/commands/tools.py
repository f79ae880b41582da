"""`tools`: log calls, show what they teach, move and forget them; `cap`: shorten what is printed."""

import codecs
import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from swarm_memory.schema.base import counted, plural
from swarm_memory.schema.errors import InputError, SwarmMemoryError
from swarm_memory.server.cli.console import json_option, print_json, print_table, say, write_lines
from swarm_memory.server.cli.invocation import Invocation
from swarm_memory.tools.text.capping import MAX_TOKENS, cap_stream

if TYPE_CHECKING:
    from swarm_memory.schema.tool_memory import LogResult, SummarizeResult, ToolGuidance, ToolMemory
    from swarm_memory.server.storage.stores.tool_memory import ToolMemoryCounts
    from swarm_memory.tools.tool_memory.transfer import ImportedTools
    from swarm_memory.tools.toolbox import Toolbox

MAX_INPUT_BYTES = 50_000_000
READ_BYTES = 1 << 16
MAX_EVENT_BYTES = 64_000_000
names_argument = click.argument("names", nargs=-1, metavar="[TOOL]...")


@click.group()
def tools() -> None:
    """What each tool is good for, from the calls that were made.

    \b
    Examples:
      swarm-memory tools log calls.jsonl
      swarm-memory tools summarize
      swarm-memory tools show Bash WebFetch
      swarm-memory tools show --task "look up the weather in a city"
    """


@tools.command("log", short_help="Log calls from FILE or standard input.")
@click.argument("file", type=click.File("rb"), default="-")
@json_option
@click.pass_obj
def log_command(invocation: Invocation, file: Any, as_json: bool) -> None:
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


@tools.command("summarize", short_help="Evaluate what was logged, and summarize tools with news.")
@names_argument
@json_option
@click.pass_obj
def summarize_command(invocation: Invocation, names: tuple[str, ...], as_json: bool) -> None:
    """Evaluate what was logged, and summarize TOOLs, or all, that have news."""
    from swarm_memory.tools.tool_memory.summarize import summarize_tool_memory

    result: SummarizeResult = invocation.run(lambda toolbox: summarize_tool_memory(toolbox, names or None))
    if as_json:
        print_json(result)
    else:
        say(result.message + ".")
        done = result.evaluation
        if done.evaluated or done.failed:
            how = ", ".join(f"{count} by {method}" for method, count in done.methods.items()) or "none"
            say(f"Calls evaluated: {how}; {done.failed} failed and are tried again later.", dim=True)
        for reason in (*done.reasons, *(f"{each.tool_name}: {each.reason}" for each in result.tools if each.reason)):
            click.echo(f"swarm-memory: {reason}", err=True)
    if result.failed:
        sys.exit(1)


@tools.command("show", short_help="Show guidance for TOOLs, or which to take for a task.")
@names_argument
@click.option("--task", help="What a tool is wanted for: which one to take, and why.")
@json_option
@click.pass_obj
def show_command(invocation: Invocation, names: tuple[str, ...], task: str | None, as_json: bool) -> None:
    """Show guidance for TOOLs, or for a task which tool to take; with both, which of them."""
    from swarm_memory.tools.tool_memory.advise import retrieve_tool_memory

    found: ToolGuidance = invocation.read(lambda toolbox: retrieve_tool_memory(toolbox, names or None, task))
    print_json(found) if as_json else say(found.markdown)


@tools.command("list")
@json_option
@click.pass_obj
def list_command(invocation: Invocation, as_json: bool) -> None:
    """List the tools of this project with their totals over all time."""

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
    totals = [each.totals for each in found]
    print_table(
        ("tool", "calls", "succeeded", "evaluated", "good", "kept", "summary"),
        (
            (each.tool_name, each.calls, each.succeeded, each.evaluated, each.good, each.kept, _when(memory))
            for each, memory in zip(totals, found, strict=True)
        ),
    )
    if counts.not_evaluated:
        say(f"{counts.not_evaluated} kept calls are not evaluated yet.", dim=True)


def _when(memory: "ToolMemory") -> str:
    return f"{memory.summarized_at:%F %R}" if memory.summarized_at else "none"


@tools.command("forget")
@names_argument
@click.option("--all", "everything", is_flag=True, help="All tools of the project.")
@click.confirmation_option("--yes", prompt="Delete calls, totals and summaries for good?")
@json_option
@click.pass_obj
def forget_command(invocation: Invocation, names: tuple[str, ...], everything: bool, as_json: bool) -> None:
    """Delete what is known of TOOLs, or of all, with every trace. This cannot be undone."""
    if bool(names) == everything:
        raise click.UsageError("name tools, or give --all")
    count = invocation.read(
        lambda toolbox: toolbox.store.tool_memory.forget_tools(toolbox.scope, None if everything else names)
    )
    print_json({"forgotten": count}) if as_json else say(f"{counted(count, 'tool')} forgotten.")


@tools.command("export", short_help="Write the tool memory as JSON, one a line.")
@names_argument
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="A file instead of the output.")
@click.pass_obj
def export_command(invocation: Invocation, names: tuple[str, ...], output: Path | None) -> None:
    """Write the tool memory of this project as JSON, one a line: totals, then the calls of the window."""
    from swarm_memory.tools.tool_memory.transfer import export_tools

    count = invocation.read(lambda toolbox: write_lines(export_tools(toolbox, names or None), output))
    if output is not None:
        say(f"{counted(count, 'line')} written to {output}.")


@tools.command("import")
@click.argument("file", type=click.File("r", encoding="utf-8", errors="replace"), default="-")
@json_option
@click.pass_obj
def import_command(invocation: Invocation, file: Any, as_json: bool) -> None:
    """Read an export of a tool memory into this project. Doing it again changes nothing."""
    from swarm_memory.tools.tool_memory.transfer import import_tools

    _show_imported(invocation.run(lambda toolbox: import_tools(toolbox, file)), as_json)


@tools.command("copy", short_help="Copy the tool memory into another project.")
@click.argument("project")
@names_argument
@json_option
@click.pass_obj
def copy_command(invocation: Invocation, project: str, names: tuple[str, ...], as_json: bool) -> None:
    """Copy the tool memory, or that of TOOLs, into another PROJECT (by its name) of the same database."""
    from swarm_memory.tools.tool_memory.transfer import copy_tools

    _show_imported(invocation.run(lambda toolbox: copy_tools(toolbox, project, names or None)), as_json)


def _show_imported(done: "ImportedTools", as_json: bool) -> None:
    if as_json:
        print_json(done)
    else:
        told = f"{counted(done.calls, 'call')} added, {done.known} known already, {done.faulty} faulty"
        say(f"{told}; {counted(done.tools, 'tool')} new here.")
        for fault in done.faults:
            say(f"    {fault}")
    if done.faulty:
        sys.exit(1)


@click.command()
@click.option("--max-tokens", default=MAX_TOKENS, show_default=True, type=click.IntRange(100, 1_000_000))
@click.option("--hook", is_flag=True, help="Read a PostToolUse event, and answer with the shortened output.")
@click.pass_obj
def cap(invocation: Invocation, max_tokens: int, hook: bool) -> None:
    """Keep the head and the tail of standard input where it has more than so many tokens.

    What is shorter passes to the byte. A line between head and tail says how much was left out. Input may be of any
    size: no more of it is held than what is printed.

    \b
    Examples:
      make test 2>&1 | swarm-memory cap
      curl -s https://example.org/page | swarm-memory cap --max-tokens 3000

    With --hook it is a command for PostToolUse of Claude Code, 2.1.121 or later; the manual has the entry.
    """
    if hook:
        _answer_hook(invocation, max_tokens)
        return
    out = sys.stdout.buffer
    for part in cap_stream(_decoded(), max_tokens):
        out.write(part.encode("utf-8", "surrogateescape"))
        out.flush()


def _decoded() -> Iterator[str]:
    """Yield standard input as text that gives the same bytes again, whatever they are."""
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    stream = cast("BufferedReader", sys.stdin.buffer)
    while read := stream.read1(READ_BYTES):
        yield decoder.decode(read)
    yield decoder.decode(b"", final=True)


def _answer_hook(invocation: Invocation, max_tokens: int) -> None:
    """Print the answer to an event where there is one; a fault of ours is noted and never reaches the host."""
    from swarm_memory.server.hosts.claude_code.outputs import capped_output
    from swarm_memory.server.missed import note_missed
    from swarm_memory.server.switch import switched_off

    root = invocation.root
    try:
        event = _event()
        if switched_off(root) is None and (answer := capped_output(event, max_tokens)):
            click.echo(json.dumps(answer))
    except (SwarmMemoryError, ValueError, RecursionError) as error:
        with suppress(OSError):
            note_missed(root, "PostToolUse", f"the output was not shortened: {error}")


def _event() -> dict[str, Any]:
    told = sys.stdin.buffer.read(MAX_EVENT_BYTES + 1)
    if len(told) > MAX_EVENT_BYTES:
        raise ValueError(f"the event is larger than {MAX_EVENT_BYTES:,} bytes")
    event: Any = json.loads(told)
    if not isinstance(event, dict):
        raise ValueError("the event is not a JSON object")
    return cast("dict[str, Any]", event)
