"""What is done at the ends of a session and of its turns, with the standard library and little else.

A person waits for it, in a project that is not ours. What opens a database is imported where there is one.
"""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from swarm_memory.schema.errors import InputError, StoreBusy, StoreUntrusted
from swarm_memory.server.hooks.client import announce, wake
from swarm_memory.server.hooks.settings import LightSettings
from swarm_memory.server.hosts.host import Host
from swarm_memory.server.hosts.paths import checked_transcript
from swarm_memory.server.location import Location

if TYPE_CHECKING:
    from swarm_memory.server.storage.hook_reader import HookBank, Row
    from swarm_memory.tools.credit.holdout import Lots

LOCK_WAIT_S = 0.3
CONTINUED_S = 600.0
"""So long a task may be gone on with before a model is asked about it: tokens are spent on it once."""

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

    def lots(self) -> "Lots":
        """Return how lots are drawn: which task works without memories, and which one it is not told."""
        from swarm_memory.server.location import lot_key
        from swarm_memory.tools.credit.holdout import Lots

        rate, seed, dropout = self.settings.holdout_rate, self.settings.holdout_seed, self.settings.dropout
        return Lots(rate, seed, dropout, lot_key() if dropout else b"")

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
    """Return hook JSON with a briefing of the project's best strategies; nothing without any, or when held out.

    What the agent reads in a skill or a file of rules anyway is left out.
    Of a bank that is not trusted the user is told once.
    """
    place, settings = moment.place, moment.settings
    if not place.database.is_file():
        return {}
    with suppress(OSError):  # then the first prompt is answered later
        announce(place.root, str(moment.event.get("session_id") or ""))
    if settings.briefing_items == 0 or _is_held_out(moment):
        return {}
    from swarm_memory.server.hosts.files.promoted import promoted_for
    from swarm_memory.server.project.facts import Facts
    from swarm_memory.server.storage.hook_reader import open_for_hook, tell_once

    elsewhere = promoted_for(place.root, moment.host.name)
    try:
        with open_for_hook(place.database, moment.scope, LOCK_WAIT_S, Facts(place.root).has) as bank:
            rows = bank.briefing_rows(LOOKED_AT, is_measured=moment.lots().rate > 0)
            rows = for_every_task(bank, [row for row in rows if row[0] not in elsewhere])[: settings.briefing_items]
            return _told("SessionStart", _briefing(bank, rows, moment))
    except StoreUntrusted as error:
        return {"systemMessage": f"swarm-memory: {error}"} if tell_once(place.database) else {}


def for_every_task(bank: "HookBank", rows: "list[Row]") -> "list[Row]":
    """Return what holds for every task: what names nothing, and the ways past errors that most sessions kept to.

    All else is told when a prompt or a failure is about it.
    """
    from swarm_memory.tools.text.naming import names_in

    about = [row[0] for row in rows if names_in(f"{row[1]}\n{row[2]}")]
    most = bank.kept_to_by_most(about)
    return [row for row in rows if row[0] not in about or row[0] in most]


def _briefing(bank: "HookBank", rows: "list[Row]", moment: Moment) -> str:
    """Return what is told of the strategies of a briefing, but for those that the session's tasks are not told."""
    from swarm_memory.schema.sqlite.events import Draw
    from swarm_memory.tools.retrieve.preamble import briefing

    lots, session_id = bank.with_rates(moment.lots()), str(moment.event.get("session_id") or "")
    by_lot = [memory_id for memory_id, _, _, standing in rows if standing <= 0]
    is_new = moment.event.get("source") in (None, "startup", "clear")  # one that is gone on with was briefed before
    if is_new and session_id and len(by_lot) < len(rows):
        with suppress(StoreBusy):  # a prompt tells it once more
            bank.note_told(f"{session_id}:1", [row[0] for row in rows if row[3] > 0])
    if not lots.rate or not by_lot or not session_id:
        return briefing([row[:3] for row in rows], sum(row[3] > 0 for row in rows)) if rows else ""
    gone = lots.left_out(f"{session_id}:1", by_lot)
    left = [row for row in rows if row[0] not in gone]
    text = briefing([row[:3] for row in left], sum(row[3] > 0 for row in left)) if left else ""
    if is_new:
        with suppress(StoreBusy):  # one briefing less in the figures
            bank.note_draw(
                f"{session_id}:1", Draw.of({each: lots.rate_of(each) for each in by_lot}, gone, lots.rate, text)
            )
    return text


def _is_held_out(moment: Moment) -> bool:
    """Tell whether the session's tasks get no memories: then its briefing must not bring them either."""
    if moment.settings.holdout_rate <= 0.0:
        return False
    from swarm_memory.tools.trajectory.tasks import session_task_id

    return moment.lots().holds_out(session_task_id(str(moment.event.get("session_id") or ""), 1))


def tool_failure(moment: Moment) -> dict[str, Any]:
    """Return hook JSON with what ended the same error before; nothing for nearly all errors."""
    if not moment.settings.inject or not moment.place.database.is_file():
        return {}
    from swarm_memory.server.project.facts import Facts
    from swarm_memory.server.storage.hook_reader import open_for_hook
    from swarm_memory.tools.retrieve.at_failure import failure_context

    has = Facts(moment.place.root).has
    with open_for_hook(moment.place.database, moment.scope, LOCK_WAIT_S, has) as bank:
        text = failure_context(bank, moment.event, moment.lots())
    return _told("PostToolUseFailure", text)


def _told(event: str, text: str) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}} if text else {}


def stop(moment: Moment) -> dict[str, Any]:
    """Queue the learning from the task whose turn ended; it may still be continued before it is due.

    Where the user switched it on, and the turn was worth it, the hook JSON has the agent say once what the task taught.
    """
    session_id, transcript, settings = moment.session_id(), moment.transcript(), moment.settings
    if transcript is None or not moment.place.database.is_file():
        return {}
    from swarm_memory.server.storage.hook_reader import open_for_hook

    may_ask = settings.asks_agent and moment.host.asks and moment.event.get("stop_hook_active") is False
    may_ask = may_ask and wake(moment.place.root, session_id) and _was_worth_asking(transcript)
    settle_s = max(settings.settle_s, CONTINUED_S * settings.asks_model)
    with open_for_hook(moment.place.database, moment.scope, LOCK_WAIT_S) as bank:
        asked = bank.ask_once(session_id, moment.lots().holds_out) if may_ask else None
        bank.end_turn(session_id, transcript, max(settle_s, ANSWER_S) if asked else settle_s)
    wake(moment.place.root, session_id)
    if asked is None:
        return {}
    from swarm_memory.tools.learn.worth import question

    return {"decision": "block", "reason": question(transcript, asked)}


def _was_worth_asking(transcript: str) -> bool:
    from swarm_memory.server.hooks.turn import last_turn
    from swarm_memory.tools.learn.worth import is_worth_asking

    return is_worth_asking(*last_turn(transcript))


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
