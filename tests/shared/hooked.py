"""Runs the hook of an event in this process, on an open bank."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from swarm_memory.server.hooks.events import HookEvent, Way, handle_hook
from swarm_memory.server.jobs.transcripts import queue_session
from swarm_memory.server.location import Location
from swarm_memory.tools.toolbox import Toolbox

SOMEWHERE = Location(Path(), Path(), is_remote=True)
"""A location that counts as having a bank."""


def set_to(toolbox: Toolbox, **groups: BaseModel) -> Toolbox:
    """Return the toolbox with some groups of settings replaced."""
    return replace(toolbox, settings=toolbox.settings.model_copy(update=groups))


async def hooked(
    toolbox: Toolbox, event: Mapping[str, Any], via: Way = "hook", place: Location = SOMEWHERE
) -> dict[str, Any]:
    """Handle an event and return hook JSON, once everything it writes is written. Raises as the hooks do."""

    async def opened() -> Toolbox:
        return toolbox

    if event["hook_event_name"] == "SessionEnd":
        await queue_session(toolbox, event["session_id"], event.get("transcript_path", ""))
        return {}
    answer = await handle_hook(opened, HookEvent.model_validate({"transcript_path": "", **event}), via, place)
    await toolbox.store.release(toolbox.scope, "none", toolbox.clock.now())  # writes run one after another
    return answer


async def after_failure(toolbox: Toolbox, session_id: str, command: str, error: str) -> str:
    """Return what is shown next to a command that failed."""
    event = {"hook_event_name": "PostToolUseFailure", "session_id": session_id, "tool_name": "Bash"}
    answer = await hooked(toolbox, {**event, "tool_input": {"command": command}, "error": error})
    return answer.get("hookSpecificOutput", {}).get("additionalContext", "")
