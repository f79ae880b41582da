"""`tools`: log calls, summarize what they teach, show guidance, move and forget a project's tool memory."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from swarm_memory.schema.base import counted, plural
from swarm_memory.schema.errors import InputError
from swarm_memory.server.cli.console import json_option, print_json, print_table, say, write_lines
from swarm_memory.server.cli.invocation import Invocation

if TYPE_CHECKING:
    from swarm_memory.schema.tool_memory import LogResult, SummarizeResult, ToolGuidance, ToolMemory
    from swarm_memory.tools.ports.tool_memory import ToolMemoryCounts
    from swarm_memory.tools.tool_memory.transfer import ImportedTools
    from swarm_memory.tools.toolbox import Toolbox

MAX_INPUT_BYTES = 50_000_000
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


COMMANDS = {"tools": tools}
