"""This bank as a team's server: what a person may ask of it. The routes, the desk and tests go through it."""

from collections.abc import Sequence
from dataclasses import dataclass

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.team.person import Person
from swarm_memory.schema.team.sharing import (
    MAX_EVIDENCE,
    MAX_SENT,
    Changes,
    Counted,
    Decided,
    Member,
    Proposal,
    ProposalStatus,
    Proposed,
    team_scope,
)
from swarm_memory.tools.ports.team import ProposalFilter
from swarm_memory.tools.team.evidence import take_evidence
from swarm_memory.tools.team.review import checked_project, decide, take_proposal
from swarm_memory.tools.toolbox import Toolbox

MAX_LISTED = 200


@dataclass(frozen=True, slots=True)
class TeamBank:
    """A `Team` that is this bank. What a person may do was checked before: the least role of each is the route's."""

    toolbox: Toolbox
    person: Person | None = None
    """None: the bank's own user, who may do all."""

    async def me(self) -> Member:
        return Member(role="admin") if self.person is None else Member(name=self.person.name, role=self.person.role)

    async def propose(self, bank: str, proposed: Sequence[Proposed]) -> list[Proposal]:
        """Take proposals in, each for itself. Raises `InputError`: those before it were taken."""
        _check("proposals", len(proposed), MAX_SENT)
        return [await take_proposal(self.toolbox, self.person, bank, each) for each in proposed]

    async def proposals(self, status: ProposalStatus | None = "waiting", *, mine: bool = False) -> list[Proposal]:
        """Return at most 200."""
        statuses: tuple[ProposalStatus, ...] = ("waiting", "accepted", "declined") if status is None else (status,)
        own = ("" if self.person is None else self.person.id) if mine else None
        which = ProposalFilter(statuses, own, limit=MAX_LISTED, leading=not mine)
        return await self.toolbox.store.team.proposals(self.toolbox.scope.tenant_id, which)

    async def decide(self, proposal_id: str, decided: Decided) -> Proposal:
        """Decide about a proposal. Raises as `review.decide`."""
        return await decide(self.toolbox, self.person, proposal_id, decided)

    async def changes(self, project: str, stamp: str, after: int) -> Changes:
        """Return at most 50 changes."""
        scope = team_scope(self.toolbox.scope.tenant_id, checked_project(project))
        own = "" if self.person is None else self.person.id
        return await self.toolbox.store.team.changes(scope, stamp, after, own, MAX_SENT)

    async def send_evidence(self, bank: str, counted: Sequence[Counted]) -> None:
        """Take evidence in."""
        _check("counts", len(counted), MAX_EVIDENCE)
        await take_evidence(self.toolbox, self.person, bank, counted)


def _check(what: str, number: int, most: int) -> None:
    if number > most:
        raise InputError(f"{number} {what} at once: send at most {most}")
