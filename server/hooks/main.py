"""The commands that agents run at their events: `python -I -m swarm_memory.server.hooks HOST VERB`, the event on stdin.

A person waits for them: they print nothing but hook JSON, and end in time and with code 0 whatever happens. A running
server is asked first; where none is ready the same is done here, and only then what that needs is imported.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, cast

from swarm_memory.schema.errors import InputError, StoreUntrusted, SwarmMemoryError
from swarm_memory.server.folders import CHILD_VARIABLE, project_root
from swarm_memory.server.footprint import start_no_threads
from swarm_memory.server.hooks.client import announce, ask, wake
from swarm_memory.server.hosts.host import ROOMS, Host, Said, host
from swarm_memory.server.hosts.paths import checked_transcript
from swarm_memory.server.location import locate, log_line
from swarm_memory.server.missed import note_missed
from swarm_memory.server.switch import switched_off

MAX_EVENT_BYTES = 8_000_000
WORKER = ("-m", "swarm_memory.server.cli", "jobs", "work", "--until-idle")

ATTENDED = frozenset({"cli", "claude-vscode", "claude-desktop"})
"""Entry points of Claude Code (`CLAUDE_CODE_ENTRYPOINT`) at which a person reads the answer: not `claude -p` or an SDK,
where the last line is what a script waits for."""

PLUGIN = "--plugin"
"""Said by the hooks of the plugin, which stand back where `install` wrote hooks too."""


class Verb(NamedTuple):
    """What a hook command is called for."""

    event: str
    limit_s: float
    """After so long the host is let go."""
    alone: bool = True
    """Whether the work is done here where no server is ready; a call of a tool does not wait for a bank to open."""


VERBS = {
    "session-start": Verb("SessionStart", 3.0),
    "prompt": Verb("UserPromptSubmit", 10.0),
    "before-tool": Verb("PreToolUse", 2.0, alone=False),
    "after-remember": Verb("PostToolUse", 2.0, alone=False),
    "tool-failure": Verb("PostToolUseFailure", 2.0),
    "stop": Verb("Stop", 3.0),
    "session-end": Verb("SessionEnd", 1.3),  # Claude Code gives all of these hooks together 1.5 s
}


def main(arguments: list[str]) -> NoReturn:
    """Run one verb of a host and end the process with code 0: a fault of ours is noted and never reaches the host."""
    if os.environ.get(CHILD_VARIABLE):
        os._exit(0)  # an agent that we started ourselves must not be learned from, nor wait for us
    try:
        run(arguments)
    except Exception as error:  # noqa: BLE001 - a main: whatever it is, the host must not feel it
        named = next((VERBS[each].event for each in arguments if each in VERBS), arguments[0] if arguments else "")
        # Nothing is left in a folder that came from elsewhere; SessionStart says that it did.
        _note(named, str(error) if isinstance(error, StoreUntrusted) else f"{type(error).__name__}: {error}", error)
    os._exit(0)  # without taking the interpreter apart, which takes as long as an answer


def run(arguments: list[str]) -> None:
    """Run one verb of a host; a verb alone is one of Claude Code's, whose settings name no host."""
    first, second = [*arguments, "", ""][:2]
    of, name = (first, second) if first in ROOMS else ("claude", first)
    if name not in VERBS:
        raise InputError(f"there is no hook {name!r}: {', '.join(VERBS)}")
    verb, agent = VERBS[name], host(of)
    leave_in_time(verb.limit_s, project_root(), verb.event)
    event = agent.heard(verb.event, _event())
    if not agent.names_project:
        _go_to(event)
    root = Path(project_root())
    if not event or switched_off(root) is not None:
        return
    done = stand_back(verb) if _is_second(arguments, root) else answer(verb, agent, event, root)
    if done and (told := agent.answered(verb.event, done)):
        sys.stdout.write(json.dumps(told))
        sys.stdout.flush()


