"""What the tools of a project do: figures of each tool, and the errors with what is known to end them."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from swarm_memory.schema.errors import NotFoundError
from swarm_memory.schema.memory import MemoryItem
from swarm_memory.schema.tool_memory import KeptCall, ToolMemory
from swarm_memory.tools.credit.intervals import Interval, wilson
from swarm_memory.tools.ports.memories import KnownFix
from swarm_memory.tools.tool_memory.evaluate import as_read
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.failures import Signature

MAX_FAILED = 300
"""The newest failed calls, of a tool or of all, that errors are known from."""

_MAX_ERRORS = 40


class Use(NamedTuple):
    """A tool that was called, and how that went."""

    memory: ToolMemory
    rate: Interval
    """Wilson's, of the calls that succeeded."""
    time_s: float | None
    """Mean of the calls whose time is known; of the tokens too."""
    tokens: float | None


class Fix(NamedTuple):
    """A memory that is known to end an error, and in how many tasks it did."""

    item: MemoryItem
    known: KnownFix


class SeenError(NamedTuple):
    """An error that calls of tools ended in; of one signature, whatever the run."""

    signature: Signature
    line: str
    """Of the output of the last one, what says it."""
    times: int
    sessions: int
    last: KeptCall
    fixes: tuple[Fix, ...]
    """The surest first."""


async def tools_in_use(toolbox: Toolbox, name: str | None = None) -> list[Use]:
    """Return every tool that was called, the most used first; with a `name` that one.

    Raises `NotFoundError` where it was never called, `StorageError`.
    """
    memories = await toolbox.store.tool_memory.memories(toolbox.scope, None if name is None else [name])
    if name is not None and not memories:
        raise NotFoundError(f"no tool {name[:80]!r} was called in project {toolbox.scope.project!r}")
    used: list[Use] = []
    for memory in sorted(memories, key=lambda each: -each.totals.calls):
        totals, calls = memory.totals, max(memory.totals.calls, 1)
        time_s = totals.time_cost_us / totals.timed / 1e6 if totals.timed else None
        tokens = totals.token_cost / totals.counted if totals.counted else None
        used.append(Use(memory, wilson(min(totals.succeeded, calls), calls), time_s, tokens))
    return used


async def errors_seen(toolbox: Toolbox, tool: str | None = None) -> list[SeenError]:
    """Return what the newest failed calls of a tool, or of all, ended in, the most frequent first.

    An output that says nothing by which its error could be known again is left out. Raises `StorageError`.
    """
    calls = await toolbox.store.tool_memory.failed_calls(toolbox.scope, tool, MAX_FAILED)
    groups = await asyncio.to_thread(_by_signature, calls)
    signatures = sorted(groups, key=lambda each: -len(groups[each]))[:_MAX_ERRORS]
    digests = [signature.digest for signature in signatures]
    known = await toolbox.store.known_fixes(toolbox.scope, digests) if digests else []
    ids = list(dict.fromkeys(fix.memory_id for fix in known))
    items = {item.id: item for item in await toolbox.store.get_memories(toolbox.readable, ids)} if ids else {}
    return [
        SeenError(
            signature=signature,
            line=as_read(groups[signature][0].call).error,
            times=len(groups[signature]),
            sessions=len({kept.call.session_id for kept in groups[signature]}),
            last=groups[signature][0],
            fixes=tuple(Fix(items[fix.memory_id], fix) for fix in known if fix.signature == signature.digest),
        )
        for signature in signatures
    ]


def _by_signature(calls: Sequence[KeptCall]) -> dict[Signature, list[KeptCall]]:
    groups: dict[Signature, list[KeptCall]] = {}
    for kept in calls:
        if (signature := as_read(kept.call).signature) is not None:
            groups.setdefault(signature, []).append(kept)
    return groups
