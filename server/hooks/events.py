"""What each event of the host does: notes for a prompt, a row for a tool call, a job for a task that ended.

Only a prompt, and a call that is about to be made, get context: from Stop it would make the host go on.
"""

import logging
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import TypeAlias

import anyio
from pydantic import JsonValue, ValidationError

from swarm_memory.schema.base import JOB, new_id
from swarm_memory.schema.errors import SwarmMemoryError
from swarm_memory.schema.job import Job
from swarm_memory.schema.tool_memory import LoggedCall
from swarm_memory.server.hooks.event import HookEvent
from swarm_memory.server.location import CHILD_VARIABLE
from swarm_memory.tools.credit.holdout import is_held_out
from swarm_memory.tools.ports.journal import Event, HostSession
from swarm_memory.tools.ports.tool_memory import CORRECTED
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.text.cleaning import clean
from swarm_memory.tools.tool_memory.log import as_text, kept_input, kept_text, log_tool_calls, queue_evaluation
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.tasks import (
    continues,
    feedback,
    is_own_tool,
    is_task_prompt,
    session_task_id,
    task_text,
)

LEARN = "learn"
"""The kind of the jobs that are queued here: learn from one task of a transcript, or, without `task_id`, from all."""

_MAX_TASK_CHARS = 2000
_PROMPT_PATIENCE_S, _PATIENCE_S = 0.01, 2.0
"""How long the answer to a prompt, and to any other event, may wait for a write. The store ends what it has begun."""

_WARNING_PATIENCE_S = 0.5
"""A call that is about to be made does not wait longer for a warning."""

_CONTINUED_HOLD = timedelta(hours=1)
"""A task that is being continued is not learned from before its next Stop; this is for the case that none comes."""

_SESSION_ID = re.compile(r"[A-Za-z0-9_.-]{1,128}")

HookAnswer: TypeAlias = dict[str, JsonValue]

log = logging.getLogger("swarm_memory.hooks")


async def answer_hook(open_toolbox: Callable[[], Awaitable[Toolbox]], event: dict[str, JsonValue]) -> HookAnswer:
    """Return hook JSON for one event; `{}`, which means "go on", when the event is none or anything went wrong."""
    if os.environ.get(CHILD_VARIABLE):
        return {}  # an agent that we started ourselves must not be learned from
    try:
        return await handle_hook(await open_toolbox(), HookEvent.model_validate(event))
    except ValidationError as error:
        log.warning("not a hook event: %s", error.errors(include_url=False, include_input=False)[0]["msg"])
    except SwarmMemoryError as error:
        log.warning("the hook did nothing: %s", error)
    except Exception:  # a main: a fault in a hook must never reach the editor
        log.exception("the hook did nothing")
    return {}


async def handle_hook(toolbox: Toolbox, event: HookEvent) -> HookAnswer:
    """Do what the event asks for and return hook JSON: `additionalContext` for a prompt that strategies fit, or before
    a call that looks like one that failed; else `{}`.

    Raises `StorageError`; a fault in retrieval, or of noting a prompt's task, costs only that and is logged.
    """
    handler = _HANDLERS.get(event.hook_event_name)
    if handler is None or not _SESSION_ID.fullmatch(event.session_id or ""):
        log.info("ignored: event %.40r of session %.40r", event.hook_event_name, event.session_id)
        return {}
    context = await handler(toolbox, event)
    if not context:
        return {}
    return {"hookSpecificOutput": {"hookEventName": event.hook_event_name, "additionalContext": context}}


async def _on_prompt(toolbox: Toolbox, event: HookEvent) -> str | None:
    """Begin or continue a task; return the notes that fit it, once for each task."""
    prompt = event.prompt or ""
    if not is_task_prompt(prompt):
        return None
    prompt = task_text(prompt)
    former = await toolbox.store.get_session(toolbox.scope, event.session_id or "")
    continued = former is not None and former.task_id is not None and continues(prompt, former.task)
    session = _session(toolbox, event, prompt, former, continued)
    wanted = _is_long_enough(toolbox, prompt) and not (continued and _is_long_enough(toolbox, session.task))
    notes = ""
    async with anyio.create_task_group() as group:
        corrected = continued and feedback(prompt) == "correction"
        group.start_soon(_note_task, toolbox, session, former, continued, corrected)
        if wanted and toolbox.settings.hooks.inject:
            notes = await _notes(toolbox, session, prompt)
    return notes


async def _notes(toolbox: Toolbox, session: HostSession, prompt: str) -> str:
    try:
        found = await retrieve(toolbox, prompt, session_id=session.session_id, task_id=session.task_id)
    except SwarmMemoryError as error:
        log.warning("nothing was retrieved for a prompt: %s", error)
        return ""
    return found.preamble


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


async def _note_task(
    toolbox: Toolbox, session: HostSession, former: HostSession | None, continued: bool, corrected: bool
) -> None:
    """Write the session down. A new task sets the former one's job free; a continued one holds its own back."""
    now = toolbox.clock.now()
    with anyio.move_on_after(_PROMPT_PATIENCE_S):
        async with anyio.create_task_group() as writes:
            if continued:
                if corrected:
                    writes.start_soon(_begun, _note_correction(toolbox, session.session_id))
                writes.start_soon(_begun, _enqueue(toolbox, session, now + _CONTINUED_HOLD))
                return
            writes.start_soon(_begun, toolbox.store.put_session(session))
            if former is not None and former.task_id is not None:
                writes.start_soon(_begun, toolbox.store.release(toolbox.scope, former.task_id, now))


