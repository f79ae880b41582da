"""What a host offers its user: resources by URI (strategies, memories, trajectories, status) and prompts in a menu."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, cast

from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.server.mcpserver.prompts import Prompt
from mcp.types import INVALID_PARAMS
from pydantic import Field
from pydantic_core import to_json

from swarm_memory.schema.base import is_teams
from swarm_memory.schema.errors import NotAllowed, SwarmMemoryError
from swarm_memory.server.access.roles import PROMPTS as PROMPTS_NEED
from swarm_memory.server.access.roles import Caller, caller_of, role_of_resource, serving, shown
from swarm_memory.server.bank import Bank
from swarm_memory.server.mcp.tool import ServedSite
from swarm_memory.server.operations.answers import of_memory
from swarm_memory.server.operations.memories import status_row
from swarm_memory.server.operations.operation import Row, row

if TYPE_CHECKING:
    from swarm_memory.tools.toolbox import Toolbox

JSON, TEXT = "application/json", "text/plain"

SUREST = 10
"""Memories that the briefing has."""

_LISTED = {
    "memory://strategies": {
        "name": "strategies",
        "description": "What earlier tasks of this project taught, the surest first, as notes",
        "mimeType": TEXT,
    },
    "memory://status": {
        "name": "status",
        "description": "How the memory stands: counts, database, what is out of order",
        "mimeType": JSON,
    },
}
"""Templates that are listed as resources."""


def add_resources(server: MCPServer[Bank]) -> None:
    """Register the templates. What is one thing is a template too, because a static resource is given no context."""
    for read, uri, title, mime in (
        (status, "memory://status{?project}", "How the bank stands", JSON),
        (strategies, "memory://strategies{?project}", "What earlier tasks taught, the surest first", TEXT),
        (item, "memory://item/{memory_id}", "One memory, with its provenance", JSON),
        (trajectory, "memory://trajectory/{trajectory_id}", "One trajectory and its verdict", JSON),
    ):
        server.resource(uri, title=title, description=title, mime_type=mime)(read)


async def status(ctx: Context[Any, Any], project: str = "") -> str:
    """Return how the bank stands as JSON."""
    return to_json(await status_row(ServedSite(ctx), await _toolbox(ctx, project))).decode()


async def strategies(ctx: Context[Any, Any], project: str = "") -> str:
    """Return the surest strategies as notes for an agent, framed and bounded as at the start of a session."""
    from swarm_memory.tools.retrieve.agreement import team_counts
    from swarm_memory.tools.retrieve.preamble import briefing_of

    toolbox = await _toolbox(ctx, project)
    surest = await toolbox.store.surest_memories(toolbox.scope, SUREST)
    if not surest:
        return f"Nothing was learned in project {toolbox.scope.project!r} yet, or nothing of it is active."
    return briefing_of(surest, await team_counts(toolbox, surest))


async def item(memory_id: str, ctx: Context[Any, Any]) -> str:
    """Return a memory as JSON."""
    from swarm_memory.tools.memories.edit import with_authors

    toolbox = await _toolbox(ctx)
    found = await toolbox.store.get_memories(toolbox.readable, [memory_id])
    if not found:
        raise ResourceNotFoundError(f"no memory {memory_id!r} in project {toolbox.scope.project!r}")
    fields = of_memory((await with_authors(toolbox, found))[0], full=True)
    sharing = (await toolbox.store.team.sharing([memory_id])).get(memory_id)
    if is_teams(found[0].scope) and sharing is not None:
        fields["shared_by_the_team"] = row(
            evidence=sharing.evidence.says, proposed_by=sharing.proposed_by, accepted_by=sharing.accepted_by
        )
    if found[0].status != "active":
        fields = {"notice": f"this memory is {found[0].status}: it is not retrieved, and not to be relied on"} | fields
    return to_json(fields).decode()


async def trajectory(trajectory_id: str, ctx: Context[Any, Any]) -> str:
    """Return a trajectory, by its id or its task's, as JSON, with the verdict where there is one."""
    toolbox = await _toolbox(ctx)
    found = await toolbox.store.get_trajectory(toolbox.scope, trajectory_id)
    if found is None:
        raise ResourceNotFoundError(f"no trajectory {trajectory_id!r} in project {toolbox.scope.project!r}")
    what, verdict = found
    judged = verdict.model_dump_json(exclude_none=True) if verdict else "null"
    return f'{{"trajectory": {what.model_dump_json(exclude_defaults=True)}, "verdict": {judged}}}'


