"""The tool calls of a transcript that is taken in, for the tool memory: as if a hook had logged them then."""

from swarm_memory.schema.tool_memory import LoggedCall
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.tools.tool_memory.tool_memory import log_tool_calls
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.calls import Call, calls_of
from swarm_memory.tools.trajectory.tasks import is_own_tool


async def log_calls_of(toolbox: Toolbox, trajectory: Trajectory) -> int:
    """Log the calls that have ended, at their own times; return how many were not known. Raises `StorageError`.

    A call is known by the host's ids of session and call, so that what a hook logged is never counted twice; a
    trajectory without these ids has none to log.
    """
    logged = [_logged(call, trajectory) for call in calls_of(trajectory) if _counts(call)]
    if trajectory.session_id is None or not logged:
        return 0
    return (await log_tool_calls(toolbox, logged)).logged


def _counts(call: Call) -> bool:
    """Whether a call says something of its tool: one that a person interrupted, or that never ended, does not."""
    name = call.step.tool_name
    ended = call.observation is not None and not call.observation.interrupted
    return ended and bool(name) and bool(call.step.call_id) and not is_own_tool(name or "")


def _logged(call: Call, trajectory: Trajectory) -> LoggedCall:
    failed = call.observation is not None and call.observation.is_error is True
    return LoggedCall(
        tool_name=(call.step.tool_name or "")[:300],
        input=dict(call.input),
        output=call.output,
        success=not failed,
        create_time=call.step.at,
        session_id=trajectory.session_id,
        task_id=trajectory.task_id[:500],
        call_id=call.step.call_id,
        task=trajectory.task,
    )
