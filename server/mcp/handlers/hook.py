"""The MCP tool that the hooks of a host call."""

import json
from typing import Annotated

from mcp.types import CallToolResult, TextContent
from pydantic import Field, JsonValue

from swarm_memory.server.hooks.answers import answer_hook
from swarm_memory.server.mcp.handlers.base import AGAIN, AppContext, bank_of, client_of, tool


async def handle_hook(
    ctx: AppContext,
    event: Annotated[dict[str, JsonValue], Field(description="The event as the host gives it")],
) -> CallToolResult:
    """For the host's hooks only; a model has no use for it. Answers the JSON that the hook protocol expects."""
    bank = bank_of(ctx)
    answer = await answer_hook(bank, event)
    if isinstance(session_id := event.get("session_id"), str):
        bank.note_session(client_of(ctx), session_id)
    bank.wake_worker()
    return CallToolResult(content=[TextContent(type="text", text=json.dumps(answer))], structured_content=answer)


TOOLS = (tool(handle_hook, "Handle a hook", AGAIN),)
