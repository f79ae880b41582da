"""What sharing needs: of the bank the tables of a team, of a team its server. No adapter is known here."""

from datetime import datetime
from typing import NamedTuple

from swarm_memory.schema.team.sharing import ProposalStatus, SentProposal

PROPOSAL = "pr"


class ProposalFilter(NamedTuple):
    """Which proposals `proposals` gives, oldest first, or with `newest` those that a person decided last."""

    statuses: tuple[ProposalStatus, ...] = ("waiting",)
    person_id: str | None = None
    """Only theirs; "" for the user of the server's own bank."""
    project: str | None = None
    limit: int = 50
    offset: int = 0
    leading: bool = False
    """Only those that no other one stands for."""
    newest: bool = False


class Ruling(NamedTuple):
    """A decision about a proposal and those that say the same."""

    proposal_id: str
    status: ProposalStatus
    former: ProposalStatus
    """What they must still be."""
    by: str | None
    at: datetime
    word: str
    memory_id: str | None = None
    """The shared memory that they are now, or were."""


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
