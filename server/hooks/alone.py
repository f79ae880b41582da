"""What a hook command does itself: the work when no server answers, and starting a worker at the end of a session."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, cast

from swarm_memory.schema.errors import InputError, StoreUntrusted, SwarmMemoryError
from swarm_memory.server.folders import project_root
from swarm_memory.server.hooks.client import notify_servers
from swarm_memory.server.hosts.host import HookPayload, host
from swarm_memory.server.hosts.paths import session_transcript
from swarm_memory.server.location import Location, locate, log_line
from swarm_memory.server.missed_hooks import note_missed
from swarm_memory.server.numpy_threads import start_no_threads
from swarm_memory.server.storage.engine import registry
from swarm_memory.server.switch import switched_off

WORKER = ("-m", "swarm_memory.server.cli", "jobs", "work", "--until-idle")


def answer_alone(root: str, text: bytes, called: str) -> bytes | None:
    """Return hook JSON for an event; a prompt creates a missing bank. None if swarm-memory is switched off.

    Raises `ConfigError`, `InputError`, `ValueError`.
    """
    event = event_of(text)
    if switched_off(Path(root)) is not None:
        return None
    start_no_threads()
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # its search for them reads every package's metadata
    import asyncio

    from swarm_memory.server.config import resolve_settings
    from swarm_memory.server.hooks.events import HookAnswer, answer_hook
    from swarm_memory.server.wiring import opened_toolbox, place_of, without_server
    from swarm_memory.tools.toolbox import Toolbox

    settings = without_server(resolve_settings(Path(root)).settings)  # a person waits: nothing goes over the network
    if not settings.enabled:
        return None
    place = place_of(None, settings)
    logging.getLogger("swarm_memory").addHandler(BesideBank("hooks", lambda: place))

    async def answer() -> HookAnswer:
        async with AsyncExitStack() as at_end:

            async def open_once() -> Toolbox:
                opened = opened_toolbox(place, settings, in_haste=True)
                return (await at_end.enter_async_context(opened)).for_agents()

            return await answer_hook(open_once, event, "hook", place, called)

    done = asyncio.run(answer())
    notify_servers(root, str(event.get("session_id") or ""))
    return json.dumps(done).encode() + b"\n"


def end_session(of: str, text: bytes) -> None:
    """Start a worker that learns from an ended session, in a process session of its own. Raises `InputError`.

    The host hardly gives the hook time to open a bank, so the worker queues the session itself and outlives the host.
    """
    agent, root = host(of), project_root()
    event = agent.parse_event("SessionEnd", event_of(text))
    if not event or switched_off(Path(root)) is not None:
        return
    session_id, named = str(event.get("session_id") or ""), str(event.get("transcript_path") or "")
    transcript = session_transcript(session_id, named, (*agent.folders(), root))
    if transcript is None:
        return  # a session without a prompt leaves none
    session = ("--session", session_id, "--transcript", transcript)
    command = [sys.executable, "-I" if sys.flags.isolated else "-EP", *WORKER, *session]
    none = subprocess.DEVNULL
    flags = subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP if sys.platform == "win32" else 0
    subprocess.Popen(  # noqa: S603
        command, cwd=root, stdin=none, stdout=none, stderr=none, creationflags=flags, start_new_session=not flags
    )


def has_installed_hooks() -> bool:
    """Whether hooks are installed besides the plugin's, which called; `doctor` says how to remove one of the two."""
    from swarm_memory.server.hosts.claude_code.host import HOST

    return bool(HOST.installed_scopes(Path(project_root())))


def go_to_project(of: str, text: bytes) -> None:
    """Change to the session's folder, if only the event names it."""
    agent = host(of)
    if agent.names_project:
        return
    os.environ.pop("CLAUDE_PROJECT_DIR", None)  # set by an agent in which this one was started
    named = Path(str(event_of(text).get("cwd") or ""))
    if named.is_absolute() and named.is_dir():
        os.chdir(named)


def event_of(text: bytes) -> HookPayload:
    """Return an event. Raises `InputError`, `ValueError`."""
    event: Any = json.loads(text)
    if not isinstance(event, dict):
        raise InputError("the event is not a JSON object")
    return cast(HookPayload, event)


def note_fault(name: str, error: Exception) -> None:
    """Note that an event was missed, for `status` and `doctor`, and in the log next to the bank if that is ours."""
    reason = str(error) if isinstance(error, StoreUntrusted) else f"{type(error).__name__}: {error}"
    try:
        place = locate()
        note_missed(place.root, name, reason)
        if not isinstance(error, StoreUntrusted) and registry.knows(place.database):
            log_line(place.folder, "hooks", f"{name}: {reason}")
    except (OSError, RuntimeError, SwarmMemoryError):
        sys.stderr.write(f"swarm-memory: {name}: {reason}\n")


class BesideBank(logging.Handler):
    """Writes warnings to the log next to the bank, if that is this user's."""

    def __init__(self, source: str, place: Callable[[], Location]) -> None:
        super().__init__(logging.WARNING)
        self._source, self._place = source, place

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError, RuntimeError, SwarmMemoryError):  # it is noted as missed, or on stderr, too
            if (place := self._place()).is_remote or registry.knows(place.database):
                log_line(place.folder, self._source, self.format(record))
