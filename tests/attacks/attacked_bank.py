"""A real bank in a file, into which attacks are learned, imported and written, and ways to check it."""

import subprocess
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from clock import SetClock
from laid_bank import opened_bank
from made_items import made_item
from patience import HANG_S

from swarm_memory.schema.base import Scope
from swarm_memory.schema.memory import Distiller, MemoryItem, MemoryStatus, Provenance
from swarm_memory.schema.trajectory import Judge
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.tools.guard import gate as gating
from swarm_memory.tools.guard import trust
from swarm_memory.tools.ports.memories import MemoryFilter
from swarm_memory.tools.ports.models import ChatModel
from swarm_memory.tools.retrieve import retrieve
from swarm_memory.tools.toolbox import Toolbox

EMBEDDER = StaticEmbedder()
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HERE = Scope(project="shop")


def opened(folder: Path, chat: ChatModel | None = None) -> AbstractAsyncContextManager[Toolbox]:
    """Open a toolbox on a fresh database in `folder`."""
    return opened_bank(folder / "memory.db", clock=SetClock(NOW), scope=HERE, chat=chat)


async def items_of(toolbox: Toolbox, *statuses: MemoryStatus) -> list[MemoryItem]:
    return await toolbox.store.list_memories((HERE,), MemoryFilter(statuses or ("active",), limit=2000))


def item(
    title: str,
    content: str = "1. Look at the log first\n2. Then change one thing",
    *,
    judge: Judge = "evidence",
    distiller: Distiller = "extractive",
    task_id: str = "t0",
    session_id: str | None = None,
    status: MemoryStatus = "active",
) -> MemoryItem:
    source = Provenance(task_id=task_id, session_id=session_id, judge=judge, distiller=distiller)
    given = {"scope": HERE, "confidence": 0.6, "created_at": NOW, "provenance": source, "status": status}
    return made_item(title, content=content, **given)


def undefended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the gate, as a negative control: nothing is screened, and everything stored is trusted."""

    async def all_of_them(_: object, found: Any, *__: object) -> Any:
        return found

    def nothing(*_: object) -> tuple[()]:
        return ()

    def yes(_: MemoryItem) -> bool:
        return True

    for finder in ("by_rules", "by_wording", "copies_results"):
        monkeypatch.setattr(gating, finder, nothing)
    monkeypatch.setattr(trust, "rests_on_evidence", yes)
    monkeypatch.setattr(retrieve, "prefer_verified", all_of_them)


async def is_trusted(toolbox: Toolbox, items: Sequence[MemoryItem]) -> bool:
    """Whether any of the items counts as verified."""
    return len(await trust.unverified(toolbox, items)) < len(items)


def files_with(folder: Path, *marks: str) -> int:
    """Count the bank's files that contain any of the texts; another process reads them, as the bank is open here."""
    patterns = [part for mark in marks for part in ("-e", mark)]
    found = subprocess.run(["grep", "-rlaiF", *patterns, str(folder)], capture_output=True, timeout=HANG_S, check=False)
    return len(found.stdout.splitlines())
