"""Checks a request to index something (what it is, whether it may be read or started) and picks the reader for it."""

import os
from collections.abc import AsyncIterable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from operator import itemgetter
from pathlib import Path

import anyio
from pydantic import BaseModel, ConfigDict, JsonValue

from swarm_memory.schema.errors import ConfigError, InputError
from swarm_memory.schema.job import Job, Report
from swarm_memory.schema.settings import SourceSettings
from swarm_memory.schema.source import IndexingReport, ReadKind
from swarm_memory.server.sources.code import language_of, read_code
from swarm_memory.server.sources.documents import is_document, read_documents
from swarm_memory.server.sources.files import Group, read_bytes
from swarm_memory.server.sources.openapi import API_SUFFIXES, WANTED, has_api_fragments, looks_like_api, read_openapi
from swarm_memory.server.sources.tool_lists import (
    MAX_BYTES,
    is_mcp_config,
    looks_like_tools,
    read_json_tools,
    read_servers,
)
from swarm_memory.server.sources.workers import prepare
from swarm_memory.server.streaming import in_thread
from swarm_memory.tools.ports.sources import ReadGroup
from swarm_memory.tools.sources.sources import index_source
from swarm_memory.tools.toolbox import Toolbox

INDEX_SOURCES, REFRESH = "index_sources", "refresh_sources"
"""Kinds of jobs; a project has one refresh job, whose key is its kind."""

REFRESH_S = 120.0
"""How long the sources of a project may be refreshed when a server starts."""

_KINDS: Mapping[ReadKind, tuple[Callable[..., Iterator[Group]], str]] = {
    "tool": (read_json_tools, "a .mcp.json, or lists of functions in JSON"),
    "document": (read_documents, "texts such as .md and .txt, HTML, PDF, conversations in JSON"),
    "code": (read_code, "the source files of known languages"),
    "api": (read_openapi, "OpenAPI 3 in .json, .yaml and .yml, and endpoints like RapidAPI's in .json"),
}
"""The reader for each kind of source, and what it reads, as told to a caller who named something else."""


class IndexRequest(BaseModel):
    """The payload of an indexing job."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    kind: ReadKind
    path: str | None = None
    """A file or folder, relative to the project's root; by default `.mcp.json` for tools, else the whole project."""


@dataclass(frozen=True, slots=True)
class Rights:
    """What the caller may do: an agent only what the user's settings allow, the user more."""

    any_folder: bool = False
    start_servers: bool = False
    written_before: datetime | None = None
    """For an automatic refresh, when the source was indexed: a path that now leads elsewhere is not read, and a
    .mcp.json written to since then starts no server. What a pull brought is neither shown nor run."""


NO_RIGHTS = Rights()


async def index(
    toolbox: Toolbox, asked: IndexRequest, root: Path, rights: Rights = NO_RIGHTS, on_progress: Report | None = None
) -> IndexingReport:
    """Index what is requested, in the project in `root`.

    Raises `InputError` for a path that does not exist or may not be read, `ConfigError` for servers not to be started.
    """
    path = await check(toolbox, asked, root, rights)
    database = await _database(toolbox)

    def allows(name: str) -> bool:
        # Closing the database's file would drop the locks that this process has on it.
        return ".swarm" not in Path(name).parts and not (path / name).name.startswith(database.name)

    read, what = _KINDS[asked.kind]
    groups: AsyncIterable[ReadGroup] = in_thread(partial(read, path, allows=allows))
    if asked.kind == "tool" and path.is_file() and is_mcp_config(path):
        groups = read_servers(path, folder=root, environ=os.environ)
    real = root.resolve()  # noqa: ASYNC240 - one short look
    location = (path.relative_to(real) if path.is_relative_to(real) else path).as_posix()
    if rights.written_before is not None and location != asked.path:
        raise InputError(f"{asked.path} is now a link to {location}: index that yourself if you want it")
    done = await index_source(toolbox, asked.kind, location, groups, on_progress=on_progress, prepare=prepare)
    if done.reason is not None and not done.faults:
        return done.model_copy(update={"reason": f"{done.reason}; this kind reads {what}, but no ignored files"})
    if done.reason is None and asked.kind == "document" and await anyio.to_thread.run_sync(has_api_fragments, path):
        notice = f"{path.name} looks like an API description but was read as a document: {WANTED}"
        return done.model_copy(update={"notices": (*done.notices, notice)})
    return done


