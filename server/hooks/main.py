"""What agents run at their events: `python -I -m swarm_memory.server.hooks HOST VERB`, with the event on stdin.

A person waits for them: they print nothing but hook JSON, and end in time and with code 0 whatever happens. The event
is passed to a running server as it is; if none is ready, the same work is done here, by code that is loaded only then.
"""

import _thread
import os
import sys
import time

from swarm_memory.server.folders import CHILD_VARIABLE, project_root
from swarm_memory.server.hooks.client import CLAUDE, ask

TYPE_CHECKING = False  # importing typing takes a third of the time that a server needs to answer
if TYPE_CHECKING:
    from typing import NoReturn

MAX_EVENT_BYTES = 8_000_000
PLUGIN = "--plugin"
"""Passed by the hooks of the plugin, which do nothing where `install` wrote hooks too."""

VERBS = {
    "session-start": ("SessionStart", 3.0, True),
    "prompt": ("UserPromptSubmit", 10.0, True),
    "before-tool": ("PreToolUse", 2.0, False),
    "after-remember": ("PostToolUse", 2.0, False),
    "tool-failure": ("PostToolUseFailure", 2.0, True),
    "stop": ("Stop", 3.0, True),
    "session-end": ("SessionEnd", 1.3, True),  # Claude Code gives all of these hooks together 1.5 s
    "pre-task": ("UserPromptSubmit", 10.0, True),  # these two names are from ReasoningBank's document
    "post-task": ("Stop", 3.0, True),
}
"""By verb: the event, the seconds after which the process ends, and whether the work is done here if no server is
ready: a tool call does not wait for a bank to open."""

ATTENDED = frozenset({"cli", "claude-vscode", "claude-desktop"})
"""Entry points of Claude Code (`CLAUDE_CODE_ENTRYPOINT`) at which a person reads the answer: not `claude -p` or an SDK,
where the last line is what a script waits for."""


def main(arguments: list[str]) -> "NoReturn":
    """Run one verb of a host and end the process with code 0: a fault of ours is noted and never reaches the host."""
    if os.environ.get(CHILD_VARIABLE) or "false" in arguments:  # `--retrieve-reasoningbank false` of that document
        os._exit(0)  # an agent that we started ourselves must not be learned from, nor wait for us
    try:
        dispatch_hook(arguments)
    except Exception as error:  # noqa: BLE001 - a main: whatever it is, the host must not feel it
        from swarm_memory.server.hooks.alone import note_fault

        note_fault(next((VERBS[each][0] for each in arguments if each in VERBS), "".join(arguments[:1])), error)
    os._exit(0)  # without shutting down the interpreter, which takes as long as an answer


def dispatch_hook(arguments: list[str]) -> None:
    """Run one verb of a host; a verb alone is one of Claude Code's, whose settings name no host."""
    of, verb = [CLAUDE, *arguments, ""][:2] if arguments[:1] and arguments[0] in VERBS else [*arguments, "", ""][:2]
    if verb not in VERBS:
        raise ValueError(f"there is no hook {verb or of!r}; the hooks are {', '.join(VERBS)}")
    name, limit_s, does_it_alone = VERBS[verb]
    _thread.start_new_thread(leave_in_time, (limit_s, project_root(), name))
    text = sys.stdin.buffer.read(MAX_EVENT_BYTES + 1)
    if len(text) > MAX_EVENT_BYTES:
        raise ValueError(f"the event is larger than {MAX_EVENT_BYTES:,} bytes")
    if of != CLAUDE or PLUGIN in arguments or name == "SessionEnd":
        from swarm_memory.server.hooks.alone import end_session, go_to_project, has_installed_hooks

        go_to_project(of, text)
        if PLUGIN in arguments and has_installed_hooks():
            return
        if name == "SessionEnd":
            end_session(of, text)
            return
    root = project_root()
    attended = os.environ.get("CLAUDE_CODE_ENTRYPOINT") in ATTENDED and not os.environ.get("CI")
    called = f"{of} {name} {int(attended)}"
    answer = ask(root, text, 0.8 * limit_s, called=called, patiently=not does_it_alone)
    if answer is None and does_it_alone:
        from swarm_memory.server.hooks.alone import answer_alone

        answer = answer_alone(root, text, called)
    if answer not in (None, b"{}\n"):
        sys.stdout.buffer.write(answer)
        sys.stdout.buffer.flush()


def leave_in_time(limit_s: float, root: str, name: str) -> "NoReturn":
    """End the process when the time is up, whatever it waits for."""
    time.sleep(limit_s)
    try:
        from swarm_memory.server.missed_hooks import note_missed

        note_missed(root, name, f"no answer within {limit_s:g} s")
    finally:
        os._exit(0)
