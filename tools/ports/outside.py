"""What the operations ask of the world besides models, as Protocols: time, who carries out a task, a team's server."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from swarm_memory.schema.rollout import RolloutRequest, RunnerAnswer
from swarm_memory.schema.team.sharing import Changes, Counted, Decided, Member, Proposal, ProposalStatus, Proposed


class Clock(Protocol):
    """Time, so that a test can say what it is."""

    def now(self) -> datetime:
        """Return the present, aware, in UTC."""
        ...


class AgentRunner(Protocol):
    """Does a task once, in whatever way; many rollouts may run at the same time."""

    @property
    def name(self) -> str:
        """What it is, with what distinguishes it from others of its kind: `command:claude -p`."""
        ...

    @property
    def takes_notes(self) -> bool:
        """Whether memories in the prompt can have an effect: not where the work was done before."""
        ...

    async def run(self, request: RolloutRequest) -> RunnerAnswer:
        """Do the task within `request.timeout_s`; a rollout that fails is an answer, not an error.

        However this ends, also by cancellation, nothing of the rollout goes on afterwards. Raises `ConfigError` or
        `InputError` for what would end every other rollout in the same way.
        """
        ...

    async def settle(self, run_id: str, best: int | None) -> str | None:
        """Clear away what the rollouts of a run left, and return the folder of the best one's files, if it has any."""
        ...


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
