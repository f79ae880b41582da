"""What sharing needs: of a team its server, as a Protocol, and of the bank what it keeps of a team."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from swarm_memory.schema.team.sharing import (
    Changes,
    Counted,
    Member,
    Proposal,
    ProposalStatus,
    Proposed,
    Ruling,
    SentProposal,
)

PROPOSAL = "proposal"


class Team(Protocol):
    """The team's server, or this bank as one. Raises `InputError`, `NotFoundError`, `TeamUnavailable`."""

    async def me(self) -> Member: ...

    async def propose(self, bank: str, proposed: Sequence[Proposed]) -> list[Proposal]:
        """Send proposals, at most 50; return them as they stand on the server. Sending again changes nothing."""
        ...

    async def proposals(self, status: ProposalStatus | None = "waiting", *, mine: bool = False) -> list[Proposal]:
        """Return proposals, oldest first: those that wait, of any status with None, or one's own alone."""
        ...

    async def decide(self, proposal_id: str, ruling: Ruling) -> Proposal: ...

    async def changes(self, project: str, stamp: str, after: int) -> Changes:
        """Return what changed after a cursor; from the beginning where the stamp is not that of the server."""
        ...

    async def send_evidence(self, bank: str, counted: Sequence[Counted]) -> None:
        """Send one's own counts, at most 500; those of memories that are not shared are passed over."""
        ...


class ProposalFilter(NamedTuple):
    """Which proposals `proposals` gives, oldest first, or with `newest` those that a person decided last."""

    statuses: tuple[ProposalStatus, ...] = ("waiting",)
    person_id: str | None = None
    """Only theirs; "" for the user of the server's own bank."""
    project: str | None = None
    limit: int = 50
    offset: int = 0
    id: str | None = None
    """Only this one, and those that it stands for."""
    leading: bool = False
    """Only those that no other one stands for."""
    newest: bool = False


class Cache(NamedTuple):
    """What a project's bank keeps of what the team shares."""

    project: str
    """The team's name of it."""
    url: str
    stamp: str
    cursor: int
    checked_at: datetime | None
    """When the server was last heard of."""
    failures: int
    """Since then."""
    fault: str | None


class Sent(NamedTuple):
    """A memory that was proposed, and what is known to have become of it."""

    memory_id: str
    content_hash: str
    """Of the words as they were sent."""
    proposal: SentProposal
