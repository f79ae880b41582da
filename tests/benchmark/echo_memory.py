"""An outside memory in few lines: an MCP server over stdio that finds by shared words, and tells ids of its own."""

from typing import Any

from mcp.server import MCPServer

server = MCPServer("echo-memory")
kept: list[tuple[str, str]] = []


@server.tool()
def remember(text: str) -> dict[str, Any]:
    """Keep a text."""
    kept.append((f"own-{len(kept)}", text))
    return {"stored": {"id": kept[-1][0]}}


@server.tool()
def recall(question: str, limit: int) -> dict[str, Any]:
    """Find texts."""
    words = set(question.lower().split())
    order = sorted(kept, key=lambda pair: -len(words & set(pair[1].lower().split())))
    return {"hits": [{"id": own, "text": text, "made_up": "a1"} for own, text in order[:limit]]}


if __name__ == "__main__":
    server.run()