async def _toolbox(ctx: Context[Any, Any], project: str = "") -> "Toolbox":
    try:
        return (await ServedSite(ctx).for_reading()).in_project(project or None)
    except SwarmMemoryError as error:
        raise ResourceError(str(error)) from error


def what_do_we_know(
    topic: Annotated[str, Field(description="Of what; left out: of the task of this session")] = "",
) -> str:
    """Ask what earlier tasks taught about a topic."""
    return (
        f"What do we know about this from earlier work: {topic.strip() or 'the task of this session'}\n\n"
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


PROMPTS = {
    each.name: each
    for each in (
        Prompt.from_function(what_do_we_know, title="What do we know about …"),
        Prompt.from_function(learn_from_this_session, title="Learn from this session"),
    )
}


async def middleware(ctx: ServerRequestContext[Bank, Any], call_next: CallNext) -> HandlerResult:
    """Have a request served for its caller, list briefing and status among the resources, and show what a role allows.

    What is listed as a resource is no template besides: a host would show it twice.
    """
    caller, params = caller_of(ctx.request), ctx.params or {}
    _check_request(caller, ctx.method, params)
    with serving(caller):
        result = await call_next(ctx)
        if ctx.method == "resources/list" and isinstance(result, dict):
            listed = [{"uri": uri} | each for uri, each in _LISTED.items() if caller.may(role_of_resource(uri))]
            return {**result, "resources": [*result.get("resources", ()), *listed]}
    return {**result, **_allowed(caller, ctx.method, result)} if isinstance(result, dict) else result


def _allowed(caller: Caller, method: str, result: Row) -> Row:
    """Return what a caller is shown of a list."""
    if method == "tools/list":
        return {"tools": [each for tool in result["tools"] if (each := shown(tool, caller))]}
    if method == "prompts/list":
        return {"prompts": [each for each in result["prompts"] if caller.may(PROMPTS_NEED[each["name"]])]}
    if method == "resources/templates/list":
        named = {each["name"] for each in _LISTED.values()}
        templates = [each for each in result["resourceTemplates"] if each["name"] not in named]
        return {"resourceTemplates": [each for each in templates if caller.may(role_of_resource(each["uriTemplate"]))]}
    return {}


def _check_request(caller: Caller, method: str, params: Mapping[str, Any]) -> None:
    """Raise `MCPError` that names the role that a resource or a prompt needs, or what a prompt takes.

    Of a tool its own answer says this.
    """
    try:
        if "uri" in params:
            caller.require(role_of_resource(str(params["uri"])), "this resource")
        if method == "prompts/get" and params:
            name, given = str(params.get("name")), cast(object, params.get("arguments") or {})
            if name not in PROMPTS:
                raise MCPError(INVALID_PARAMS, f"there is no prompt {name[:80]!r}: there are {', '.join(PROMPTS)}")
            known = [each.name for each in PROMPTS[name].arguments or ()]
            if not isinstance(given, dict) or not given.keys() <= set(known):
                raise MCPError(INVALID_PARAMS, f"{name} takes {', '.join(known) or 'no arguments'}")
            caller.require(PROMPTS_NEED[name], f"the prompt {name}")
    except NotAllowed as error:
        raise MCPError(INVALID_PARAMS, str(error)) from error
