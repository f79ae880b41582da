"""How many finished tasks a model would be asked about, and how many tokens that takes; nothing is sent.

    python benchmarks/learning_cost.py PATH...

PATH is a file of trajectories or transcripts, or a folder of them. For each: its tasks, those worth asking about, and
of these the tokens of what judge and distiller would be sent (median and most), as `tools/text/tokens.py` counts them.
Answers, and the screening of what was drawn, are not in it.
"""

import asyncio
import sys
from pathlib import Path
from statistics import median

from swarm_memory.schema.errors import InputError, ModelUnavailable
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.server.hosts.transcript import read_trajectories
from swarm_memory.server.jobs.transcripts import is_worth_a_model
from swarm_memory.tools.distill.model import draw_by_model
from swarm_memory.tools.judge.model import judge_by_model
from swarm_memory.tools.ports.models import ChatAnswer, ChatRequest
from swarm_memory.tools.text.tokens import count_tokens


class Counting:
    """Counts what it is sent, and does not answer."""

    name, is_local = "counting", True

    def __init__(self) -> None:
        self.tokens = 0

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Raise `ModelUnavailable`."""
        self.tokens += count_tokens(f"{request.system}\n{request.user}\n{request.answer_schema}")
        raise ModelUnavailable("nothing is sent")


async def tokens_of(trajectory: Trajectory) -> int:
    """Return the tokens of the two requests about a task."""
    model, settings = Counting(), Settings()
    asked = (
        judge_by_model(model, trajectory, settings),
        draw_by_model(model, trajectory, Verdict.by_agent("Success"), settings),
    )
    await asyncio.gather(*asked, return_exceptions=True)
    return model.tokens


def tasks_in(path: Path) -> list[Trajectory]:
    """Return the tasks of a file or a folder; files that hold none are passed over."""
    tasks: list[Trajectory] = []
    for file in [path] if path.is_file() else sorted(path.rglob("*.jsonl*")):
        try:
            tasks += read_trajectories(file, subagents=False)
        except InputError as error:
            print(f"{file.name}: passed over, {str(error).partition(';')[0][:100]}", file=sys.stderr)
    return tasks


def main() -> None:
    """Print a line for each path."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    print(f"{'path':40} {'tasks':>6} {'worth it':>9} {'tokens: median':>15} {'most':>7}")
    for path in map(Path, sys.argv[1:]):
        tasks = tasks_in(path)
        tokens = [asyncio.run(tokens_of(task)) for task in tasks if is_worth_a_model(task)] or [0]
        worth = len(tokens) if any(tokens) else 0
        print(f"{path.name:40} {len(tasks):6} {worth:9} {median(tokens):15,.0f} {max(tokens):7,}")


if __name__ == "__main__":
    main()
