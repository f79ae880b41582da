import json
import sys
from pathlib import Path

FILE = Path.home() / ".local" / "state" / "depotd" / "state.json"
FILE.parent.mkdir(parents=True, exist_ok=True)
state = json.loads(FILE.read_text()) if FILE.exists() else {"up": None, "counts": {"lamps": 40, "stools": 12}}
counts = state["counts"]


def save():
    FILE.write_text(json.dumps(state))


match sys.argv[1:]:
    case ["up", *words]:
        if state["up"]:
            sys.exit("depotd: up already")
        if words not in ([], ["--store", "yard"], ["--store", "main"]):
            sys.exit("depotd: no such store")
        state["up"] = (words or ["", "main"])[1]
        save()
        print("depot is up")
    case ["down"]:
        state["up"] = None
        save()
        print("depot is down")
    case ["status"]:
        print("up" if state["up"] else "down")
    case ["stores"]:
        print("main\nyard")
    case ["get" | "put" | "sum", *_] if not state["up"]:
        sys.exit("depotd: E3 nobody there")
    case ["get", name]:
        print(counts.get(name, 0))
    case ["put", name, count]:
        if state["up"] != "yard":
            sys.exit("depotd: E12")
        counts[name] = int(count)
        save()
    case ["sum"]:
        print(sum(counts.values()))
    case _:
        print("usage: depotd up|down|status|stores|get|put|sum")
        sys.exit(64)
