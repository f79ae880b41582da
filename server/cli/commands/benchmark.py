"""`benchmark`: run a suite, show and compare runs; everything is in a run's file."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from swarm_memory.schema.errors import ConfigError, InputError
from swarm_memory.server.cli.console import as_report, json_option, print_json, print_table, progress, say
from swarm_memory.server.cli.invocation import Invocation

if TYPE_CHECKING:
    from pydantic import JsonValue

    from swarm_memory.schema.benchmark import BenchmarkRun, Table
    from swarm_memory.tools.benchmark.compare import Comparison
    from swarm_memory.tools.toolbox import Toolbox

INTERRUPTED = 130


@click.group()
def benchmark() -> None:
    """Measure the memory: on the sample that ships, on public data, on your own."""


@benchmark.command(short_help="Run a suite; retrieval on the sample by default.")
@click.argument("suite", default="retrieval")
@click.option("-o", "--option", "options", multiple=True, metavar="NAME=VALUE", help="An option of the suite.")
@click.option("--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A JSON file of options.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="The results file.")
@json_option
@click.pass_obj
def run(
    invocation: Invocation, suite: str, options: tuple[str, ...], config: Path | None, out: Path | None, as_json: bool
) -> None:
    """Run SUITE (default: retrieval); `benchmark datasets` shows suites, options and data.

    A name with a dot stands for a part of an option. Ctrl-C ends the run and keeps what was measured until then.

    \b
    Examples:
      swarm-memory benchmark run
      swarm-memory benchmark run retrieval -o dataset=locomo -o path=locomo10.json -o limit=200
      swarm-memory benchmark run -o systems=hybrid,bm25-okapi -o retrieve.vector_weight=0.3
    """
    from swarm_memory.server.benchmark.running import run_benchmark

    given = _options(options, config)
    file = None if out is None else out.absolute()

    async def operate(toolbox: "Toolbox") -> "tuple[BenchmarkRun, Path]":
        with progress("reading", quiet=as_json) as moved:
            return await run_benchmark(toolbox, Path.cwd(), suite, given, report=as_report(moved), out=file)

    try:
        done, written = invocation.run(operate)
    except KeyboardInterrupt:
        click.echo("interrupted: `swarm-memory benchmark report` shows what was measured until then", err=True)
        sys.exit(INTERRUPTED)
    if as_json:
        print_json(_brief(done, written))
    else:
        _show(done)
        say(f"All figures: {written}", dim=True)


def _options(given: tuple[str, ...], config: Path | None) -> "dict[str, JsonValue]":
    """Return the options of a file and, over them, those of the command line."""
    found: dict[str, Any] = {} if config is None else _read_options(config)
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"-o takes NAME=VALUE, not {text!r}")
        _put(found, name.strip(), _value(value))
    return found


def _read_options(config: Path) -> dict[str, Any]:
    try:
        found: Any = json.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{config} cannot be read as JSON: {error}") from error
    if not isinstance(found, dict):
        raise InputError(f"{config} must hold one JSON object: the options by their names")
    return cast("dict[str, Any]", found)


def _put(options: dict[str, Any], name: str, value: Any) -> None:
    """Put a value at a name; one with a dot is part of an option."""
    group, dot, key = name.partition(".")
    if not dot:
        options[name] = value
    elif isinstance(options.setdefault(group, {}), dict):
        options[group][key] = value
    else:
        raise click.UsageError(f"-o {name}: {group} is no group of options here")


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _brief(run: "BenchmarkRun", file: Path | None) -> dict[str, Any]:
    """Return a run without its single cases."""
    row = run.model_dump(mode="json", exclude_none=True, exclude={"results": {"cases", "case_ids"}})
    return row | ({} if file is None else {"file": str(file)})


def _show(run: "BenchmarkRun") -> None:
    say(f"{run.run_id}  {run.suite}  {run.status}", bold=True)
    for table in run.results.tables:
        _show_table(table)
    for note in run.results.notes:
        say(f"Note: {note}", fg="yellow")


def _show_table(table: "Table") -> None:
    say()
    say(table.title, bold=True)
    print_table(table.headings, table.rows)
    if table.note:
        say(table.note, dim=True)


@benchmark.command(short_help="Print runs as Markdown, or write one HTML page.")
@click.argument("runs", nargs=-1)
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write one HTML page, with plots where matplotlib is installed.",
)
@json_option
@click.pass_obj
def report(invocation: Invocation, runs: tuple[str, ...], html: Path | None, as_json: bool) -> None:
    """Print RUNS (ids or files; default: the last that did not fail) as Markdown, or write them as one page.

    \b
    Examples:
      swarm-memory benchmark report > results.md
      swarm-memory benchmark report bench_01J... --html results.html
    """
    from swarm_memory.tools.benchmark.report import markdown, page

    found = invocation.read(lambda toolbox: _found(toolbox, runs))
    if html is not None:
        try:
            html.write_text(page(found), encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"{html} cannot be written: {error.strerror}") from error
    if as_json:
        print_json([_brief(each, None) for each in found])
    elif html is None:
        click.echo("\n".join(map(markdown, found)), nl=False)
    else:
        say(f"Written: {html}")


async def _found(toolbox: "Toolbox", named: tuple[str, ...]) -> "list[BenchmarkRun]":
    from swarm_memory.server.benchmark.running import read_run

    if not named:
        newest = await toolbox.store.benchmarks.list_benchmarks(toolbox.scope, 50)
        measured = [run for run in newest if run.status not in {"running", "failed"}]
        if not measured:
            raise InputError("there is no run yet that measured anything: `swarm-memory benchmark run` makes one")
        return measured[:1]
    return [await read_run(toolbox, each) for each in named]


@benchmark.command("compare", short_help="Say what changed from one run to another beyond noise.")
@click.argument("before")
@click.argument("after")
@click.option("--all", "everything", is_flag=True, help="Also what is within noise.")
@json_option
@click.pass_obj
def compare_runs(invocation: Invocation, before: str, after: str, everything: bool, as_json: bool) -> None:
    """Say what changed from run BEFORE to run AFTER beyond noise; each is an id or a file."""
    from swarm_memory.tools.benchmark.compare import compare

    first, second = invocation.read(lambda toolbox: _found(toolbox, (before, after)))
    done = compare(first, second)
    print_json(_compared(done)) if as_json else _show_comparison(done, everything)


def _compared(done: "Comparison") -> dict[str, Any]:
    changes = [
        {**each._asdict(), "difference": None if each.difference is None else each.difference._asdict()}
        for each in done.changes
    ]
    return {"changes": changes, "notes": list(done.notes)}


def _show_comparison(done: "Comparison", everything: bool) -> None:
    table = done.table(everything=everything)
    for note in done.notes:
        say(f"Note: {note}", fg="yellow")
    if table.rows:
        _show_table(table)
    else:
        say(f"Nothing changed beyond noise ({table.note}).")


@benchmark.command("list")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1000))
@json_option
@click.pass_obj
def list_runs(invocation: Invocation, limit: int, as_json: bool) -> None:
    """Show the runs of this project, newest first."""
    found = invocation.read(lambda toolbox: toolbox.store.benchmarks.list_benchmarks(toolbox.scope, limit))
    if as_json:
        print_json([_brief(each, None) for each in found])
    elif not found:
        say("No runs.")
    else:
        rows = [
            (each.run_id, each.suite, each.status, f"{each.started_at:%Y-%m-%d %H:%M}", _data_of(each))
            for each in found
        ]
        print_table(("id", "suite", "status", "started", "data"), rows)


def _data_of(run: "BenchmarkRun") -> str:
    data = run.results.dataset
    return "" if data is None else f"{data.name} ({data.questions})"


@benchmark.command(short_help="Show the suites, their options, and the data.")
@json_option
def datasets(as_json: bool) -> None:
    """Show the suites with their options, and the data that the retrieval suite reads."""
    from swarm_memory.server.benchmark.running import SUITES, find_suite
    from swarm_memory.tools.benchmark.retrieval.retrieval import DATASETS

    suites = [find_suite(name) for name in SUITES]
    if as_json:
        options = {each.name: {"cost": each.cost, **each.options.model_json_schema()} for each in suites}
        print_json({"datasets": dict(DATASETS), "suites": options})
        return
    print_table(("dataset", "what"), DATASETS.items())
    for each in suites:
        say()
        say(f"{each.name}: {each.summary}", bold=True)
        say(f"It takes {each.cost}.", dim=True)
        fields = each.options.model_fields.items()
        print_table(("option", "what", "default"), [
            (name, field.description or "", _default(field.get_default(call_default_factory=True)))
            for name, field in fields
        ])  # fmt: skip


def _default(value: Any) -> str:
    return "" if value in (None, (), {}) or hasattr(value, "model_dump") else json.dumps(value)
