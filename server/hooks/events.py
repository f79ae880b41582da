"""What an event does that needs the whole bank: notes for a prompt, a warning before a call of a tool."""

import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from swarm_memory.schema.errors import StoreUntrusted, SwarmMemoryError
from swarm_memory.server.missed import note_missed
from swarm_memory.tools.credit.holdout import is_held_out
from swarm_memory.tools.guard.redact import kept_text
from swarm_memory.tools.ports.jobs import LEARN
from swarm_memory.tools.ports.journal import CORRECTED, Event, HostSession
from swarm_memory.tools.retrieve.retrieve import Hook, retrieve
from swarm_memory.tools.text.cleaning import clean
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.tasks import (
    continues,
    feedback,
    is_own_tool,
    is_task_prompt,
    session_task_id,
    task_text,
)

_MAX_TASK_CHARS = 2000
_TASKS_LOOKED_AT = 10
_PROMPT_PATIENCE_S = 0.01
"""How long a server's answer to a prompt may wait for a write. The store ends what it has begun."""

_WARNING_PATIENCE_S = 0.5
"""A call that is about to be made does not wait longer for a warning."""

_CONTINUED_HOLD = timedelta(hours=1)
"""A task that is being continued is not learned from before its next Stop; this is for the case that none comes."""

_SESSION_ID = re.compile(r"[A-Za-z0-9_.-]{1,128}")

OpenToolbox: TypeAlias = Callable[[], Awaitable[Toolbox]]
Write: TypeAlias = Callable[[], Awaitable[object]]
HookAnswer: TypeAlias = dict[str, JsonValue]
Way: TypeAlias = Literal["server", "hook"]
"""Who does the work: a running server that was asked, or the hook command itself."""

log = logging.getLogger("swarm_memory.hooks")


class HookEvent(BaseModel):
    """What a hook of a coding agent tells. Unknown keys are ignored; what the event does not have is None."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    hook_event_name: str = Field(max_length=100)
    host: str = "claude"
    """The agent's name."""
    session_id: str | None = None
    transcript_path: str | None = None
    prompt: str | None = None
    tool_name: str | None = None
    tool_input: JsonValue = None


async def answer_hook(open_toolbox: OpenToolbox, event: Mapping[str, JsonValue], via: Way, root: Path) -> HookAnswer:
    """Return hook JSON for one event; `{}`, which means "go on", when the event is none or anything went wrong.

    What went wrong is noted as missed in the project's `root`.
    """
    name = str(event.get("hook_event_name"))[:100]
    try:
        return await handle_hook(open_toolbox, HookEvent.model_validate(event), via)
    except StoreUntrusted as error:
        reason = str(error)  # nothing is logged in a folder that came from elsewhere
    except ValidationError as error:
        reason = f"not a hook event: {error.errors(include_url=False, include_input=False)[0]['msg']}"
        log.warning("%s", reason)
    except SwarmMemoryError as error:
        reason = str(error)
        log.warning("the hook did nothing: %s", reason)
    except Exception as error:  # a main: a fault in a hook must never reach the editor
        reason = f"{type(error).__name__}: {error}"
        log.exception("the hook did nothing")
    try:
        note_missed(root, name, reason)
    except OSError as error:
        log.warning("what a hook missed could not be noted: %s", error)
    return {}


async def handle_hook(open_toolbox: OpenToolbox, event: HookEvent, via: Way) -> HookAnswer:
    """Do what the event asks for and return hook JSON: `additionalContext` for a prompt that strategies fit, or before
    a call that looks like one that failed; else `{}`. The bank is opened only where there is something to do.

    Raises `StorageError`; a fault in retrieval, or of noting a prompt's task, costs only that and is logged.
    """
    if not _SESSION_ID.fullmatch(event.session_id or ""):
        log.info("ignored: event %.40r of session %.40r", event.hook_event_name, event.session_id)
        return {}
    context = None
    match event.hook_event_name:
        case "UserPromptSubmit" if is_task_prompt(event.prompt or ""):
            context = await _on_prompt(await open_toolbox(), event, via)
        case "PreToolUse" if event.tool_name and not is_own_tool(event.tool_name):
            context = await _before_tool_call(await open_toolbox(), event)
        case name:
            log.info("nothing to do: event %.40r", name)
    if not context:
        return {}
    return {"hookSpecificOutput": {"hookEventName": event.hook_event_name, "additionalContext": context}}


async def _on_prompt(toolbox: Toolbox, event: HookEvent, via: Way) -> str:
    """Begin or continue a task; return the notes that fit it, once for each task."""
    prompt = task_text(event.prompt or "")
    former = await toolbox.store.get_session(toolbox.scope, event.session_id or "")
    continued = former is not None and former.task_id is not None and continues(prompt, former.task)
    session = _session(toolbox, event, prompt, former, continued)
    wanted = _is_long_enough(toolbox, prompt) and not (continued and _is_long_enough(toolbox, session.task))
    notes = _notes(toolbox, session, prompt if wanted and toolbox.settings.hooks.inject else "", via, event.host)
    corrected = continued and feedback(prompt) == "correction"
    writes = _writes(toolbox, session, former, continued, corrected)
    if via == "server":
        return await _beside(writes, notes)
    told = await notes
    for write in writes:
        await _begun(write)
    return told


