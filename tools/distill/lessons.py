"""What a finder draws from a trajectory, put together as a draft."""

from collections.abc import Sequence
from dataclasses import dataclass

from swarm_memory.schema.memory import MemoryDraft, MemoryItem
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.tools.text.cleaning import one_line
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.reading import Reading

MAX_TITLE, MAX_LINE, MAX_LINES = 80, 240, 8

GUARDRAIL = "guardrail"
"""Tag of a lesson on what did not work."""

HOST_TOOLS = frozenset(
    {"Read", "Edit", "MultiEdit", "Write", "Glob", "Grep", "LS", "TodoWrite", "KillShell", "BashOutput", "Task",
     "Skill", "WebFetch", "WebSearch", "ExitPlanMode", "NotebookEdit", "AskUserQuestion", "TaskOutput"}
)  # fmt: skip
"""What a coding agent's host brings along: a slip with them teaches little."""


@dataclass(frozen=True, slots=True)
class Material:
    """What lessons are drawn from."""

    reading: Reading
    verdict: Verdict
    known: tuple[tuple[str, MemoryItem], ...] = ()
    """The fixes that the bank has of its errors, each with the error's signature; candidates too."""

    @property
    def trajectory(self) -> Trajectory:
        return self.reading.trajectory

    @property
    def calls(self) -> tuple[Call, ...]:
        return self.reading.calls


@dataclass(frozen=True, slots=True)
class Told:
    """What a lesson says."""

    title: str
    when: str
    """Continues "Of use when …"."""
    lines: Sequence[str]
    """They become the numbered steps."""
    tags: Sequence[str] = ()


def draft_of(told: Told, calls: Sequence[Call] = (), steps: Sequence[str] = ()) -> MemoryDraft:
    """Put a lesson together; `calls`, and the ids of `steps`, are what it rests on."""
    program = next((call.command.main.program for call in reversed(calls) if call.command and call.command.main), "")
    tools = [call.tool for call in calls if call.command is None]
    domain = f"shell.{program}" if program else f"tool.{tools[0].lower()}" if tools else None
    lines = [one_line(line, MAX_LINE) for line in told.lines[:MAX_LINES]]
    return MemoryDraft(
        title=told.title[:1].upper() + one_line(told.title, MAX_TITLE)[1:],
        description=one_line(f"Of use when {told.when}.", 300),
        content="\n".join(f"{number}. {line}" for number, line in enumerate(lines, 1)),
        tags=tuple(dict.fromkeys(one_line(tag.lower(), 40) for tag in (*told.tags, *tools, program) if tag))[:8],
        domain=domain and domain[:100],
        evidence=tuple(dict.fromkeys([*steps, *(step for call in calls for step in call.ids)]))[:20],
    )
