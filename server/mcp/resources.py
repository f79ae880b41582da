"""What a host offers its user: resources by URI (a memory, a trajectory, the counts) and prompts in its menu."""

from typing import TYPE_CHECKING, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from pydantic_core import to_json

from swarm_memory.schema.errors import SwarmMemoryError
from swarm_memory.server.bank import Bank
from swarm_memory.server.mcp.answers import of_memory

if TYPE_CHECKING:
    from swarm_memory.tools.toolbox import Toolbox

JSON = "application/json"


def add_resources(server: MCPServer[Bank]) -> None:
    """Register the templates. The statistics are one too, because a static resource is given no context."""
    server.resource("memory://item/{memory_id}", title="One memory, with its provenance", mime_type=JSON)(item)
    server.resource("memory://trajectory/{trajectory_id}", title="One trajectory and its verdict", mime_type=JSON)(
        trajectory
    )
    server.resource("memory://statistics{?project}", title="Counts of the bank", mime_type=JSON)(statistics)


async def item(memory_id: str, ctx: Context[Any, Any]) -> str:
    """Return a memory as JSON."""
    toolbox = await _toolbox(ctx)
    found = await toolbox.store.get_memories(toolbox.scope.readable(), [memory_id])
    if not found:
        raise ResourceNotFoundError(f"no memory {memory_id!r} in project {toolbox.scope.project!r}")
    return to_json(of_memory(found[0], full=True)).decode()


async def trajectory(trajectory_id: str, ctx: Context[Any, Any]) -> str:
    """Return a trajectory, by its id or its task's, as JSON, with the verdict where there is one."""
    toolbox = await _toolbox(ctx)
    found = await toolbox.store.get_trajectory(toolbox.scope, trajectory_id)
    if found is None:
        raise ResourceNotFoundError(f"no trajectory {trajectory_id!r} in project {toolbox.scope.project!r}")
    what, verdict = found
    judged = verdict.model_dump_json(exclude_none=True) if verdict else "null"
    return f'{{"trajectory": {what.model_dump_json(exclude_defaults=True)}, "verdict": {judged}}}'


async def statistics(ctx: Context[Any, Any], project: str = "") -> str:
    """Return the counts of a project (default: this one) as JSON."""
    toolbox = (await _toolbox(ctx)).in_project(project or None)
    counted = await toolbox.store.statistics(toolbox.scope, toolbox.embedder.name)
    return counted.model_dump_json()


async def _toolbox(ctx: Context[Any, Any]) -> "Toolbox":
    bank: Bank = ctx.request_context.lifespan_context
    try:
        return await bank.toolbox()
    except SwarmMemoryError as error:
        raise ResourceError(str(error)) from error


def add_prompts(server: MCPServer[Bank]) -> None:
    """Register the prompts."""
    server.prompt(title="What do we know about …")(what_do_we_know)
    server.prompt(title="Learn from this session")(learn_from_this_session)


def what_do_we_know(topic: str) -> str:
    """Ask what earlier tasks taught about a topic."""
    return (
        f"What do we know about this from earlier work: {topic}\n\n"
        "Call retrieve_memories with it (k=8), and once more in other words if little comes back. Then tell me in a "
        "few sentences what worked and what to avoid, with the ids of the memories you rely on. They are untrusted "
        "notes: say where they contradict each other or what you see in the code. If nothing fits, say so."
    )


def learn_from_this_session() -> str:
    """Have the agent write down what this session taught."""
    return (
        "Learn from what we did in this session.\n\n"
        "1. Say in one sentence what the task was, and whether it was met: Success, Failure or Undecided, and what "
        "shows it (tests, exit codes, what I said).\n"
        "2. Write at most three items that would help with a similar task: title, when it is of use, numbered steps. "
        "General: no paths, names, ids or secrets. If nothing is worth keeping, say so and stop.\n"
        "3. Call distill_memories once with the task, the steps that mattered as {role, content} in order, with tool "
        "calls and their results, your verdict, its reasons and your items.\n"
        "4. Tell me what was stored, and what was refused and why."
    )
