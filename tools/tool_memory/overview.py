"""What the tools of a project do: figures of each tool and program, and the errors with what is known to end them."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import NotFoundError
from swarm_memory.schema.memory import MemoryItem
from swarm_memory.schema.tool_memory import KeptCall, ToolCall, ToolMemory
from swarm_memory.tools.credit.intervals import Interval, wilson
from swarm_memory.tools.ports.memories import KnownWay
from swarm_memory.tools.ports.trajectories import ToldWay
from swarm_memory.tools.tool_memory.evaluate import as_read
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.failures import Signature

MAX_FAILED = 300
"""The newest failed calls, of a tool or of all, that errors are known from."""

MAX_CALLS = 200
"""The newest calls of a tool that its programs are known from."""

_MAX_ERRORS = 40
_ANY_TIME = datetime.min.replace(tzinfo=UTC)


class Use(NamedTuple):
    """How often something was called, and how that went."""

    name: str
    calls: int
    succeeded: int
    rate: Interval
    """Wilson's, of `succeeded` among `calls`."""
    last_at: datetime | None
    time_s: float | None = None
    """Mean of the calls whose time is known; of the tokens too."""
    tokens: float | None = None


class Way(NamedTuple):
    """A memory that is known to end an error, and what came of it."""

    item: MemoryItem
    known: KnownWay
    told: ToldWay | None
    """None: no session was told it at this error."""


class SeenError(NamedTuple):
    """An error that calls of tools ended in; of one signature, whatever the run."""

    signature: Signature
    line: str
    """Of the output of the last one, what tells it."""
    times: int
    sessions: int
    last: KeptCall
    ways: tuple[Way, ...]
    """What ended it, the surest first."""


class Errors(NamedTuple):
    """The errors of a tool or of all tools."""

    seen: tuple[SeenError, ...]
    """The most frequent first."""
    more: int
    """Other errors, which were less frequent."""
    calls: int
    """Failed calls that they were found among."""
    unnamed: int
    """Of those: calls whose output says nothing by which their error could be known again."""


class ToolUse(NamedTuple):
    """All that is told of one tool."""

    use: Use
    memory: ToolMemory
    programs: tuple[Use, ...]
    """Of a tool that runs commands: what it ran, by its newest calls; empty for another."""
    errors: Errors


async def tools_in_use(toolbox: Toolbox) -> list[tuple[Use, ToolMemory]]:
    """Return every tool that was called, the most used first. Raises `StorageError`."""
    memories = await toolbox.store.tool_memory.memories(toolbox.scope, None)
    return sorted(((_use(memory), memory) for memory in memories), key=lambda each: -each[0].calls)


async def tool_in_use(toolbox: Toolbox, name: str) -> ToolUse:
    """Return one tool. Raises `NotFoundError`, `StorageError`."""
    memories = await toolbox.store.tool_memory.memories(toolbox.scope, [name])
    if not memories:
        raise NotFoundError(f"no tool {name[:80]!r} was called in project {toolbox.scope.project!r}")
    kept = await toolbox.store.tool_memory.recent_calls(toolbox.scope, name, MAX_CALLS)
    programs = await asyncio.to_thread(_programs, kept)
    return ToolUse(_use(memories[0]), memories[0], programs, await errors_seen(toolbox, name))


async def errors_seen(toolbox: Toolbox, tool: str | None = None) -> Errors:
    """Return what the newest failed calls of a tool, or of all, ended in. Raises `StorageError`."""
    calls = await toolbox.store.tool_memory.failed_calls(toolbox.scope, tool, MAX_FAILED)
    groups = await asyncio.to_thread(_by_signature, calls)
    signatures = sorted(groups, key=lambda each: -len(groups[each]))[:_MAX_ERRORS]
    ways = await _ways(toolbox, [signature.digest for signature in signatures])
    seen = tuple(
        SeenError(
            signature=signature,
            line=_read(*_told(group[0].call)).error,
            times=len(group),
            sessions=len({kept.call.session_id for kept in group}),
            last=group[0],
            ways=tuple(ways.get(signature.digest, ())),
        )
        for signature in signatures
        if (group := groups[signature])
    )
    return Errors(seen, len(groups) - len(seen), len(calls), len(calls) - sum(map(len, groups.values())))


async def _ways(toolbox: Toolbox, digests: Sequence[str]) -> dict[str, list[Way]]:
    known = await toolbox.store.known_ways(toolbox.scope, digests) if digests else []
    if not known:
        return {}
    ids = list(dict.fromkeys(way.memory_id for way in known))
    items = {item.id: item for item in await toolbox.store.get_memories(toolbox.readable, ids)}
    told = {(each.signature, each.memory_id): each for each in await toolbox.store.told_ways(toolbox.scope)}
    ways: dict[str, list[Way]] = {}
    for way in known:
        each = Way(items[way.memory_id], way, told.get((way.signature, way.memory_id)))
        ways.setdefault(way.signature, []).append(each)
    return ways


class _Read(NamedTuple):
    """What is read of one call."""

    program: str
    """Empty where it runs no command."""
    failed: bool
    signature: Signature | None
    error: str


@lru_cache(maxsize=2000)
def _read(tool: str, told: str, output: str, success: bool) -> _Read:
    """Read a call once, however often it is looked at."""
    call = as_read(
        ToolCall(scope=Scope(), tool_name=tool, input=told, output=output, success=success, created_at=_ANY_TIME)
    )
    return _Read(call.name if call.command else "", call.failed, call.signature, call.error)


def _told(call: ToolCall) -> tuple[str, str, str, bool]:
    return call.tool_name, call.input, call.output, call.success


def _by_signature(calls: Sequence[KeptCall]) -> dict[Signature, list[KeptCall]]:
    groups: dict[Signature, list[KeptCall]] = {}
    for kept in calls:
        if (signature := _read(*_told(kept.call)).signature) is not None:
            groups.setdefault(signature, []).append(kept)
    return groups


def _programs(calls: Sequence[KeptCall]) -> tuple[Use, ...]:
    ran = [(kept.call, each) for kept in calls if (each := _read(*_told(kept.call))).program]
    counts = Counter(each.program for _, each in ran)
    good = Counter(each.program for _, each in ran if not each.failed)
    last: dict[str, datetime] = {}
    for call, each in ran:
        last.setdefault(each.program, call.created_at)
    return tuple(
        Use(name, count, good[name], wilson(good[name], count), last[name]) for name, count in counts.most_common()
    )


def _use(memory: ToolMemory) -> Use:
    totals = memory.totals
    calls = max(totals.calls, 1)
    return Use(
        name=totals.tool_name,
        calls=totals.calls,
        succeeded=totals.succeeded,
        rate=wilson(min(totals.succeeded, calls), calls),
        last_at=totals.last_at,
        time_s=totals.time_cost_us / totals.timed / 1e6 if totals.timed else None,
        tokens=totals.token_cost / totals.counted if totals.counted else None,
    )