def answer(verb: Verb, agent: Host, event: Said, root: Path) -> Said:
    """Return the answer to an event, of a running server or by work that is done here."""
    session_id = str(event.get("session_id") or "")
    event = {**event, "hook_event_name": verb.event, "host": agent.name, "attended": is_attended()}
    if verb.event in ("Stop", "SessionEnd"):
        event["transcript_path"] = transcript = named_transcript(event, (*agent.folders(), root))
        if transcript is None:
            return {}  # a session without a prompt leaves none
        if verb.event == "SessionEnd":
            ended(root, session_id, transcript)
            return {}
    if verb.event == "SessionStart":
        with suppress(OSError):  # then the first prompt is answered later
            announce(root, session_id)
    said = ask(root, json.dumps(event).encode(), 0.8 * verb.limit_s, patiently=not verb.alone)
    if said is not None:
        return cast(Said, json.loads(said))
    if not verb.alone:
        return {}
    start_no_threads()
    from swarm_memory.server.hooks.alone import answer_alone

    done = answer_alone(event, root)
    wake(root, session_id)
    return done


def is_attended() -> bool:
    """Whether a person reads what the agent says last."""
    return os.environ.get("CLAUDE_CODE_ENTRYPOINT") in ATTENDED and not os.environ.get("CI")


def named_transcript(event: Said, folders: Iterable[str | os.PathLike[str]]) -> str | None:
    """Return the checked path of a session's transcript; None where there is none. Raises `InputError`."""
    session_id, named = str(event.get("session_id") or ""), str(event.get("transcript_path") or "")
    if not session_id.replace("-", "").replace("_", "").isalnum() or len(session_id) > 128:
        raise InputError(f"not a session's id: {session_id[:40]!r}")
    return checked_transcript(named, folders) if os.path.lexists(named) else None


def ended(root: Path, session_id: str, transcript: str) -> None:
    """Start a worker that learns from a session that ended, in a process session of its own.

    The host gives the hook hardly the time to open a bank: the worker queues the session itself, and outlives the host.
    """
    of = ("--session", session_id, "--transcript", transcript)
    command = [sys.executable, "-I" if sys.flags.isolated else "-EP", *WORKER, *of]
    nothing = subprocess.DEVNULL
    if sys.platform == "win32":
        flags = subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP
        subprocess.Popen(command, cwd=root, creationflags=flags, stdin=nothing, stdout=nothing, stderr=nothing)  # noqa: S603
    else:
        subprocess.Popen(command, cwd=root, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True)  # noqa: S603


def stand_back(verb: Verb) -> Said:
    """Return nothing to do; at the start of a session the person is told why."""
    if verb.event != "SessionStart":
        return {}
    told = "swarm-memory is here twice, as a plugin and by its command; the plugin's hooks stand back"
    mend = "`swarm-memory uninstall` or `claude plugin uninstall swarm-memory` takes one out"
    return {"systemMessage": f"{told}. {mend}."}


def _is_second(arguments: list[str], root: Path) -> bool:
    if PLUGIN not in arguments:
        return False
    from swarm_memory.server.hosts.claude_code.settings import SETTINGS

    return bool(SETTINGS.installed_scopes(root))


def _event() -> Said:
    """Return the event that stands on stdin. Raises `InputError`, `ValueError`."""
    told = sys.stdin.buffer.read(MAX_EVENT_BYTES + 1)
    if len(told) > MAX_EVENT_BYTES:
        raise InputError(f"the event is larger than {MAX_EVENT_BYTES:,} bytes")
    event: Any = json.loads(told)
    if not isinstance(event, dict):
        raise InputError("the event is not a JSON object")
    return cast(Said, event)


def _go_to(event: Said) -> None:
    """Work in the folder of the session, where the event names one that is there."""
    os.environ.pop("CLAUDE_PROJECT_DIR", None)  # of an agent in which this one was started
    named = Path(str(event.get("cwd") or ""))
    if named.is_absolute() and named.is_dir():
        os.chdir(named)


def leave_in_time(limit_s: float, root: str, name: str) -> None:
    """Have the process end when the time is up, whatever it waits for."""

    def leave() -> NoReturn:
        time.sleep(limit_s)
        try:
            note_missed(root, name, f"no answer within {limit_s:g} s")
        finally:
            os._exit(0)

    threading.Thread(target=leave, daemon=True).start()


def _note(name: str, reason: str, error: Exception) -> None:
    """Note that an event was missed, for `status` and `doctor`, and in the log beside the bank where it is ours."""
    try:
        place = locate()
        note_missed(place.root, name, reason)
        if not isinstance(error, StoreUntrusted):
            from swarm_memory.server.storage.engine import registry

            if registry.knows(place.database):
                log_line(place.folder, f"{name}: {reason}")
    except (OSError, RuntimeError, SwarmMemoryError):
        sys.stderr.write(f"swarm-memory: {name}: {reason}\n")
