"""`benchmark`: run a suite, show and compare runs; everything is in a run's file."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import click

from swarm_memory.schema.errors import ConfigError, InputError
from swarm_memory.server.cli.command import A_FILE, EXISTING_FILE, command
from swarm_memory.server.cli.console import as_report, print_json, print_row, print_table, progress, say
from swarm_memory.server.cli.invocation import Invocation
from swarm_memory.server.operations.operation import Flag, Word

if TYPE_CHECKING:
    from pydantic import JsonValue

    from swarm_memory.schema.benchmark import BenchmarkRun
    from swarm_memory.tools.toolbox import Toolbox

INTERRUPTED = 130
LISTED = 50

benchmark = click.Group(
    "benchmark",
    help="""Measure the memory: on the sample that ships, on public data, on your own.

    \b
    Examples:
      swarm-memory benchmark run
      swarm-memory benchmark report --html results.html
    """,
)


@command(of=benchmark)
def run(
    invocation: Invocation,
    suite: Annotated[str, Word("[SUITE]")] = "retrieval",
    options: Annotated[tuple[str, ...], "An option of the suite.", "-o", "--option", Flag("NAME=VALUE")] = (),
    config: Annotated[Path | None, "A JSON file of options.", Flag(type=EXISTING_FILE)] = None,
    out: Annotated[Path | None, "The results file.", Flag(type=A_FILE)] = None,
    only_list: Annotated[bool, "Run nothing; show the suites, their options and the data.", "--list"] = False,
    as_json: bool = False,
) -> None:
    """Run SUITE (default: retrieval); --list shows suites, options and data.

    A name with a dot stands for a part of an option. Ctrl-C ends the run and keeps what was measured until then.

    \b
    Examples:
      swarm-memory benchmark run
      swarm-memory benchmark run retrieval -o dataset=locomo -o path=locomo10.json -o limit=200
      swarm-memory benchmark run -o systems=hybrid,bm25-okapi -o retrieve.vector_weight=0.3
    """
    from swarm_memory.server.benchmark.running import run_benchmark

    if only_list:
        _show_suites(as_json)
        return
    given, file = _options(options, config), None if out is None else out.absolute()

    async def operate(toolbox: "Toolbox") -> "tuple[BenchmarkRun, Path]":
        with progress("reading") as moved:
            return await run_benchmark(toolbox, Path.cwd(), suite, given, report=as_report(moved), out=file)

    try:
        done, written = invocation.run(operate)
    except KeyboardInterrupt:
        click.echo("interrupted: `swarm-memory benchmark report` shows what was measured until then", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    _print([done], as_json, written)
    say(f"{done.run_id}: all figures are in {written}", err=True, dim=True)


def _options(given: tuple[str, ...], config: Path | None) -> "dict[str, JsonValue]":
    """Return the options of a file and, over them, those of the command line; a name with a dot is part of one."""
    try:
        found: Any = {} if config is None else json.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{config} cannot be read as JSON: {error}") from error
    if not isinstance(found, dict):
        raise InputError(f"{config} must hold one JSON object: the options by their names")
    options = cast("dict[str, Any]", found)
    for text in given:
        name, equals, value = text.partition("=")
        group, dot, key = name.strip().partition(".")
        if not equals:
            raise click.UsageError(f"-o takes NAME=VALUE, not {text!r}")
        if not dot:
            options[group] = _value(value)
        elif isinstance(options.setdefault(group, {}), dict):
            options[group][key] = _value(value)
        else:
            raise click.UsageError(f"-o {name}: {group} is no group of options here")
    return options


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _print(runs: "list[BenchmarkRun]", as_json: bool, file: Path | None = None) -> None:
    """Print runs as Markdown, or as JSON without their single cases."""
    from swarm_memory.tools.benchmark.report import markdown

    if not as_json:
        click.echo("\n".join(map(markdown, runs)), nl=False)
        return
    brief = [run.model_dump(mode="json", exclude_none=True, exclude={"results": {"cases", "case_ids"}}) for run in runs]
    print_json(brief if file is None else brief[0] | {"file": str(file)})


def _show_suites(as_json: bool) -> None:
    """Show the suites with their options, and the data that the retrieval suite reads."""
    from swarm_memory.server.benchmark.running import SUITES, find_suite
    from swarm_memory.tools.benchmark.retrieval.retrieval import DATASETS

    suites = [find_suite(name) for name in SUITES]
    if as_json:
        options = {each.name: {"cost": each.cost, **each.options.model_json_schema()} for each in suites}
        print_json({"datasets": dict(DATASETS), "suites": options})
        return
    print_row({**DATASETS})
    for each in suites:
        say(f"\n{each.name}: {each.summary} It takes {each.cost}.", bold=True)
        print_row({f"-o {name}": field.description or "" for name, field in each.options.model_fields.items()})


@command(of=benchmark)
def report(
    invocation: Invocation,
    runs: Annotated[tuple[str, ...], Word("[RUN]...")],
    html: Annotated[
        Path | None, "Write one HTML page, with plots where matplotlib is installed.", Flag(type=A_FILE)
    ] = None,
    compare: Annotated[bool, "Say what changed from one run to another beyond noise."] = False,
    everything: Annotated[bool, "With --compare: also what is within noise.", "--all"] = False,
    only_list: Annotated[bool, "List the runs of this project.", "--list"] = False,
    as_json: bool = False,
) -> None:
    """Print RUNs (ids or files; default: the last that did not fail) as Markdown, as a page, or compared.

    \b
    Examples:
      swarm-memory benchmark report > results.md
      swarm-memory benchmark report bench_01J... --html results.html
      swarm-memory benchmark report bench_01J... bench_01K... --compare
    """
    from swarm_memory.tools.benchmark.report import page

    if only_list:
        listed = invocation.read(lambda toolbox: toolbox.store.benchmarks.list_benchmarks(toolbox.scope, LISTED))
        if as_json:
            _print(listed, as_json)
        else:
            rows = ((each.run_id, each.suite, each.status, f"{each.started_at:%F %R}") for each in listed)
            print_table(("id", "suite", "status", "started"), rows)
        return
    if compare and len(runs) != 2:
        raise click.UsageError("--compare takes two runs: the one before, and the one after")
    found = invocation.read(lambda toolbox: _found(toolbox, runs))
    if compare:
        _compare(found[0], found[1], everything, as_json)
        return
    if html is not None:
        try:
            html.write_text(page(found), encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"{html} cannot be written: {error.strerror}") from error
    if as_json or html is None:
        _print(found, as_json)
    else:
        say(f"Written: {html}")


async def _found(toolbox: "Toolbox", named: tuple[str, ...]) -> "list[BenchmarkRun]":
    from swarm_memory.server.benchmark.running import read_run

    if not named:
        newest = await toolbox.store.benchmarks.list_benchmarks(toolbox.scope, LISTED)
        measured = [run for run in newest if run.status not in {"running", "failed"}]
        if not measured:
            raise InputError("there is no run yet that measured anything: `swarm-memory benchmark run` makes one")
        return measured[:1]
    return [await read_run(toolbox, each) for each in named]


def _compare(before: "BenchmarkRun", after: "BenchmarkRun", everything: bool, as_json: bool) -> None:
    from swarm_memory.tools.benchmark.compare import compare

    done = compare(before, after)
    if as_json:
        changes = [
            {**each._asdict(), "difference": None if each.difference is None else each.difference._asdict()}
            for each in done.changes
        ]
        print_json({"changes": changes, "notes": list(done.notes)})
        return
    table = done.table(everything=everything)
    for note in done.notes:
        say(f"Note: {note}", fg="yellow")
    if table.rows:
        say(table.title, bold=True)
        print_table(table.headings, table.rows)
    else:
        say(f"Nothing changed beyond noise ({table.note}).")
