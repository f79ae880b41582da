"""What each hook event does with the bank: a briefing, notes at a prompt, a call or a failure, the end of a turn."""

import asyncio
import logging
import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from anyio import to_thread
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from swarm_memory.schema.errors import StoreUntrusted, SwarmMemoryError
from swarm_memory.schema.job import LEARN
from swarm_memory.schema.sqlite.events import ANSWERED, ASKED, BEGAN, BRIEFING, CLEARED, INJECTED, LISTED, RESTED
from swarm_memory.server.hosts.host import HookPayload, host
from swarm_memory.server.hosts.paths import session_transcript
from swarm_memory.server.hosts.records import all_text, as_list, as_object, parsed
from swarm_memory.server.location import Location
from swarm_memory.server.missed_hooks import note_missed
from swarm_memory.server.storage.engine.registry import claim_first_notice
from swarm_memory.tools.anchors.handles import at_call, at_failure, handles_of
from swarm_memory.tools.credit.harm import is_held_out, is_hidden
from swarm_memory.tools.guard.redact import kept_text
from swarm_memory.tools.learn.worth import is_worth_asking, question
from swarm_memory.tools.ports.records import CORRECTED, BankEvent, HostSession
from swarm_memory.tools.retrieve.at_moment import LOOKED_AT, MomentContext, at_start, beside_call, beside_failure
from swarm_memory.tools.retrieve.preamble import briefing_of, render_moments
from swarm_memory.tools.retrieve.retrieve import Unasked, retrieve, run_stages
from swarm_memory.tools.text.cleaning import faults, harmless, one_line
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.failures import SHOWS_TEXT, command_text
from swarm_memory.tools.trajectory.shell import parse_command
from swarm_memory.tools.trajectory.tasks import (
    continues,
    feedback,
    is_own_tool,
    is_task_prompt,
    session_task_id,
    task_text,
)

MAX_TURN_BYTES = 4_000_000
"""How much of a transcript's end is read: a longer turn has enough calls in that part."""


class Turn(NamedTuple):
    """What happened between a prompt and the end of a transcript."""

    failed: list[bool]
    """Whether each tool call failed, newest first; calls of our own tools are left out."""
    said: list[str]
    """The prompt."""
    seconds: float = 0.0
    taught: bool = False
    """Whether the agent called `remember`."""


def last_turn(transcript: str) -> Turn:
    """Return what happened in the last turn of a transcript."""
    with Path(transcript).open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - MAX_TURN_BYTES))
        lines = file.read(MAX_TURN_BYTES).splitlines()
    failed, said = list[bool](), list[str]()
    errors, times, taught = set[str](), list[datetime](), False
    for text in reversed(lines):  # the first may be cut off, and the last is perhaps being written
        line = as_object(parsed(text.decode("utf-8", "replace")))
        if line.get("isSidechain") is True or line.get("isMeta") is True:
            continue
        times += filter(None, [line.time("timestamp")])
        content = line.object("message").get("content")
        blocks = list(map(as_object, as_list(content)))
        if line.get("type") == "assistant":
            calls = [block for block in blocks if block.get("type") == "tool_use"]
            own = [block.text("name") for block in calls if is_own_tool(block.text("name"))]
            taught |= any(name.endswith("remember") for name in own)
            others = [block for block in calls if block.text("name") not in own]
            for block in others:
                parts = parse_command(block.object("input").text("command")).parts
                # A `grep` that finds nothing exits with 1, although nothing failed.
                only_looks = bool(parts) and parts[-1].purpose in ("search", "read", "print")
                failed.append(block.get("id") in errors and not only_looks)
        elif line.get("type") == "user":
            results = [block for block in blocks if block.get("type") == "tool_result"]
            errors |= {block.text("tool_use_id") for block in results if block.get("is_error") is True}
            if not results:
                said.append(all_text(content))
                break
    return Turn(failed, said, (times[0] - times[-1]).total_seconds() if times else 0.0, taught)


_MAX_TASK_CHARS, _MIN_PROMPT_WORDS = 2000, 4
_TASKS_LOOKED_AT, _KNOWN_SHOWN = 200, 5
_PROMPT_PATIENCE_S = 0.01
"""How long a server's answer to a prompt may wait for a write. The store finishes a write that it has begun."""

