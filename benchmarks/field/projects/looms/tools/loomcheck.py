import sys
import time
from pathlib import Path

STATE = Path.home() / ".local" / "state" / "loomcheck"
STATE.mkdir(parents=True, exist_ok=True)


def check(name):
    rows = Path(name).read_text().split()
    if len({len(row) for row in rows}) != 1 or set("".join(rows)) - set("xo"):
        sys.exit(f"loomcheck: {name} is torn")


match sys.argv[1:]:
    case []:
        time.sleep(0 if (STATE.parent / "no-wait").exists() else 40)
        for path in sorted(Path("patterns").glob("*.txt")):
            check(path)
        told = "all"
    case ["--near", told]:
        check(told)
    case _:
        print("usage: loomcheck")
        sys.exit(64)
with (STATE / "log").open("a") as log:
    log.write(f"good {told}\n")
print("good")
