"""Runs as Markdown, and as one HTML page without a script or a resource of any other place; every text is escaped."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from importlib.resources import files
from itertools import zip_longest

from jinja2 import Environment
from pydantic import JsonValue

from swarm_memory.schema.benchmark import BenchmarkRun, Plot, Table
from swarm_memory.tools.benchmark.plots import MISSING, can_plot, png

_ACTIVE = re.compile(r"([\\`*\[<>|]|(?<!\w)_|_(?!\w))")


def markdown(run: BenchmarkRun) -> str:
    """Return the report of one run."""
    return "\n".join(_lines(run)) + "\n"


def _lines(run: BenchmarkRun) -> Iterator[str]:
    yield f"# Benchmark: {plain(run.suite)}"
    yield ""
    yield from (f"- {name}: {plain(value)}" for name, value in described(run))
    for table in run.results.tables:
        yield ""
        yield from table_lines(table)
    if run.results.notes:
        yield ""
        yield from (f"- {plain(note)}" for note in run.results.notes)


def table_lines(table: Table) -> Iterator[str]:
    """Give the lines of one table, with its title and note."""
    yield f"## {plain(table.title)}"
    yield ""
    yield f"| {' | '.join(map(plain, table.headings))} |"
    yield f"|{'---|' * len(table.headings)}"
    yield from (f"| {' | '.join(map(plain, row))} |" for row in table.rows)
    if table.note:
        yield ""
        yield plain(table.note)


def described(run: BenchmarkRun) -> list[tuple[str, str]]:
    """Return what a reader must know of a run to make it again: names and values, for any form of report."""
    rows = [("run", run.run_id), ("status", run.status), ("started", f"{run.started_at:%Y-%m-%d %H:%M} UTC")]
    if run.ended_at is not None:
        rows.append(("took", f"{(run.ended_at - run.started_at).total_seconds():.1f} s"))
    if (data := run.results.dataset) is not None:
        rows.append(
            ("data", f"{data.name}: {data.items:,} items, {data.questions:,} questions, sha256 {data.hash[:16]}")
        )
    rows.append(("options", ", ".join(f"{name}={_short(value)}" for name, value in run.options.items()) or "defaults"))
    rows.append(("embedder", str(run.settings.get("embedder"))))
    rows.append(("seed", str(run.seed)))
    rows.append(("versions", ", ".join(f"{name} {value}" for name, value in run.versions.items())))
    rows.append(("machine", ", ".join(f"{name} {value}" for name, value in run.machine.items())))
    if run.error is not None:
        rows.append(("error", run.error))
    return rows


def _short(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def plain(text: str) -> str:
    """Return a text as Markdown that shows it as it is, on one line."""
    return _ACTIVE.sub(r"\\\1", " ".join(text.split()))


def page(runs: Sequence[BenchmarkRun], title: str = "Benchmark") -> str:
    """Return the page of one or more runs."""
    data = files("swarm_memory.tools.benchmark").joinpath("data")
    style = data.joinpath("report.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    template = Environment(autoescape=True).from_string(data.joinpath("report.html").read_text(encoding="utf-8"))
    return template.render(
        runs=runs,
        title=title,
        style=style,
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'",
        described=described,
        aligned=_aligned,
        can_plot=can_plot(),
        missing=MISSING,
        picture=_picture,
    )


def _picture(plot: Plot) -> str:
    return base64.b64encode(png(plot)).decode()


def _aligned(table: Table) -> list[bool]:
    """Return whether each column holds words: they begin at the left, figures end at the right.

    Rows need not be equally long: a run may come from a file.
    """
    columns = zip_longest(table.headings, *table.rows, fillvalue="")
    return [_is_text(cells) for _, *cells in columns]


def _is_text(column: Sequence[str]) -> bool:
    return any(column) and not any(re.match(r"[-+]?[\d.]|-$", cell) for cell in column)