_CONTINUED_HOLD = timedelta(hours=1)
"""How long learning from a continued task is put off: it waits for the next Stop, and this is in case none comes."""

_CONTINUED_BEFORE_A_MODEL_S = 600.0
"""How long a task may still be continued before a model is asked about it: tokens are spent on it only once."""

_ANSWER_S = 120.0
"""How long an agent that was asked what its task taught may take to answer before rules learn from the task."""

_SESSION_ID = re.compile(r"[A-Za-z0-9_.-]{1,128}")

OpenToolbox: TypeAlias = Callable[[], Awaitable[Toolbox]]
Write: TypeAlias = Callable[[], Awaitable[object]]
HookAnswer: TypeAlias = dict[str, JsonValue]
Way: TypeAlias = Literal["server", "hook"]
"""Who does the work: a running server, or the hook command itself."""

log = logging.getLogger("swarm_memory.hooks")


class HookEvent(BaseModel):
    """An event from a coding agent's hook. Unknown keys are ignored; a field that the event lacks is None."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    hook_event_name: str = Field(max_length=100)
    host: str = "claude"
    """The agent's name."""
    session_id: str | None = None
    transcript_path: str | None = None
    prompt: str | None = None
    tool_name: str | None = None
    tool_input: JsonValue = None
    error: str | None = None
    """What a failed call returned."""
    is_interrupt: bool | None = None
    may_have_worked: bool | None = None
    """Whether the host does not distinguish failed calls from others."""
    source: str | None = None
    """What a starting session comes from, such as `compact`."""
    stop_hook_active: bool | None = None
    """Whether the turn that ends was continued because of a hook."""
    attended: bool = False
    """Whether a person reads the agent's last message."""

    @property
    def given(self) -> Mapping[str, object]:
        """The arguments of a tool call."""
        return self.tool_input if isinstance(self.tool_input, dict) else {}


async def answer_hook(
    open_toolbox: OpenToolbox, event: HookPayload, via: Way, place: Location, called: str
) -> HookAnswer:
    """Return the answer of a host's hook to an event; `{}`, "go on", when that is invalid or anything went wrong.

    `called` is that of `client.ask`. A fault is noted as a missed event; the user is told once of an untrusted bank.
    """
    of, named, attended = called.split(" ")
    try:
        agent = host(of)
        heard = agent.parse_event(named, event)
        if event and not heard:
            return {}
        told = {"host": of, "attended": attended == "1", "hook_event_name": named}
        checked = HookEvent.model_validate({**heard, **told})
        if named == "Stop":
            folders = (*agent.folders(), place.root)
            transcript = session_transcript(checked.session_id or "", checked.transcript_path or "", folders)
            checked = checked.model_copy(update={"transcript_path": transcript})
        done = await handle_hook(open_toolbox, checked, via, place)
        return agent.format_answer(named, done) if done else {}
    except StoreUntrusted as error:
        reason = str(error)  # nothing is logged in a folder that came from elsewhere
        if named == "SessionStart":
            return {"systemMessage": f"swarm-memory: {reason}"} if claim_first_notice(place.database) else {}
    except ValidationError as error:
        reason = f"not a hook event: {faults(error)}"
        log.warning("%s", reason)
    except SwarmMemoryError as error:
        reason = str(error)
        log.warning("the hook did nothing: %s", reason)
    except Exception as error:  # a main: a fault in a hook must never reach the editor
        reason = f"{type(error).__name__}: {error}"
        log.exception("the hook did nothing")
    try:
        note_missed(place.root, named, reason)
    except OSError as error:
        log.warning("what a hook missed could not be recorded: %s", error)
    return {}


