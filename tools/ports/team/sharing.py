"""What sharing needs: of the bank the tables of a team, of a team its server. No adapter is known here."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from swarm_memory.schema.base import Scope
from swarm_memory.schema.team.sharing import (
    Changes,
    Counted,
    Decided,
    Evidence,
    Member,
    Proposal,
    ProposalStatus,
    Proposed,
    SentProposal,
    SharedMemory,
    Sharing,
)
from swarm_memory.tools.ports.memories import StoredMemory

PROPOSAL = "pr"


class Team(Protocol):
    """The team's server, or this bank as one. Raises `InputError`, `NotFoundError`, `TeamUnavailable`."""

    async def me(self) -> Member: ...

    async def propose(self, bank: str, proposed: Sequence[Proposed]) -> list[Proposal]:
        """Send proposals, at most 50; return them as they stand on the server. Sending again changes nothing."""
        ...

    async def proposals(self, status: ProposalStatus | None = "waiting", *, mine: bool = False) -> list[Proposal]:
        """Return proposals, oldest first: those that wait, of any status with None, or one's own alone."""
        ...

    async def decide(self, proposal_id: str, decided: Decided) -> Proposal: ...

    async def changes(self, project: str, stamp: str, after: int) -> Changes:
        """Return what changed after a cursor; from the beginning where the stamp is not that of the server."""
        ...

    async def send_evidence(self, bank: str, counted: Sequence[Counted]) -> None:
        """Send one's own counts, at most 500; those of memories that are not shared are passed over."""
        ...


class NewProposal(NamedTuple):
    """A proposal as it comes in."""

    proposal: Proposal
    bank: str
    """Of whoever proposes."""


class ProposalFilter(NamedTuple):
    """Which proposals `proposals` gives, oldest first."""

    statuses: tuple[ProposalStatus, ...] = ("waiting",)
    person_id: str | None = None
    """Only theirs; "" for the user of the server's own bank."""
    project: str | None = None
    limit: int = 50
    offset: int = 0
    leading: bool = False
    """Only those that no other one stands for."""


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


class Proven(NamedTuple):
    """What tasks showed of a memory of a bank."""

    memory_id: str
    evidence: Evidence
    sessions: int
    """In which it worked."""


class TeamStore(Protocol):
    """The tables of a team in a bank. All errors are `StorageError`s."""

    # On the server.
    async def add_proposal(self, scope: Scope, new: NewProposal, most_waiting: int) -> Proposal:
        """Write a proposal; where its memory was proposed before by the same person, that one stands.

        One that waits gets the new words; one that was decided is opened again by other words alone. Raises
        `InputError` where more than `most_waiting` of the person would wait.
        """
        ...

    async def proposals(self, tenant_id: str, which: ProposalFilter) -> list[Proposal]: ...

    async def latest_decided(self, tenant_id: str, limit: int) -> list[Proposal]:
        """Return the proposals that a person decided last, the newest first."""
        ...

    async def count_waiting(self, tenant_id: str) -> int:
        """Return how many proposals wait for a decision, each with those that say the same."""
        ...

    async def get_proposal(self, tenant_id: str, proposal_id: str) -> tuple[Proposal, list[Proposal]] | None:
        """Return a proposal, and those that say the same and wait, or were decided, with it."""
        ...

    async def share(self, scope: Scope, ruling: Ruling, memory: StoredMemory | None, embedder: str) -> bool:
        """Accept proposals in one transaction: write the memory, which is new or in the place of its former words.

        None: it is shared already. Their evidence and the errors that they ended go to it. False where they are not as
        they were seen: then nothing was written.
        """
        ...

    async def rule(self, scope: Scope, ruling: Ruling) -> bool:
        """Write a decision that shares nothing. False as `share`."""
        ...

    async def put_evidence(
        self, tenant_id: str, person_id: str, bank: str, counted: Sequence[Counted], at: datetime
    ) -> list[str]:
        """Write what a person's bank counted; return the ids of the memories whose counts that changed."""
        ...

    async def failing(self, tenant_id: str, ids: Sequence[str]) -> list[tuple[Scope, Sharing]]:
        """Return the active ones of these with their evidence since a person last vouched for them."""
        ...

    async def changes(self, scope: Scope, stamp: str, after: int, person_id: str, limit: int) -> Changes:
        """Return what changed after a cursor, in the order of its being committed."""
        ...

    # In a person's bank, and on the server.
    async def sharing(self, memory_ids: Sequence[str]) -> dict[str, Sharing]:
        """Return what is known of those that are shared, by id."""
        ...

    # In a person's bank.
    async def bank_id(self) -> str:
        """Return the id of the bank."""
        ...

    async def caches(self, scope: Scope) -> list[Cache]: ...

    async def keep_caches(self, scope: Scope, url: str, projects: Sequence[str]) -> None:
        """Have a project read what is shared under these names at a server, and nothing else any more."""
        ...

    async def note_check(self, scope: Scope, at: datetime, fault: str | None) -> int:
        """Note how asking the server went; return how often it failed in a row."""
        ...

    async def take_in(
        self,
        scope: Scope,
        project: str,
        changes: Changes,
        memories: Sequence[tuple[StoredMemory | None, SharedMemory]],
        embedder: str,
    ) -> tuple[str, ...]:
        """Write what was pulled, and the cursor, in one transaction; return the ids that were refused.

        Refused is an id that a memory of another scope has; None stands for words that are as they were.
        """
        ...

    async def cached_ids(self, project: Scope) -> set[str]:
        """Return the ids of what is kept of a team's scope, whatever its status."""
        ...

    async def drop_cached(self, project: Scope, ids: Sequence[str]) -> None:
        """Delete from the cache what is not shared any more."""
        ...

    async def link_same(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Note that an own memory (first) says the same as a shared one (second)."""
        ...

    async def newest(self, scope: Scope, since: datetime | None, limit: int) -> list[str]:
        """Return the ids of the active memories of a scope that were made since a moment, newest first."""
        ...

    async def same_as_shared(self, memory_ids: Sequence[str]) -> dict[str, str]:
        """Return of own memories the shared one that says the same and is active."""
        ...

    async def own_same(self, memory_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return of shared memories the own ones that say the same."""
        ...

    async def own_evidence(self, memory_ids: Sequence[str]) -> dict[str, Proven]:
        """Return what tasks of this bank showed of memories, or of own ones that say the same."""
        ...

    async def signatures(self, memory_id: str) -> tuple[str, ...]:
        """Return the digests of the errors that a memory ended."""
        ...

    async def note_sent(self, scope: Scope, url: str, sent: Sequence[Sent], at: datetime) -> None:
        """Note what was proposed, and what became of it."""
        ...

    async def sent(self, scope: Scope, url: str) -> Mapping[str, Sent]:
        """Return what was proposed to a server from a project, by the memory's id."""
        ...
