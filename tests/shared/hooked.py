"""What the hook of an event does, on a bank that is open."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from patience import HANG_S

from swarm_memory.server.hooks.events import HookEvent, Way, handle_hook
from swarm_memory.server.storage.hook_reader import open_for_hook
from swarm_memory.tools.toolbox import Toolbox


async def hooked(toolbox: Toolbox, event: Mapping[str, Any], via: Way = "hook") -> dict[str, Any]:
    """Do it and return hook JSON; what the event writes is written then. Raises as the hooks do.

    The ends of turns and sessions have the machine's time, whatever clock the toolbox has.
    """

    async def opened() -> Toolbox:
        return toolbox

    name = event["hook_event_name"]
    if name not in ("Stop", "SessionEnd"):
        answer = await handle_hook(opened, HookEvent.model_validate(event), via)
        await toolbox.store.release(toolbox.scope, "none", toolbox.clock.now())  # writes come one after another
        return answer
    database = Path((await toolbox.store.health()).path)
    session_id, transcript = event["session_id"], event.get("transcript_path", "")
    with open_for_hook(database, (toolbox.scope.tenant_id, toolbox.scope.project), HANG_S) as bank:
        if name == "Stop":
            bank.end_turn(session_id, transcript, toolbox.settings.hooks.settle_s)
        else:
            bank.end_session(session_id, transcript)
    return {}


async def after_failure(toolbox: Toolbox, session_id: str, command: str, error: str) -> str:
    """Return what is shown beside a command that failed."""
    event = {"hook_event_name": "PostToolUseFailure", "session_id": session_id, "tool_name": "Bash"}
    answer = await hooked(toolbox, {**event, "tool_input": {"command": command}, "error": error})
    return answer.get("hookSpecificOutput", {}).get("additionalContext", "")