async def handle_hook(open_toolbox: OpenToolbox, event: HookEvent, via: Way, place: Location) -> HookAnswer:
    """Handle the event and return hook JSON: `additionalContext` with what is known about a session, prompt, call or
    failure, or with the question to the agent what its task taught; `continue` false once it answered; else `{}`.

    The bank is opened only if there is something to do, and created only by a prompt.
    Raises `StorageError`; a fault in retrieval, or in noting a prompt's task, costs only that and is logged.
    """
    if not _SESSION_ID.fullmatch(event.session_id or ""):
        log.info("ignored: event %.40r of session %.40r", event.hook_event_name, event.session_id)
        return {}
    context, is_others = None, bool(event.tool_name) and not is_own_tool(event.tool_name or "")
    match event.hook_event_name:
        case "UserPromptSubmit" if is_task_prompt(event.prompt or ""):
            context = await _on_prompt(await open_toolbox(), event, via)
        case _ if not place.has_bank:
            log.info("nothing to do without a bank: event %.40r", event.hook_event_name)
        case "SessionStart":
            context = await _briefing(await open_toolbox(), event)
        case "PreToolUse" if is_others:
            context = await _before_call(await open_toolbox(), event, place.root)
        case "PostToolUseFailure" if is_others and event.error is not None and not event.is_interrupt:
            context = await _after_failure(await open_toolbox(), event)
        case "PostToolUse" if await _answers_question(open_toolbox, event):
            return {"continue": False, "stopReason": ANSWERED_WELL, "suppressOutput": True}
        case "Stop":
            context = await _end_of_turn(await open_toolbox(), event, via)
        case name:
            log.info("nothing to do: event %.40r", name)
    if not context:
        return {}
    return {"hookSpecificOutput": {"hookEventName": event.hook_event_name, "additionalContext": context}}


async def _briefing(toolbox: Toolbox, event: HookEvent) -> str:
    """Return the user's own notes, which hold for every task; then when the surest of the other notes matter."""
    store, hooks, credit = toolbox.store, toolbox.settings.hooks, toolbox.settings.credit
    session_id = event.session_id or ""
    first = session_task_id(session_id, 1)
    if not (hooks.briefing_items and hooks.inject) or is_held_out(first, credit.holdout_rate):
        return ""
    surest = await at_start(toolbox, toolbox.promoted(event.host))  # less what the agent reads in files anyway
    words = [each for each in surest if each.provenance.priority > 0]
    if host(event.host).sees_calls:  # then those on a command or a tool come at its calls
        at_calls = ("command:", "tool:")
        words = [each for each in words if not any(handle.startswith(at_calls) for handle in handles_of(each))]
    words = words[: hooks.briefing_items]
    on_trial = (await store.trials(toolbox.scope)).resting
    resting = {each.id for each in surest if each.id in on_trial and is_hidden(first, each.id)}
    rested = [each.id for each in words if each.id in resting]
    words = [each for each in words if each.id not in resting]
    known = resting.union(each.id for each in words)
    others = [each for each in surest if each.id not in known]

    async def note(kind: str, subject: str, data: dict[str, JsonValue]) -> None:
        await _begun(partial(store.add_event, toolbox.scope, BankEvent(kind, toolbox.clock.now(), subject, data)))

    if rested:
        await note(RESTED, first, {"ids": [*rested]})
    if event.source in ("clear", "compact"):
        await note(CLEARED, session_id, {})
    if others and "SessionStart" in host(event.host).context_at:
        await note(LISTED, session_id, {"ids": [each.id for each in others]})
    if words:
        session = await store.get_session(toolbox.scope, session_id)
        task_id = (session and session.task_id) or first
        await note(INJECTED, task_id, {"ids": [each.id for each in words], "via": BRIEFING})
    return "\n".join(filter(None, (briefing_of(words), render_moments(others))))


