"""Rollouts of a scenario in copies of its folder, each checked by the scenario's own script at its end."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import anyio

from swarm_memory.schema.errors import ConfigError
from swarm_memory.schema.rollout import RolloutRequest, RunnerAnswer
from swarm_memory.schema.trajectory import Step, Trajectory
from swarm_memory.server.child_process import run
from swarm_memory.tools.benchmark.learning.task_arms import Attempt
from swarm_memory.tools.benchmark.tasks.scenarios import Scenario
from swarm_memory.tools.matts.rollouts import steps_of
from swarm_memory.tools.ports.rollouts import AgentRunner
from swarm_memory.tools.text.cleaning import one_line
from swarm_memory.tools.text.tokens import count_tokens

CHECK_LIMIT_S = 120.0
_MAX_OUTPUT_BYTES = 1_000_000


async def check(scenario: Scenario, folder: Path) -> tuple[int | None, str]:
    """Run a scenario's checker on a folder; return its exit code (None: it did not end in time) and what it said."""
    printed = bytearray()
    with anyio.move_on_after(CHECK_LIMIT_S):
        finished = await run(
            [sys.executable, "-I", "-B", str(scenario.check), str(folder)],
            stdin=b"",
            cwd=folder,
            environment={"PATH": os.environ.get("PATH", ""), "PYTHONDONTWRITEBYTECODE": "1"},
            max_output_bytes=_MAX_OUTPUT_BYTES,
            printed=printed,
        )
        return finished.code, (finished.output + finished.error).decode("utf-8", "replace").strip()
    return None, f"the checker did not end within {CHECK_LIMIT_S:g} s: {printed.decode('utf-8', 'replace')[-300:]}"


class ScenarioRunner:
    """Passes rollouts on to a runner that works in copies below `scratch`, and checks each copy.

    `metered`: the agent's tokens are counted where its chat model is, and not here.
    """

    takes_notes = True

    def __init__(
        self, scenario: Scenario, inner: AgentRunner, scratch: Path, *, show_check: bool, metered: bool
    ) -> None:
        self.name = inner.name
        self.attempts: dict[int, Attempt] = {}
        self._metered = metered
        self._scenario, self._inner, self._scratch, self._show_check = scenario, inner, scratch, show_check

    async def run(self, request: RolloutRequest) -> RunnerAnswer:
        """Let the task be done, then check it. Raises as the runner does; `ConfigError` for a broken checker."""
        answer = await self._inner.run(request)
        folder = self._scratch / request.run_id / str(request.number)
        code, said = await check(self._scenario, folder) if folder.is_dir() else (1, "there is no folder")
        if code not in (0, 1, None):
            raise ConfigError(f"the checker of {self._scenario.name} failed itself: {one_line(said[-400:], 400)}")
        attempt = _attempt(request, answer.trajectory, met=code == 0, said=said)
        self.attempts[request.number] = replace(attempt, tokens=0, tokens_counted=True) if self._metered else attempt
        if self._show_check and answer.trajectory is not None:
            return answer.model_copy(update={"trajectory": _with_check(answer.trajectory, code, said)})
        return answer

    async def settle(self, run_id: str, best: int | None) -> str | None:
        """Clear everything away: what counts was checked."""
        del best
        return await self._inner.settle(run_id, None)


def _attempt(request: RolloutRequest, trajectory: Trajectory | None, *, met: bool, said: str) -> Attempt:
    told = one_line(said, 300)
    if trajectory is None:
        return Attempt(met=met, steps=0, tokens=count_tokens(request.prompt), tokens_counted=False, said=told)
    used = trajectory.usage
    counted = used.input_tokens + used.output_tokens + used.cache_read_tokens + used.cache_creation_tokens
    steps = steps_of(trajectory)
    if counted:
        return Attempt(met=met, steps=steps, tokens=counted, tokens_counted=True, said=told)
    texts = (f"{step.text} {step.tool_input or ''}" for step in trajectory.steps)
    estimated = count_tokens(request.prompt) + sum(map(count_tokens, texts))
    return Attempt(met=met, steps=steps, tokens=estimated, tokens_counted=False, said=told)


def _with_check(trajectory: Trajectory, code: int | None, said: str) -> Trajectory:
    """Return the trajectory with the check at its end, as a project's own tests would stand there."""
    number, ended = len(trajectory.steps), 124 if code is None else code
    steps = (
        Step(
            id=f"s{number + 1}", kind="tool_call", role="assistant", tool_name="Bash", call_id="check",
            tool_input={"command": "python check.py"},
        ),
        Step(
            id=f"s{number + 2}", kind="observation", role="tool", tool_name="Bash", call_id="check",
            text=f"Exit code {ended}\n{said}" if ended else said, exit_code=ended, is_error=ended != 0,
        ),
    )  # fmt: skip
    return trajectory.model_copy(update={"steps": (*trajectory.steps, *steps)})
