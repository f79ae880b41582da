"""List, look up and forget memories, for a person or an agent; `decide` changes them."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import get_args

from swarm_memory.schema.base import GLOBAL_PROJECT, Scope, is_teams
from swarm_memory.schema.errors import InputError, NotFoundError
from swarm_memory.schema.memory import MemoryItem, MemoryStatus
from swarm_memory.schema.team.person import rank
from swarm_memory.tools.ports.memories import Forgotten, MemoryFilter
from swarm_memory.tools.ports.records import BankEvent
from swarm_memory.tools.text.cleaning import is_memory_id
from swarm_memory.tools.toolbox import Toolbox

MAX_IDS = 200
MAX_LISTED = 500
MAX_OFFSET = 10_000_000

_MAX_NAMED = 20
_READ_AT_ONCE = 5_000
"""Memories in one page: reading a page skips over all those before it, so pages are few and large."""


async def list_memories(toolbox: Toolbox, which: MemoryFilter) -> list[MemoryItem]:
    """Return memories of the project and the global scope, newest first.

    Raises `InputError` for a limit outside 1…500 or an offset outside 0…`MAX_OFFSET`.
    """
    if not 1 <= which.limit <= MAX_LISTED or not 0 <= which.offset <= MAX_OFFSET:
        raise InputError(f"limit must be from 1 to {MAX_LISTED}, and offset from 0 to {MAX_OFFSET:,}")
    return await toolbox.store.list_memories(toolbox.readable, which)


async def get_memories(toolbox: Toolbox, ids: Sequence[str]) -> list[MemoryItem]:
    """Return the memories in the order of `ids`, whatever their status.

    Raises `InputError` for no ids, too many, or a malformed one, and `NotFoundError` naming those that are not there.
    """
    wanted = list(dict.fromkeys(ids))
    if not wanted:
        raise InputError("ids is empty: name at least one memory")
    if len(wanted) > MAX_IDS:
        raise InputError(f"{len(wanted)} ids at once: give at most {MAX_IDS}")
    if strange := [each for each in wanted if not is_memory_id(each)]:
        raise InputError(f"{strange[0][:60]!r} is not a memory id: ids are rm_ followed by 26 characters")
    found = await toolbox.store.get_memories(toolbox.readable, wanted)
    if missing := sorted(set(wanted) - {item.id for item in found}):
        raise NotFoundError(f"no memory {', '.join(missing)} in {_where(toolbox)}")
    return found


async def with_authors(toolbox: Toolbox, items: Sequence[MemoryItem]) -> list[MemoryItem]:
    """Return memories as they are shown: with the names of those who brought them."""
    authors = await toolbox.store.people.authors(toolbox.readable, [item.id for item in items])
    return [
        item.model_copy(update={"provenance": item.provenance.model_copy(update={"person": authors[item.id]})})
        if item.id in authors
        else item
        for item in items
    ]


async def changeable(toolbox: Toolbox, ids: Sequence[str]) -> list[MemoryItem]:
    """Return the memories as `get_memories` does, for changing them. Raises as that does.

    Also raises `InputError` for what a team shares: it is changed only on its server, by people who may review.
    """
    found = await get_memories(toolbox, ids)
    shared = [item.id for item in found if is_teams(item.scope)]
    if shared and toolbox.settings.team.url is not None:
        raise InputError(f"{', '.join(shared)} is the team's: propose other wording, or have a reviewer withdraw it")
    if shared and toolbox.person is not None and rank(toolbox.person.role) < rank("review"):
        raise InputError(f"{', '.join(shared)} is the team's: your role is {toolbox.person.role}, but review is needed")
    return found


async def forget_memories(toolbox: Toolbox, ids: Sequence[str], *, with_trajectories: bool = False) -> Forgotten:
    """Delete memories for good, with every trace: indexes, former texts, records of their tasks, quotes in other texts.

    The record of a task stays if a memory that stays was distilled from it too; the answer names those memories, and
    `with_trajectories` removes the text all the same. Raises as `changeable`.
    """
    found = await changeable(toolbox, ids)
    return await toolbox.store.forget(
        toolbox.scope.readable(), [item.id for item in found], with_trajectories=with_trajectories
    )


def combine_forgotten(parts: Sequence[Forgotten]) -> Forgotten:
    """Return what several parts forgot, taken together; a later part may remove what an earlier one left."""
    gone = {each for part in parts for each in part.ids}
    return Forgotten(
        ids=tuple(each for part in parts for each in part.ids),
        records=sum(part.records for part in parts),
        resting=tuple(dict.fromkeys(each for part in parts for each in part.resting if each not in gone)),
        alike=tuple(dict.fromkeys(each for part in parts for each in part.alike if each not in gone)),
    )


def what_stayed(forgotten: Forgotten, remedy: str, promoted: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each kind of trace that forgetting left, with the memories that hold it and the `remedy`.

    `promoted` has, by id, the files to which memories were promoted.
    """
    if files := {each: promoted[each] for each in forgotten.ids if each in promoted}:
        how = f"`swarm-memory promote --demote {' '.join(files)}` removes it"
        yield f"the text is still in {', '.join(dict.fromkeys(files.values()))}: {how}"
    if forgotten.resting:
        yield f"the record of their task stays, because {_named(forgotten.resting)} came from it too: {remedy}"
    if forgotten.alike:
        yield f"the same is said by {_named(forgotten.alike)} (same title, or duplicate): forget that too if it must go"


async def ids_of_run(toolbox: Toolbox, run_id: str) -> list[str]:
    """Return the ids of all memories, whatever their status, that one run of learning, scaling or importing added.

    Raises `NotFoundError` when there are none.
    """
    pages = pages_of_memories(toolbox, toolbox.scope.readable())
    found = [item.id async for page in pages for item in page if item.provenance.run_id == run_id]
    if not found:
        raise NotFoundError(f"no memory from run {run_id[:60]!r} in {_where(toolbox)}")
    return found


async def pages_of_memories(toolbox: Toolbox, scopes: Sequence[Scope]) -> AsyncIterator[list[MemoryItem]]:
    """Yield all memories of the scopes, whatever their status, 5,000 at a time. Raises `StorageError`."""
    offset = 0
    while True:
        which = MemoryFilter(get_args(MemoryStatus), limit=_READ_AT_ONCE, offset=offset)
        page = await toolbox.store.list_memories(scopes, which)
        yield page
        if len(page) < _READ_AT_ONCE:
            return
        offset += _READ_AT_ONCE


async def memory_history(toolbox: Toolbox, memory_id: str) -> list[BankEvent]:
    """Return what happened to one memory, as the store keeps it. Raises as `get_memories`."""
    await get_memories(toolbox, [memory_id])
    return await toolbox.store.memory_history(toolbox.readable, memory_id)


def _named(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _MAX_NAMED} more" if len(ids) > _MAX_NAMED else ""
    return f"{', '.join(ids[:_MAX_NAMED])}{more}"


def _where(toolbox: Toolbox) -> str:
    own = toolbox.scope.project
    return "the global scope" if own == GLOBAL_PROJECT else f"project {own!r} or the global scope"
