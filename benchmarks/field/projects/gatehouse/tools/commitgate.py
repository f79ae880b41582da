import re
import subprocess
import sys
import time
from pathlib import Path

EXPLAINED = {
    "G2": "subject is not `AREA: text (GH-number)` with an area of gate, lamp, docs",
    "G5": "no trailer Seen-by: with a name",
    "G7": "NOTES has no new last line that begins with the ticket",
}


def fault(message):
    ticket = re.match(r"(?:gate|lamp|docs): .+ \((GH-\d+)\)$", message.splitlines()[0])
    if not ticket:
        return "G2"
    if not re.search(r"^Seen-by: [A-Z]\w+$", message, re.MULTILINE):
        return "G5"
    shown = subprocess.run(["git", "diff", "--cached", "--", "NOTES"], capture_output=True, text=True).stdout
    return "" if f"\n+{ticket[1]} " in shown else "G7"


match sys.argv[1:]:
    case ["explain", code] if code in EXPLAINED:
        print(EXPLAINED[code])
    case ["message", name]:
        time.sleep(0 if (Path.home() / ".local" / "state" / "no-wait").exists() else 6)
        if code := fault(Path(name).read_text()):
            sys.exit(f"commitgate: rejected {code}")
    case _:
        sys.exit("commitgate: what?")
