"""People: who may come in over HTTP, and who did what."""

from swarm_memory.server.viewer.page import Asked, Page, Route
from swarm_memory.tools.team.people import audit_trail, list_people

SHOWN = 200


async def people(asked: Asked) -> Page:
    """List the people of the team, and the newest of the audit trail."""
    trail = await audit_trail(asked.toolbox, SHOWN)
    return Page("people.html", {"people": await list_people(asked.toolbox), "trail": trail, "most": SHOWN})


ROUTES = (Route("/people", people),)
