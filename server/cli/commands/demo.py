"""`demo`: the whole loop on a shipped transcript, in a bank of its own that is thrown away."""

import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from swarm_memory.schema.base import counted
from swarm_memory.schema.memory import LearnResult, Retrieval
from swarm_memory.schema.settings import Settings, StorageSettings
from swarm_memory.server.cli.console import json_option, print_json, say

if TYPE_CHECKING:
    from swarm_memory.schema.trajectory import Trajectory

T = TypeVar("T")

SESSION = Path(__file__).resolve().parent.parent / "demo" / "session.jsonl"
SIMILAR = "The tests of this fresh clone fail with a SettingsError. Make them pass."
UNRELATED = "Translate the landing page into French and keep the layout."


@dataclass
class Timed:
    """What the demo did, and how long each part took."""

    learned: list[tuple["Trajectory", LearnResult]] = field(default_factory=list[tuple["Trajectory", LearnResult]])
    found: list[Retrieval] = field(default_factory=list[Retrieval])
    took_ms: dict[str, float] = field(default_factory=dict[str, float])

    async def time(self, what: str, work: Callable[[], Awaitable[T]]) -> T:
        began = time.perf_counter()
        result = await work()
        self.took_ms[what] = round((time.perf_counter() - began) * 1000, 1)
        return result


@click.command()
@json_option
def demo(as_json: bool) -> None:
    """Learn from a shipped Claude Code session, and show what comes back for the next task.

    Works offline and without a key. Nothing outside a temporary folder is read or written.
    """
    import anyio

    with tempfile.TemporaryDirectory(prefix="swarm-memory-demo-") as folder:
        shown = anyio.run(_play, Path(folder))
    if as_json:
        tasks = [result.model_dump(mode="json", exclude_none=True) for _, result in shown.learned]
        found = [each.model_dump(mode="json", exclude_none=True) for each in shown.found]
        print_json({"learned": tasks, "retrieved": found, "took_ms": shown.took_ms})
    else:
        _show(shown)


async def _play(folder: Path) -> Timed:
    from swarm_memory.server.hosts.transcript import read_trajectories
    from swarm_memory.server.wiring import open_toolbox, place_of
    from swarm_memory.tools.learn.learn import learn
    from swarm_memory.tools.retrieve.retrieve import retrieve

    shown = Timed()
    settings = Settings(storage=StorageSettings(db=str(folder / ".swarm" / "memory.db"), project="shop"))
    toolbox = await shown.time("open the bank", lambda: open_toolbox(place_of(folder, settings), settings))
    try:
        for trajectory in read_trajectories(SESSION):
            result = await shown.time("learn", lambda each=trajectory: learn(toolbox, each))
            shown.learned.append((trajectory, result))
        for what, query in (("retrieve", SIMILAR), ("retrieve again", UNRELATED)):
            shown.found.append(await shown.time(what, lambda text=query: retrieve(toolbox, text)))
    finally:
        await toolbox.store.close()
    return shown


def _show(shown: Timed) -> None:
    for number, (trajectory, result) in enumerate(shown.learned, 1):
        _show_task(number, trajectory, result)
    similar, unrelated = shown.found
    _heading("A similar task starts", similar.query)
    say("What is put into the agent's prompt:", dim=True)
    say()
    for line in similar.preamble.splitlines():
        say(f"    {line}", fg="cyan")
    say()
    for memory in similar.memories:
        parts = memory.parts
        how = f"relevance {parts.relevance:.2f}, recency {parts.recency:.2f}, confidence {parts.confidence:.2f}"
        say(f"    score {memory.score:.2f} ({how}): {memory.item.title}", dim=True)
    _heading("An unrelated task starts", unrelated.query)
    say("What is put into the agent's prompt: nothing." if not unrelated.memories else unrelated.preamble)
    if unrelated.reason:
        say(f"Why: {unrelated.reason}")
    times = ", ".join(f"{what} {ms:.0f} ms" for what, ms in shown.took_ms.items())
    say(f"\n{times}; {', '.join(similar.legs)} with {similar.embedder}. No key, no download, no daemon.", dim=True)
    say("Next: `swarm-memory install` in a project of yours.", dim=True)


def _show_task(number: int, trajectory: "Trajectory", result: LearnResult) -> None:
    _heading(f"Task {number} of a real Claude Code session", trajectory.task)
    calls = [step for step in trajectory.steps if step.kind == "tool_call"]
    say(f"{counted(len(trajectory.steps), 'step')}, {counted(len(calls), 'tool call')}:", dim=True)
    codes = {step.call_id: step.exit_code for step in trajectory.steps if step.kind == "observation"}
    for step in calls:
        command = str((step.tool_input or {}).get("command", step.tool_name))
        say(f"    exit {codes.get(step.call_id)}  {command[:100]}", fg="red" if codes.get(step.call_id) else None)
    verdict = result.verdict
    colour = {"Success": "green", "Failure": "red"}.get(verdict.label, "yellow")
    say(
        f"\nVerdict: {verdict.label}, confidence {verdict.confidence:.2f}, judged by {verdict.judge}",
        fg=colour,
        bold=True,
    )
    for reason in verdict.reasons:
        say(f"    {reason}")
    say(f"    rests on steps {', '.join(verdict.evidence) or 'none'}", dim=True)
    for item in result.stored:
        say(f"\nLearned: {item.title}", bold=True)
        say(f"    confidence {item.confidence:.2f}; {item.description}", dim=True)
        for line in item.content.splitlines():
            say(f"    {line}")
    if result.reason:
        say(f"    {result.reason}", dim=True)


def _heading(title: str, text: str) -> None:
    click.secho(f"\n── {title} " + "─" * max(0, 76 - len(title)), bold=True)
    say(f"“{text}”\n")


COMMANDS = {"demo": demo}
