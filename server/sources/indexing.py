"""A request to index something, checked: what it is, that it may be read or started, and which reader reads it."""

import os
from collections.abc import AsyncIterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

from swarm_memory.schema.errors import ConfigError, InputError
from swarm_memory.schema.job import Report
from swarm_memory.schema.settings import SourceSettings
from swarm_memory.schema.source import SOURCE_KINDS, IndexedSource, SourceKind
from swarm_memory.server.sources.code import read_code
from swarm_memory.server.sources.definitions import may_be_code
from swarm_memory.server.sources.documents import is_document, read_documents
from swarm_memory.server.sources.files import read_bytes, walk
from swarm_memory.server.sources.openapi import API_SUFFIXES, looks_like_api, read_openapi
from swarm_memory.server.sources.tool_lists import (
    MAX_BYTES,
    looks_like_tools,
    names_servers,
    read_json_tools,
    read_servers,
)
from swarm_memory.server.sources.workers import Workers
from swarm_memory.server.streaming import in_thread
from swarm_memory.tools.ports.sources import ReadGroup, SourceKey
from swarm_memory.tools.sources.sources import index_source
from swarm_memory.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from swarm_memory.server.sources.github import Repository

LocalKind = Literal["tool", "document", "code", "api"]

INDEX_SOURCES = "index_sources"
_READERS = {"tool": read_json_tools, "document": read_documents, "code": read_code, "api": read_openapi}
_DEFAULT_PATHS: Mapping[SourceKind, str] = {"tool": ".mcp.json", "document": ".", "code": ".", "api": "."}

_READ: Mapping[SourceKind, str] = {
    "tool": "a .mcp.json, or lists of functions in JSON",
    "document": "texts such as .md, .rst and .txt, HTML and PDF",
    "code": "the source files of known languages",
    "github": "its README, the code of known languages and open issues",
    "api": "OpenAPI 3 in .json, .yaml and .yml",
}
"""What is read of each kind, for whoever named something else."""


class IndexRequest(BaseModel):
    """What an indexing job is asked: its payload."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    kind: SourceKind
    path: str | None = None
    """A file or folder, relative to the project's root; `.mcp.json` for tools and the project for all else.

    Of GitHub the repository: OWNER/REPO[@REF]."""


@dataclass(frozen=True, slots=True)
class Leave:
    """What whoever asks may do: an agent what the user's settings say, the user more."""

    any_folder: bool = False
    start_servers: bool = False
    any_repository: bool = False


NO_LEAVE = Leave()


async def index(
    toolbox: Toolbox, asked: IndexRequest, root: Path, leave: Leave = NO_LEAVE, on_progress: Report | None = None
) -> IndexedSource:
    """Index what is asked, in the project in `root`.

    Raises `InputError` for a path that does not exist or lies outside of what may be read, `ConfigError` for servers
    that may not be started.
    """
    if asked.kind == "github":
        return await _index_repository(
            toolbox, checked_repository(asked.path, toolbox.settings.sources, leave), on_progress
        )
    path = await check(toolbox, asked, root, leave)
    groups = _groups(asked.kind, path, root, await _database(toolbox), toolbox.settings.sources)
    location = location_of(path, root)
    done = await index_source(toolbox, asked.kind, location, groups, on_progress=on_progress, prepare=Workers())
    if done.reason is None or done.faults:
        return done
    return done.model_copy(update={"reason": f"{done.reason}; read are {_READ[asked.kind]}, and no ignored file"})


async def check(toolbox: Toolbox, asked: IndexRequest, root: Path, leave: Leave = NO_LEAVE) -> Path:
    """Return the real path of what is asked, before anything is read of it. Raises as `index`.

    Of a repository of GitHub it is that of the project.
    """
    settings = toolbox.settings.sources
    if asked.kind == "github":
        checked_repository(asked.path, settings, leave)
        return root
    path = checked_path(asked, root, settings, leave)
    database = await _database(toolbox)
    if ".swarm" in path.parts or (path.parent == database.parent and path.name.startswith(database.name)):
        raise InputError(f"{path} belongs to the database of the memories: it is not read")
    if asked.kind == "tool" and path.is_file() and names_servers(path):
        _check_servers(path, root, settings, leave)
    return path


def checked_repository(named: str | None, settings: SourceSettings, leave: Leave = NO_LEAVE) -> "Repository":
    """Return the repository that is named. Raises `InputError`, and `ConfigError` for one that may not be read."""
    from swarm_memory.server.sources.github import Repository

    which = Repository.of(named or "")
    allowed = {line.strip().lower() for line in settings.allow_github.replace(";;", "\n").splitlines()}
    if leave.any_repository or not allowed.isdisjoint({"*", f"{which.owner}/*".lower(), which.full_name.lower()}):
        return which
    raise ConfigError(
        f"GitHub is asked for nothing unless you say so: run `swarm-memory sources index --kind github "
        f"{which.full_name}` yourself, or add the line {which.full_name} to sources.allow_github in your own settings"
    )


