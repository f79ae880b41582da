import sys
import time
from pathlib import Path

STATE = Path.home() / ".local" / "state" / "kilntab"
STATE.mkdir(parents=True, exist_ok=True)
IN_STEP = STATE / "in-step"

match sys.argv[1:]:
    case ["look", degrees]:
        if not IN_STEP.exists():
            sys.exit("kilntab: E41 curve table out of step")
        print(int(degrees) // 30)
    case ["status"]:
        print("table: ok" if IN_STEP.exists() else "table: out of step")
    case ["refresh"]:
        print("refreshed")
    case ["rebuild"]:
        time.sleep(4)
        print("rebuilt 412 rows from table")
    case ["reset"]:
        IN_STEP.unlink(missing_ok=True)
        print("reset")
    case ["sync"]:
        sys.exit("kilntab: sync: from what? (table, archive)")
    case ["sync", "--from", "table"]:
        print("synced")
    case ["sync", "--from", "archive"]:
        IN_STEP.touch()
        print("synced 412 rows")
    case _:
        print("usage: kilntab look|status|refresh|rebuild|reset|sync")
        sys.exit(64)
