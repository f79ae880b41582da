import json
import sys
from pathlib import Path

STATE = Path.home() / ".local" / "state" / "dropctl"
STATE.mkdir(parents=True, exist_ok=True)


def step(dock, was, becomes, code, **more):
    file = STATE / f"{dock}.json"
    state = json.loads(file.read_text()) if file.exists() else {"at": None}
    if dock not in ("north", "east"):
        sys.exit("dropctl: D1")
    if state["at"] != was:
        sys.exit(f"dropctl: {code}")
    state |= {"at": becomes, **more}
    file.write_text(json.dumps(state))
    return state


match sys.argv[1:]:
    case ["claim", dock]:
        step(dock, None, "claimed", "D2")
    case ["load", dock, name]:
        if not Path(name).is_file():
            sys.exit("dropctl: D4")
        step(dock, "claimed", "loaded", "D2", name=name)
    case ["tally", dock]:
        name = step(dock, "loaded", "tallied", "D3")["name"]
        print(len(Path(name).read_text().splitlines()) - 1)
    case ["send", dock]:
        name = step(dock, "tallied", None, "D5")["name"]
        count = len(Path(name).read_text().splitlines()) - 1
        with (STATE / "log").open("a") as log:
            log.write(f"sent {dock} {name} {count}\n")
        print("sent")
    case ["claim" | "load" | "tally" | "send", *_]:
        sys.exit("dropctl: D9")
    case _:
        print("dropctl - drops things. usage: dropctl VERB ...")
        sys.exit(64)
