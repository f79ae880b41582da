"""The commands that agents run at their events: `python -I -m swarm_memory.server.hooks HOST VERB`, the event on stdin.

A person waits for them: they print nothing but hook JSON, and end in time and with code 0 whatever happens.
"""

import _thread
import gc
import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, cast

from swarm_memory.schema.errors import InputError, StoreUntrusted, SwarmMemoryError
from swarm_memory.server.hooks.session import Moment, session_end, session_start, stop, tool_failure
from swarm_memory.server.hooks.settings import light_settings
from swarm_memory.server.hosts.host import ROOMS, Host, Said, host
from swarm_memory.server.location import CHILD_VARIABLE, Location, locate, log_line
from swarm_memory.server.missed import note_missed
from swarm_memory.server.switch import switched_off

MAX_EVENT_BYTES = 8_000_000


def ask_or_do(limit_s: float, moment: Moment) -> dict[str, Any]:
    """Return the answer of a running server to an event, or do the work here."""
    from swarm_memory.server.hooks.client import ask, wake

    root = moment.place.root
    answer = ask(root, moment.event, 0.8 * limit_s)
    if answer is None:
        from swarm_memory.server.hooks.alone import answer_alone

        answer = answer_alone(moment.event, root)
        wake(root, str(moment.event.get("session_id") or ""))
    return answer


def before_tool(moment: Moment) -> dict[str, Any]:
    """Return a warning for a call that looks like one that failed; without a bank there is none to give."""
    return ask_or_do(TOOL_S, moment) if moment.place.database.is_file() else {}


PLUGIN = "--plugin"
"""Said by the hooks of the plugin, which stand back where `install` wrote hooks too."""


def _is_second(arguments: list[str], root: Path) -> bool:
    if PLUGIN not in arguments:
        return False
    from swarm_memory.server.hosts.claude_code.settings import installed_scopes

    return bool(installed_scopes(root))


def stand_back(moment: Moment) -> Said:
    """Return nothing to do; at the start of a session the person is told why."""
    if moment.event.get("hook_event_name") != "SessionStart":
        return {}
    told = "swarm-memory is here twice, as a plugin and by its command; the plugin's hooks stand back"
    mend = "`swarm-memory uninstall` or `claude plugin uninstall swarm-memory` takes one out"
    return {"systemMessage": f"{told}. {mend}."}


PROMPT_S, TOOL_S, TURN_S = 10.0, 2.0, 3.0
SESSION_END_S = 1.3
"""Claude Code gives all SessionEnd hooks together 1.5 s."""

VERBS: dict[str, tuple[str, float, Callable[[Moment], dict[str, Any]]]] = {
    "session-start": ("SessionStart", TURN_S, session_start),
    "prompt": ("UserPromptSubmit", PROMPT_S, partial(ask_or_do, PROMPT_S)),
    "before-tool": ("PreToolUse", TOOL_S, before_tool),
    "tool-failure": ("PostToolUseFailure", TOOL_S, tool_failure),
    "stop": ("Stop", TURN_S, stop),
    "session-end": ("SessionEnd", SESSION_END_S, session_end),
}
"""By verb: the event that it is for, after how many seconds the host is let go, and what is done."""


def main(arguments: list[str]) -> NoReturn:
    """Run one verb of a host and end the process with code 0: a fault of ours is noted and never reaches the host.

    A verb alone is one of Claude Code's, whose settings name no host.
    """
    if os.environ.get(CHILD_VARIABLE):
        os._exit(0)  # an agent that we started ourselves must not be learned from, nor wait for us
    gc.disable()  # a process this short leaves nothing worth collecting
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"  # looking for them reads the metadata of every package there is
    place = None
    first, second = [*arguments, "", ""][:2]
    of, name = (first, second) if first in ROOMS else ("claude", first)
    try:
        place = locate()
        if name not in VERBS:
            raise InputError(f"there is no hook {name!r}: {', '.join(VERBS)}")
        name, limit_s, do = VERBS[name]
        _thread.start_new_thread(_leave_in_time, (limit_s, place.root, name))
        agent = host(of)
        event = agent.heard(name, _read_event())
        if not agent.names_project:
            place = _go_to(event)
        if event and switched_off(place.root) is None:
            _answer(place, agent, name, event, stand_back if _is_second(arguments, place.root) else do)
    except StoreUntrusted as error:
        _note(place, name, str(error))  # nothing is left in a folder that came from elsewhere; SessionStart tells
    except Exception as error:  # noqa: BLE001 - a main: whatever it is, the host must not feel it
        _note(place, name, f"{type(error).__name__}: {error}", log=True)
    os._exit(0)  # without taking the interpreter apart, which would take a tenth of the time


def _go_to(event: Said) -> Location:
    """Work in the folder of the session, where the event names one that is there; return where its bank is."""
    os.environ.pop("CLAUDE_PROJECT_DIR", None)  # of an agent in which this one was started
    named = str(event.get("cwd") or "")
    if os.path.isabs(named) and os.path.isdir(named):  # noqa: PTH112, PTH117
        os.chdir(named)
    return locate()


def _answer(place: Location, agent: Host, name: str, event: Said, do: Callable[[Moment], Said]) -> None:
    settings = light_settings(place.root)
    if not settings.enabled:
        return
    done = do(Moment(event, locate(db=settings.db), settings, agent))
    answer = agent.answered(name, done) if done else {}
    if answer:
        sys.stdout.write(json.dumps(answer))
        sys.stdout.flush()


def _read_event() -> dict[str, Any]:
    told = sys.stdin.buffer.read(MAX_EVENT_BYTES + 1)
    if len(told) > MAX_EVENT_BYTES:
        raise InputError(f"the event is larger than {MAX_EVENT_BYTES:,} bytes")
    event: Any = json.loads(told)
    if not isinstance(event, dict):
        raise InputError("the event is not a JSON object")
    return cast(dict[str, Any], event)


def _leave_in_time(limit_s: float, root: Path, name: str) -> NoReturn:
    """End the process when the time is up, whatever it waits for."""
    time.sleep(limit_s)
    try:
        note_missed(root, name, f"no answer within {limit_s:g} s")
    finally:
        os._exit(0)


def _note(place: Location | None, name: str, reason: str, *, log: bool = False) -> None:
    try:
        if place is None:
            return
        note_missed(place.root, name, reason)
        if log:
            from swarm_memory.server.storage.engine import registry

            if registry.knows(place.database):  # nothing is left in a folder that came from elsewhere
                log_line(place.folder, f"{name}: {reason}")
    except (OSError, SwarmMemoryError):
        sys.stderr.write(f"swarm-memory: {name}: {reason}\n")
