"""A runner for rollouts that the calling agent has already made: it gives them back one by one and does nothing."""

from collections.abc import Mapping, Sequence

from swarm_memory.schema.rollout import RolloutRequest, RunnerAnswer
from swarm_memory.schema.trajectory import Trajectory, Verdict


class GivenRunner:
    """Gives `trajectories`, the first for rollout 1; `verdicts` are the agent's own words, by number."""

    name = "given"
    takes_notes = False

    def __init__(self, trajectories: Sequence[Trajectory], verdicts: Mapping[int, Verdict] | None = None) -> None:
        self._trajectories = tuple(trajectories)
        self._verdicts = dict(verdicts or {})

    async def run(self, request: RolloutRequest) -> RunnerAnswer:
        """Return the trajectory with the request's number; an empty one, and one that is not there, has failed."""
        if request.number > len(self._trajectories):
            return RunnerAnswer(status="failed", error=f"only {len(self._trajectories)} trajectories were given")
        trajectory = self._trajectories[request.number - 1]
        if not trajectory.steps:
            return RunnerAnswer(status="failed", error=f"trajectory {request.number} has no steps")
        return RunnerAnswer(status="finished", trajectory=trajectory, agent_verdict=self._verdicts.get(request.number))

    async def settle(self, run_id: str, best: int | None) -> str | None:
        """Leave everything as it is: nothing was made."""
        del run_id, best
        return None
