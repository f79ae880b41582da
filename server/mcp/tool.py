"""Makes the tools of the MCP server, with strict arguments, actionable errors and a token limit on answers."""

import inspect
import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias, cast

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import to_jsonable_python

from swarm_memory.schema.errors import OUT_OF_RAM, InputError, NotAllowed, SwarmMemoryError, is_out_of_ram
from swarm_memory.schema.job import Progress
from swarm_memory.server.access.roles import TOOLS, caller_of, role_of_call
from swarm_memory.server.operations.operation import Only, Operation, Row, Site
from swarm_memory.server.operations.work import of_job
from swarm_memory.server.served_bank import ServedBank
from swarm_memory.tools.text.cleaning import faults

if TYPE_CHECKING:
    from swarm_memory.tools.ports.records import HostSession
    from swarm_memory.tools.toolbox import Toolbox

AppContext: TypeAlias = Context[ServedBank]


@dataclass(frozen=True)
class McpInvocation(Site):
    """Where an agent calls an operation: the running server, which does long work as a job."""

    is_users: ClassVar[bool] = False
    bank: ServedBank
    ctx: AppContext

    @property
    def root(self) -> Path:
        return self.bank.root

    @property
    def folders(self) -> tuple[Path, ...]:
        return self.bank.transcript_folders

    @property
    def unmade_bank(self) -> Path | None:
        return None if self.bank.is_made else self.bank.place.database

    async def toolbox(self) -> "Toolbox":
        toolbox, speakers = await self.bank.toolbox(), self.bank.speakers
        if self.ctx.headers is not None:  # over HTTP nobody can tell the connections of one person apart
            speakers = (f"{speakers[-1]}-{toolbox.person.id if toolbox.person else 'all'}",)
        return replace(toolbox, speakers=speakers)

    async def for_reading(self) -> "Toolbox":
        return await self.bank.for_reading()

    async def session(self) -> "HostSession | None":
        """Return the session of the one client over stdio; None over HTTP, where a client's session is unknown."""
        return await self.bank.session() if self.ctx.headers is None else None

    async def report(self, progress: Progress) -> None:
        await self.ctx.report_progress(progress.done, progress.total, progress.message or None)

    def wake(self) -> None:
        self.bank.wake_worker()

    def waiting(self) -> AbstractContextManager[None]:
        return self.bank.serving(-1)

    async def work(self, kind: str, payload: Mapping[str, JsonValue], key: str | None = None) -> Row:
        """Queue a job, wait for its end as long as a host would, and return its state then."""
        from swarm_memory.server.jobs.control import run_as_job

        toolbox = await self.toolbox()
        with self.waiting():
            ended = await run_as_job(toolbox, kind, payload, key=key, wake=self.wake, on_progress=self.report)
        if ended.status == "failed":
            raise InputError(ended.error or "the job failed without saying why")
        return of_job(ended)


class StrictTool(Tool):
    """The SDK's tool silently ignores unknown arguments and hides our errors; this one does neither.

    An answer longer than `output.max_tokens` is cut at a boundary.
    """

    def model_post_init(self, context: Any, /) -> None:
        """Close the published schemas, and make them short: an agent pays for every token of them."""
        self.parameters = compact_schema(self.parameters) | {"additionalProperties": False}
        if self.fn_metadata.output_schema is not None:  # only the names of fields: their values show the rest
            names = self.fn_metadata.output_schema.get("properties", {})
            self.fn_metadata.output_schema = {"type": "object", "properties": {name: {} for name in names}}
        self.fn_metadata.arg_model = type("Strict", (self.fn_metadata.arg_model,), {}, extra="forbid")

    async def run(self, arguments: dict[str, Any], context: Any, convert_result: bool = False) -> Any:
        """Run the tool; a `SwarmMemoryError` becomes a `ToolError` with its text, anything unforeseen stays hidden."""
        bank: ServedBank = context.request_context.lifespan_context
        try:
            what = f"{self.name} {arguments['action']}" if "action" in arguments else self.name
            caller_of(context.request_context.request).require(role_of_call(self.name, arguments), what)
            with bank.serving():
                result = await super().run(arguments, context, convert_result)
        except (NotAllowed, ToolError) as error:
            cause = error if isinstance(error, NotAllowed) else error.__cause__
            if isinstance(cause, SwarmMemoryError):
                raise ToolError(str(cause)) from cause
            if isinstance(cause, ValidationError) and not isinstance(error, UnexpectedToolError):
                refusal, known = faults(cause), ", ".join(self.parameters.get("properties", {})) or "no arguments"
                if any(each["type"] == "extra_forbidden" and len(each["loc"]) == 1 for each in cause.errors()):
                    refusal = f"{self.name} takes {known}. {refusal}"
                raise ToolError(refusal) from cause
            if is_out_of_ram(cause):
                raise ToolError(OUT_OF_RAM) from cause
            raise
        content: Row = result.structured_content or {}
        if bank.max_output_tokens is None or is_within(content, bank.max_output_tokens):
            return result
        offset = arguments.get("offset") or 0 if "offset" in self.parameters.get("properties", {}) else None
        return answered(capped(content, bank.max_output_tokens, offset))


