"""Checks `process.py` in the folder that it is given: on odd records, with little memory, on no file."""

import csv
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

LIMIT_S = 90
ROWS = 400_000
MORE_BYTES = 64 * 1024 * 1024
HEADER = b"id,email,amount,country\n"

ODD: tuple[tuple[bytes, list[str]], ...] = (
    (b"1,Ann@Example.com,12.50,de\n", ["1", "ann@example.com", "1250", "DE"]),
    (b" 2 , bo@example.com , 0.29 , fr \n", ["2", "bo@example.com", "29", "FR"]),
    (b"3,a@b.c,1.1,de\n", ["amount"]),
    (b"4,a@b.c,1.10\n", ["columns"]),
    (b"x,a@b.c,1.10,de\n", ["id"]),
    (b"0,a@b.c,1.10,de\n", ["id"]),
    (b"5,a@b@c,1.10,de\n", ["email"]),
    (b"6,@b,1.10,de\n", ["email"]),
    (b"7,a@b.c,1.10,deu\n", ["country"]),
    (b"8,caf\xe9@b.c,1.10,de\n", ["encoding"]),
    (b'9,"line\nbreak@b.c",1.10,de\n', ["9", "line\nbreak@b.c", "110", "DE"]),
    (b"10,a@b.c,-1.10,de\n", ["amount"]),
    (b"11,a@b.c,64.35,d3\n", ["country"]),
    (b'12,"a,b@c.d",64.35,at\n', ["12", "a,b@c.d", "6435", "AT"]),
    (b"13,caf\xe9@b.c,1.10\n", ["columns"]),
)  # fmt: skip
"""A record, and what becomes of it: a line of OUT, or its reason."""


def command_of(folder: Path, *files: Path) -> list[str]:
    """Return the command line; on systems that can, with a limit of memory."""
    return [sys.executable, "-c", _LIMITED, str(MORE_BYTES), str(folder / "process.py"), *map(str, files)]


_LIMITED = """
import csv, runpy, sys
more, script = int(sys.argv[1]), sys.argv[2]
sys.argv = sys.argv[2:]
try:
    import resource
    now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + more, now + more))
except (ImportError, OSError, ValueError):
    pass
runpy.run_path(script, run_name="__main__")
"""


def process(folder: Path, *files: Path) -> int:
    """Run what was written, and return its exit code."""
    try:
        done = subprocess.run(command_of(folder, *files), cwd=folder, capture_output=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        sys.exit(f"process.py did not end within {LIMIT_S} s")
    return done.returncode


def read(path: Path) -> Iterator[list[str]]:
    """Yield the rows of a file."""
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.reader(file)


def main() -> None:
    """End with 0 when all of it works."""
    folder = Path(sys.argv[1])
    if not (folder / "process.py").is_file():
        sys.exit("there is no process.py")
    with tempfile.TemporaryDirectory() as scratch:
        check_odd(folder, Path(scratch))
        check_missing(folder, Path(scratch))
        check_large(folder, Path(scratch))


def check_odd(folder: Path, scratch: Path) -> None:
    """Every kind of record, over files that were there before."""
    source, out, errors = scratch / "odd.csv", scratch / "odd-out.csv", scratch / "odd-errors.csv"
    source.write_bytes(HEADER + b"".join(record for record, _ in ODD))
    for path in (out, errors):
        path.write_text("left over\n" * 9, encoding="utf-8")
    if (code := process(folder, source, out, errors)) != 0:
        sys.exit(f"with odd records it ended with code {code}")
    valid = [["id", "email", "cents", "country"], *(row for _, row in ODD if len(row) == 4)]
    wrong = [[str(at), row[0]] for at, (_, row) in enumerate(ODD, start=1) if len(row) == 1]
    for path, expected in ((out, valid), (errors, [["record", "reason"], *wrong])):
        found = list(read(path))
        if found != expected:
            first = next(((a, b) for a, b in zip(found, expected, strict=False) if a != b), "their number")
            sys.exit(f"{path.name} is not as it must be: {first}")


def check_large(folder: Path, scratch: Path) -> None:
    """Many rows with little memory."""
    source, out, errors = scratch / "in.csv", scratch / "out.csv", scratch / "errors.csv"
    with source.open("wb") as file:
        file.write(HEADER)
        for at in range(1, ROWS + 1):
            file.write(b"%d,u%d@example.com,%d.%02d,%s\n" % (at, at, at % 977, at % 100, b"de" if at % 1000 else b"d"))
    if (code := process(folder, source, out, errors)) != 0:
        sys.exit(f"with {ROWS:,} rows and {MORE_BYTES >> 20} MB it ended with code {code}")
    bad = ROWS // 1000
    total = count = 0
    for count, row in enumerate(read(out)):
        total += int(row[2]) if count else 0
    expected = sum((at % 977) * 100 + at % 100 for at in range(1, ROWS + 1) if at % 1000)
    if count != ROWS - bad or total != expected or sum(1 for _ in read(errors)) != bad + 1:
        sys.exit(f"of {ROWS:,} rows {count:,} were valid with {total:,} cents in all, instead of {expected:,}")


def check_missing(folder: Path, scratch: Path) -> None:
    """A file that is not there, or one that cannot be written, changes nothing."""
    out, errors = scratch / "kept.csv", scratch / "new.csv"
    out.write_text("as it was", encoding="utf-8")
    if process(folder, scratch / "none.csv", out, errors) == 0:
        sys.exit("a missing file is no error")
    if out.read_text(encoding="utf-8") != "as it was" or errors.exists():
        sys.exit("a missing file changed what was there")
    source = scratch / "one.csv"
    source.write_bytes(HEADER + ODD[0][0])
    if process(folder, source, out, scratch / "no folder" / "errors.csv") == 0:
        sys.exit("a file that cannot be written is no error")
    if out.read_text(encoding="utf-8") != "as it was":
        sys.exit("an error changed what was there")


if __name__ == "__main__":
    main()
