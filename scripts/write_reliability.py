"""Writes the figures of the last `make faults` into the tables of docs/RELIABILITY.md.

python scripts/write_reliability.py
"""

import json
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIGURES = ROOT / "build" / "faults.jsonl"
PAGE = ROOT / "docs" / "RELIABILITY.md"


def figures() -> dict[str, list[str]]:
    """Return the figures by row; what follows a row's name in the rig tells one figure of a row from another."""
    rows: dict[str, list[str]] = defaultdict(list)
    for line in FIGURES.read_text("utf-8").splitlines():
        told = json.loads(line)
        rows[told["row"]].append(told["figure"])
    return rows


def cell(row: str, names: set[str], rows: dict[str, list[str]]) -> str:
    """Return what stands in the last column of a row: its own figures, then those of its parts that have no row."""
    parts = [*rows.get(row, [])]
    for name, told in rows.items():
        if name.startswith(f"{row} ") and name not in names:
            parts.extend(f"{name.removeprefix(row).strip()}: {figure}" for figure in told)
    return "; ".join(parts).replace("|", "/")


def main() -> None:
    """Fill the tables."""
    rows, lines = figures(), PAGE.read_text("utf-8").splitlines()
    names = {line.split("|")[1].strip() for line in lines if line.startswith("| ")}
    for number, line in enumerate(lines):
        cells = line.split("|")
        if line.startswith("| ") and len(cells) == 7 and (figure := cell(cells[1].strip(), names, rows)):
            lines[number] = "|".join([*cells[:5], f" {figure} ", ""])
    PAGE.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
