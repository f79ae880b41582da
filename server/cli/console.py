"""How commands print: JSON for programs, plain or rich text for people. All text of memories is untrusted."""

import json
import os
import re
import sys
from collections.abc import AsyncIterable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, cast

import click
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from swarm_memory.schema.errors import ConfigError
from swarm_memory.schema.job import Progress, Report

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

_LONG_WORD = 40
"""Columns: a longer word may be folded when the terminal is narrow."""
_WHOLE = {"id", "run", "key", "file", "system"}
"""Columns that are never folded: what stands in them is there to be copied."""

_PIPED = 200
"""Columns where nobody looks: a program that reads a table wants whole lines."""


class Moved(Protocol):
    """Is told how far work is: what is done, of how much where that is known, and in which words."""

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
    columns = [list(column) for column in zip(headings, *cells, strict=True)]
    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _PIPED
    least = [_least(column) for column in columns]
    gap = 3 if sum(least) + 3 * (len(least) - 1) <= console.width else 1
    gaps = gap * (len(least) - 1)
    table = Table(box=SIMPLE, show_edge=False, pad_edge=False, padding=(0, gap // 2), show_header=any(headings))
    for heading, width in zip(headings, _widths(columns, least, console.width - gaps), strict=True):
        table.add_column(heading, overflow="fold", width=width)
    for row in cells:
        table.add_row(*map(Text, row))
    console.width = max(console.width, sum(least) + gaps)
    with console.capture() as drawn:
        console.print(table)
    click.echo("\n".join(line.rstrip() for line in drawn.get().splitlines()))


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
    """Return what tells `moved` of the progress of an operation that waits for whom it tells."""

    async def report(told: Progress) -> None:
        moved(told.done, told.total, told.message)

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


def _least(column: list[str]) -> int:
    """Return how narrow a column may become, its heading first."""
    from rich.cells import cell_len

    if column[0] in _WHOLE:
        return max(map(cell_len, column))
    return max(min(cell_len(word), _LONG_WORD) for text in column for word in text.split() or [""])


def _widths(columns: list[list[str]], least: list[int], room: int) -> list[int]:
    """Return the columns' widths: as wide as their text, the widest made narrower until all have room."""
    from rich.cells import cell_len

    widths = [max(cell_len(line) for text in column for line in text.splitlines() or [""]) for column in columns]
    while sum(widths) > room:
        above = [(width, place) for place, width in enumerate(widths) if width > least[place]]
        if not above:
            break
        widths[max(above)[1]] -= 1
    return widths
