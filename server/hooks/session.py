"""What is done at the ends of a session and of its turns, with the standard library and little else.

A person waits for it, in a project that is not ours. What opens a database is imported where there is one.
"""

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from swarm_memory.schema.errors import InputError, StoreBusy, StoreUntrusted
from swarm_memory.server.hooks.client import announce, ask, wake
from swarm_memory.server.hooks.settings import LightSettings
from swarm_memory.server.hosts.host import Host
from swarm_memory.server.hosts.paths import checked_transcript
from swarm_memory.server.location import Location

if TYPE_CHECKING:
    from swarm_memory.server.storage.hook_reader import HookBank, Row

LOCK_WAIT_S = 0.3
CONTINUED_S = 600.0
"""So long a task may be gone on with before a model is asked about it: tokens are spent on it once."""

QUESTION_S = 2.0
"""So long a server has to put the question."""

ANSWER_S = 120.0
"""So long an agent that was asked has to answer before rules learn from its task."""

WORKER = ("-m", "swarm_memory.server.cli", "jobs", "work", "--until-idle")


LOOKED_AT = 20
"""Among so many of the surest memories a briefing looks for what holds for every task."""


class Moment(NamedTuple):
    """An event, and where it happened."""

    event: Mapping[str, Any]
    place: Location
    settings: LightSettings
    host: Host

    @property
    def scope(self) -> tuple[str, str]:
        """The tenant and the project."""
        return self.settings.tenant_id, self.settings.project or self.place.project

    def is_held_out(self, task_id: str) -> bool:
        """Whether a task works without memories."""
        from swarm_memory.tools.credit.holdout import is_held_out

        return is_held_out(task_id, self.settings.holdout_rate, self.settings.holdout_seed)

    def session_id(self) -> str:
        """Return the id of the host's session. Raises `InputError`."""
        session_id = str(self.event.get("session_id") or "")
        if not session_id.replace("-", "").replace("_", "").isalnum() or len(session_id) > 128:
            raise InputError(f"not a session's id: {session_id[:40]!r}")
        return session_id

    def transcript(self) -> str | None:
        """Return the checked path of the transcript; None without one: a session without a prompt leaves none."""
        named = str(self.event.get("transcript_path") or "")
        folders = (*self.host.folders(), self.place.root)
        return checked_transcript(named, folders) if os.path.lexists(named) else None


def session_start(moment: Moment) -> dict[str, Any]:
    """Return hook JSON with the user's lasting words; nothing without any, or when held out.

    What the agent reads in a skill or a file of rules anyway is left out.
    Of a bank that is not trusted the user is told once.
    """
    place, settings, session_id = moment.place, moment.settings, str(moment.event.get("session_id") or "")
    if not place.database.is_file():
        return {}
    with suppress(OSError):  # then the first prompt is answered later
        announce(place.root, session_id)
    if settings.briefing_items == 0 or not settings.inject or _is_held_out(moment):
        return {}
    from swarm_memory.server.hosts.files.promoted import promoted_for
    from swarm_memory.server.project.folder import Facts
    from swarm_memory.server.storage.hook_reader import open_for_hook, tell_once
    from swarm_memory.tools.retrieve.preamble import briefing

    elsewhere = promoted_for(place.root, moment.host.name)
    try:
        with open_for_hook(place.database, moment.scope, LOCK_WAIT_S, Facts(place.root).has) as bank:
            rows = [row for row in bank.briefing_rows(LOOKED_AT) if row[0] not in elsewhere]
            rows = for_every_task(bank, rows, settings.briefing_items, sees_calls=moment.host.sees_calls)
            rows = _without_resting(bank, rows, session_id)
            if session_id:
                with suppress(StoreBusy):  # a prompt shows it once more
                    is_emptied = moment.event.get("source") in ("clear", "compact")
                    bank.note_shown(session_id, [row[0] for row in rows], is_emptied=is_emptied)
            return _told("SessionStart", briefing([row[:3] for row in rows], sum(row[3] > 0 for row in rows)))
    except StoreUntrusted as error:
        return {"systemMessage": f"swarm-memory: {error}"} if tell_once(place.database) else {}


def for_every_task(bank: "HookBank", rows: "list[Row]", most: int, *, sees_calls: bool) -> "list[Row]":
    """Return the user's lasting words, at most so many: what holds for every task. What nobody vouches for does not.

    One that a command or a tool calls for comes with that, where the agent `sees_calls`; one that names a file may hold
    where another one is touched.
    """
    called_for = bank.called_for([row[0] for row in rows])
    return [row for row in rows if row[3] > 0 and not (sees_calls and called_for.get(row[0], False))][:most]


