"""How a tool of the MCP server is made and answers: strict arguments, errors to act on, and a limit of tokens."""

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias, cast

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, Field, JsonValue, ValidationError
from pydantic_core import to_jsonable_python

from swarm_memory.schema.errors import InputError, NotAllowed, SwarmMemoryError, is_want_of_memory
from swarm_memory.schema.job import Progress, Report
from swarm_memory.schema.team.person import Role
from swarm_memory.server.access.roles import TOOLS, caller_of, role_of_call
from swarm_memory.server.bank import Bank
from swarm_memory.server.mcp.answers import of_job
from swarm_memory.server.mcp.arguments import unknown
from swarm_memory.server.operations.operation import Operation, Row
from swarm_memory.tools.text.cleaning import faults

if TYPE_CHECKING:
    from swarm_memory.tools.toolbox import Toolbox

NO_MEMORY = "there is not enough memory for this: nothing was half done; give it less at a time"


class StrictTool(Tool):
    """The SDK's tool ignores unknown arguments in silence and hides our errors; this one does neither.

    An answer that is longer than `output.max_tokens` allows is cut at a boundary.
    """

    def model_post_init(self, context: Any, /) -> None:
        """Close the published schemas, and make them short: an agent pays for every token of them."""
        self.parameters = compact(self.parameters) | {"additionalProperties": False}
        if self.fn_metadata.output_schema is not None:
            self.fn_metadata.output_schema = shallow(compact(self.fn_metadata.output_schema))

    async def run(self, arguments: dict[str, Any], context: Any, convert_result: bool = False) -> Any:
        """Run the tool; a `SwarmMemoryError` becomes a `ToolError` with its text, anything unforeseen stays hidden."""
        self._refuse_unknown(arguments)
        self._refuse_unallowed(arguments, context)
        try:
            with bank_of(context).serving():
                result = await super().run(arguments, context, convert_result)
        except UnexpectedToolError as error:
            if isinstance(error.__cause__, SwarmMemoryError):
                raise ToolError(str(error.__cause__)) from error.__cause__
            if is_want_of_memory(error.__cause__):
                raise ToolError(NO_MEMORY) from error.__cause__
            raise
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                raise ToolError(faults(error.__cause__)) from error.__cause__
            raise
        max_tokens = bank_of(context).max_output_tokens
        if max_tokens is None or not isinstance(result, CallToolResult):
            return result
        content: Row = result.structured_content or {}
        return (
            result if is_within(content, max_tokens) else answered(capped(content, max_tokens, self._paging(arguments)))
        )

    def _paging(self, arguments: dict[str, Any]) -> "Paging":
        known = self.parameters.get("properties", {})
        counts = tuple(name for name in ("k", "limit") if name in known)
        return Paging(arguments.get("offset") or 0 if "offset" in known else None, counts)

    def _refuse_unallowed(self, arguments: dict[str, Any], context: Any) -> None:
        what = f"{self.name} {arguments['action']}" if "action" in arguments else self.name
        try:
            needed = role_of_call(self.name, arguments)
            caller_of(context.request_context.request).require(needed, what)
        except NotAllowed as error:
            raise ToolError(str(error)) from error

    def _refuse_unknown(self, arguments: dict[str, Any]) -> None:
        for name in arguments:
            if name not in self.parameters.get("properties", {}):
                raise ToolError(unknown(self.name, name, arguments, self.parameters))


_ANY_JSON = "#/$defs/JsonValue"


