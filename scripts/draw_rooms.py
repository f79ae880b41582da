"""Draws docs/rooms.svg: the rooms of the code in the order that pyproject.toml lets them import each other.

python scripts/draw_rooms.py            # writes the picture
python scripts/draw_rooms.py --check    # exits with 1 if the picture is out of date
"""

import argparse
import sys
import tomllib
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "rooms.svg"

BANDS = (
    ("server", "server", "how it is reached, and what powers it"),
    ("storage", "inside the storage", "SQLite and PostgreSQL, within server/storage"),
    ("tools", "tools", "what can be done: a room for each operation"),
    ("schema", None, "what things are: values, errors, SQL and its migrations"),
)
"""Heading, the import contract that lists the rooms, and a description of them."""

WIDTH, MARGIN, GAP = 880, 26, 10
ROOM, ROW, HEADING = 30, 40, 46
LETTER = 7.6
"""Pixels: the picture's width, its margin, the gap between boxes; heights of box, row and heading; a letter's width."""

STYLE = """
    text { font: 14px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328 }
    .folder { font-size: 16px; font-weight: 600 }
    .says { font-size: 13px; fill: #59636e }
    .room { text-anchor: middle }
    .band { fill: #f6f8fa; stroke: #d1d9e0 }
    .box { fill: #ffffff; stroke: #8c959f }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3 }
      .says { fill: #9198a1 }
      .band { fill: #161b22; stroke: #30363d }
      .box { fill: #0d1117; stroke: #484f58 }
    }
"""


class Layer(NamedTuple):
    """Rooms that do not import each other, but only rooms of later layers."""

    rooms: tuple[str, ...]

    @property
    def width(self) -> float:
        """In pixels, with the bars between its rooms."""
        return sum(width_of(room) for room in self.rooms) + GAP * (len(self.rooms) - 1)


def main() -> int:
    """Write the picture, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; 1 where the picture is another one")
    text = picture()
    if not parser.parse_args().check:
        PICTURE.write_text(text, encoding="utf-8")
    elif PICTURE.read_text(encoding="utf-8") != text:
        print("docs/rooms.svg is not what the code says: run `python scripts/draw_rooms.py`", file=sys.stderr)
        return 1
    return 0


def picture() -> str:
    """Return the picture as SVG."""
    parts: list[str] = []
    top = GAP
    for heading, contract, says in BANDS:
        rows = list(rows_of(layers_of(contract))) if contract else []
        height = HEADING + ROW * len(rows)
        parts.append(f'<rect class="band" x="10" y="{top}" width="{WIDTH - 20}" height="{height}" rx="10"/>')
        parts.append(f'<text class="folder" x="{MARGIN}" y="{top + 28}">{heading}</text>')
        parts.append(f'<text class="says" x="{MARGIN + 11 * len(heading) + 10}" y="{top + 28}">{escape(says)}</text>')
        for number, row in enumerate(rows):
            parts += boxes(row, top + HEADING - 4 + ROW * number)
        top += height + GAP
    said = "Left to right and downwards: a room imports only what comes after it, and nothing that a bar joins it to."
    return "\n".join((
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" role="img" aria-labelledby="title text">',
        '<title id="title">The rooms of the code</title>',
        f'<desc id="text">{said}</desc>',
        f"<style>{STYLE}</style>",
        *parts,
        "</svg>\n",
    ))  # fmt: skip


def layers_of(contract: str) -> Iterator[Layer]:
    """Yield the layers of an import contract, the highest first."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["id"] == contract)
    yield from (Layer(tuple(room.strip() for room in layer.split("|"))) for layer in layers)


def rows_of(layers: Iterable[Layer]) -> Iterator[list[Layer]]:
    """Yield the layers in rows of as many as fit next to each other, in their order."""
    row: list[Layer] = []
    for layer in layers:
        if row and sum(each.width + GAP for each in (*row, layer)) > WIDTH - 2 * MARGIN + GAP:
            yield row
            row = []
        row.append(layer)
    if row:
        yield row


def boxes(row: Iterable[Layer], top: float) -> Iterator[str]:
    """Yield the boxes of a row; rooms of one layer are joined by a bar."""
    left = float(MARGIN)
    for layer in row:
        middle = top + ROOM / 2
        if len(layer.rooms) > 1:
            yield f'<path class="box" d="M{left:.0f} {middle}h{layer.width:.0f}"/>'
        for room in layer.rooms:
            width = width_of(room)
            yield f'<rect class="box" x="{left:.0f}" y="{top}" width="{width:.0f}" height="{ROOM}" rx="6"/>'
            yield f'<text class="room" x="{left + width / 2:.0f}" y="{middle + 5:.0f}">{escape(room)}</text>'
            left += width + GAP


def width_of(room: str) -> float:
    """Return the width of a room's box in pixels."""
    return LETTER * len(room) + 24


if __name__ == "__main__":
    sys.exit(main())