def _without_resting(bank: "HookBank", rows: "list[Row]", session_id: str) -> "list[Row]":
    """Return what of a briefing is shown to the session's tasks; what is on trial and rests is noted."""
    from swarm_memory.tools.credit.holdout import rests

    on_trial, task_id = bank.resting(), f"{session_id}:1"
    rested = [row[0] for row in rows if row[0] in on_trial and rests(task_id, row[0])]
    if rested:
        with suppress(StoreBusy):  # one task less in the trial
            bank.note_rested(task_id, rested)
    return [row for row in rows if row[0] not in rested]


def _is_held_out(moment: Moment) -> bool:
    """Tell whether the session's tasks get no memories: then its briefing must not bring them either."""
    if moment.settings.holdout_rate <= 0.0:
        return False
    from swarm_memory.tools.trajectory.tasks import session_task_id

    return moment.is_held_out(session_task_id(str(moment.event.get("session_id") or ""), 1))


def _told(event: str, text: str) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}} if text else {}


ATTENDED = frozenset({"cli", "claude-vscode", "claude-desktop"})
"""Entry points of Claude Code (`CLAUDE_CODE_ENTRYPOINT`) at which a person reads the answer: not `claude -p` or an SDK,
where the last line is what a script waits for."""


def stop(moment: Moment) -> dict[str, Any]:
    """Queue the learning from the task whose turn ended; it may still be continued before it is due.

    Where the user switched it on, a person is there, the turn was worth it and taught nothing yet, the hook JSON asks
    the agent once what the task taught.
    """
    session_id, transcript, settings = moment.session_id(), moment.transcript(), moment.settings
    if transcript is None or not moment.place.database.is_file():
        return {}
    from swarm_memory.server.storage.hook_reader import open_for_hook

    may_ask = settings.asks_agent and moment.host.asks and moment.event.get("stop_hook_active") is False
    may_ask = may_ask and is_attended() and wake(moment.place.root, session_id) and _was_worth_asking(transcript)
    settle_s = max(settings.settle_s, CONTINUED_S * settings.asks_model)
    with open_for_hook(moment.place.database, moment.scope, LOCK_WAIT_S) as bank:
        asked = may_ask and bank.ask_once(session_id, moment.is_held_out)
        bank.end_turn(session_id, transcript, max(settle_s, ANSWER_S) if asked else settle_s)
    if asked:
        from swarm_memory.tools.learn.worth import question

        said = ask(moment.place.root, json.dumps(moment.event).encode(), QUESTION_S)
        return cast("dict[str, Any]", json.loads(said)) if said else _told("Stop", question())
    wake(moment.place.root, session_id)
    return {}


def is_attended() -> bool:
    """Whether a person reads what the agent says last."""
    return os.environ.get("CLAUDE_CODE_ENTRYPOINT") in ATTENDED and not os.environ.get("CI")


def _was_worth_asking(transcript: str) -> bool:
    from swarm_memory.server.hooks.turn import last_turn
    from swarm_memory.tools.learn.worth import is_worth_asking

    turn = last_turn(transcript)
    return not turn.taught and is_worth_asking(turn.failed, turn.said, turn.seconds)


def session_end(moment: Moment) -> dict[str, Any]:
    """Queue what the session left to learn, start a worker that outlives it, and leave.

    Where the bank is busy, not made yet or on a database server, the worker is given the session to queue.
    """
    session_id, transcript = moment.session_id(), moment.transcript()
    if transcript is None:
        return {}
    from swarm_memory.server.storage.hook_reader import open_for_hook

    left: tuple[str, ...] = ("--session", session_id, "--transcript", transcript)
    if moment.place.database.is_file() and not moment.settings.is_remote:
        try:
            with open_for_hook(moment.place.database, moment.scope, LOCK_WAIT_S) as bank:
                bank.end_session(session_id, transcript)
            left = ()
        except StoreBusy:
            pass  # the worker waits for it longer than a person does
    _start_worker(moment.place, left)
    return {}


def _start_worker(place: Location, session: tuple[str, ...]) -> None:
    """Start a worker in a process session of its own, so that the end of the host's does not end it."""
    command = [sys.executable, "-I" if sys.flags.isolated else "-EP", *WORKER, *session]
    if sys.platform == "win32":
        import subprocess

        flags = subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP
        subprocess.Popen(command, cwd=place.root, creationflags=flags, close_fds=True)  # noqa: S603 - our own interpreter
        return
    os.chdir(place.root)
    quiet = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    try:
        os.posix_spawn(command[0], command, os.environ, file_actions=quiet, setsid=True)
    except NotImplementedError:
        import subprocess

        nothing = subprocess.DEVNULL
        subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True)  # noqa: S603
