"""What benchmarks share: a home of their own, banks on the static table, made-up memories, and English for them."""

import ast
import os
import sysconfig
import tempfile
import warnings
from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from swarm_memory.schema.base import MEMORY, Scope, new_id
from swarm_memory.schema.memory import MemoryItem
from swarm_memory.schema.settings import Settings
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.storage.sqlite import open_store
from swarm_memory.server.wiring import SystemClock
from swarm_memory.tools.ports.models import Embedder
from swarm_memory.tools.retrieve.embed import prepare
from swarm_memory.tools.toolbox import Toolbox


@contextmanager
def own_home() -> Generator[Path]:
    """Yield a project's empty folder in an empty home, which becomes the home of this process and those it starts."""
    for name in [name for name in os.environ if name.startswith(("SWARM_MEMORY_", "CLAUDE", "XDG_"))]:
        del os.environ[name]
    with tempfile.TemporaryDirectory() as home:
        os.environ["HOME"] = home  # in this process too: a bank that another user made is not trusted
        root = Path(home) / "project"
        root.mkdir()
        yield root


@asynccontextmanager
async def open_bank(
    folder: Path, scope: Scope, settings: Settings | None = None, embedder: Embedder | None = None
) -> AsyncGenerator[Toolbox]:
    """Open the bank `memory.db` of a folder, with the static table if no embedder is given."""
    embedder = embedder or StaticEmbedder()
    async with await open_store(folder / "memory.db", embedder=embedder) as store:
        yield Toolbox(store, embedder, SystemClock(), settings or Settings(), scope)


def made_memory(scope: Scope, title: str, content: str, **fields: Any) -> MemoryItem:
    """Return a memory created now, its texts cut to the allowed length."""
    given: dict[str, Any] = {"id": new_id(MEMORY), "created_at": datetime.now(UTC), **fields}
    return MemoryItem(scope=scope, title=title[:190], content=content[:4000], **given)


async def add(toolbox: Toolbox, items: Sequence[MemoryItem]) -> None:
    """Embed and write memories, a thousand per transaction."""
    for start in range(0, len(items), 1000):
        await toolbox.store.add_memories(await prepare(toolbox, items[start : start + 1000]), toolbox.embedder.name)


def stdlib_modules() -> Iterator[Path]:
    """Yield the files of the standard library without its tests, in a fixed order."""
    for path in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if not {"site-packages", "test", "tests", "idlelib"} & set(path.parts):
            yield path


def docstrings(path: Path) -> Iterator[str]:
    """Yield the docstrings of a module; none if it cannot be parsed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):
            return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
