"""How commands print: JSON for programs, plain or rich text for people. All text of memories is untrusted."""

import json
import os
import re
import sys
from collections.abc import AsyncIterable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, cast

import click
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from swarm_memory.schema.errors import ConfigError
from swarm_memory.schema.job import Progress, Report

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

_LONG_WORD = 40
"""Columns: a longer word may be folded when the terminal is narrow."""
_WHOLE = {"id", "run", "key", "file", "system"}
"""Columns that are never folded: their text is there to be copied."""

_PIPED = 200
"""Columns where nobody looks: a program that reads a table wants whole lines."""

SHOWN = 20
"""Rows of a table within an answer; `--json` has all."""


class Moved(Protocol):
    """Takes how far work is: what is done, of how much where that is known, and in which words."""

    def __call__(self, done: int, total: int | None = None, message: str = "") -> None: ...


def printable(text: str) -> str:
    """Return `text` without what could steer a terminal."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def print_json(value: object) -> None:
    """Print a value as one line of JSON, models in it without what is None."""
    if isinstance(value, BaseModel):
        click.echo(value.model_dump_json(exclude_none=True))
    else:
        click.echo(json.dumps(to_jsonable_python(value, exclude_none=True, fallback=str), ensure_ascii=False))


def say(text: str = "", **style: Any) -> None:
    """Print a line for people."""
    click.secho(printable(text), **style)


def print_found(found: object) -> None:
    """Print what was found: rows as a table, or that there are none; all else by its fields."""
    if isinstance(found, list):
        print_rows(cast("list[object]", found), otherwise="None.")
    else:
        print_row(found)


def print_row(row: object) -> None:
    """Print an answer for people, by its fields: a line for each, and a table for each that holds rows.

    What is empty is left out.
    """
    tables: dict[str, list[Any]] = {}
    for name, value in _plain(row).items():
        title = name.replace("_", " ")
        if isinstance(value, list) and value and isinstance(value[0], dict):  # pyright: ignore[reportUnknownArgumentType]
            tables[title] = value
        elif text := in_words(cast(object, value)):
            say(f"{title}: {text}")
    for title, rows in tables.items():
        say(f"\n{title} ({len(rows)}):", bold=True)
        print_rows(rows[:SHOWN])
        if len(rows) > SHOWN:
            say(f"… and {len(rows) - SHOWN} more; --json has all", dim=True)


def print_rows(rows: Sequence[object], columns: Sequence[str] = (), otherwise: str = "") -> None:
    """Print rows as a table of these fields, by default of all that one of them has; where none is, `otherwise`."""
    plain = [_plain(row) for row in rows]
    names = columns or dict.fromkeys(name for row in plain for name, value in row.items() if in_words(value))
    if plain:
        cells = [[in_words(row.get(name)) for name in names] for row in plain]
        print_table([name.replace("_", " ") for name in names], cells)
    elif otherwise:
        say(otherwise)


def in_words(value: object) -> str:
    """Return a value of JSON as a person reads it: nothing for what is empty, counts as `3 active, 1 archived`."""
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, object]", value)
        if says := fields.get("says"):
            return str(says)
        texts = [(name.replace("_", " "), type(each) is int, in_words(each)) for name, each in fields.items() if each]
        return ", ".join(f"{text} {name}" if is_count else f"{name} {text}" for name, is_count, text in texts if text)
    if isinstance(value, list | tuple):
        return ", ".join(map(in_words, cast("Sequence[object]", value)))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.2f}"
    return "" if value is None else str(value)


def _plain(row: object) -> dict[str, Any]:
    """Return the fields of a model, of a tuple with names or of a mapping, as they become JSON."""
    named = row._asdict() if isinstance(row, tuple) else row  # pyright: ignore
    return to_jsonable_python(named, exclude_none=True, fallback=str)


def print_answer(answer: object, indent: str = "") -> None:
    """Print an answer for people: each field of a row on a line of its own, entries and long texts below theirs."""
    if isinstance(answer, BaseModel):
        answer = answer.model_dump(mode="json")
    if isinstance(answer, Mapping):
        for name, value in cast(Mapping[str, object], answer).items():
            label = f"{indent}{str(name).replace('_', ' ')}:"
            if value is None:
                continue
            if _is_plain(value):
                say(f"{label} {_in_line(value)}", bold=name == "title")
            else:
                say(label)
                print_answer(value, indent + "  ")
    elif isinstance(answer, list | tuple):
        for number, entry in enumerate(cast(Sequence[object], answer)):
            if number and not _is_plain(entry):
                say()
            print_answer(entry, indent)
    else:
        for line in str(answer).splitlines():
            say(f"{indent}{line}")


def _is_plain(value: object) -> bool:
    """Whether a value fits on the line of its name: no row, no text of several lines, no list of sentences."""
    if isinstance(value, list | tuple):
        return not any(isinstance(entry, Mapping) or " " in str(entry) for entry in cast(Sequence[object], value))
    return not value if isinstance(value, Mapping) else "\n" not in str(value)


def _in_line(value: object) -> str:
    if isinstance(value, list | tuple | Mapping):
        return ", ".join(map(str, cast(Sequence[object], value))) or "none"
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows as a table that fits the terminal: lines break between words, figures never."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = [[printable(str(cell)) for cell in row] for row in rows]
    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _PIPED
    least = [_least(column) for column in zip(headings, *cells, strict=True)]
    gap = 3 if sum(least) + 3 * (len(least) - 1) <= console.width else 1
    table = Table(box=SIMPLE, show_edge=False, pad_edge=False, padding=(0, gap // 2), show_header=any(headings))
    for heading, width in zip(headings, least, strict=True):
        table.add_column(heading, overflow="fold", min_width=width)
    for row in cells:
        table.add_row(*map(Text, row))
    console.width = max(console.width, sum(least) + gap * (len(least) - 1))
    with console.capture() as printed:
        console.print(table)
    click.echo("\n".join(line.rstrip() for line in printed.get().splitlines()))


def _least(column: Sequence[str]) -> int:
    """Return how narrow a column may become, its heading first."""
    from rich.cells import cell_len

    if column[0] in _WHOLE:
        return max(map(cell_len, column))
    return max(min(cell_len(word), _LONG_WORD) for text in column for word in text.split() or [""])


@contextmanager
def progress(what: str) -> Generator["Moved"]:
    """Show on stderr, where a person looks, how far work is; elsewhere nothing is shown."""
    if not sys.stderr.isatty():
        yield lambda done, total=None, message="": None
        return
    from rich import progress as bars
    from rich.console import Console
    from rich.markup import escape

    text = bars.TextColumn("{task.description}")
    columns = (text, bars.BarColumn(), bars.MofNCompleteColumn(), bars.TimeElapsedColumn())
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        shown = bar.add_task(what, total=None)

        def moved(done: int, total: int | None = None, message: str = "") -> None:
            bar.update(shown, completed=done, total=total, description=escape(message[-80:]) or what)

        yield moved


def as_report(moved: Moved) -> Report:
    """Return what passes the progress of an operation on to `moved`."""

    async def report(progress: Progress) -> None:
        moved(progress.done, progress.total, progress.message)

    return report


async def write_lines(lines: AsyncIterable[str], output: Path | None) -> int:
    """Write lines to a file, which is there when all are written, or to the output; return how many.

    Raises `ConfigError` where the file cannot be written.
    """
    count = 0
    try:
        with click.open_file(str(output or "-"), "w", encoding="utf-8", atomic=output is not None) as file:
            async for line in lines:
                file.write(line + "\n")
                count += 1
    except OSError as error:
        if output is None:
            raise  # a pipe that nobody reads any more
        raise ConfigError(f"{output} cannot be written: {error.strerror}") from error
    return count


class Finding(NamedTuple):
    """How one part of the installation is, and what to do about it."""

    what: str
    state: Literal["ok", "warn", "fail"]
    found: str
    advice: str = ""


def say_findings(findings: Iterable[Finding]) -> None:
    """Print findings for people, a line for each and one for its advice."""
    for finding in findings:
        mark, colour = {"ok": ("ok  ", "green"), "warn": ("warn", "yellow"), "fail": ("FAIL", "red")}[finding.state]
        click.secho(mark, fg=colour, nl=False)
        say(f"  {finding.what}: {finding.found}")
        if finding.advice:
            say(f"      → {finding.advice}")


def say_notices(notices: Iterable[str], *, err: bool = False) -> None:
    """Print what a person should know beside an answer."""
    for notice in notices:
        say(f"Note: {notice}", fg="yellow", err=err)