async def _on_prompt(toolbox: Toolbox, event: HookEvent, via: Way) -> str:
    """Begin or continue a task; return the notes that fit it, once for each task."""
    prompt, now, store = task_text(event.prompt or ""), toolbox.clock.now(), toolbox.store
    session_id, path, writes = event.session_id or "", event.transcript_path, list[Write]()
    former = await store.get_session(toolbox.scope, session_id)
    wanted = toolbox.settings.hooks.inject and len(prompt.split()) >= _MIN_PROMPT_WORDS
    if former is not None and former.task_id is not None and continues(prompt, former.task):
        session = former.model_copy(update={"updated_at": now, "transcript_path": path or former.transcript_path})
        wanted = wanted and len(session.task.split()) < _MIN_PROMPT_WORDS
        if feedback(prompt) == "correction":  # it objects to the session's last call
            writes.append(partial(store.add_event, toolbox.scope, BankEvent(CORRECTED, now, subject_id=session_id)))
        writes.append(partial(_queue_learning, toolbox, session, _CONTINUED_HOLD))
    else:
        number = (former.task_number if former else 0) + 1
        session = HostSession(
            session_id=session_id,
            scope=toolbox.scope,
            transcript_path=path,
            task_id=session_task_id(session_id, number),
            task=kept_text(prompt, toolbox.settings, _MAX_TASK_CHARS),
            task_number=number,
            updated_at=now,
        )
        writes.append(partial(store.put_session, session))
        if former is None:
            writes.append(partial(store.add_event, toolbox.scope, BankEvent(BEGAN, now, session_id)))
        if former is not None and former.task_id is not None:
            writes.append(partial(store.release, toolbox.scope, former.task_id, now))
    notes = _notes(toolbox, session, prompt if wanted else "", via, event.host)
    if via == "server":
        return await _beside(writes, notes)
    text = await notes
    for write in writes:
        await _begun(write)
    return text


async def _beside(writes: Sequence[Write], notes: Awaitable[str]) -> str:
    """Return the notes and begin the writes at the same time, which delay the notes by `_PROMPT_PATIENCE_S` at most."""

    async def begin() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_PROMPT_PATIENCE_S):
                await asyncio.gather(*map(_begun, writes))

    async with asyncio.TaskGroup() as group:
        group.create_task(begin())
        return await notes


async def _notes(toolbox: Toolbox, session: HostSession, prompt: str, via: Way, agent: str) -> str:
    """Return the notes that fit a prompt and are new to the agent; empty if the retrieval fails, which is logged."""
    if not prompt:
        return ""
    try:
        had = await _shown_before(toolbox, session.session_id, session.task_number)
        listed = await toolbox.store.shown_in(toolbox.scope, session.session_id, [session.session_id], LISTED)
        unasked = Unasked(via, toolbox.promoted(agent), had, listed)
        found = await retrieve(toolbox, prompt, session_id=session.session_id, task_id=session.task_id, unasked=unasked)
    except SwarmMemoryError as error:
        log.warning("nothing was retrieved for a prompt: %s", error)
        return ""
    if ids := [each.item.id for each in found.memories if each.fits == "uncertain"]:
        new = BankEvent(LISTED, toolbox.clock.now(), session.session_id, {"ids": [*ids]})
        await _begun(partial(toolbox.store.add_event, toolbox.scope, new))
    return found.preamble


async def _shown_before(toolbox: Toolbox, session_id: str, task_number: int) -> frozenset[str]:
    """Return the memories that a session was shown; its briefing counts for its first task."""
    numbers = {1, *range(max(1, task_number - _TASKS_LOOKED_AT), task_number + 1)}
    tasks = [session_task_id(session_id, number) for number in numbers]
    return await toolbox.store.shown_in(toolbox.scope, session_id, tasks)


async def _moment(toolbox: Toolbox, event: HookEvent) -> MomentContext:
    """Return the session of an event; a call without a prompt before it belongs to the first task."""
    session_id = event.session_id or ""
    session = await toolbox.store.get_session(toolbox.scope, session_id)
    task_id = (session and session.task_id) or session_task_id(session_id, 1)
    shown = await _shown_before(toolbox, session_id, session.task_number if session else 1)
    credit = toolbox.settings.credit
    withheld = is_held_out(task_id, credit.holdout_rate)
    return MomentContext(session_id, task_id, shown, toolbox.promoted(event.host), withheld)


async def _before_call(toolbox: Toolbox, event: HookEvent, root: Path) -> str | None:
    """Return the notes that are tied to the command, file or tool of a call."""
    hooks, given = toolbox.settings.hooks, event.given
    if hooks.inject and hooks.at_calls and (handles := at_call(event.tool_name or "", given, str(root))):
        async with toolbox.showing:
            found = await toolbox.store.called_for(toolbox.readable, handles, LOOKED_AT)
            return await beside_call(toolbox, await _moment(toolbox, event), found) if found else None
    return None


