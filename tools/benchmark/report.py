"""Runs as Markdown, and as one HTML page without a script or a resource of any other place; every text is escaped."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from itertools import zip_longest

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


_TEXT_CELL = ' class="text"'


def page(runs: Sequence[BenchmarkRun], title: str = "Benchmark") -> str:
    """Return the page of one or more runs."""
    style = files("swarm_memory.tools.benchmark").joinpath("data", "report.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body>"
        f"{''.join(map(_run, runs))}</body></html>\n"
    )


def _run(run: BenchmarkRun) -> str:
    rows = "".join(_row(name, value) for name, value in described(run))
    plots = _plots(run.results.plots)
    tables = "".join(map(_table, run.results.tables))
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in run.results.notes)
    head = f"<h1>Benchmark: {escape(run.suite)}</h1><dl>{rows}</dl>"
    return f'<section class="run">{head}{notes}{tables}{plots}</section>'


def _row(name: str, value: str) -> str:
    mark = f' class="status-{escape(value)}"' if name == "status" else ""
    return f"<dt>{escape(name)}</dt><dd{mark}>{escape(value)}</dd>"


def _table(table: Table) -> str:
    """Return a table, also one whose rows are not equally long: a run may come from a file."""
    marks = [_TEXT_CELL if _is_text(column) else "" for column in zip_longest(*table.rows, fillvalue="")]
    head = "".join(f"<th{mark}>{escape(cell)}</th>" for cell, mark in zip_longest(table.headings, marks, fillvalue=""))
    body = "".join(
        f"<tr>{''.join(f'<td{mark}>{escape(cell)}</td>' for cell, mark in zip(row, marks, strict=False))}</tr>"
        for row in table.rows
    )
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    return (
        f'<h2>{escape(table.title)}</h2><div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>{note}"
    )


def _is_text(column: Sequence[str]) -> bool:
    """Say whether a column holds words: they begin at the left, figures end at the right."""
    return any(column) and not any(re.match(r"[-+]?[\d.]|-$", cell) for cell in column)


def _plots(plots: Sequence[Plot]) -> str:
    """Return the pictures of plots; without matplotlib the sentence that says so."""
    if plots and not can_plot():
        return f'<p class="note">{escape(MISSING)}</p>'
    return "".join(map(_plot, plots))


def _plot(plot: Plot) -> str:
    title, picture = escape(plot.title), base64.b64encode(png(plot)).decode()
    return f'<figure><figcaption>{title}</figcaption><img alt="{title}" src="data:image/png;base64,{picture}"></figure>'
