"""An outside memory server over MCP, described by a file: its command, and which tool does what."""

import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import Field, JsonValue

from swarm_memory.schema.base import Model
from swarm_memory.schema.benchmark import BenchmarkDocument, BenchmarkQuestion
from swarm_memory.schema.errors import ConfigError, InputError
from swarm_memory.tools.benchmark.retrieval.systems import Answer, Filled, Groups

if TYPE_CHECKING:
    from mcp.client import Client

Values = Mapping[str, str | int]

MAX_PROCESSES = 12


class ToolUse(Model):
    """One tool of an outside system; {id}, {content}, {group}, {time}, {query}, {k} in arguments are placeholders."""

    tool: str = Field(min_length=1)
    arguments: dict[str, JsonValue]
    results: str = ""
    """The path to the hits (of a search) or the id (of storing) in the answer: keys and indexes, separated by dots."""
    id: str = ""
    """The path to the id in a hit: the id that storing returned, or the item's own."""
    text: str = ""
    """The path to the text in a hit, for a system that returns no id; the text is matched with the content."""


class OutsideSystem(Model):
    """A memory system that speaks MCP over stdio."""

    name: str = Field(min_length=1, max_length=60)
    command: tuple[str, ...] = Field(min_length=1)
    env: dict[str, str] = Field(default_factory=dict)
    store: ToolUse
    search: ToolUse
    timeout_s: float = Field(default=30.0, gt=0, le=600)


class OutsideMemory:
    """Starts processes of one system, each in an empty folder that is removed afterwards, and calls their two tools.

    Each group has its own process, unless the system supports groups. Answers are data: an id in them counts only if
    it is one that was stored.
    """

    def __init__(self, config: OutsideSystem, stack: AsyncExitStack) -> None:
        self.config, self.name, self._stack = config, config.name, stack
        self.folders: list[Path] = []
        """The folders in which its processes run."""
        self._clients: dict[str, Client] = {}
        self._known: dict[str, dict[str, str]] = {}
        """By group: the item's id for each id and each text that the system may return."""

    async def fill(self, groups: Groups) -> Filled:
        started = time.perf_counter()
        for group, items in groups.items():
            await self.ingest(group, items)
        return Filled(time.perf_counter() - started)

    async def ingest(self, group: str, items: Sequence[BenchmarkDocument]) -> None:
        known = self._known.setdefault(group, {})
        for item in items:
            time = "" if item.time is None else item.time.isoformat()
            values: Values = {"id": item.id, "content": item.content, "group": group, "time": time}
            answer = await self._call(group, self.config.store, values)
            known[item.id] = known[_squeezed(item.content)] = item.id
            if self.config.store.results:
                known |= {str(given): item.id for given in _listed(_at(answer, self.config.store.results))}

    async def retrieve(self, question: BenchmarkQuestion, k: int) -> Answer:
        search, known = self.config.search, self._known[question.group]
        values: Values = {"query": question.query, "k": k, "group": question.group}
        answer = await self._call(question.group, search, values)
        found = [_named(hit, search, known) for hit in _listed(_at(answer, search.results))]
        ids = list(dict.fromkeys(each for each in found if each is not None))[:k]
        return Answer(ids, bool(ids))

    async def client(self, group: str) -> "Client":
        """Return the client of a group's process, starting it if necessary. Raises `ConfigError`, `InputError`."""
        knows_groups = "{group}" in self.config.store.model_dump_json()
        key = "" if knows_groups else group
        if key not in self._clients:
            if len(self._clients) >= MAX_PROCESSES:
                raise InputError(
                    f"{self.name}: more than {MAX_PROCESSES} groups need as many processes: put {{group}} into the "
                    "arguments of its tools, or ask fewer questions with option limit"
                )
            self._clients[key] = await self._start()
        return self._clients[key]

    async def _start(self) -> "Client":
        from mcp.client import Client
        from mcp.client.stdio import StdioServerParameters
        from mcp.shared.exceptions import MCPError

        config = self.config
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        self.folders.append(Path(folder))
        program, *arguments = config.command
        parameters = StdioServerParameters(command=program, args=arguments, env=config.env, cwd=folder)
        client = Client(parameters, read_timeout_seconds=config.timeout_s)
        try:
            return await self._stack.enter_async_context(client)
        except (MCPError, ExceptionGroup) as error:
            if isinstance(error, ExceptionGroup) and error.split(MCPError)[1] is not None:
                raise
            raise ConfigError(f"{config.name}: {program} gave no MCP answer: {str(error)[:300]}") from error
        except OSError as error:
            raise ConfigError(f"{config.name}: {program} cannot be started: {error.strerror}") from error

    async def _call(self, group: str, use: ToolUse, values: Values) -> Any:
        """Call a tool; return its structured content, else its text, parsed if that is JSON.

        Raises `ConfigError` if the server refuses or does not answer.
        """
        from mcp.shared.exceptions import MCPError

        client = await self.client(group)
        arguments = {name: _filled(value, values) for name, value in use.arguments.items()}
        try:
            result = await client.call_tool(use.tool, arguments)
        except MCPError as error:
            raise ConfigError(f"{self.name}: {use.tool} failed: {str(error)[:300]}") from error
        text = "\n".join(part.text for part in result.content if part.type == "text")
        if result.is_error:
            raise ConfigError(f"{self.name}: {use.tool} refused: {text[:300]}")
        if result.structured_content is not None:
            return result.structured_content
        try:
            return json.loads(text)
        except (json.JSONDecodeError, RecursionError):
            return text


def _filled(value: JsonValue, values: Values) -> JsonValue:
    """Replace placeholders with their values; a string that is just one placeholder becomes the value itself."""
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
    """Replace each placeholder once, from left to right, so that a placeholder inside a value is left alone."""
    done = ""
    for name in names:
        before, found, after = text.partition(f"{{{name}}}")
        if found:
            done, text = f"{done}{before}{values[name]}", after
    return done + text


def _at(answer: Any, path: str) -> Any:
    """Return what is at a path of keys and indexes in an answer; None if there is nothing."""
    for step in filter(None, path.split(".")):
        if isinstance(answer, dict):
            answer = cast("dict[str, Any]", answer).get(step)
        elif isinstance(answer, list) and step.isdecimal() and int(step) < len(cast("list[Any]", answer)):
            answer = cast("list[Any]", answer)[int(step)]
        else:
            return None
    return answer


def _listed(value: Any) -> list[Any]:
    """Return a list unchanged, a single value as a list, and None as an empty list."""
    return [] if value is None else list(cast("list[Any]", value)) if isinstance(value, list) else [value]


def _named(hit: Any, search: ToolUse, known: Mapping[str, str]) -> str | None:
    """Return the id of the item that a hit refers to, by the hit's id or else by its text; None for an unknown item."""
    if search.id and (named := known.get(str(_at(hit, search.id)))):
        return named
    text = _at(hit, search.text) if search.text else hit
    return known.get(_squeezed(text)) if isinstance(text, str) else None


def _squeezed(text: str) -> str:
    return " ".join(text.split())
