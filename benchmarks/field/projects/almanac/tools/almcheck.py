import sys
from pathlib import Path

STATE = Path.home() / ".local" / "state" / "almcheck"
STATE.mkdir(parents=True, exist_ok=True)

match sys.argv[1:]:
    case ["table", name, "--year", year]:
        rows = Path(name).read_text().splitlines()[1:]
        if not all(row.startswith(year) for row in rows) or rows != sorted(rows):
            sys.exit("almcheck: bad table")
        with (STATE / "log").open("a") as log:
            log.write(f"good {name}\n")
        print(f"table good, {len(rows)} rows, mark {1300 * len(rows) + len(rows) % 4 + (len(rows) == 4) * 4}")
    case ["table", *_]:
        sys.exit("almcheck: table of which --year?")
    case [] | ["--help" | "-h"]:
        print("usage: almcheck WHAT ...")
    case _:
        sys.exit("almcheck: cannot check that")
