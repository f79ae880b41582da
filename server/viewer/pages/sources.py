"""Sources: what is indexed beside memories, how fresh it is, and a search in it."""

from swarm_memory.schema.source import SOURCE_KINDS, SourceKind
from swarm_memory.server.viewer.page import Asked, Page, Route
from swarm_memory.tools.sources.sources import search_sources

HITS = 10


async def sources(asked: Asked) -> Page:
    """List the sources; with `q`, what is found in them."""
    toolbox, query = asked.toolbox, asked.query.get("q", "").strip()
    kind = asked.query.get("kind", "")
    kinds: dict[str, SourceKind] = {each: each for each in SOURCE_KINDS}
    found = await search_sources(toolbox, query, kind=kinds.get(kind), k=HITS) if query else None
    listed = await toolbox.store.sources.list_sources(toolbox.scope)
    return Page("sources.html", {"sources": listed, "kinds": kinds, "q": query, "kind": kind, "found": found})


ROUTES = (Route("/sources", sources),)
