"""Export and import a bank as JSON lines: one memory per line, everything but its indexes. Files are the caller's."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from swarm_memory.schema.base import GLOBAL_PROJECT, RUN, Scope, counted, new_id
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.memory import MemoryItem
from swarm_memory.tools.guard.gate import admit_memory, notice_of
from swarm_memory.tools.memories.manage import pages_of_memories, with_authors
from swarm_memory.tools.memories.remember import add_new
from swarm_memory.tools.text.cleaning import faults, is_memory_id
from swarm_memory.tools.toolbox import Toolbox

MAX_LINE_CHARS = 1_000_000
MAX_FAULTS = 100
"""At most this many faulty lines are described; all are counted."""

_WRITTEN_AT_ONCE = 200

_EMBEDDED_AT_ONCE = 400
"""How many memories of an import an embedder that takes milliseconds for each embeds before a job does the rest."""


@dataclass(slots=True)
class Imported:
    """What became of the lines."""

    run_id: str = field(default_factory=lambda: new_id(RUN))
    """In the provenance of what a named source added: `memories forget --run` removes it again."""
    added: int = 0
    known: int = 0
    """Memories whose id, or whose title and content, are in the bank or in an earlier line."""
    later: int = 0
    """Memories written without vectors, which a job makes later."""
    faulty: int = 0
    faults: list[str] = field(default_factory=list[str])
    """`line 3: content: …`"""
    notices: list[str] = field(default_factory=list[str])


async def export_memories(toolbox: Toolbox, *, with_global: bool = True) -> AsyncIterator[str]:
    """Yield every memory of the project (and the global scope), whatever its status, as one line of JSON each."""
    scopes = toolbox.scope.readable() if with_global else (toolbox.scope,)
    async for page in pages_of_memories(toolbox, scopes):
        for item in await with_authors(toolbox, page):
            yield item.model_dump_json()


async def import_memories(
    toolbox: Toolbox, lines: Iterable[str], *, source: str | None = None, quarantine: bool = False
) -> Imported:
    """Add the memories of an export to the project of the toolbox; what was global there is global here.

    Texts are cleaned, redacted and screened as any other. A faulty line is described and skipped. `source` is noted in
    the provenance, so that what a user said elsewhere does not count as this user's word; with `quarantine` nothing is
    retrieved until it is restored. Importing twice adds nothing.
    """
    result = Imported()
    seen_ids: set[str] = set()
    seen_texts: set[tuple[str, str, str]] = set()
    async for page in pages_of_memories(toolbox, toolbox.scope.readable()):
        seen_ids.update(item.id for item in page)
        seen_texts.update(map(_said, page))
    batch: list[MemoryItem] = []
    held: list[MemoryItem] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            item = _read(toolbox, line, source, quarantine, result.run_id)
        except InputError as error:
            result.faulty += 1
            if len(result.faults) < MAX_FAULTS:
                result.faults.append(f"line {number}: {error}")
            continue
        if item.id in seen_ids or _said(item) in seen_texts:
            result.known += 1
            continue
        seen_ids.add(item.id)
        seen_texts.add(_said(item))
        batch.append(item)
        if item.provenance.suspect is not None or (item.status == "quarantined" and not quarantine):
            held.append(item)
        if len(batch) >= _WRITTEN_AT_ONCE:
            await _add(toolbox, batch, result)
            batch = []
    await _add(toolbox, batch, result)
    if notice := notice_of(held):
        result.notices.append(notice)
    if result.later:
        vectors = f"{counted(result.later, 'memory')}: vectors from {toolbox.embedder.name} follow in the background"
        result.notices.append(f"{vectors}; until then found by keywords only")
    return result


def _read(toolbox: Toolbox, line: str, source: str | None, quarantine: bool, run_id: str) -> MemoryItem:
    if len(line) > MAX_LINE_CHARS:
        raise InputError(f"has {len(line):,} characters; a memory has at most {MAX_LINE_CHARS:,}")
    try:
        item = MemoryItem.model_validate_json(line.lstrip("\ufeff").encode("utf-8", "replace"))
    except ValidationError as error:
        raise InputError(faults(error)) from error
    if not is_memory_id(item.id):
        raise InputError("id: must be rm_ followed by 26 characters")
    project = GLOBAL_PROJECT if item.scope.project == GLOBAL_PROJECT else toolbox.scope.project
    changes: dict[str, Any] = {"scope": Scope(tenant_id=toolbox.scope.tenant_id, project=project)}
    origin: dict[str, str | None] = {"person": None}
    if source is not None:
        origin |= {"imported_from": source, "run_id": run_id}
    if quarantine and item.status in ("active", "candidate"):
        changes |= {"status": "quarantined", "status_reason": f"imported from {source or 'a file'}, not yet approved"}
    return admit_memory({**dict(item), **changes}, item.provenance.model_copy(update=origin), toolbox.settings)


def _said(item: MemoryItem) -> tuple[str, str, str]:
    return item.scope.project, " ".join(item.title.lower().split()), " ".join(item.content.lower().split())


async def _add(toolbox: Toolbox, batch: list[MemoryItem], result: Imported) -> None:
    if not batch:
        return
    is_many = toolbox.embedder.light is not None and result.added >= _EMBEDDED_AT_ONCE
    ids, fault = await add_new(toolbox, batch, later=is_many, once=False)
    if fault is not None and fault not in result.notices:
        result.notices.append(fault)
    result.added += len(ids)
    result.later += len(ids) if is_many or toolbox.wake else 0
    result.known += len(batch) - len(ids)