async def refresh(toolbox: Toolbox, job: Job, report: Report, *, root: Path) -> dict[str, JsonValue]:
    """Index the sources of the project in `root` again, those indexed longest ago first.

    This takes at most `REFRESH_S`, and each source at most a quarter of the time left, so that slow ones do not block
    the others; the next refresh continues. Only what was indexed before is read, with the permissions that the settings
    give an agent. A source that may not be read, is gone or fails stays as it was indexed, and the reason is reported.
    """
    listed = await toolbox.store.sources.list_sources(toolbox.scope)
    sources = [
        (IndexRequest(kind=each.kind, path=each.location), each.indexed_at) for each in listed if each.kind != "github"
    ]
    left: dict[str, JsonValue] = {f"{asked.kind} {asked.path}": "there was no time left" for asked, _ in sources}
    changed: dict[str, JsonValue] = {}
    with anyio.move_on_after(REFRESH_S) as whole:
        for asked, indexed_at in sorted(sources, key=itemgetter(1)):
            await toolbox.give_way()
            name = f"{asked.kind} {asked.path}"
            share_s = (whole.deadline - anyio.current_time()) / 4
            left[name] = f"it did not finish within its {share_s:.0f} s"
            try:
                with anyio.move_on_after(share_s):
                    done = await index(toolbox, asked, root, Rights(written_before=indexed_at), report)
                    del left[name]
                    if done.passages or done.removed:
                        changed[name] = done.passages
            except (InputError, ConfigError, OSError) as error:
                left[name] = str(error)
    return {"looked_at": len(sources) - len(left), "changed": changed, "left": left}


async def check(toolbox: Toolbox, asked: IndexRequest, root: Path, rights: Rights = NO_RIGHTS) -> Path:
    """Return the real path of what is requested, before any of it is read. Raises as `index`."""
    settings = toolbox.settings.sources
    path = checked_path(asked, root, settings, rights)
    database = await _database(toolbox)
    if ".swarm" in path.parts or (path.parent == database.parent and path.name.startswith(database.name)):
        raise InputError(f"{path} belongs to the memory database and is not read")
    if asked.kind == "tool" and path.is_file() and is_mcp_config(path):
        real = root.resolve()  # noqa: ASYNC240 - one short look
        is_allowed = path.is_relative_to(real) and real in _folders(settings.allow_mcp_servers)
        if not (rights.start_servers or is_allowed):
            raise ConfigError(
                f"{path} names MCP servers, and starting them runs the commands in it. Read it; then either run "
                f"`swarm-memory sources index --kind tool --start-servers` yourself, or add {real} to the list "
                "sources.allow_mcp_servers in your own settings file"
            )
        status = path.stat()
        written = max(status.st_mtime, status.st_ctime)  # the latter cannot be set, and says something else on Windows
        if rights.written_before is not None and written > rights.written_before.timestamp():
            raise ConfigError(f"{path} has been written to since it was indexed: read it, then index it again yourself")
    return path


async def _database(toolbox: Toolbox) -> Path:
    return Path((await toolbox.store.health()).path).resolve()  # noqa: ASYNC240 - one short look


def checked_path(asked: IndexRequest, root: Path, settings: SourceSettings, rights: Rights = NO_RIGHTS) -> Path:
    """Return the real path of what is requested; links are followed first, so that none leads out.

    Whether something outside exists is not disclosed.
    """
    given = Path(asked.path or (".mcp.json" if asked.kind == "tool" else "."))
    missing = InputError(f"{root / given} does not exist: give path as a file or folder relative to {root}")
    try:
        path = (root / given.expanduser()).resolve()
        is_there = path.exists()
    except (OSError, RuntimeError, ValueError):
        raise missing from None
    allowed = [root.resolve(), *_folders(settings.allowed_folders)]
    if not rights.any_folder and not any(path.is_relative_to(folder) for folder in allowed):
        raise InputError(
            f"{path} is outside the project: add its folder to sources.allowed_folders in your own settings, "
            "or run `swarm-memory sources index` yourself"
        )
    if not is_there:
        raise missing
    return path


def _folders(entries: Sequence[str]) -> list[Path]:
    return [Path(entry).expanduser().resolve() for entry in entries]


def kinds_of(root: Path) -> list[ReadKind]:
    """Return the kinds that a folder may hold, or the kind of a file: a document if it is nothing else.

    Raises `InputError` when there is no such file or folder.
    """
    if root.is_dir():
        return list(_KINDS)
    if not root.exists():
        raise InputError(f"{root} is neither a file nor a folder: name one that exists")
    suffix, data = root.suffix.lower(), b""
    with suppress(InputError):  # its reader says why
        data = read_bytes(root, MAX_BYTES)
    if suffix in API_SUFFIXES and looks_like_api(data):
        return ["api"]
    if suffix == ".json" and (is_mcp_config(root) or looks_like_tools(data)):
        return ["tool"]
    is_code = suffix not in API_SUFFIXES and not is_document(root.name, suffix) and language_of(root.name) is not None
    return ["code" if is_code else "document"]
