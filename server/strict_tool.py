"""An MCP tool that refuses arguments it does not know, and says errors so that a model can act on them."""

import difflib
from typing import Any

from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool
from pydantic import ValidationError

from swarm_memory.schema.errors import SwarmMemoryError


class StrictTool(Tool):
    """The SDK's tool ignores unknown arguments in silence and hides our errors; this one does neither."""

    def model_post_init(self, context: Any, /) -> None:
        """Close the published schema too, without the titles that say again what the names say."""
        self.parameters = _without_titles(self.parameters) | {"additionalProperties": False}

    async def run(self, arguments: dict[str, Any], context: Any, convert_result: bool = False) -> Any:
        """Run the tool; a `SwarmMemoryError` becomes a `ToolError` with its text, anything unforeseen stays hidden."""
        self._refuse_unknown(arguments)
        try:
            return await super().run(arguments, context, convert_result)
        except UnexpectedToolError as error:
            if isinstance(error.__cause__, SwarmMemoryError):
                raise ToolError(str(error.__cause__)) from error.__cause__
            raise
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                raise ToolError(_invalid(error.__cause__)) from error.__cause__
            raise

    def _refuse_unknown(self, arguments: dict[str, Any]) -> None:
        known: list[str] = list(self.parameters.get("properties", {}))
        for name in arguments:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(known) or 'none'}"
                raise ToolError(f"{self.name} takes no argument {name[:80]!r}: {hint}")


def _invalid(error: ValidationError) -> str:
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}" for fault in faults[:5])


def _without_titles(schema: dict[str, Any]) -> dict[str, Any]:
    """Drop the `title` keywords of a JSON schema, and keep properties that are called title."""
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "title" and isinstance(value, str):
            continue
        if key in {"properties", "$defs"}:
            kept[key] = {name: _without_titles(part) for name, part in value.items()}
        elif key in {"anyOf", "allOf", "oneOf"}:
            kept[key] = [_without_titles(part) for part in value]
        elif isinstance(value, dict):
            kept[key] = _without_titles(value)  # pyright: ignore[reportUnknownArgumentType]
        else:
            kept[key] = value
    return kept
