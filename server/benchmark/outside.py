"""An outside memory server, reached over MCP as a file describes it: how it is started, and which tool does what."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from pydantic import Field, JsonValue

from swarm_memory.schema.base import Model
from swarm_memory.schema.errors import ConfigError

if TYPE_CHECKING:
    from mcp.client import Client

Values = Mapping[str, str | int]


class ToolUse(Model):
    """One tool of an outside system; {id}, {content}, {group}, {time}, {query}, {k} in arguments stand for values."""

    tool: str = Field(min_length=1)
    arguments: dict[str, JsonValue]
    results: str = ""
    """Where the hits (of a search) or the id (of storing) stand in the answer: keys and numbers, with dots between."""
    id: str = ""
    """Where the id stands in a hit; it is the one that storing answered with, or the item's own."""
    text: str = ""
    """Where the text stands in a hit, for a system that tells no id; it is matched with the content."""


class OutsideSystem(Model):
    """A memory system that speaks MCP over stdio."""

    name: str = Field(min_length=1, max_length=60)
    command: tuple[str, ...] = Field(min_length=1)
    env: dict[str, str] = Field(default_factory=dict)
    """{home} in a value stands for a folder of its own."""
    store: ToolUse
    search: ToolUse
    timeout_s: float = Field(default=30.0, gt=0, le=600)
    start: ToolUse | None = None
    """In scenes: what an agent calls when a session begins."""
    searches_at: tuple[Literal["prompt", "failure"], ...] = ("prompt", "failure")
    """In scenes: when it searches, with the task or with the error as {query}; {script} is the script in question."""
    read: ToolUse | None = None
    """In scenes: what it calls for each hit, with its {id}, where a search tells ids alone."""
    store_cure: ToolUse | None = None
    """In scenes: what it calls instead of `store` where an error was ended: {error}, {script}, {wrong}, {right}."""
    k: int = Field(default=5, ge=1, le=50)
    """In scenes: hits that it asks for, and reads."""
    how: str = Field(default="", max_length=400)
    """In scenes: how it was run, for the report."""


class Answer(NamedTuple):
    """What a tool answered."""

    content: Any
    """Its structure, or that of its text where this is JSON, or the text."""
    seen: str
    """What a model is shown of it: the structure where there is one, and no text beside it."""
    is_error: bool


class OutsideServer:
    """Starts processes of one system, each in an empty folder that is removed afterwards, and calls their tools."""

    def __init__(self, config: OutsideSystem, stack: AsyncExitStack) -> None:
        self.config, self._stack = config, stack
        self.folders: list[Path] = []
        """Where its processes run."""

    async def start(self, home: Path | None = None) -> "Client":
        """Start a process; `home` is its HOME unless the file names one. Raises `ConfigError`."""
        from mcp.client import Client
        from mcp.client.stdio import StdioServerParameters
        from mcp.shared.exceptions import MCPError

        config = self.config
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        self.folders.append(Path(folder))
        program, *arguments = config.command
        own = str(home or folder)
        environment = ({} if home is None else {"HOME": own}) | config.env
        environment = {name: value.replace("{home}", own) for name, value in environment.items()}
        parameters = StdioServerParameters(command=program, args=arguments, env=environment, cwd=folder)
        client = Client(parameters, read_timeout_seconds=config.timeout_s)
        try:
            return await self._stack.enter_async_context(client)
        except (MCPError, ExceptionGroup) as error:
            if isinstance(error, ExceptionGroup) and error.split(MCPError)[1] is not None:
                raise
            raise ConfigError(f"{config.name}: {program} gave no MCP answer: {str(error)[:300]}") from error
        except OSError as error:
            raise ConfigError(f"{config.name}: {program} cannot be started: {error.strerror}") from error

    async def ask(self, client: "Client", use: ToolUse, values: Values) -> Answer:
        """Call a tool. Raises `ConfigError` for a server that does not answer."""
        from mcp.shared.exceptions import MCPError

        arguments = {name: _filled(value, values) for name, value in use.arguments.items()}
        try:
            result = await client.call_tool(use.tool, arguments)
        except MCPError as error:
            raise ConfigError(f"{self.config.name}: {use.tool} failed: {str(error)[:300]}") from error
        text = "\n".join(part.text for part in result.content if part.type == "text")
        if result.structured_content is not None:
            structure: Any = result.structured_content
            seen = text if result.is_error else json.dumps(structure, ensure_ascii=False)
            return Answer(structure, seen, bool(result.is_error))
        try:
            return Answer(json.loads(text), text, bool(result.is_error))
        except (json.JSONDecodeError, RecursionError):
            return Answer(text, text, bool(result.is_error))

    async def call(self, client: "Client", use: ToolUse, values: Values) -> Any:
        """Return the content of a tool's answer. Raises `ConfigError`, for a refusal too."""
        answer = await self.ask(client, use, values)
        if answer.is_error:
            raise ConfigError(f"{self.config.name}: {use.tool} refused: {str(answer.content)[:300]}")
        return answer.content


def _filled(value: JsonValue, values: Values) -> JsonValue:
    """Put values in the place of their names; a string that is one name alone becomes the value itself."""
    if isinstance(value, list):
        return [_filled(each, values) for each in value]
    if isinstance(value, dict):
        return {key: _filled(each, values) for key, each in value.items()}
    if not isinstance(value, str):
        return value
    for name, given in values.items():
        if value == f"{{{name}}}":
            return given
    names = sorted(values, key=lambda name: value.find(f"{{{name}}}"))
    return _replaced(value, names, values)


def _replaced(text: str, names: Sequence[str], values: Values) -> str:
    """Replace each name once, from left to right, so that a name inside a value means nothing."""
    done = ""
    for name in names:
        before, found, after = text.partition(f"{{{name}}}")
        if found:
            done, text = f"{done}{before}{values[name]}", after
    return done + text


def at(answer: Any, path: str) -> Any:
    """Return what stands at a path of keys and numbers in an answer; None where there is nothing."""
    for step in filter(None, path.split(".")):
        if isinstance(answer, dict):
            answer = cast("dict[str, Any]", answer).get(step)
        elif isinstance(answer, list) and step.isdecimal() and int(step) < len(cast("list[Any]", answer)):
            answer = cast("list[Any]", answer)[int(step)]
        else:
            return None
    return answer


def listed(value: Any) -> list[Any]:
    """Return a list as it is, one value as a list, and nothing as an empty one."""
    return [] if value is None else list(cast("list[Any]", value)) if isinstance(value, list) else [value]
