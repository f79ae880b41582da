"""What the tool memory needs from a store, as a Protocol: calls, evaluations, summaries, and a search of past calls."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import NamedTuple, Protocol

from swarm_memory.schema.base import Scope
from swarm_memory.schema.tool_memory import Evaluation, KeptCall, ToolCall, ToolMemory, ToolSummary, ToolTotals


class Neighbour(NamedTuple):
    """A call as it stands beside others in its session."""

    seq: int
    tool_name: str
    session_id: str | None
    input: str
    success: bool
    at: datetime


class PendingCalls(NamedTuple):
    """Calls that wait for an evaluation, with what was around them."""

    calls: tuple[KeptCall, ...]
    """By arrival."""
    after: tuple[Neighbour, ...]
    """Calls of the scope from the first of `calls` on, by arrival."""
    corrections: Mapping[str, tuple[datetime, ...]]
    """When the user corrected what was done, by session."""


class EvaluatedCall(NamedTuple):
    """An evaluation to be written, with the words by which the call is found."""

    seq: int
    evaluation: Evaluation
    tokens: tuple[str, ...]


class FailedEvaluation(NamedTuple):
    """A call that could not be evaluated now."""

    seq: int
    reason: str


class PastCall(NamedTuple):
    """A call that was evaluated, as far as ranking needs it."""

    tool_name: str
    score: float
    tokens: str
    """Joined by spaces, each once."""


class PastCalls(NamedTuple):
    """What a search of past calls gives."""

    calls: tuple[PastCall, ...]
    documents: int
    """Calls in the windows of the scope."""
    document_frequency: Mapping[str, int]
    """Of each token of the query: in how many calls it stands."""


class ToolMemoryCounts(NamedTuple):
    """How the tool memory of a scope stands."""

    tools: int
    calls: int
    """Over all time."""
    kept: int
    not_evaluated: int
    """Of those kept."""
    summarized: int
    """Tools with a summary."""


class ToolMemoryStore(Protocol):
    """Tool calls and what is known from them, by scope. All errors are `StorageError`s."""

    async def add_calls(self, calls: Sequence[ToolCall], window: int) -> int:
        """Write calls, count them, and trim each tool to the `window` newest, in one transaction.

        A call whose session and call id were seen before, even of one that has left the window, is left alone.
        Return how many were new.
        """
        ...

    async def known_calls(self, scope: Scope, ids: Sequence[tuple[str, str]]) -> AbstractSet[tuple[str, str]]:
        """Return which of these ids of session (empty: none) and call were seen before, as `add_calls` tells them."""
        ...

    async def put_schema(self, scope: Scope, tool_name: str, schema: str) -> None:
        """Keep what a tool says of itself."""
        ...

    async def recent_calls(self, scope: Scope, tool_name: str, limit: int) -> list[KeptCall]:
        """Return the newest calls of a tool, newest first."""
        ...

    async def failed_calls(self, scope: Scope, tool_name: str | None, limit: int) -> list[KeptCall]:
        """Return the newest calls of a tool, or of all, that were reported to have failed, newest first."""
        ...

    async def pending_calls(
        self, scope: Scope, *, now: datetime, until: datetime, tools: Sequence[str] | None, after: int, limit: int
    ) -> PendingCalls:
        """Return calls made until a moment that are not evaluated and not to be retried later, after a position."""
        ...

    async def save_evaluations(
        self,
        scope: Scope,
        evaluated: Sequence[EvaluatedCall],
        failed: Sequence[FailedEvaluation],
        *,
        now: datetime,
        retry_after_s: float,
    ) -> int:
        """Write evaluations and failures in one transaction; what left the window meanwhile is passed over.

        An evaluation is written once: of two the first stays. Return how many evaluations were written.
        """
        ...

    async def memories(self, scope: Scope, tools: Sequence[str] | None) -> list[ToolMemory]:
        """Return what is known of tools, or of all, by name; tools that were never called are left out."""
        ...

    async def new_calls(self, scope: Scope, tool_name: str, recent: int) -> int:
        """Return how many of the newest calls are evaluated and in no summary yet."""
        ...

    async def save_summary(
        self, scope: Scope, tool_name: str, summary: ToolSummary, seqs: Sequence[int], at: datetime
    ) -> None:
        """Write a summary and mark the calls that it has seen, in one transaction."""
        ...

    async def past_calls(self, scope: Scope, tokens: Sequence[str], tools: Sequence[str] | None) -> PastCalls:
        """Return evaluated calls that may be similar: those of the tools, all of a small scope, or those that share
        the rarest tokens."""
        ...

    async def last_warning(self, scope: Scope, tool_name: str) -> datetime | None: ...

    async def claim_warning(self, scope: Scope, tool_name: str, now: datetime, since: datetime) -> bool:
        """Note that a warning is given; False when one was given after `since`."""
        ...

    async def forget_tools(self, scope: Scope, tools: Sequence[str] | None) -> int:
        """Delete tools, or all, with every trace; return how many there were."""
        ...

    async def put_totals(self, scope: Scope, totals: ToolTotals) -> None:
        """Write the totals of a tool that were counted elsewhere."""
        ...

    async def counts(self, scope: Scope) -> ToolMemoryCounts: ...
