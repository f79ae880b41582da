"""Tools: how each does, its guidelines, and the errors that its calls ended in, with what is known to end them."""

from swarm_memory.server.viewer.page import Asked, Page, Route
from swarm_memory.tools.tool_memory.overview import errors_seen, tool_in_use, tools_in_use

SHOWN = 100


async def tools(asked: Asked) -> Page:
    """List the tools and the errors of all, or show one tool. Raises `InputError`, `NotFoundError`."""
    name = asked.query.get("tool", "")
    if name:
        use, errors = await tool_in_use(asked.toolbox, name), await errors_seen(asked.toolbox, name)
        return Page("tool.html", {"use": use, "errors": errors})
    every, first = await tools_in_use(asked.toolbox), (asked.page - 1) * SHOWN
    shown = {
        "tools": every[first : first + SHOWN],
        "has_more": len(every) > first + SHOWN,
        "page": asked.page,
        "errors": await errors_seen(asked.toolbox),
    }
    return Page("tools.html", shown)


ROUTES = (Route("/tools", tools),)
