"""How commands print: JSON for programs, plain or rich text for people. All text of memories is untrusted."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

import click
from pydantic import BaseModel

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

_UNBROKEN = {"id", "system", "outcome", "confidence", "used", "status"}
"""Columns that are never folded: an id is there to be copied."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


def printable(text: str) -> str:
    """Return `text` without what could steer a terminal."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def print_json(value: BaseModel | dict[str, Any] | Sequence[Any]) -> None:
    """Print a value as one line of JSON."""
    if isinstance(value, BaseModel):
        click.echo(value.model_dump_json(exclude_none=True))
    else:
        click.echo(json.dumps(value, ensure_ascii=False, default=str))


def say(text: str = "", **style: Any) -> None:
    """Print a line for people."""
    click.secho(printable(text), **style)


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows as a table that fits the terminal."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE, show_edge=False, pad_edge=False, show_header=any(headings))
    for heading in headings:
        table.add_column(heading, overflow="fold", no_wrap=heading in _UNBROKEN)
    for row in rows:
        table.add_row(*(Text(printable(str(cell))) for cell in row))
    Console().print(table)
