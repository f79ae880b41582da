"""What each verb of the hook commands does, and for which of an agent's events it is."""

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

from swarm_memory.schema.errors import InputError, StoreUntrusted, SwarmMemoryError
from swarm_memory.server.hooks.client import ask, wake
from swarm_memory.server.hooks.main import PROMPT_S, leave_in_time, read_event
from swarm_memory.server.hooks.session import Moment, session_end, session_start, stop
from swarm_memory.server.hooks.settings import light_settings
from swarm_memory.server.hosts.host import ROOMS, Host, Said, host
from swarm_memory.server.location import Location, locate, log_line
from swarm_memory.server.missed import note_missed
from swarm_memory.server.switch import switched_off


def ask_or_do(limit_s: float, moment: Moment) -> dict[str, Any]:
    """Return the answer of a running server to an event, or do the work here."""
    said = ask(moment.place.root, json.dumps(moment.event).encode(), 0.8 * limit_s)
    return do_alone(moment) if said is None else cast("dict[str, Any]", json.loads(said))


def do_alone(moment: Moment) -> dict[str, Any]:
    """Do here what no server was ready to do."""
    from swarm_memory.server.hooks.alone import answer_alone

    answer = answer_alone(moment.event, moment.place.root)
    wake(moment.place.root, str(moment.event.get("session_id") or ""))
    return answer


def ask_server(moment: Moment) -> dict[str, Any]:
    """Return what a running server says of a call; a call does not wait for a bank to be opened."""
    said = ask(moment.place.root, json.dumps(moment.event).encode(), 0.8 * TOOL_S, patiently=True)
    return {} if said is None else cast("dict[str, Any]", json.loads(said))


def tool_failure(moment: Moment) -> dict[str, Any]:
    """Return what is known of a failed call; without a bank that is nothing."""
    if not moment.settings.inject or not moment.place.database.is_file():
        return {}
    return ask_or_do(TOOL_S, moment)


PLUGIN = "--plugin"
"""Said by the hooks of the plugin, which stand back where `install` wrote hooks too."""


def _is_second(arguments: list[str], root: Path) -> bool:
    if PLUGIN not in arguments:
        return False
    from swarm_memory.server.hosts.claude_code.settings import SETTINGS

    return bool(SETTINGS.installed_scopes(root))


def stand_back(moment: Moment) -> Said:
    """Return nothing to do; at the start of a session the person is told why."""
    if moment.event.get("hook_event_name") != "SessionStart":
        return {}
    told = "swarm-memory is here twice, as a plugin and by its command; the plugin's hooks stand back"
    mend = "`swarm-memory uninstall` or `claude plugin uninstall swarm-memory` takes one out"
    return {"systemMessage": f"{told}. {mend}."}


TOOL_S, TURN_S = 2.0, 3.0
SESSION_END_S = 1.3
"""Claude Code gives all SessionEnd hooks together 1.5 s."""

VERBS: dict[str, tuple[str, float, Callable[[Moment], dict[str, Any]]]] = {
    "session-start": ("SessionStart", TURN_S, session_start),
    "prompt": ("UserPromptSubmit", PROMPT_S, partial(ask_or_do, PROMPT_S)),
    "before-tool": ("PreToolUse", TOOL_S, ask_server),
    "after-remember": ("PostToolUse", TOOL_S, ask_server),
    "tool-failure": ("PostToolUseFailure", TOOL_S, tool_failure),
    "stop": ("Stop", TURN_S, stop),
    "session-end": ("SessionEnd", SESSION_END_S, session_end),
}
"""By verb: the event that it is for, after how many seconds the host is let go, and what is done."""


def run(arguments: list[str], told: bytes | None) -> None:
    """Run one verb of a host; a verb alone is one of Claude Code's, whose settings name no host.

    `told`: the event of a prompt that no server was ready for; the time is being watched then.
    """
    first, second = [*arguments, "", ""][:2]
    of, name = (first, second) if first in ROOMS else ("claude", first)
    place = locate()
    if name not in VERBS:
        raise InputError(f"there is no hook {name!r}: {', '.join(VERBS)}")
    name, limit_s, do = VERBS[name]
    if told is None:
        leave_in_time(limit_s, str(place.root), name)
        told = read_event()
    else:
        do = do_alone
    agent = host(of)
    event = agent.heard(name, _object(told))
    if not agent.names_project:
        place = _go_to(event)
    try:
        if event and switched_off(place.root) is None:
            _answer(place, agent, name, event, stand_back if _is_second(arguments, place.root) else do)
    except StoreUntrusted as error:
        note(name, str(error))  # nothing is left in a folder that came from elsewhere; SessionStart tells


def note_fault(arguments: list[str], error: Exception) -> None:
    """Note that a hook could not do its work, and why."""
    named = next((VERBS[each][0] for each in arguments if each in VERBS), arguments[0] if arguments else "")
    note(named, f"{type(error).__name__}: {error}", log=True)


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
    done = do(Moment({**event, "host": agent.name}, locate(db=settings.db), settings, agent))
    answer = agent.answered(name, done) if done else {}
    if answer:
        sys.stdout.write(json.dumps(answer))
        sys.stdout.flush()


def _object(told: bytes) -> dict[str, Any]:
    event: Any = json.loads(told)
    if not isinstance(event, dict):
        raise InputError("the event is not a JSON object")
    return cast(dict[str, Any], event)


def note(name: str, reason: str, *, log: bool = False) -> None:
    """Note that an event was missed, for `status` and `doctor`; with `log` beside the bank too, where it is ours."""
    try:
        place = locate()
        note_missed(place.root, name, reason)
        if log:
            from swarm_memory.server.storage.engine import registry

            if registry.knows(place.database):  # nothing is left in a folder that came from elsewhere
                log_line(place.folder, f"{name}: {reason}")
    except (OSError, RuntimeError, SwarmMemoryError):
        sys.stderr.write(f"swarm-memory: {name}: {reason}\n")
