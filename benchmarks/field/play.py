"""Plays a session of a small project through a shell, with our hooks and server as Claude Code drives them.

python benchmarks/field/play.py prepare PROJECT SESSION --arm ARM --into FOLDER [--bank FROM] [--settings FILE]
python benchmarks/field/play.py run FOLDER -- 'COMMANDS'      (or the commands on stdin)
python benchmarks/field/play.py say FOLDER                    (the answer on stdin)
python benchmarks/field/play.py retrieve FOLDER               (the query on stdin)
python benchmarks/field/play.py remember FOLDER               (the tool's arguments on stdin, as JSON)
python benchmarks/field/play.py end FOLDER
python benchmarks/field/play.py check FOLDER
python benchmarks/field/play.py report FOLDER...
python benchmarks/field/play.py selftest [PROJECT...] [--arm ARM...]
"""

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[2] / "tests" / "shared"))

from trial.host import Session
from trial.projects import ARMS, SESSIONS, Place, lay_out, load, names
from trial.rehearsal import rehearse
from trial.report import result_of, shown, table

SOCKET = "host.sock"
START_S = 90.0
IDLE_S = 7200.0
"""Seconds without a request after which a session is ended."""


def prepare(asked: argparse.Namespace) -> str:
    """Start the process that runs the session; return what the agent reads first."""
    folder: Path = asked.into.resolve()
    place = lay_out(load(asked.project), asked.session, folder)
    keys = ("project", "session", "arm", "model")
    plan = {key: getattr(asked, key) for key in keys}
    plan |= {key: getattr(asked, key) and str(getattr(asked, key).resolve()) for key in ("bank", "settings")}
    (folder / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    with (folder / "host.log").open("ab") as log:
        command = [sys.executable, __file__, "conduct", str(folder)]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=place.home, start_new_session=True
        )
    by = time.monotonic() + START_S
    while not (folder / SOCKET).exists() and time.monotonic() < by and process.poll() is None:
        time.sleep(0.05)
    return ask(folder, "open")


def conduct(folder: Path) -> None:
    """Run the session and answer requests one after another until it ends."""
    os.chdir(folder)  # the path of a socket must be short
    plan = json.loads(Path("plan.json").read_text(encoding="utf-8"))
    project = load(plan["project"])
    session = Session(Place(folder, project.name), project, plan["session"], plan["arm"], plan["model"])
    before = Place(Path(plan["bank"]), project.name) if plan["bank"] else None
    session.install(Path(plan["settings"]) if plan["settings"] else None, before)
    does: dict[str, Callable[[str], str]] = {
        "open": lambda _: session.open(),
        "run": session.run,
        "say": session.say,
        "retrieve": session.retrieve,
        "remember": lambda text: session.remember(json.loads(text)),
        "end": lambda _: session.end(),
    }
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(SOCKET)
        listener.listen()
        listener.settimeout(IDLE_S)
        with contextlib.suppress(TimeoutError):
            while not session.ended:
                channel, _ = listener.accept()
                with channel, channel.makefile("rwb") as stream:
                    request = json.loads(stream.readline())
                    stream.write(does[request["verb"]](request["text"]).encode())
    if not session.ended:
        session.end()
    Path(SOCKET).unlink()


def ask(folder: Path, verb: str, text: str = "") -> str:
    """Send a request to the session's process and return its answer. Exit the program if none comes."""
    os.chdir(folder)
    with socket.socket(socket.AF_UNIX) as channel:
        try:
            channel.connect(SOCKET)
        except OSError as error:
            sys.exit(f"no session is open in {folder} ({error}); its host.log says more")
        with channel.makefile("rwb") as stream:
            stream.write(json.dumps({"verb": verb, "text": text}).encode() + b"\n")
            stream.flush()
            answer = stream.read().decode()
    return answer or sys.exit(f"the session's process ended: see {folder / 'host.log'}")


def main() -> None:
    """Do what the arguments say."""
    asked = _arguments()
    match asked.verb:
        case "prepare":
            print(prepare(asked), end="")
        case "conduct":
            conduct(asked.folder)
        case "run":
            print(ask(asked.folder, "run", " ".join(asked.commands) or sys.stdin.read()), end="")
        case "say" | "retrieve" | "remember":
            text = sys.stdin.read()
            if asked.verb == "remember":
                _refuse_broken(text)
            print(ask(asked.folder, asked.verb, text), end="")
        case "end":
            print(ask(asked.folder, "end"), end="")
        case "check":
            print(shown(result_of(asked.folder.resolve())))
        case "report":
            print(table([result_of(folder.resolve()) for folder in asked.folders]))
        case _:
            sys.exit("\n".join(rehearse(asked.projects or names(), asked.arm or ARMS)))


def _refuse_broken(text: str) -> None:
    try:
        json.loads(text)
    except ValueError as error:
        sys.exit(f"not JSON: {error}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs: Any = parser.add_subparsers(dest="verb", required=True)
    one = verbs.add_parser("prepare")
    one.add_argument("project", choices=names())
    one.add_argument("session", choices=SESSIONS)
    one.add_argument("--arm", choices=ARMS, default="none")
    one.add_argument("--into", type=Path, required=True)
    one.add_argument("--bank", type=Path, help="the folder of an ended session whose notes are there")
    one.add_argument("--settings", type=Path, help="the user's settings file, with the model of the arm model")
    one.add_argument("--model", default="player", help="the name of who plays, for the transcript")
    for verb in ("run", "say", "retrieve", "remember", "end", "check", "conduct"):
        verbs.add_parser(verb).add_argument("folder", type=Path)
    verbs.choices["run"].add_argument("commands", nargs="*")
    verbs.add_parser("report").add_argument("folders", type=Path, nargs="+")
    test = verbs.add_parser("selftest")
    test.add_argument("projects", nargs="*")
    test.add_argument("--arm", action="append", choices=ARMS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
