"""An MCP tool that refuses arguments it does not know, and says errors so that a model can act on them."""

import difflib
from typing import Any, cast

from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool
from pydantic import ValidationError

from swarm_memory.schema.errors import SwarmMemoryError

NO_MEMORY = "there is not enough memory for this: nothing was half done; give it less at a time"


class StrictTool(Tool):
    """The SDK's tool ignores unknown arguments in silence and hides our errors; this one does neither."""

    def model_post_init(self, context: Any, /) -> None:
        """Close the published schemas, and make them short: an agent pays for every token of them."""
        self.parameters = compact(self.parameters) | {"additionalProperties": False}
        if self.fn_metadata.output_schema is not None:
            self.fn_metadata.output_schema = shallow(compact(self.fn_metadata.output_schema))

    async def run(self, arguments: dict[str, Any], context: Any, convert_result: bool = False) -> Any:
        """Run the tool; a `SwarmMemoryError` becomes a `ToolError` with its text, anything unforeseen stays hidden."""
        self._refuse_unknown(arguments)
        try:
            return await super().run(arguments, context, convert_result)
        except UnexpectedToolError as error:
            if isinstance(error.__cause__, SwarmMemoryError):
                raise ToolError(str(error.__cause__)) from error.__cause__
            if isinstance(error.__cause__, MemoryError):
                raise ToolError(NO_MEMORY) from error.__cause__
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


_ANY_JSON = "#/$defs/JsonValue"


def compact(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON schema without `title` keywords, with "X or null, by default null" as an optional X.

    A reference to pydantic's definition of any JSON, which is empty, becomes "any": nothing is said twice.
    """
    if schema == {"$ref": _ANY_JSON}:
        return {}
    parts = ((key, _compact_part(key, value)) for key, value in schema.items() if key != "title")
    kept = {key: part for key, part in parts if key != "$defs" or part}
    options: list[Any] = kept.get("anyOf", [])
    if {"type": "null"} in options and "default" in kept and kept["default"] is None:
        del kept["anyOf"], kept["default"]
        others = [option for option in options if option != {"type": "null"}]
        kept = {**(others[0] if len(others) == 1 else {"anyOf": others}), **kept}
    return kept


def shallow(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an answer with the kinds of its fields alone: what is within them their values show."""
    fields: dict[str, dict[str, Any]] = schema.get("properties", {})
    kinds = {name: {"type": "object"} if "$ref" in field else _kind(field) for name, field in fields.items()}
    return {"type": "object", "properties": kinds}


def _kind(field: dict[str, Any]) -> dict[str, Any]:
    return {"type": field["type"]} if "type" in field else {}


def _compact_part(key: str, value: Any) -> Any:
    if key in {"properties", "$defs"}:
        return {name: compact(part) for name, part in value.items() if key != "$defs" or part}
    if key == "additionalProperties" and isinstance(value, dict):
        return compact(cast(dict[str, Any], value)) or True
    if isinstance(value, list):
        return [_compact_part("", part) for part in cast(list[Any], value)]
    return compact(cast(dict[str, Any], value)) if isinstance(value, dict) else value
