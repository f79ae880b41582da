"""`matts` and `benchmark`: a task done several times, and suites that measure; everything is in a run's file."""

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from swarm_memory.schema.errors import InputError
from swarm_memory.server.cli.command import command, command_of
from swarm_memory.server.cli.console import print_answer, print_json
from swarm_memory.server.cli.invocation import Invocation
from swarm_memory.server.operations.operation import Positional, Row
from swarm_memory.server.operations.work import SCALE, run_benchmark

if TYPE_CHECKING:
    from swarm_memory.schema.benchmark import BenchmarkRun
    from swarm_memory.tools.toolbox import Toolbox

LISTED = 50

matts = command_of(
    SCALE,
    "matts",
    fixed={"runner": "command"},
    help="""Do TASK several times with an agent's command, or compare rollouts made earlier.

    Ctrl-C ends a run; the rollouts that have finished are kept, and --run-id resumes it.""",
    failed=lambda answer: answer["status"] != "completed",
    examples=(
        'matts "make the tests pass" --command "claude -p" --check "pytest -q" -k 4',
        'matts "make the tests pass" --command "claude -p" --mode sequential -k 3',
        'matts "book a flight" --given one.json --given two.json',
    ),
)

benchmark = click.Group("benchmark", help="Measure the memory on the bundled sample, on public data or on your own.")


@command(of=benchmark, show=print_answer)
async def run(
    site: Invocation,
    suite: Annotated[str, Positional("[SUITE]")] = "retrieval",
    options: Annotated[tuple[str, ...], "An option of the suite.", "-o", "--option NAME=VALUE"] = (),
    out: Annotated[Path | None, "The results file."] = None,
    only_list: Annotated[bool, "Run nothing; show the suites, their options and the data.", "--list"] = False,
) -> Row:
    """Run SUITE (default: retrieval); --list shows suites, options and data.

    A name with a dot sets one part of an option. Ctrl-C ends the run; `benchmark report` shows what was measured.

    \b
    Examples:
      swarm-memory benchmark run
      swarm-memory benchmark run retrieval -o dataset=locomo -o path=locomo10.json -o limit=200
      swarm-memory benchmark run -o systems=hybrid,bm25-okapi -o retrieve.vector_weight=0.3
    """
    if only_list:
        from swarm_memory.server.benchmark.job import list_suites
        from swarm_memory.tools.benchmark.retrieval.retrieval import DATASETS

        return {"datasets": dict(DATASETS), "suites": list_suites()}
    return await run_benchmark(site, suite, _options(options), None if out is None else out.absolute())


def _options(given: tuple[str, ...]) -> dict[str, Any]:
    """Return the options by name; a name with a dot sets one part of an option."""
    options: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        group, dot, key = name.strip().partition(".")
        if not equals:
            raise click.UsageError(f"-o takes NAME=VALUE, not {text!r}")
        with contextlib.suppress(ValueError):  # plain text stays as it is
            value = json.loads(value)
        if not dot:
            options[group] = value
        elif isinstance(options.setdefault(group, {}), dict):
            options[group][key] = value
        else:
            raise click.UsageError(f"-o {name}: {group} is not a group of options here")
    return options


@command(of=benchmark)
def report(
    invocation: Invocation,
    runs: Annotated[tuple[str, ...], Positional("[RUN]...")],
    only_list: Annotated[bool, "List the runs of this project.", "--list"] = False,
    as_json: bool = False,
) -> None:
    """Print each RUN (an id or a file; default: the last run that did not fail) as Markdown."""
    from swarm_memory.tools.benchmark.report import markdown

    found = invocation.run(lambda toolbox: _found(toolbox, runs, only_list), reads=True)
    if as_json:
        print_json([run.model_dump(mode="json", exclude_none=True) for run in found])
    elif only_list:
        shown = {"run_id", "suite", "status", "started_at"}
        print_answer([each.model_dump(mode="json", include=shown) for each in found])
    else:
        click.echo("\n".join(map(markdown, found)), nl=False)


async def _found(toolbox: "Toolbox", named: tuple[str, ...], every: bool) -> "list[BenchmarkRun]":
    from swarm_memory.server.benchmark.running import read_run

    if named:
        return [await read_run(toolbox, each) for each in named]
    newest = await toolbox.store.benchmarks.list_benchmarks(toolbox.scope, LISTED)
    if every:
        return newest
    measured = [run for run in newest if run.status not in {"running", "failed"}]
    if not measured:
        raise InputError("no run has measured anything yet: `swarm-memory benchmark run` makes one")
    return measured[:1]