async def _after_failure(toolbox: Toolbox, event: HookEvent) -> str | None:
    """Return what is known about a failed call's error; None if it may only be text that the command was to show."""
    tool, given = event.tool_name or "", event.given
    is_text = event.may_have_worked is True and parse_command(command_text(tool, given) or "").purpose in SHOWS_TEXT
    handles = at_failure(tool, given, event.error or "") if toolbox.settings.hooks.inject and not is_text else ()
    if not handles:
        return None
    async with toolbox.showing:
        return await beside_failure(toolbox, await _moment(toolbox, event), handles)


ANSWERED_WELL = "Saved for later tasks; the answer is above."
"""What the user sees when an agent's turn ends with its answer to what its task taught."""


async def _end_of_turn(toolbox: Toolbox, event: HookEvent, via: Way) -> str | None:
    """Queue learning from a task whose turn ended, which may go on before that is due; return what to ask the agent."""
    session = await toolbox.store.get_session(toolbox.scope, event.session_id or "")
    if session is None or session.task_id is None or event.transcript_path is None:
        return None
    settings = toolbox.settings
    wait_s = max(settings.hooks.settle_s, _CONTINUED_BEFORE_A_MODEL_S if settings.chat.learning else 0.0)
    asks = via == "server" and await _may_ask(toolbox, event, session.task_id)
    if asks:
        await toolbox.store.add_event(toolbox.scope, BankEvent(ASKED, toolbox.clock.now(), session.task_id))
        wait_s = max(wait_s, _ANSWER_S)
    ended = session.model_copy(update={"transcript_path": event.transcript_path})
    await _queue_learning(toolbox, ended, timedelta(seconds=wait_s))
    return await _question(toolbox, session) if asks else None


async def _may_ask(toolbox: Toolbox, event: HookEvent, task_id: str) -> bool:
    """Whether the agent may be asked what its task taught; it answers by calling one of the server's tools."""
    settings = toolbox.settings
    is_on = settings.chat.learn_with == "agent" and host(event.host).asks and event.attended
    if not is_on or event.stop_hook_active is not False:
        return False
    if is_held_out(task_id, settings.credit.holdout_rate):
        return False
    turn = await to_thread.run_sync(last_turn, event.transcript_path or "")
    if turn.taught or not is_worth_asking(turn.failed, turn.said, turn.seconds):
        return False
    return not (await toolbox.store.memory_histories((toolbox.scope,), [task_id], (ASKED,)))[task_id]


async def _question(toolbox: Toolbox, session: HostSession) -> str:
    """Return the question to the agent at the end of a task, with what is already known about its subject."""
    shown = await _shown_before(toolbox, session.session_id, session.task_number)
    items = await toolbox.store.get_memories(toolbox.readable, list(shown)) if shown else []
    task = session.task.strip()
    near = (await run_stages(toolbox, task, 3, unasked=Unasked())).choice.memories if task else ()
    titles = dict.fromkeys([*(each.item.title for each in near), *(item.title for item in items)])
    return question([one_line(harmless(title), 80) for title in titles][:_KNOWN_SHOWN])


async def _answers_question(open_toolbox: OpenToolbox, event: HookEvent) -> bool:
    """Whether a call is the agent's first answer to our question. If so, record it: the agent's turn then ends."""
    if not is_own_tool(event.tool_name or "") or not (event.tool_name or "").endswith("remember"):
        return False
    toolbox = await open_toolbox()
    session = await toolbox.store.get_session(toolbox.scope, event.session_id or "")
    if session is None or session.task_id is None:
        return False
    noted = await toolbox.store.memory_histories((toolbox.scope,), [session.task_id], (ASKED, ANSWERED))
    if [each.kind for each in noted[session.task_id]] != [ASKED]:
        return False
    await toolbox.store.add_event(toolbox.scope, BankEvent(ANSWERED, toolbox.clock.now(), session.task_id))
    return True


async def _begun(write: Write) -> None:
    try:
        await write()
    except SwarmMemoryError as error:
        log.warning("a prompt's task was not recorded: %s", error)


async def _queue_learning(toolbox: Toolbox, session: HostSession, after: timedelta) -> None:
    """Queue learning from a session's task, if its transcript is known; an existing job is postponed."""
    if session.transcript_path is not None and session.task_id is not None:
        payload = session.model_dump(include={"transcript_path", "session_id", "task_id"})
        await toolbox.queue(LEARN, session.task_id, payload, after=after)
