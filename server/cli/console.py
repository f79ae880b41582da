"""How commands print: JSON for programs, plain or rich text for people. All text of memories is untrusted."""

import json
import os
import re
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import click
from pydantic_core import to_jsonable_python

if TYPE_CHECKING:
    from swarm_memory.schema.job import Progress

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

_LONG_WORD = 40
"""Columns: a longer word may be folded when the terminal is narrow."""

_PIPED = 200
"""Columns where the output is not a terminal: a program that reads a table wants whole lines."""

SHOWN = 20
"""At most this many rows of a table within an answer are printed; `--json` has all."""


def printable(text: str) -> str:
    """Return `text` without what could steer a terminal."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def say(text: str = "", **style: Any) -> None:
    """Print a line for people."""
    click.secho(printable(text), **style)


def say_notices(notices: Iterable[str], *, err: bool = False) -> None:
    """Print what a person should know in addition to an answer."""
    for notice in notices:
        say(f"Note: {notice}", fg="yellow", err=err)


def print_json(value: object) -> None:
    """Print a value as one line of JSON; fields of models that are None are left out."""
    click.echo(json.dumps(_plain(value), ensure_ascii=False))


def _plain(value: object) -> Any:
    """Return a value as plain JSON data; a named tuple becomes an object with its fields."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):  # pyright: ignore[reportUnknownArgumentType]
        value = cast(Any, value)._asdict()
    elif isinstance(value, list | tuple):
        return [_plain(each) for each in cast(Sequence[object], value)]
    return to_jsonable_python(value, exclude_none=True, fallback=str)


def print_answer(answer: object, indent: str = "") -> None:
    """Print an answer for people: a line for each field, rows as a table, and longer values below their names.

    Rows that have a title or a longer value, like memories and passages, are printed one below the other. Models, named
    tuples and mappings are printed by their fields; None and empty texts are left out.
    """
    plain = _plain(answer)
    if isinstance(plain, dict):
        for name, value in cast("dict[str, Any]", plain).items():
            label, text = f"{indent}{_title(name)}:", in_words(value)
            if text is None:
                say(label)
                print_answer(value, indent + "  ")
            elif text:
                say(f"{label} {text}", bold=name == "title", fg="red" if name in ("suspect", "held") else None)
    elif isinstance(plain, list):
        _print_entries(cast("list[Any]", plain), indent)
    else:
        for line in str(plain).splitlines():
            say(f"{indent}{line}")


def _print_entries(entries: list[Any], indent: str) -> None:
    rows = [cast("dict[str, Any]", entry) for entry in entries if isinstance(entry, dict)]
    is_table = len(rows) == len(entries) and not any(
        name == "title" or in_words(value) is None for row in rows for name, value in row.items()
    )
    if not entries:
        say(f"{indent}None.")
    elif is_table:
        shown = rows[:SHOWN] if indent else rows
        names = dict.fromkeys(name for row in rows for name, value in row.items() if in_words(value))
        print_table([_title(name) for name in names], ([in_words(row.get(name)) for name in names] for row in shown))
        if len(rows) > len(shown):
            say(f"… and {len(rows) - SHOWN} more; --json shows all", dim=True)
    else:
        for number, entry in enumerate(entries):
            if number and in_words(entry) is None:
                say()
            print_answer(entry, indent)


def in_words(value: object) -> str | None:
    """Return a JSON value as text for the line of its name; counts become `3 active, 1 archived`.

    None where it needs more than that line, like rows, texts of several lines and lists of sentences.
    """
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        if says := fields.get("says"):
            return str(says)
        if not all(type(each) is int for each in fields.values()):
            return None
        return ", ".join(f"{each} {_title(name)}" for name, each in fields.items() if each) or "none"
    if isinstance(value, list):
        entries = cast("list[Any]", value)
        is_longer = any(isinstance(entry, dict | list) or " " in str(entry) for entry in entries)
        return None if is_longer else ", ".join(map(str, entries)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.2f}" if abs(value) >= 1 else f"{value:.3g}"
    text = "" if value is None else str(value)
    return None if "\n" in text else text


def _title(name: object) -> str:
    return str(name).replace("_", " ")


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows as a table that fits the terminal: lines break between words, ids and figures never."""
    from rich.box import SIMPLE
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = [[printable(str(cell)) for cell in row] for row in rows]
    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _PIPED
    table = Table(box=SIMPLE, show_edge=False, pad_edge=False)
    least = 0
    for heading, *texts in zip(headings, *cells, strict=True):
        words = [word for text in (heading, *texts) for word in text.split()]
        width = max((cell_len(word) for word in words if heading == "id" or len(word) <= _LONG_WORD), default=1)
        table.add_column(heading, overflow="fold", min_width=width)
        least += width + 3
    for row in cells:
        table.add_row(*map(Text, row))
    console.width = max(console.width, least)
    with console.capture() as printed:
        console.print(table)
    click.echo("\n".join(line.rstrip() for line in printed.get().splitlines()))


@contextmanager
def progress(what: str) -> "Generator[Callable[[Progress], None]]":
    """Show on stderr how far the work is; nothing is shown where that is not a terminal."""
    if not sys.stderr.isatty():
        yield lambda progress: None
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status(what) as shown:

        def moved(progress: "Progress") -> None:
            of = "" if progress.total is None else f" of {progress.total:,}"
            shown.update(f"{what}: {progress.done:,}{of} {escape(progress.message[-80:])}")

        yield moved


class Finding(NamedTuple):
    """The state of one part of the installation, and what to do about it."""

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
