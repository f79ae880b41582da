"""Ask: what an agent would be told for a prompt, exactly as it would be, and everything that was considered."""

from swarm_memory.server.viewer.page import Asked, Page, Route
from swarm_memory.server.viewer.pages.memories import SHOWN, of_project
from swarm_memory.tools.retrieve.explain import explain
from swarm_memory.tools.text.tokens import count_tokens


async def ask(asked: Asked) -> Page:
    """Show the form, and the answer where something was asked. Nothing is recorded and nothing credited."""
    toolbox, project = of_project(asked, asked.query)
    prompt = asked.query.get("q", "").strip()
    explained = await explain(toolbox, prompt) if prompt else None
    return Page(
        "ask.html",
        {
            "prompt": prompt,
            "explained": explained,
            "shown": SHOWN,
            "tokens": count_tokens(explained.found.preamble) if explained else 0,
            "budget": toolbox.settings.retrieve.token_budget,
            "project_query": project,
        },
    )


ROUTES = (Route("/ask", ask),)
