"""What sharing needs: the team's server, as a Protocol, and what a bank keeps about a team."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from swarm_memory.schema.team.sharing import (
    Changes,
    ItemEvidence,
    Member,
    Proposal,
    ProposalStatus,
    Proposed,
    Ruling,
    SentProposal,
)

PROPOSAL = "proposal"


class Team(Protocol):
    """The team's server, or this bank acting as one. Raises `InputError`, `NotFoundError`, `TeamUnavailable`."""

    async def me(self) -> Member: ...

    async def propose(self, bank: str, proposed: Sequence[Proposed]) -> list[Proposal]:
        """Send proposals, at most 50; return them as the server now has them. Sending again changes nothing."""
        ...

    async def proposals(self, status: ProposalStatus | None = "waiting", *, mine: bool = False) -> list[Proposal]:
        """Return proposals, oldest first: those with a status (None: any), with `mine` only the caller's own."""
        ...

    async def decide(self, proposal_id: str, ruling: Ruling) -> Proposal: ...

    async def changes(self, project: str, stamp: str, after: int) -> Changes:
        """Return what changed after a cursor; everything where the stamp is not the server's."""
        ...

    async def send_evidence(self, bank: str, counted: Sequence[ItemEvidence]) -> None:
        """Send the caller's own counts, at most 500; counts of memories that are not shared are ignored."""
        ...


class ProposalFilter(NamedTuple):
    """Which proposals `proposals` returns: oldest first, or with `newest` those that a person decided, latest first."""

    statuses: tuple[ProposalStatus, ...] = ("waiting",)
    person_id: str | None = None
    """Only this person's proposals; "" for the user of the server's own bank."""
    project: str | None = None
    limit: int = 50
    offset: int = 0
    id: str | None = None
    """Only this proposal, and those that say the same and are decided with it."""
    leading: bool = False
    """Only proposals that are not decided with another one."""
    newest: bool = False


class CacheState(NamedTuple):
    """The state of a bank's copy of what a team shares about a project."""

    project: str
    """The team's name for the project."""
    url: str
    stamp: str
    cursor: int
    checked_at: datetime | None
    """When the server last answered."""
    failures: int
    """How often the server has failed since then."""
    fault: str | None


class Sent(NamedTuple):
    """A memory that was proposed, and what is known to have become of it."""

    memory_id: str
    content_hash: str
    """The hash of the words as they were sent."""
    proposal: SentProposal