async def _index_repository(toolbox: Toolbox, which: "Repository", on_progress: Report | None) -> IndexedSource:
    from swarm_memory.server.sources.github import GitHub, RepositoryReader

    known = await toolbox.store.sources.groups(SourceKey(toolbox.scope, "github", which.location))
    async with GitHub.of_environment(toolbox.settings.sources.github_url) as github:
        reader = RepositoryReader(github, which, known)
        done = await index_source(
            toolbox, "github", which.location, reader.read(), on_progress=on_progress, prepare=Workers()
        )
    return done.model_copy(update={"notices": (*done.notices, *reader.notices)})


async def _database(toolbox: Toolbox) -> Path:
    return _real((await toolbox.store.health()).path)


def _real(path: str) -> Path:
    return Path(path).resolve()


def checked_path(asked: IndexRequest, root: Path, settings: SourceSettings, leave: Leave = NO_LEAVE) -> Path:
    """Return the real path of what is asked: links are followed first, so that none leads out.

    Whether something outside exists is not said.
    """
    given = Path(asked.path or _DEFAULT_PATHS[asked.kind])
    missing = InputError(f"{root / given} does not exist: give path, a file or folder, relative to {root}")
    try:
        path = (root / given.expanduser()).resolve()
        is_there = path.exists()
    except (OSError, RuntimeError, ValueError):
        raise missing from None
    allowed = [root.resolve(), *folders(settings.allowed_folders)]
    if not leave.any_folder and not any(path.is_relative_to(folder) for folder in allowed):
        raise InputError(
            f"{path} lies outside the project: add its folder to sources.allowed_folders in your own settings, "
            "or run `swarm-memory sources index` yourself"
        )
    if not is_there:
        raise missing
    return path


def location_of(path: Path, root: Path) -> str:
    """Return how a source is called: its path relative to the project where it lies in it."""
    real = root.resolve()
    return path.relative_to(real).as_posix() if path.is_relative_to(real) else path.as_posix()


def folders(setting: str) -> list[Path]:
    """Return the folders of a setting that has one a line, or divided by `;;`."""
    lines = setting.replace(";;", "\n").splitlines()
    return [Path(line.strip()).expanduser().resolve() for line in lines if line.strip()]


def _groups(
    kind: LocalKind, path: Path, root: Path, database: Path, settings: SourceSettings
) -> AsyncIterable[ReadGroup]:
    def allows(name: str) -> bool:
        # Whoever closes the database's file drops the locks that this process has on it.
        parts = Path(name).parts
        return ".swarm" not in parts and not (path / name).name.startswith(database.name)

    if kind == "tool" and path.is_file() and names_servers(path):
        return read_servers(path, folder=root, environ=os.environ)
    return in_thread(partial(_READERS[kind], path, allows=allows))


def _check_servers(path: Path, root: Path, settings: SourceSettings, leave: Leave) -> None:
    real = root.resolve()
    is_allowed = path.is_relative_to(real) and real in folders(settings.allow_mcp_servers)
    if not (leave.start_servers or is_allowed):
        raise ConfigError(
            f"{path} names MCP servers, and starting them is running what it says. Read it; then either run "
            f"`swarm-memory sources index --kind tool --start-servers` yourself, or add the line {real} to "
            "sources.allow_mcp_servers in your own settings file"
        )


def kinds_of(root: Path) -> list[SourceKind]:
    """Return the kinds that are in a folder, or that of a file: a text where it is nothing else.

    A `.mcp.json` within a folder does not count: its servers are only started for who names it. Raises `InputError`
    when there is no such file or folder.
    """
    if root.is_file():
        return ["tool" if names_servers(root) else _kind_of(root.name, root) or "document"]
    found: set[SourceKind] = set()
    for path, file in walk(root):
        if ".swarm" not in PurePosixPath(path).parts and (kind := _kind_of(path, file)):
            found.add(kind)
        if len(found) == len(SOURCE_KINDS) - 1:  # none is a repository of GitHub
            break
    return [kind for kind in SOURCE_KINDS if kind in found]


def _kind_of(path: str, file: Path) -> SourceKind | None:
    suffix = PurePosixPath(path).suffix.lower()
    if suffix in API_SUFFIXES:
        data = read_bytes(file, MAX_BYTES)
        if isinstance(data, str):
            return None
        return "api" if looks_like_api(data) else "tool" if suffix == ".json" and looks_like_tools(data) else None
    if is_document(path, suffix):
        return "document"
    return "code" if may_be_code(path) else None