async def _note_correction(toolbox: Toolbox, session_id: str) -> None:
    """Note that the user corrected what was just done: it speaks against the session's last call."""
    event = Event(CORRECTED, toolbox.clock.now(), subject_id=session_id)
    await toolbox.store.add_event(toolbox.scope, event)


async def _begun(write: Awaitable[object]) -> None:
    try:
        await write
    except SwarmMemoryError as error:
        log.warning("a prompt's task was not noted: %s", error)


async def _on_tool_call(toolbox: Toolbox, event: HookEvent) -> None:
    """Keep one call of a tool. One that a person interrupted says nothing of the tool and is left out."""
    name = event.tool_name
    if not name or is_own_tool(name) or event.is_interrupt:
        return
    session = await toolbox.store.get_session(toolbox.scope, event.session_id or "")
    failed = event.hook_event_name == "PostToolUseFailure"
    call = LoggedCall(
        tool_name=clean(name)[:300],
        input=event.tool_input,
        output=(event.error or "") if failed else _output(event.tool_response),
        success=not failed,
        time_cost=None if event.duration_ms is None else event.duration_ms / 1000,
        session_id=event.session_id,
        task_id=session.task_id if session else None,
        call_id=event.tool_use_id,
        task=session.task if session else None,
    )
    with anyio.move_on_after(_PATIENCE_S):
        await log_tool_calls(toolbox, [call], evaluate_later=False)


async def _before_tool_call(toolbox: Toolbox, event: HookEvent) -> str | None:
    """Return one line of warning for a call that looks like one that failed before; a held-out task gets none."""
    name = event.tool_name
    if not toolbox.settings.hooks.warn_before_tools or not name or is_own_tool(name):
        return None
    from swarm_memory.tools.tool_memory.warn import warn_before_call

    session = await toolbox.store.get_session(toolbox.scope, event.session_id or "")
    credit = toolbox.settings.credit
    task_id = session.task_id if session is not None else None
    if task_id is not None and is_held_out(task_id, credit.holdout_rate, credit.holdout_seed):
        return None
    told = kept_input(event.tool_input, toolbox.settings)
    with anyio.move_on_after(_WARNING_PATIENCE_S):
        return await warn_before_call(toolbox, clean(name)[:300], told, event.session_id)
    return None


async def _on_stop(toolbox: Toolbox, event: HookEvent) -> None:
    """Queue the learning from the task whose turn ended; it may still be continued before it is due."""
    session = await toolbox.store.get_session(toolbox.scope, event.session_id or "")
    if session is None or session.task_id is None:
        return
    if event.transcript_path:
        session = session.model_copy(update={"transcript_path": event.transcript_path})
    settle = timedelta(seconds=toolbox.settings.hooks.settle_s)
    with anyio.move_on_after(_PATIENCE_S):
        await _enqueue(toolbox, session, toolbox.clock.now() + settle)
        await _evaluate_calls(toolbox)


async def _evaluate_calls(toolbox: Toolbox) -> None:
    """Queue the evaluation of the calls that wait for one, where there are any."""
    if (await toolbox.store.tool_memory.counts(toolbox.scope)).not_evaluated:
        await queue_evaluation(toolbox)


async def _on_session_end(toolbox: Toolbox, event: HookEvent) -> None:
    """Make all that the session left due: its tasks' jobs, and one for the whole transcript, for what they missed."""
    now, session_id = toolbox.clock.now(), event.session_id or ""
    await toolbox.store.release(toolbox.scope, f"{session_id}:", now)
    if event.transcript_path:
        payload: dict[str, JsonValue] = {"transcript_path": event.transcript_path, "session_id": session_id}
        await toolbox.store.enqueue(_job(toolbox, f"{session_id}:all", payload, now))


async def _enqueue(toolbox: Toolbox, session: HostSession, run_after: datetime) -> None:
    if session.transcript_path is None or session.task_id is None:
        return
    payload: dict[str, JsonValue] = {
        "transcript_path": session.transcript_path,
        "session_id": session.session_id,
        "task_id": session.task_id,
    }
    await toolbox.store.enqueue(_job(toolbox, session.task_id, payload, run_after))


def _job(toolbox: Toolbox, key: str, payload: dict[str, JsonValue], run_after: datetime) -> Job:
    return Job(
        id=new_id(JOB),
        scope=toolbox.scope,
        kind=LEARN,
        key=key,
        payload=payload,
        run_after=run_after,
        created_at=toolbox.clock.now(),
    )


def _is_long_enough(toolbox: Toolbox, prompt: str) -> bool:
    return len(prompt.split()) >= toolbox.settings.hooks.min_prompt_words


def _output(response: JsonValue) -> str:
    """Return what a tool answered as text: of a command what it printed, of anything else the JSON."""
    if isinstance(response, dict) and isinstance(response.get("stdout"), str):
        printed = [str(response[name]) for name in ("stdout", "stderr") if response.get(name)]
        return "\n".join(printed)
    return as_text(response)


_Handler: TypeAlias = Callable[[Toolbox, HookEvent], Awaitable[str | None]]
_HANDLERS: Mapping[str, _Handler] = {
    "UserPromptSubmit": _on_prompt,
    "PreToolUse": _before_tool_call,
    "PostToolUse": _on_tool_call,
    "PostToolUseFailure": _on_tool_call,
    "Stop": _on_stop,
    "SessionEnd": _on_session_end,
}
