"""Tool calls of transcripts that are taken in: logged once, at their own times, whoever logged them first."""

from pathlib import Path

import swarm_memory.server.cli.demo as demo
from swarm_memory.schema.job import Progress
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.server.hosts.transcript import read_trajectories
from swarm_memory.server.jobs.transcripts import import_files
from swarm_memory.tools.tool_memory.advise import retrieve_tool_memory
from swarm_memory.tools.tool_memory.log import log_calls_of
from swarm_memory.tools.toolbox import Toolbox

SESSION = Path(next(iter(demo.__path__))) / "session.jsonl"


async def unheard(_: Progress) -> None:
    """Nobody listens."""


def trajectories() -> list[Trajectory]:
    return list(read_trajectories(SESSION))


async def test_an_imported_session_says_what_its_tools_are_good_for_once(toolbox: Toolbox) -> None:
    first = await import_files(toolbox, [SESSION], False, unheard)
    again = await import_files(toolbox, [SESSION], False, unheard)
    assert first.calls >= 5
    assert again.calls == 0
    (guidance,) = (await retrieve_tool_memory(toolbox, ["Bash"])).tools
    assert guidance.totals is not None
    assert guidance.totals.calls == first.calls
    assert 0 < guidance.totals.succeeded < first.calls, "the session has failures and successes"


async def test_a_call_without_the_ids_of_its_host_is_not_logged(toolbox: Toolbox) -> None:
    (trajectory, *_) = trajectories()
    assert await log_calls_of(toolbox, trajectory.model_copy(update={"session_id": None})) == 0
    steps = tuple(step.model_copy(update={"call_id": None}) for step in trajectory.steps)
    assert await log_calls_of(toolbox, trajectory.model_copy(update={"steps": steps})) == 0


async def test_an_interrupted_call_says_nothing_of_its_tool(toolbox: Toolbox) -> None:
    (trajectory, *_) = trajectories()
    steps = tuple(step.model_copy(update={"interrupted": step.kind == "observation"}) for step in trajectory.steps)
    assert await log_calls_of(toolbox, trajectory.model_copy(update={"steps": steps})) == 0