def compact(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON schema without `title` keywords, with "X or null, by default null" as an optional X.

    A reference to pydantic's definition of any JSON, which is empty, becomes "any": nothing is said twice, and nothing
    that JSON schema takes for granted, nor that something is empty by default.
    """
    if schema == {"$ref": _ANY_JSON}:
        return {}
    parts = ((key, _compact_part(key, value)) for key, value in schema.items() if key != "title")
    kept = {key: part for key, part in parts if key != "$defs" or part}
    if kept.get("additionalProperties") is True:
        del kept["additionalProperties"]
    if kept.get("default") in ([], ""):
        del kept["default"]
    options: list[Any] = kept.get("anyOf", [])
    if {"type": "null"} in options and "default" in kept and kept["default"] is None:
        del kept["anyOf"], kept["default"]
        others = [option for option in options if option != {"type": "null"}]
        kept = {**(others[0] if len(others) == 1 else {"anyOf": others}), **kept}
    return kept


def shallow(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an answer with the names of its fields alone: what they are their values show."""
    return {"type": "object", "properties": {name: {} for name in schema.get("properties", {})}}


def _without_lengths(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a definition without how long they may be."""
    fields: Mapping[str, Mapping[str, Any]] = part.get("properties", {})
    kept = {
        name: {k: v for k, v in each.items() if k not in ("minLength", "maxLength", "maxItems")}
        for name, each in fields.items()
    }
    return {"properties": kept} if kept else {}


def _compact_part(key: str, value: Any) -> Any:
    if key == "$defs":  # their fields are described, and what they do not take is said when it is given
        left_out = ("description", "additionalProperties")
        value = {name: {each: part[each] for each in part if each not in left_out} for name, part in value.items()}
        value = {name: part | _without_lengths(part) for name, part in value.items()}
    if key in {"properties", "$defs"}:
        return {name: compact(part) for name, part in value.items() if key != "$defs" or part}
    if key == "additionalProperties" and isinstance(value, dict):
        return compact(cast(dict[str, Any], value)) or True
    if isinstance(value, list):
        return [_compact_part("", part) for part in cast(list[Any], value)]
    return compact(cast(dict[str, Any], value)) if isinstance(value, dict) else value


AppContext: TypeAlias = Context[Bank]

TaskId = Annotated[str | None, Field(max_length=500)]


def tool(
    handler: Callable[..., Any],
    title: str,
    hints: dict[str, bool],
    role: Role | dict[str, Role],
    meta: dict[str, Any] | None = None,
) -> StrictTool:
    """Return the tool of a handler, whose docstring is what a model reads, for whom has the least `role`.

    Only what an agent calls most publishes the schema of its answer: the others' answers show their own shape, and all
    schemas together must cost an agent less than 5,000 tokens.
    """
    annotations = ToolAnnotations.model_validate({"open_world_hint": False, **hints})
    made = StrictTool.from_function(
        handler, title=title, description=inspect.getdoc(handler), annotations=annotations, meta=meta
    )
    assert isinstance(made, StrictTool)
    TOOLS[made.name] = role
    return made


def tool_of(operation: Operation[Any]) -> StrictTool:
    """Make the tool of an operation that people call as a command, too."""

    async def handler(ctx: AppContext, **arguments: Any) -> CallToolResult:
        answer = operation.answer(await operation.run(ServedSite(ctx), **arguments))
        return answered(answer, getattr(answer, "text", None))

    signature = inspect.signature(operation.run)
    first, *others = signature.parameters.values()
    published = inspect.signature(operation.answer).return_annotation
    has_schema = inspect.isclass(published) and issubclass(published, BaseModel)
    returns = Annotated[CallToolResult, published] if has_schema else CallToolResult
    given = [first.replace(name="ctx", annotation=AppContext), *others]
    handler.__name__, handler.__doc__ = operation.run.__name__, operation.run.__doc__
    handler.__dict__["__signature__"] = signature.replace(parameters=given, return_annotation=returns)
    handler.__annotations__ = {each.name: each.annotation for each in given} | {"return": returns}
    return tool(handler, operation.title, operation.hints, operation.role, operation.meta)


class ServedSite(NamedTuple):
    """Where an agent calls an operation: the running server, which does long work as a job."""

    ctx: AppContext
    is_users: bool = False

    async def toolbox(self) -> "Toolbox":
        """Return the bank's toolbox. Raises `ConfigError`, `StorageError`."""
        return await bank_of(self.ctx).toolbox()

    async def for_reading(self) -> "Toolbox":
        """Return the bank's toolbox, or an empty one. Raises `ConfigError`, `StorageError`."""
        return await bank_of(self.ctx).for_reading()

    async def task_id(self) -> str | None:
        """Return the task of the host's session that the client belongs to."""
        return await bank_of(self.ctx).task_of(client_of(self.ctx))

    async def work(self, kind: str, payload: Mapping[str, JsonValue]) -> Row:
        """Queue a job, wait for its end as long as a host does, and return how it then stands."""
        return await waited_job(self.ctx, kind, payload)


def answered(answer: BaseModel | Row, text: str | None = None) -> CallToolResult:
    """Give the answer as structure without what is empty, and as text: by default the same JSON.

    A client shows its model one of the two; one that knows no structure shows the text.
    """
    content = to_jsonable_python(answer, exclude_none=True)
    told = _as_text(content) if text is None else text
    return CallToolResult(content=[TextContent(type="text", text=told)], structured_content=content)


async def answered_job(
    ctx: Context[Any], kind: str, payload: Mapping[str, JsonValue], key: str | None = None
) -> CallToolResult:
    """Answer with what `waited_job` returns."""
    return answered(await waited_job(ctx, kind, payload, key))


async def waited_job(ctx: Context[Any], kind: str, payload: Mapping[str, JsonValue], key: str | None = None) -> Row:
    """Queue a job, wait for its end as long as a host does, and return how it then stands.

    Raises `InputError` with what it says when it has failed.
    """
    from swarm_memory.server.jobs.control import run_as_job

    bank = bank_of(ctx)
    toolbox = await bank.toolbox()
    with bank.serving(-1):
        ended = await run_as_job(toolbox, kind, payload, key=key, wake=bank.wake_worker, on_progress=telling(ctx))
    if ended.status == "failed":
        raise InputError(ended.error or "the job failed and does not say why")
    return of_job(ended)


def bank_of(ctx: Context[Any]) -> Bank:
    """Return the bank of the server that was called."""
    return ctx.request_context.lifespan_context


def client_of(ctx: Context[Any]) -> str | None:
    """Return what tells the caller from other clients: over stdio there is one; None over HTTP."""
    return "" if ctx.headers is None else None


def telling(ctx: Context[Any]) -> Report:
    """Return what passes a job's progress on to the client."""

    async def tell(progress: Progress) -> None:
        await ctx.report_progress(progress.done, progress.total, progress.message)

    return tell


NOTE_TOKENS = 80
"""Kept free for the note."""

_MIN_STRING_CHARS = 200
_BOUNDARIES = ("\n\n", "\n", ". ", " ")
_CHARS_PER_TOKEN = 7
"""No token of the estimate has more letters."""


class Paging(NamedTuple):
    """What a caller can ask of the tool to get what was left out."""

    offset: int | None = None
    """What the call gave as its offset; None when the tool has none."""
    counts: Sequence[str] = ()
    """Those of its arguments that say how many are wanted."""


class _Cut(NamedTuple):
    """Where something can be shortened, and what that saves at most."""

    holder: Any
    key: str | int
    saves: int
    is_top: bool


def is_within(content: Row, max_tokens: int) -> bool:
    """Whether an answer is within the limit: a short one surely is, without its tokens being counted."""
    text = _as_text(content)
    most = len(text) if text.isascii() else 3 * len(text)  # an emoji counts as three
    return most <= max_tokens or _count(text) <= max_tokens


def capped(content: Row, max_tokens: int, paging: Paging) -> Row:
    """Return an answer cut to the limit: the last entries of its longest lists are left out, its longest texts cut.

    `cut` then says how many tokens are missing and how to get them.
    """
    left: Row = json.loads(json.dumps(content))
    room = max_tokens - NOTE_TOKENS
    shown: int | None = None
    while (excess := _tokens(left) - room) > 0:
        cut = _heaviest(left)
        if cut is None:
            left = {}
            break
        value = cut.holder[cut.key]
        if isinstance(value, list):
            _shorten_list(cast(list[Any], value), excess)
            shown = len(cast(list[Any], value)) if cut.is_top else shown
        else:
            cut.holder[cut.key] = _beginning(value, _count(value) - excess - 1)
    missing = _tokens(content) - _tokens(left)
    left["cut"] = {"left_out_tokens": missing, "how": _note(missing, shown, paging)}
    return left


def _heaviest(value: Row) -> _Cut | None:
    """Return the longest list of more than one entry; where none weighs enough, the longest text."""
    cuts = list(_cuts(value, 0))
    lists = [cut for cut in cuts if isinstance(cut.holder[cut.key], list)]
    texts = [cut for cut in cuts if not isinstance(cut.holder[cut.key], list)]
    best_list = max(lists, key=lambda cut: cut.saves, default=None)
    best_text = max(texts, key=lambda cut: cut.saves, default=None)
    if best_list is None or (best_text is not None and best_text.saves > 4 * best_list.saves):
        return best_text
    return best_list


def _cuts(value: object, depth: int) -> Iterator[_Cut]:
    pairs: Iterable[tuple[Any, Any]]
    if isinstance(value, dict):
        pairs = cast(Row, value).items()
    elif isinstance(value, list):
        pairs = enumerate(cast(list[Any], value))
    else:
        return
    for key, part in pairs:
        if isinstance(part, list):
            entries = cast(list[Any], part)
            if len(entries) > 1:
                yield _Cut(cast(Any, value), key, _tokens(entries[1:]), depth == 0)
        elif isinstance(part, str) and len(part) > _MIN_STRING_CHARS:
            yield _Cut(cast(Any, value), key, _count(part), False)
        yield from _cuts(cast(object, part), depth + 1)


def _shorten_list(entries: list[Any], excess: int) -> None:
    """Drop entries from the end until so many tokens are saved or one is left."""
    saved = 0
    while len(entries) > 1 and saved < excess:
        saved += _tokens(entries.pop())


def _beginning(text: str, max_tokens: int) -> str:
    """Return the beginning of a text, at most so many tokens of it, up to a paragraph, line, sentence or word."""
    low, high = 0, min(len(text), max(0, max_tokens) * _CHARS_PER_TOKEN)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _count(text[:middle]) <= max_tokens else (low, middle - 1)
    part = text[:low]
    for boundary in _BOUNDARIES:
        at = part.rfind(boundary)
        if at > len(part) // 2:
            part = part[: at + 1]
            break
    part = part.rstrip()
    return f"{part} …" if part else ""


def _note(missing: int, shown: int | None, paging: Paging) -> str:
    """Say how many tokens are missing, and how to get them."""
    if shown is not None and paging.offset is not None:
        way = f"call again with offset={paging.offset + shown}"
    elif paging.counts:
        way = f"call again with a smaller {' or '.join(paging.counts)}"
    else:
        way = "ask for less at once"
    return f"{missing:,} tokens were left out: {way}, or raise output.max_tokens"


def _count(text: str) -> int:
    from swarm_memory.tools.text.tokens import count_tokens

    return count_tokens(text)


def _tokens(value: object) -> int:
    return _count(_as_text(value))


def _as_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
