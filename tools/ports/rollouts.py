"""What test-time scaling needs from outside, as Protocols: who does a task, and where its runs are kept."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from swarm_memory.schema.base import Scope
from swarm_memory.schema.rollout import MattsRun, Rollout, RolloutRequest, RunnerAnswer, RunStatus
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.tools.ports.memories import StoredMemory


class RunEnd(NamedTuple):
    """All that the end of a MaTTS run writes, in one transaction; `run` has its last status and summary."""

    run: MattsRun
    embedder: str
    memories: tuple[StoredMemory, ...] = ()
    reinforced: tuple[str, ...] = ()
    """Ids whose confidence is raised by `reinforcement`."""
    reinforcement: float = 0.0
    new_per_day: int | None = None
    """So much may be added in a day; None: it is not counted."""


class AgentRunner(Protocol):
    """Does a task once, in whatever way; many rollouts may run at the same time."""

    @property
    def name(self) -> str:
        """What it is, with what tells it from others of its kind: `command:claude -p`."""
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


class RolloutStore(Protocol):
    """MaTTS runs and their rollouts, each saved as it ends."""

    async def begin_run(self, run: MattsRun) -> MattsRun:
        """Write the run as running unless it has ended, and return it as it stands: with the rollouts that ended
        before where it was begun before."""
        ...

    async def get_run(self, scope: Scope, run_id: str) -> MattsRun | None: ...

    async def list_runs(self, scope: Scope, statuses: Sequence[RunStatus], limit: int) -> list[MattsRun]:
        """Return runs, newest first."""
        ...

    async def save_rollout(
        self, scope: Scope, run_id: str, rollout: Rollout, trajectory: Trajectory | None, verdict: Verdict | None
    ) -> bool:
        """Keep an ended rollout and its trajectory; False, and nothing written, when the run is no longer running."""
        ...

    async def end_run(self, end: RunEnd) -> bool:
        """Write how a run ended, with its memories; False, and nothing written, when it is no longer running."""
        ...

    async def reopen_run(self, scope: Scope, run_id: str) -> bool:
        """Queue a run that was cancelled once more."""
        ...

    async def cancel_run(self, scope: Scope, run_id: str) -> bool:
        """Cancel a run that is queued or running; its rollouts are kept."""
        ...
