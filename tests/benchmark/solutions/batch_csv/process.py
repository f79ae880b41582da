"""Turns a file of payments into cents, line by line."""

import csv
import re
import sys
from pathlib import Path

ID, AMOUNT, COUNTRY = re.compile(r"0*[1-9]\d*"), re.compile(r"\d+\.\d\d"), re.compile(r"[A-Za-z]{2}")


def fault(row: list[str]) -> str | None:
    """Return what is wrong with a record."""
    if len(row) != 4:
        return "columns"
    if any("\udc80" <= char <= "\udcff" for value in row for char in value):
        return "encoding"
    number, email, amount, country = row
    checks = {
        "id": ID.fullmatch(number),
        "email": email.count("@") == 1 and not email.startswith("@") and not email.endswith("@"),
        "amount": AMOUNT.fullmatch(amount),
        "country": COUNTRY.fullmatch(country),
    }
    return next((name for name, is_right in checks.items() if not is_right), None)


def main(source: str, out: str, errors: str) -> None:
    """Write beside the files, and put them in place when all is done."""
    new_out, new_errors = Path(f"{out}.new"), Path(f"{errors}.new")
    with (
        Path(source).open(encoding="utf-8", errors="surrogateescape", newline="") as file,
        new_out.open("w", encoding="utf-8", newline="") as valid,
        new_errors.open("w", encoding="utf-8", newline="") as wrong,
    ):
        reader, good, bad = csv.reader(file), csv.writer(valid), csv.writer(wrong)
        good.writerow(["id", "email", "cents", "country"])
        bad.writerow(["record", "reason"])
        next(reader, None)
        for number, values in enumerate(reader, start=1):
            row = [value.strip() for value in values]
            reason = fault(row)
            if reason is None:
                good.writerow([int(row[0]), row[1].lower(), int(row[2].replace(".", "")), row[3].upper()])
            else:
                bad.writerow([number, reason])
    new_out.replace(out)
    new_errors.replace(errors)


if __name__ == "__main__":
    main(*sys.argv[1:])
