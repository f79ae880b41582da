"""What the handlers of the MCP tools share: how a tool is made, how it answers, and the arguments many take."""

import inspect
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, Field

from swarm_memory.schema.job import Progress
from swarm_memory.server.bank import Bank
from swarm_memory.server.mcp.strict_tool import StrictTool

if TYPE_CHECKING:
    from swarm_memory.server.mcp.output_cap import Paging

AppContext: TypeAlias = Context[Bank]

Project = Annotated[str | None, Field(description="Name of another project; this one by default")]
TaskId = Annotated[str | None, Field(max_length=500, description="Id of the task")]

READS = {"read_only_hint": True, "idempotent_hint": True}
ADDS = {"read_only_hint": False, "destructive_hint": False, "idempotent_hint": True}
AGAIN = ADDS | {"idempotent_hint": False}
"""Adds something at each call."""
MENDS = ADDS | {"destructive_hint": True}


UNCAPPED = frozenset({"handle_hook"})
"""Its answer is JSON of the hooks' protocol, with limits of its own: cut, no host could read it."""


class CappedTool(StrictTool):
    """A tool whose answer is cut to what the settings allow."""

    async def run(self, arguments: dict[str, Any], context: Any, convert_result: bool = False) -> Any:
        """Run the tool, and cut its answer at a boundary where it is longer than `output.max_tokens`."""
        result = await super().run(arguments, context, convert_result)
        max_tokens = bank_of(context).max_output_tokens
        if max_tokens is None or not isinstance(result, CallToolResult) or self.name in UNCAPPED:
            return result
        return within(result, max_tokens, self._paging(arguments))

    def _paging(self, arguments: dict[str, Any]) -> "Paging":
        from swarm_memory.server.mcp.output_cap import Paging

        known = self.parameters.get("properties", {})
        counts = tuple(name for name in ("k", "limit") if name in known)
        return Paging(arguments.get("offset") or 0 if "offset" in known else None, counts)


def tool(
    handler: Callable[..., Any], title: str, hints: dict[str, bool], meta: dict[str, Any] | None = None
) -> StrictTool:
    """Return the tool of a handler; its docstring is what a model reads.

    Only what an agent calls most publishes the schema of its answer: the others' answers show their own shape, and all
    schemas together must cost an agent less than 5,000 tokens.
    """
    annotations = ToolAnnotations.model_validate({"open_world_hint": False, **hints})
    made = CappedTool.from_function(
        handler, title=title, description=inspect.getdoc(handler), annotations=annotations, meta=meta
    )
    assert isinstance(made, CappedTool)
    return made


def answered(answer: BaseModel) -> CallToolResult:
    """Give the answer as structure and as the same JSON in text, both without what is empty."""
    content = answer.model_dump(mode="json", exclude_none=True)
    text = answer.model_dump_json(exclude_none=True)
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=content)


def within(result: CallToolResult, max_tokens: int, paging: "Paging") -> CallToolResult:
    """Return an answer that has at most so many tokens, structure and text alike."""
    from swarm_memory.server.mcp.output_cap import capped, capped_text, is_within

    texts = [part.text for part in result.content if isinstance(part, TextContent)]
    if all(is_within(text, max_tokens) for text in texts):
        return result
    if result.structured_content is not None:
        content = capped(result.structured_content, max_tokens, paging)
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        return result.model_copy(
            update={"content": [TextContent(type="text", text=text)], "structured_content": content}
        )
    text = capped_text("\n\n".join(texts), max_tokens, paging)
    return result.model_copy(update={"content": [TextContent(type="text", text=text)]})


def bank_of(ctx: Context[Any]) -> Bank:
    """Return the bank of the server that was called."""
    return ctx.request_context.lifespan_context


def client_of(ctx: Context[Any]) -> str | None:
    """Return what tells the caller from other clients: over stdio there is one; None where HTTP has no session."""
    return "" if ctx.headers is None else ctx.headers.get("mcp-session-id")


def telling(ctx: Context[Any]) -> Callable[[Progress], Awaitable[None]]:
    """Return what passes a job's progress on to the client."""

    async def tell(progress: Progress) -> None:
        await ctx.report_progress(progress.done, progress.total, progress.message)

    return tell
