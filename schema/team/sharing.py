"""What people share over a team's server: proposals and what became of them, evidence, and changes."""

from typing import Annotated, Literal

from pydantic import AliasChoices, Field

from swarm_memory.schema.base import GLOBAL_PROJECT, MAX_PROJECT_CHARS, TEAM, Model, Scope, Timestamp, Unit, counted
from swarm_memory.schema.memory import Distiller, MemoryDraft, Outcome
from swarm_memory.schema.team.person import Role

MAX_TEAM_PROJECT_CHARS = MAX_PROJECT_CHARS - len(TEAM)
MAX_WORD_CHARS = MAX_SUSPECT_CHARS = 500
MAX_COUNT = 1_000_000
MAX_SIGNATURES = 50
MAX_SENT = 50
"""At most this many proposals, or shared memories, go in one request or answer."""

MAX_EVIDENCE = 500

ProposalStatus = Literal["waiting", "accepted", "declined"]
Act = Literal["accept", "edit", "decline", "undo"]

MemoryId = Annotated[str, Field(pattern=r"^rm_[0-9A-Z]{26}$")]
Signature = Field(min_length=1, max_length=128, pattern=r"^[0-9a-zA-Z:_-]+$")


def team_scope(tenant_id: str, project: str) -> Scope:
    """Return the scope of what a team shares about one of its projects or, with `*`, about all of them."""
    return Scope(tenant_id=tenant_id, project=f"{TEAM}{project}")


def team_scopes(tenant_id: str, project: str | None) -> tuple[Scope, ...]:
    """Return the scopes read along with a project, given the team's name for it: what is shared on it, and on all."""
    if project is None:
        return ()
    return team_scope(tenant_id, project), team_scope(tenant_id, GLOBAL_PROJECT)


class Evidence(Model, serialize_by_alias=True):
    """What came of a memory, counted in tasks. Counts are absolute, so that sending them again changes nothing."""

    worked: int = Field(default=0, ge=0, le=MAX_COUNT)
    tried: int = Field(default=0, ge=0, le=MAX_COUNT)
    shown: int = Field(
        default=0, ge=0, le=MAX_COUNT, validation_alias=AliasChoices("shown", "told"), serialization_alias="told"
    )
    people: int = Field(default=1, ge=0, le=MAX_COUNT)
    """How many people these counts come from."""

    @property
    def says(self) -> str:
        """In words: `worked 9 of 11 times for 4 people`."""
        if not self.tried:
            return f"shown {counted(self.shown, 'time')}, not yet used" if self.shown else "not yet used"
        people = "1 person" if self.people == 1 else f"{self.people:,} people"
        return f"worked {self.worked} of {counted(self.tried, 'time')} for {people}"

    @property
    def bounded(self) -> "Evidence":
        """The same counts, with `worked` no greater than `tried`."""
        return self.model_copy(update={"worked": min(self.worked, self.tried)})


class Shareable(Model):
    """A memory as sent over the wire: its words, and nothing of the task that it came from."""

    draft: MemoryDraft
    outcome: Outcome = "Success"
    confidence: Unit = 0.5
    distiller: Distiller = "extractive"
    signatures: tuple[str, ...] = Field(default=(), max_length=MAX_SIGNATURES)
    """Digests of the errors that it ended."""
    evidence: Evidence = Evidence()
    suspect: str | None = Field(default=None, max_length=MAX_SUSPECT_CHARS, exclude_if=lambda why: why is None)
    """Why its wording is suspect; omitted where it is not, because earlier versions refuse fields they do not know."""


class Proposed(Shareable):
    """What a person proposes to the team."""

    origin_id: MemoryId
    """The id of the memory in the proposer's own bank."""
    project: str = Field(min_length=1, max_length=MAX_TEAM_PROJECT_CHARS)
    word: str = Field(default="", max_length=MAX_WORD_CHARS)


class Proposal(Proposed):
    """A proposal on the server, and what came of it."""

    id: str
    status: ProposalStatus = "waiting"
    held: str | None = None
    """Why screening holds it back: it can be edited or declined, and not accepted as it is."""
    same_as: str | None = None
    """An earlier waiting proposal that says the same: what is decided about that one is decided about this one too."""
    memory_id: str | None = None
    """The shared memory that it became, or that was found to say the same."""
    person_id: str | None = None
    """Who proposed it; None: the user of the server's own bank."""
    person: str | None = None
    """Their name."""
    decided_by: str | None = None
    """The name of the reviewer who decided; None: nobody yet, or the user of the server's own bank."""
    decided_at: Timestamp | None = None
    decision: str = Field(default="", max_length=MAX_WORD_CHARS)
    """The reviewer's comment."""
    created_at: Timestamp


class Ruling(Model):
    """What a reviewer decides about a proposal."""

    act: Act
    word: str = Field(default="", max_length=MAX_WORD_CHARS)
    draft: MemoryDraft | None = None
    """With `edit`: the words to accept."""
    although_suspect: bool = Field(default=False, exclude_if=lambda said: not said)
    """Whether to accept suspect wording; without this it is refused."""


class SentProposal(Model):
    """What became of a person's own proposal, as kept in their own bank: without the words."""

    id: str
    status: ProposalStatus
    memory_id: str | None = None
    decided_by: str | None = None
    decision: str = ""


class SharedMemory(Shareable):
    """A memory that the team shares, as its server returns it."""

    id: MemoryId
    proposed_by: tuple[str, ...] = Field(default=(), max_length=100)
    """Names."""
    accepted_by: str | None = Field(default=None, max_length=200)
    accepted_at: Timestamp
    origins: tuple[str, ...] = Field(default=(), max_length=1000)
    """Ids of the caller's own memories that it came from."""


class Changes(Model):
    """What has changed since a cursor in what the team shares about a project."""

    stamp: str = Field(max_length=100)
    """The stamp of the counter: a cursor is valid only with the stamp that it came with."""
    cursor: int = Field(ge=0)
    shared: tuple[SharedMemory, ...] = Field(default=(), max_length=MAX_SENT)
    """New, or with other words or counts."""
    withdrawn: tuple[str, ...] = Field(default=(), max_length=MAX_SENT)
    has_more: bool = False


class ItemEvidence(Model):
    """The evidence of one person, in one bank, about one shared memory."""

    memory_id: MemoryId
    evidence: Evidence


class Member(Model):
    """The person whom the server takes the caller for."""

    name: str | None = None
    """None: the user of the server's own bank."""
    role: Role


class SharedMemoryInfo(Model):
    """What is known of a shared memory besides its words."""

    memory_id: str
    evidence: Evidence
    proposed_by: tuple[str, ...]
    accepted_by: str | None
    accepted_at: Timestamp
