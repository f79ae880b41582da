"""Which kinds of sources a file or a folder holds, told by names and contents as the readers of each kind know them."""

from pathlib import Path, PurePosixPath

from swarm_memory.schema.source import SOURCE_KINDS, SourceKind
from swarm_memory.server.sources.definitions import language_of, may_be_code
from swarm_memory.server.sources.documents import is_document
from swarm_memory.server.sources.files import read_bytes, walk
from swarm_memory.server.sources.openapi import API_SUFFIXES, looks_like_api
from swarm_memory.server.sources.tool_lists import MAX_BYTES, looks_like_tools, names_servers


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
    return "code" if may_be_code(path) and language_of(path, b"" if suffix else _head(file)) else None


def _head(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(200)
    except OSError:
        return b""
