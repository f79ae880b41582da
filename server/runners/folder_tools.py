"""The tools that a chat model may be allowed in a rollout: look, write and run in its own copy of a working folder.

A path never leads out of the copy, and a command line is run only as the settings allow it. Who calls is not known.
"""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
from pydantic import JsonValue

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.rollout import RolloutRequest, ToolName
from swarm_memory.schema.settings import MattsSettings
from swarm_memory.server.child_process import run
from swarm_memory.server.runners.model import AgentTool
from swarm_memory.server.runners.permission import allowed_commands, child_environment, permitted
from swarm_memory.server.runners.working_copy import WorkingCopies

MAX_FILE_BYTES, MAX_LISTED = 1_000_000, 500
MAX_OUTPUT_BYTES, COMMAND_LIMIT_S = 1_000_000, 120.0

_Action = Callable[[Path, Mapping[str, JsonValue]], Awaitable[str]]


class FolderTools:
    """Gives each rollout its copy of a folder and those of the tools in it that the caller named."""

    def __init__(
        self,
        names: Sequence[ToolName],
        copies: WorkingCopies,
        settings: MattsSettings,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._names, self._copies, self._settings = tuple(dict.fromkeys(names)), copies, settings
        self._environ = dict(os.environ if environ is None else environ)

    async def tools(self, request: RolloutRequest) -> Mapping[str, AgentTool]:
        """Make the rollout's folder and return its tools by name. Raises `InputError`, `ConfigError`."""
        place = (await anyio.to_thread.run_sync(self._copies.make, request)).resolve()
        return {name: self._tool(name, place, request) for name in self._names}

    async def settle(self, run_id: str, best: int | None) -> str | None:
        """Delete the copies of all rollouts but the best one's, and return where that is."""
        return await anyio.to_thread.run_sync(self._copies.clear, run_id, best)

    def _tool(self, name: ToolName, place: Path, request: RolloutRequest) -> AgentTool:
        relative: dict[str, JsonValue] = {"type": "string", "description": "Relative to the working folder"}
        path: dict[str, JsonValue] = {"path": relative}
        match name:
            case "Read":
                return AgentTool(name, "Returns the text of a file.", _schema(path), partial(_read, place))
            case "List":
                return AgentTool(name, "Lists the files below a folder.", _schema(path), partial(_list, place))
            case "Write":
                given: dict[str, JsonValue] = {"path": relative, "content": {"type": "string"}}
                return AgentTool(name, "Writes a file, all of it.", _schema(given), partial(_write, place))
            case "Bash":
                lines = [" ".join(words) for words in allowed_commands(self._settings)]
                said = (
                    f"Runs one of these command lines, exactly as it stands: {'; '.join(lines) or 'none is allowed'}."
                )
                line: dict[str, JsonValue] = {"command": {"type": "string"}}
                return AgentTool(name, said, _schema(line), partial(self._run, place, request))

    async def _run(self, place: Path, request: RolloutRequest, arguments: Mapping[str, JsonValue]) -> str:
        """Run a command line in the copy, without a shell; it must be allowed exactly as it stands."""
        words = permitted(str(arguments["command"]), self._settings)
        printed = bytearray()
        code: int | None = None
        with anyio.move_on_after(min(COMMAND_LIMIT_S, request.timeout_s)):
            finished = await run(
                words,
                stdin=b"",
                cwd=place,
                environment=child_environment(self._environ, request),
                max_output_bytes=MAX_OUTPUT_BYTES,
                printed=printed,
            )
            code, printed = finished.code, bytearray(finished.output + finished.error)
        text = printed.decode("utf-8", "replace")
        if code is None:
            return f"Exit code 124\n{text}\nended by its time limit"
        return f"Exit code {code}\n{text}" if code else text


def _schema(properties: dict[str, JsonValue]) -> dict[str, JsonValue]:
    required: list[JsonValue] = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _within(place: Path, arguments: Mapping[str, JsonValue]) -> Path:
    """Return the path that is meant. Raises `InputError` where it, or a link in it, leads out of the folder."""
    wanted = (place / str(arguments["path"])).resolve()
    if not wanted.is_relative_to(place):
        raise InputError("path must be relative and stay within the working folder")
    return wanted


async def _read(place: Path, arguments: Mapping[str, JsonValue]) -> str:
    path = anyio.Path(_within(place, arguments))
    if not await path.is_file():
        raise InputError("there is no such file: List shows those there are")
    async with await anyio.open_file(path, "rb") as file:
        data = await file.read(MAX_FILE_BYTES)
    return data.decode("utf-8", "replace")


async def _list(place: Path, arguments: Mapping[str, JsonValue]) -> str:
    root = _within(place, arguments)
    if not await anyio.Path(root).is_dir():
        raise InputError("there is no such folder")
    found = await anyio.to_thread.run_sync(_files_below, place, root)
    left = f"\n… and {len(found) - MAX_LISTED} more" if len(found) > MAX_LISTED else ""
    return "\n".join(found[:MAX_LISTED]) + left or "no files"


def _files_below(place: Path, root: Path) -> list[str]:
    found: list[str] = []
    for folder, names, files in os.walk(root):
        names[:] = sorted(name for name in names if name != ".git")
        found += [(Path(folder) / name).relative_to(place).as_posix() for name in sorted(files)]
    return found


async def _write(place: Path, arguments: Mapping[str, JsonValue]) -> str:
    path = anyio.Path(_within(place, arguments))
    await path.parent.mkdir(parents=True, exist_ok=True)
    written = await path.write_text(str(arguments["content"]), encoding="utf-8", errors="replace")
    return f"{written} characters written"