async def _beside(writes: Sequence[Write], notes: Awaitable[str]) -> str:
    """Return the notes while the writes are begun; they are not waited for much longer than the notes."""
    import asyncio

    async def begin() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_PROMPT_PATIENCE_S):
                await asyncio.gather(*map(_begun, writes))

    async with asyncio.TaskGroup() as group:
        group.create_task(begin())
        return await notes


async def _notes(toolbox: Toolbox, session: HostSession, prompt: str, via: Way, host: str) -> str:
    """Return what fits a prompt, without what the agent reads in skills and files of rules anyway.

    Empty for an empty prompt, and where the retrieval fails, which is logged.
    """
    if not prompt:
        return ""
    try:
        hook = Hook(via, toolbox.promoted(host), await _told_before(toolbox, session))
        found = await retrieve(toolbox, prompt, session_id=session.session_id, task_id=session.task_id, hook=hook)
    except SwarmMemoryError as error:
        log.warning("nothing was retrieved for a prompt: %s", error)
        return ""
    return found.preamble


async def _told_before(toolbox: Toolbox, session: HostSession) -> frozenset[str]:
    """Return the memories that a session's latest tasks, this one too, were told: its briefing is the first one's."""
    numbers = {1, *range(max(1, session.task_number - _TASKS_LOOKED_AT), session.task_number + 1)}
    tasks = [session_task_id(session.session_id, number) for number in numbers]
    return await toolbox.store.told_to(toolbox.scope, tasks)


def _session(
    toolbox: Toolbox, event: HookEvent, prompt: str, former: HostSession | None, continued: bool
) -> HostSession:
    """Return the session as this prompt leaves it."""
    now, path = toolbox.clock.now(), event.transcript_path
    if continued and former is not None:
        return former.model_copy(update={"updated_at": now, "transcript_path": path or former.transcript_path})
    session_id, number = event.session_id or "", (former.task_number if former else 0) + 1
    return HostSession(
        session_id=session_id,
        scope=toolbox.scope,
        transcript_path=path,
        task_id=session_task_id(session_id, number),
        task=kept_text(prompt, toolbox.settings, _MAX_TASK_CHARS),
        task_number=number,
        updated_at=now,
    )


def _writes(
    toolbox: Toolbox, session: HostSession, former: HostSession | None, continued: bool, corrected: bool
) -> list[Write]:
    """Return what notes the session. A new task sets the former one's job free; a continued one holds its own back."""
    now, writes = toolbox.clock.now(), list[Write]()
    if continued:
        if corrected:
            # It speaks against the session's last call.
            event = Event(CORRECTED, now, subject_id=session.session_id)
            writes.append(partial(toolbox.store.add_event, toolbox.scope, event))
        writes.append(partial(_hold_back, toolbox, session))
    else:
        writes.append(partial(toolbox.store.put_session, session))
        if former is not None and former.task_id is not None:
            writes.append(partial(toolbox.store.release, toolbox.scope, former.task_id, now))
    return writes


async def _begun(write: Write) -> None:
    try:
        await write()
    except SwarmMemoryError as error:
        log.warning("a prompt's task was not noted: %s", error)


async def _before_tool_call(toolbox: Toolbox, event: HookEvent) -> str | None:
    """Return one line of warning for a call that looks like one that failed before; a held-out task gets none."""
    if not toolbox.settings.hooks.warn_before_tools:
        return None
    import asyncio

    from swarm_memory.tools.tool_memory.log import kept_input
    from swarm_memory.tools.tool_memory.warn import warn_before_call

    session = await toolbox.store.get_session(toolbox.scope, event.session_id or "")
    credit = toolbox.settings.credit
    task_id = session.task_id if session is not None else None
    if task_id is not None and is_held_out(task_id, credit.holdout_rate, credit.holdout_seed):
        return None
    told = kept_input(event.tool_input, toolbox.settings)
    with suppress(TimeoutError):
        async with asyncio.timeout(_WARNING_PATIENCE_S):
            return await warn_before_call(toolbox, clean(event.tool_name or "")[:300], told, event.session_id)
    return None


async def _hold_back(toolbox: Toolbox, session: HostSession) -> None:
    if session.transcript_path is not None and session.task_id is not None:
        told = session.model_dump(include={"transcript_path", "session_id", "task_id"})
        await toolbox.queue(LEARN, session.task_id, told, after=_CONTINUED_HOLD)


def _is_long_enough(toolbox: Toolbox, prompt: str) -> bool:
    return len(prompt.split()) >= toolbox.settings.hooks.min_prompt_words
