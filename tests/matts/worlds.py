"""A bank in a file, attempts scripted call by call, and small programs that play the agent."""

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
from laid_bank import opened_bank
from pydantic import JsonValue

from swarm_memory.schema.rollout import MattsRequest, RolloutRequest, RunnerAnswer
from swarm_memory.schema.settings import MattsSettings, Settings
from swarm_memory.schema.trajectory import Step, Trajectory
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.runners.command import CommandRunner
from swarm_memory.server.runners.workplace import RolloutWorkspaces
from swarm_memory.server.wiring import SystemClock
from swarm_memory.tools.matts.matts import MattsResult, run_matts
from swarm_memory.tools.ports.models import AgentRunner
from swarm_memory.tools.toolbox import Toolbox

EMBEDDER = StaticEmbedder()
TASK = "Make the tests of the billing service pass."


def opened(folder: Path, settings: Settings | None = None) -> AbstractAsyncContextManager[Toolbox]:
    """Open a toolbox on the bank in `folder`, with the system clock."""
    return opened_bank(folder / "memory.db", clock=SystemClock(), settings=settings)


async def ran(folder: Path, runner: AgentRunner, settings: Settings | None = None, **asked: Any) -> MattsResult:
    """Run MaTTS on `TASK`, or as `asked` says, with the bank in `folder`."""
    async with opened(folder, settings) as tools:
        return await run_matts(tools, MattsRequest.model_validate({"task": TASK, **asked}), runner)


def matts(**given: Any) -> Settings:
    return Settings(matts=MattsSettings(**given))


def attempt(*commands: tuple[str, str, int], said: str = "Done.") -> Trajectory:
    """Return a trajectory of shell commands with their output and exit code."""
    steps: list[dict[str, Any]] = []
    for number, (command, output, code) in enumerate(commands):
        call = {"call_id": f"c{number}", "tool_name": "Bash"}
        steps.append({"kind": "tool_call", "role": "assistant", "tool_input": {"command": command}, **call})
        shown = f"Exit code {code}\n{output}" if code else output
        steps.append({"kind": "observation", "role": "tool", "text": shown, "is_error": code != 0, **call})
    steps.append({"kind": "message", "role": "assistant", "text": said})
    named = tuple(Step.model_validate({"id": f"s{number}", **step}) for number, step in enumerate(steps, 1))
    return Trajectory(task_id="any", task="any", steps=named)


RED = ("pytest -q", "E   OperationalError: no such table: invoices\n2 failed in 0.1s", 1)
GREEN = ("pytest -q", "2 passed in 0.1s", 0)
MIGRATE = ("alembic upgrade head", "Running upgrade -> 1a2b", 0)
RETRY = ("pytest -q --lf", "E   OperationalError: no such table: invoices\n2 failed in 0.1s", 1)


def met() -> Trajectory:
    """Return an attempt that met the task."""
    return attempt(RED, MIGRATE, GREEN)


def missed() -> Trajectory:
    """Return an attempt that did not meet the task."""
    return attempt(RED, RETRY, RED, said="I could not make them pass.")


class Scripted:
    """A runner that returns what a function of the request returns."""

    name, takes_notes = "scripted", True

    def __init__(
        self, play: Callable[[RolloutRequest], Trajectory | RunnerAnswer | None], *, together: int = 1
    ) -> None:
        """`play` returns None for a rollout that never ends. No rollout ends before `together` of them were running."""
        self._play, self._together = play, together
        self._met = anyio.Event()
        self.requests: list[RolloutRequest] = []
        self.settled: list[tuple[str, int | None]] = []
        self.running = self.most_running = 0

    async def run(self, request: RolloutRequest) -> RunnerAnswer:
        self.requests.append(request)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            if self.running >= self._together:
                self._met.set()
            await self._met.wait()
            await anyio.lowlevel.checkpoint()
            played = self._play(request)
            if played is None:
                await anyio.sleep_forever()
            if isinstance(played, RunnerAnswer):
                return played
            return RunnerAnswer(status="finished", trajectory=played)
        finally:
            self.running -= 1

    async def settle(self, run_id: str, best: int | None) -> str | None:
        self.settled.append((run_id, best))
        return None


def by_number(trajectories: Mapping[int, Trajectory | RunnerAnswer | None]) -> Scripted:
    return Scripted(lambda request: trajectories[request.number])


class Agent:
    """A Python program that plays the agent, in its own working folder."""

    def __init__(self, tmp_path: Path, program: str, **files: str) -> None:
        self.folder = tmp_path / "work"
        self.folder.mkdir()
        self.scratch = tmp_path / "scratch"
        script = tmp_path / "agent.py"
        script.write_text(program)
        for name, text in files.items():
            (self.folder / f"{name}.txt").write_text(text)
        self.command = f"{sys.executable} -I {script}"

    def runner(self, settings: MattsSettings | None = None, check: str | None = None) -> CommandRunner:
        allowed = tuple(filter(None, (self.command, check)))
        chosen = (settings or MattsSettings()).model_copy(update={"allowed_commands": allowed})
        return CommandRunner(self.command, RolloutWorkspaces(self.folder, self.scratch, chosen), check)

    def request(self, number: int = 1, **given: Any) -> RolloutRequest:
        fields: dict[str, Any] = {
            "run_id": "run_1", "task_id": "t1", "task": TASK, "prompt": TASK, "number": number, "mode": "parallel",
            "seed": 7, "temperature": 0.5, "timeout_s": 100.0,
        }  # fmt: skip
        return RolloutRequest(**(fields | given))


def item(kind: str, title: str, *steps: str, evidence: tuple[str, ...]) -> dict[str, JsonValue]:
    """Return an item as a model proposes it."""
    return {
        "kind": kind, "title": title, "description": "Of use when tests fail because a table is missing.",
        "steps": list(steps), "evidence": list(evidence),
    }  # fmt: skip
