import json
import sys
from datetime import datetime
from pathlib import Path


def parse(text):
    return datetime.strptime(text + " +0100", "%d.%m.%Y %H:%M %z")


def hours(shift):
    return (parse(shift["end"]) - parse(shift["start"])).total_seconds() / 3600


def total(shifts):
    return sum(hours(s) for s in shifts)


def main(words):
    shifts = json.loads(Path("shifts.json").read_text())
    match words:
        case ["total"]:
            print(f"{total(shifts):g} hours")
        case _:
            sys.exit("usage: python3 -m rota total")


main(sys.argv[1:])