def tool_of(operation: Operation) -> StrictTool:
    """Make the tool of an operation, described by its docstring, for callers with at least its role.

    A schema is published only for an answer that is a model: other answers show their own shape, and all schemas
    together must cost an agent less than 5,000 tokens.
    """

    async def handler(ctx: AppContext, **arguments: Any) -> CallToolResult:
        answer = await operation.run(McpInvocation(ctx.request_context.lifespan_context, ctx), **arguments)
        return answered(answer, getattr(answer, "text", None))

    signature = inspect.signature(operation.run)
    first, *others = signature.parameters.values()
    published = signature.return_annotation
    has_schema = inspect.isclass(published) and issubclass(published, BaseModel)
    returns = Annotated[CallToolResult, published] if has_schema else CallToolResult
    agents = (each for each in others if Only.USER not in getattr(each.annotation, "__metadata__", ()))
    given = [first.replace(name="ctx", annotation=AppContext), *agents]
    handler.__name__ = operation.run.__name__
    handler.__dict__["__signature__"] = signature.replace(parameters=given, return_annotation=returns)
    handler.__annotations__ = {each.name: each.annotation for each in given} | {"return": returns}
    made = StrictTool.from_function(
        handler,
        title=operation.title,
        description=inspect.getdoc(operation.run),
        annotations=ToolAnnotations.model_validate({"open_world_hint": False, **operation.hints}),
        meta=operation.meta,
    )
    assert isinstance(made, StrictTool)
    TOOLS[made.name] = operation.role
    return made


def answered(answer: BaseModel | Row, text: str | None = None) -> CallToolResult:
    """Return the answer as structured content, and as text, which is by default the same JSON.

    Fields of models that are None are left out. A client shows its model one of the two, the text if it knows no
    structured content.
    """
    content = to_jsonable_python(answer, exclude_none=True)
    shown = _as_text(content) if text is None else text
    return CallToolResult(content=[TextContent(type="text", text=shown)], structured_content=content)


def compact_schema(part: Any) -> Any:
    """Return a JSON schema without `title` keywords, with "X or null, by default null" as an optional X.

    A reference to pydantic's definition of any JSON, which is empty, becomes the empty schema. What JSON schema takes
    for granted and defaults that are empty are left out too, so that nothing is said twice.
    """
    if isinstance(part, list):
        return [compact_schema(each) for each in cast(list[Any], part)]
    if not isinstance(part, dict):
        return part
    if part == {"$ref": "#/$defs/JsonValue"}:
        return {}
    schema = cast(dict[str, Any], part)
    kept = {
        key: compact_schema(value)
        for key, value in schema.items()
        if key != "$defs" and (key != "title" or isinstance(value, dict))  # a field may have that name
    }
    definitions = {name: compact_schema(_definition(each)) for name, each in schema.get("$defs", {}).items()}
    if used := {name: each for name, each in definitions.items() if each}:
        kept["$defs"] = used
    if kept.get("additionalProperties") in (True, {}):
        del kept["additionalProperties"]
    if kept.get("default") in ([], ""):
        del kept["default"]
    options: list[Any] = kept.get("anyOf", [])
    if {"type": "null"} in options and kept.get("default", ...) is None:
        others = [option for option in options if option != {"type": "null"}]
        del kept["anyOf"], kept["default"]
        kept = {**(others[0] if len(others) == 1 else {"anyOf": others}), **kept}
    return kept


def _definition(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a definition with only its fields, without their length limits: an error names a limit that is broken."""
    kept = {key: value for key, value in schema.items() if key not in ("description", "additionalProperties")}
    for field in kept.get("properties", {}).values():
        for bound in ("minLength", "maxLength", "maxItems"):
            field.pop(bound, None)
    return kept


NOTE_TOKENS = 80
"""Tokens kept free for the note on what was cut."""

_MIN_STRING_CHARS = 200

_TEXT_WEIGHT = 0.25
"""A text weighs less than a list when cutting: a list's entries can be requested again, the rest of a text cannot."""


def is_within(content: Row, max_tokens: int) -> bool:
    """Whether an answer is within the limit; the tokens of a short one need not be counted."""
    text = _as_text(content)
    most = len(text) if text.isascii() else 3 * len(text)  # an emoji counts as three
    return most <= max_tokens or _tokens(content) <= max_tokens


def capped(content: Row, max_tokens: int, offset: int | None = None) -> Row:
    """Return an answer cut to the limit: its longest lists lose their last entries, its longest texts are shortened.

    Its field `cut` says how many tokens are missing and how to get them: by the next `offset` where the tool has one.
    """
    left: Row = json.loads(json.dumps(content))
    how = "ask for less at a time"
    while (tokens := _tokens(left)) > max_tokens - NOTE_TOKENS:
        heaviest = max(_parts(left), key=lambda part: part[0], default=None)
        if heaviest is None:
            left = {}
            break
        _, holder, key = heaviest
        value, kept = holder[key], 1 / 2 if tokens > 2 * max_tokens else 15 / 16
        if isinstance(value, str):
            part = value[: int(len(value) * min(kept, 3 / 4))]
            holder[key] = f"{part.rpartition(' ')[0] or part} …"
            continue
        del value[max(1, min(len(value) - 1, int(len(value) * kept))) :]
        if holder is left and offset is not None:
            how = f"call again with offset={offset + len(value)}"
    missing = _tokens(content) - _tokens(left)
    note = f"{missing:,} tokens were left out: {how}, or raise output.max_tokens"
    return left | {"cut": {"left_out_tokens": missing, "how": note}}


def _parts(value: Any) -> Iterator[tuple[float, Any, Any]]:
    """Yield the weight, holder and key of each part that can be shortened: a list of several entries or a long text."""
    for key, part in cast(Row, value).items() if isinstance(value, dict) else enumerate(cast(list[Any], value)):
        if isinstance(part, str) and len(part) > _MIN_STRING_CHARS:
            yield _TEXT_WEIGHT * len(part), value, key
        if isinstance(part, list) and len(cast(list[Any], part)) > 1:
            yield len(_as_text(cast(list[Any], part)[1:])), value, key
        if isinstance(part, dict | list):
            yield from _parts(cast(Any, part))


def _tokens(value: object) -> int:
    from swarm_memory.tools.text.tokens import count_tokens

    return count_tokens(_as_text(value))


def _as_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
