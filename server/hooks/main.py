"""The commands that Claude Code runs when a session starts and ends: `python -I -m swarm_memory.server.hooks VERB`.

A person waits for them, in a project that is not ours: they import the standard library and little else, print nothing
but hook JSON, and end with code 0 whatever happens. What opens a database is imported where there is one.
"""

import _thread
import gc
import json
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, cast

from swarm_memory.schema.errors import InputError, StoreBusy, StoreUntrusted
from swarm_memory.server.hooks.spool import spool_event
from swarm_memory.server.hosts.paths import checked_transcript
from swarm_memory.server.location import CHILD_VARIABLE, FOLDER, Location, locate, log_line

LOCK_WAIT_S = 0.3
TIME_LIMIT_S = 1.3
"""Claude Code gives all SessionEnd hooks together 1.5 s."""

MAX_EVENT_BYTES = 1_000_000
MAX_CONFIG_CHARS = 1_000_000
DEFAULT_BRIEFING_ITEMS = 5
WORKER = ("-m", "swarm_memory.server.cli", "jobs", "work", "--until-idle")


def session_start(event: dict[str, Any], place: Location) -> dict[str, Any]:
    """Return hook JSON with a briefing of the project's best strategies; nothing without any, or when held out.

    Of a bank that is not trusted the user is told once.
    """
    from swarm_memory.server.storage.hook_reader import open_for_hook, tell_once
    from swarm_memory.tools.retrieve.preamble import briefing

    items = whole_number_setting("hooks", "briefing_items", DEFAULT_BRIEFING_ITEMS, place.root)
    if items == 0 or _is_held_out(str(event.get("session_id") or "")):
        return {}
    try:
        with open_for_hook(place, LOCK_WAIT_S) as bank:
            rows = bank.briefing_rows(items)
    except StoreUntrusted as error:
        return {"systemMessage": f"swarm-memory: {error}"} if tell_once(place.database) else {}
    text = briefing(rows) if rows else ""
    if not text:
        return {}
    return {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": text}}


def _is_held_out(session_id: str) -> bool:
    """Tell whether the session's tasks get no memories: then its briefing must not bring them either."""
    rate = own_number_setting("credit", "holdout_rate", 0.0)
    if rate <= 0.0:
        return False
    from swarm_memory.tools.credit.holdout import is_held_out
    from swarm_memory.tools.trajectory.tasks import session_task_id

    return is_held_out(session_task_id(session_id, 1), rate, int(own_number_setting("credit", "holdout_seed", 0)))


def session_end(event: dict[str, Any], place: Location) -> dict[str, Any]:
    """Queue what the session left to learn, start a worker that outlives it, and leave.

    When the database is busy the event goes into a file that the worker takes in.
    """
    from swarm_memory.server.storage.hook_reader import open_for_hook

    named, session_id = str(event.get("transcript_path") or ""), str(event.get("session_id") or "")
    if not session_id.replace("-", "").replace("_", "").isalnum() or len(session_id) > 128:
        raise InputError(f"not a session's id: {session_id[:40]!r}")
    if not os.path.lexists(named):
        return {}  # a session without a prompt leaves no transcript
    transcript = checked_transcript(named, place.root)
    told = {"hook_event_name": "SessionEnd", "session_id": session_id, "transcript_path": transcript}
    try:
        with open_for_hook(place, LOCK_WAIT_S) as bank:
            bank.end_session(session_id, transcript)
    except StoreBusy as error:
        spool_event(place.folder, told)
        log_line(place.folder, f"SessionEnd waits for the next worker: {error}")
    start_worker(place.root)
    return {}


def whole_number_setting(section: str, name: str, default: int, root: Path) -> int:
    """Return a setting as `server.config` resolves it: environment, the user's file, the project's file, default.

    The files are searched for the one line `name: number`, because a YAML library takes longer to import than a hook
    may run. What stands there otherwise is told by every other command.
    """
    found = _setting(section, name, r"\d{1,9}", (_user_folder(), root / FOLDER))
    return default if found is None else int(found)


def own_number_setting(section: str, name: str, default: float) -> float:
    """Return a setting that a project's file may not set: environment, the user's file, default."""
    found = _setting(section, name, r"-?\d{1,9}(?:\.\d{0,9})?", (_user_folder(),))
    return default if found is None else float(found)


def _user_folder() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config", "swarm-memory")


def _setting(section: str, name: str, number: str, folders: tuple[Path, ...]) -> str | None:
    given = os.environ.get(f"SWARM_MEMORY_{section}__{name}".upper())
    if given:
        return given
    for folder in folders:
        try:
            with (folder / "config.yaml").open(encoding="utf-8", errors="replace") as file:
                found = re.search(rf"^[ \t]*{name}:[ \t]*({number})[ \t]*(?:#.*)?$", file.read(MAX_CONFIG_CHARS), re.M)
        except OSError:
            continue
        if found:
            return found.group(1)
    return None


def start_worker(root: Path) -> None:
    """Start a worker in a process session of its own, so that the end of the host's does not end it."""
    command = [sys.executable, "-I" if sys.flags.isolated else "-EP", *WORKER]
    if sys.platform == "win32":
        import subprocess

        flags = subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP
        subprocess.Popen(command, cwd=root, creationflags=flags, close_fds=True)  # noqa: S603 - our own interpreter
        return
    os.chdir(root)
    quiet = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    try:
        os.posix_spawn(command[0], command, os.environ, file_actions=quiet, setsid=True)
    except NotImplementedError:
        import subprocess

        nothing = subprocess.DEVNULL
        subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True)  # noqa: S603


def _read_event() -> dict[str, Any]:
    event: Any = json.loads(sys.stdin.buffer.read(MAX_EVENT_BYTES))
    if not isinstance(event, dict):
        raise InputError("the event is not a JSON object")
    return cast(dict[str, Any], event)


def _leave_in_time() -> NoReturn:
    """End the process when the time is up, whatever it waits for."""
    time.sleep(TIME_LIMIT_S)
    os._exit(0)


_VERBS: dict[str, Callable[[dict[str, Any], Location], dict[str, Any]]] = {
    "session-start": session_start,
    "session-end": session_end,
}


def main(arguments: list[str]) -> NoReturn:
    """Run one verb and end the process with code 0: a fault of ours is logged and never reaches the host."""
    if os.environ.get(CHILD_VARIABLE):
        os._exit(0)  # an agent that we started ourselves must not be learned from, nor wait for us
    gc.disable()  # a process this short leaves nothing worth collecting
    _thread.start_new_thread(_leave_in_time, ())
    place = None
    try:
        place = locate()
        if place.database.is_file():
            answer = _VERBS[arguments[0]](_read_event(), place)
            if answer:
                sys.stdout.write(json.dumps(answer))
                sys.stdout.flush()
    except StoreUntrusted:
        pass  # nothing is left in a folder that came from elsewhere; SessionStart tells the user
    except Exception as error:  # noqa: BLE001 - a main: whatever it is, the host must not feel it
        _complain(place, arguments, error)
    os._exit(0)  # without taking the interpreter apart, which would take a tenth of the time


def _complain(place: Location | None, arguments: list[str], error: Exception) -> None:
    text = f"{' '.join(arguments[:1])}: {type(error).__name__}: {error}"
    try:
        if place is not None:
            log_line(place.folder, text)
    except OSError:
        sys.stderr.write(f"swarm-memory: {text}\n")
