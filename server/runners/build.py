"""Makes the runner that a request names; a runner that it may not name is refused here, before anything is queued."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.rollout import MattsRequest, RolloutRequest, RunnerAnswer
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.tools.ports.models import AgentRunner
from swarm_memory.tools.toolbox import Toolbox


class RunnerSpec(BaseModel):
    """Which runner, with all that it needs, as stored in a job's row."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)
    """Extra keys are ignored: jobs of earlier versions also name tools."""

    kind: Literal["command", "given"]
    command: str | None = None
    check: str | None = None
    folder: str | None = None
    """Relative to the project's root; the root itself when not given."""
    trajectories: tuple[Trajectory, ...] = ()
    verdicts: dict[int, Verdict] = {}
    """The agent's own verdicts, by the number of the trajectory."""
    speakers: tuple[str, ...] = ()
    """Who gave the trajectories over MCP: their steps are claims. Empty: the user."""


class MattsJob(MattsRequest):
    """The payload of a scaling job: what is requested, and who does it."""

    runner: RunnerSpec


def make_runner(spec: RunnerSpec, toolbox: Toolbox, root: Path, scratch: Path) -> AgentRunner:
    """Return the runner. Raises `InputError` for what is missing, `ConfigError` for a command that is not allowed."""
    if spec.kind == "given":
        if not spec.trajectories:
            raise InputError("runner is `given`: pass the attempts (trajectories) too")
        return GivenRunner(spec.trajectories, spec.verdicts)
    from swarm_memory.server.runners.command import CommandRunner
    from swarm_memory.server.runners.workplace import RolloutWorkspaces

    if not spec.command:
        raise InputError("runner is `command`: pass the command line too, as in matts.allowed_commands")
    outside = InputError(f"folder must be a folder within the project: {str(spec.folder)[:500]}")
    try:
        folder = (root / (spec.folder or ".")).resolve()
        if not (folder.is_relative_to(root.resolve()) and folder.is_dir()):
            raise outside
    except (OSError, ValueError, RuntimeError):  # not a name that a file system accepts
        raise outside from None
    return CommandRunner(spec.command, RolloutWorkspaces(folder, scratch, toolbox.settings.matts), spec.check)


class GivenRunner:
    """Returns the given `trajectories`, the first for rollout 1; `verdicts` are the agent's own, by number."""

    name = "given"
    takes_notes = False

    def __init__(self, trajectories: Sequence[Trajectory], verdicts: Mapping[int, Verdict] | None = None) -> None:
        self._trajectories = tuple(trajectories)
        self._verdicts = dict(verdicts or {})

    async def run(self, request: RolloutRequest) -> RunnerAnswer:
        """Return the trajectory with the request's number; an empty or missing one counts as failed."""
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
