"""Turns a file of payments into cents; works for small and clean files."""

import csv
import sys
from pathlib import Path


def main(source: str, out: str, errors: str) -> None:
    """Read all, then write all."""
    with Path(source).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with Path(out).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "email", "cents", "country"])
        for row in rows:
            writer.writerow(
                [row["id"], row["email"].lower(), round(float(row["amount"]) * 100), row["country"].upper()]
            )
    Path(errors).write_text("record,reason\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
