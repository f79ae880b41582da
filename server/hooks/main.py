"""The commands that agents run at their events: `python -I -m swarm_memory.server.hooks HOST VERB`, the event on stdin.

A person waits for them: they print nothing but hook JSON, and end in time and with code 0 whatever happens. A prompt
goes to a running server at once, before anything is imported that would take longer than its answer.
"""

import _thread
import gc
import os
import sys
import time

from swarm_memory.server.folders import CHILD_VARIABLE, project_root
from swarm_memory.server.hooks.client import ask

TYPE_CHECKING = False  # typing takes a tenth of the time
if TYPE_CHECKING:
    from typing import NoReturn

MAX_EVENT_BYTES = 8_000_000
PROMPT_S, CALL_S = 10.0, 2.0
"""After so long the host of a prompt, and of a call of a tool, is let go."""

_PLUGINS = "pydantic.plugin._loader"

OF_OTHERS = (b'"timestamp"', b'"cursor_version"')
"""What only agents say that run the hooks in Claude Code's files too."""


def main(arguments: list[str]) -> "NoReturn":
    """Run one verb of a host and end the process with code 0: a fault of ours is noted and never reaches the host."""
    if os.environ.get(CHILD_VARIABLE):
        os._exit(0)  # an agent that we started ourselves must not be learned from, nor wait for us
    gc.disable()  # a process this short leaves nothing worth collecting
    try:
        told = None
        if arguments in (["prompt"], ["claude", "prompt"]):
            told = _asked("UserPromptSubmit", PROMPT_S)
        elif arguments in (["before-tool"], ["claude", "before-tool"]):
            _asked("PreToolUse", CALL_S, patiently=True)  # what no server knows in time is not said
            os._exit(0)
        _without_plugins()
        from swarm_memory.server.hooks.verbs import run

        run(arguments, told)
    except Exception as error:  # noqa: BLE001 - a main: whatever it is, the host must not feel it
        from swarm_memory.server.hooks.verbs import note_fault

        note_fault(arguments, error)
    os._exit(0)  # without taking the interpreter apart, which would take a tenth of the time


def _without_plugins() -> None:
    """Spare pydantic the search for plugins, which reads the metadata of every package; so do a hook's children."""
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"
    sys.modules[_PLUGINS] = loader = type(sys)(_PLUGINS)
    loader.__dict__["get_plugins"] = tuple


def _asked(name: str, limit_s: float, *, patiently: bool = False) -> bytes:
    """Print a running server's answer to an event of Claude Code and end; where none is ready, return the event."""
    root = project_root()
    leave_in_time(limit_s, root, name)
    told = read_event()
    answer = None if any(each in told for each in OF_OTHERS) else ask(root, told, 0.8 * limit_s, patiently=patiently)
    if answer is None:
        return told
    if answer != b"{}\n":
        sys.stdout.buffer.write(answer)
        sys.stdout.buffer.flush()
    os._exit(0)


def read_event() -> bytes:
    """Return what stands on stdin. Raises `InputError`."""
    told = sys.stdin.buffer.read(MAX_EVENT_BYTES + 1)
    if len(told) <= MAX_EVENT_BYTES:
        return told
    from swarm_memory.schema.errors import InputError

    raise InputError(f"the event is larger than {MAX_EVENT_BYTES:,} bytes")


def leave_in_time(limit_s: float, root: str, name: str) -> None:
    """Have the process end when the time is up, whatever it waits for."""

    def leave() -> "NoReturn":
        time.sleep(limit_s)
        try:
            from swarm_memory.server.missed import note_missed

            note_missed(root, name, f"no answer within {limit_s:g} s")
        finally:
            os._exit(0)

    _thread.start_new_thread(leave, ())
