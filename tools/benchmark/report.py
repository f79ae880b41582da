"""Runs as Markdown, as one HTML page without a script or a resource of any other place (every text is escaped), and
as PNG plots where matplotlib is installed.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from io import BytesIO
from itertools import zip_longest
from typing import Any

from jinja2 import Environment

from swarm_memory.schema.benchmark import BenchmarkRun, Plot, Series, Table

MISSING = "Plots need matplotlib: pip install matplotlib"

_SIZE_INCHES, _DPI = (8.0, 4.2), 120


def can_plot() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def png(plot: Plot) -> bytes:
    """Return a plot as a PNG. It needs matplotlib: see `can_plot`."""
    figure = import_module("matplotlib.figure").Figure(figsize=_SIZE_INCHES, layout="constrained")
    axes = figure.add_subplot()
    if plot.kind == "bar":
        _bars(axes, plot.series)
    for each in plot.series if plot.kind == "line" else ():
        (line,) = axes.plot(each.x, each.y, marker="o", label=_label(each.name))
        if each.low and each.high:  # a band
            axes.fill_between(each.x, each.low, each.high, color=line.get_color(), alpha=0.12)
    axes.set(xlabel=_label(plot.x_label), ylabel=_label(plot.y_label))
    if plot.log_x and any(isinstance(x, float) and x > 0 for each in plot.series for x in each.x):
        axes.set_xscale("log")
    if plot.log_y and any(y > 0 for each in plot.series for y in each.y):
        axes.set_yscale("log")
    axes.grid(alpha=0.3)
    if plot.series:
        figure.legend(loc="outside right upper", fontsize="small")
    picture = BytesIO()
    figure.savefig(picture, format="png", dpi=_DPI)
    return picture.getvalue()


def _bars(axes: Any, series: Sequence[Series]) -> None:
    """Draw the bars of each name side by side, one for each series, with whiskers where it has bounds."""
    names = list(dict.fromkeys(str(x) for each in series for x in each.x))
    width = 0.8 / max(1, len(series))
    for number, each in enumerate(series):
        shift = (number - (len(series) - 1) / 2) * width
        places = [names.index(str(x)) + shift for x in each.x]
        whiskers = None
        if each.low and each.high:
            below = [max(0.0, y - low) for y, low in zip(each.y, each.low, strict=True)]
            above = [max(0.0, high - y) for y, high in zip(each.y, each.high, strict=True)]
            whiskers = [below, above]
        axes.bar(places, each.y, width, yerr=whiskers, label=_label(each.name), capsize=2)
    axes.set_xticks(range(len(names)), [_label(name) for name in names])


def _label(text: str) -> str:
    """Return a text as a short label on one line: what stands between `$` is no formula, and a leading `_` is shown."""
    line = " ".join(text.split())[:60].replace("$", r"\$")
    return f" {line}" if line.startswith("_") else line


_ACTIVE = re.compile(r"([\\`*\[<>|]|(?<!\w)_|_(?!\w))")


def markdown(run: BenchmarkRun) -> str:
    """Return the report of one run."""
    lines = [f"# Benchmark: {plain(run.suite)}", "", *(f"- {name}: {plain(value)}" for name, value in described(run))]
    for table in run.results.tables:
        lines += ["", *table_lines(table)]
    if run.results.notes:
        lines += ["", *(f"- {plain(note)}" for note in run.results.notes)]
    return "\n".join(lines) + "\n"


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
    given = (
        f"{name}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in run.options.items()
    )
    rows += [
        ("options", ", ".join(given) or "defaults"),
        ("embedder", str(run.settings.get("embedder"))),
        ("seed", str(run.seed)),
        ("versions", ", ".join(f"{name} {value}" for name, value in run.versions.items())),
        ("machine", ", ".join(f"{name} {value}" for name, value in run.machine.items())),
    ]
    if run.error is not None:
        rows.append(("error", run.error))
    return rows


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
    return [any(cells) and not any(re.match(r"[-+]?[\d.]|-$", cell) for cell in cells) for _, *cells in columns]
