"""Runs as Markdown, in which no text of a run acts as markup."""

import json
import re
from collections.abc import Iterator

from swarm_memory.schema.benchmark import BenchmarkRun, Table

_ACTIVE = re.compile(r"([\\`*\[<>|]|(?<!\w)_|_(?!\w))")


def markdown(run: BenchmarkRun) -> str:
    """Return the report of one run."""
    about = (f"- {name}: {escaped(value)}" for name, value in run_metadata(run))
    lines = [f"# Benchmark: {escaped(run.suite)}", "", *about]
    for table in run.results.tables:
        lines += ["", *table_lines(table)]
    if run.results.notes:
        lines += ["", *(f"- {escaped(note)}" for note in run.results.notes)]
    return "\n".join(lines) + "\n"


def table_lines(table: Table) -> Iterator[str]:
    """Yield the lines of one table, with its title and note."""
    yield f"## {escaped(table.title)}"
    yield ""
    yield f"| {' | '.join(map(escaped, table.headings))} |"
    yield f"|{'---|' * len(table.headings)}"
    yield from (f"| {' | '.join(map(escaped, row))} |" for row in table.rows)
    if table.note:
        yield ""
        yield escaped(table.note)


def run_metadata(run: BenchmarkRun) -> list[tuple[str, str]]:
    """Return what a reader must know to repeat a run: names and values, for any form of report."""
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


def escaped(text: str) -> str:
    """Return a text as Markdown that shows it literally, on one line."""
    return _ACTIVE.sub(r"\\\1", " ".join(text.split()))
