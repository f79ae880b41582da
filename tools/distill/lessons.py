"""A lesson: a draft with what it is worth."""

from collections.abc import Sequence
from dataclasses import dataclass

from swarm_memory.schema.memory import MemoryDraft, MemoryItem
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.tools.text.cleaning import one_line
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.phrasing import show_task
from swarm_memory.tools.trajectory.reading import Reading

MAX_TITLE, MAX_LINE, MAX_LINES = 80, 240, 8

GUARDRAIL = "guardrail"
"""Tag of a lesson on what did not work."""

HOST_TOOLS = frozenset(
    {"Read", "Edit", "MultiEdit", "Write", "Glob", "Grep", "LS", "TodoWrite", "KillShell", "BashOutput", "Task",
     "Skill", "WebFetch", "WebSearch", "ExitPlanMode", "NotebookEdit", "AskUserQuestion", "TaskOutput"}
)  # fmt: skip
"""What a coding agent's host brings along: a slip with them teaches little."""

_LANGUAGE = {
    "pytest": "python", "unittest": "python", "python": "python", "python3": "python", "pip": "python", "uv": "python",
    "ruff": "python", "mypy": "python", "pyright": "python", "poetry": "python", "tox": "python", "nox": "python",
    "npm": "node", "pnpm": "node", "yarn": "node", "bun": "node", "node": "node", "jest": "node", "vitest": "node",
    "tsc": "node", "eslint": "node", "npx": "node", "vite": "node", "next": "node", "mocha": "node", "tsx": "node",
    "cargo": "rust", "rustc": "rust", "go": "go", "mvn": "java", "gradle": "java", "gradlew": "java", "javac": "java",
    "dotnet": "dotnet", "rspec": "ruby", "bundle": "ruby", "ruby": "ruby", "phpunit": "php", "composer": "php",
    "make": "make", "cmake": "cpp", "gcc": "cpp", "g++": "cpp", "ctest": "cpp", "swift": "swift", "git": "git",
    "gh": "git", "docker": "docker", "kubectl": "kubernetes", "terraform": "terraform",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Lesson:
    """A draft, what it is worth (0…1 and a little more), and whether the trajectory itself proves it."""

    value: float
    draft: MemoryDraft
    proven: bool
    """It rests on a run that was seen to succeed, or on the user's own word: it holds whatever the verdict."""
    topic: str
    """Two lessons of one topic say the same; the better one is kept."""


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

    @property
    def particulars(self) -> tuple[str, ...]:
        """Names and ids of this task, to be replaced."""
        return self.reading.particulars

    @property
    def task(self) -> str:
        """The task's words as they may be kept; empty where there are too few to tell it from another."""
        shown = show_task(self.trajectory.task, self.particulars)
        return shown if len(shown.split()) >= 3 else ""

    @property
    def failed(self) -> bool:
        return self.verdict.label == "Failure"


@dataclass(frozen=True, slots=True)
class Told:
    """What a lesson says."""

    title: str
    when: str
    """Continues "Of use when …"."""
    lines: Sequence[str]
    """They become the numbered steps."""
    topic: str
    tags: Sequence[str] = ()
    of_any_task: bool = False
    """Whether the task says nothing of when it is of use: that is known without it."""


_MET = " Met in a task such as: "


def without_task(description: str) -> str:
    """Return a description as it may leave the machine: without the words of the task that it was met in."""
    return description.partition(_MET)[0]


def lesson(
    material: Material,
    told: Told,
    *,
    calls: Sequence[Call],
    value: float,
    proven: bool = False,
    steps: Sequence[str] = (),
) -> Lesson:
    """Put a lesson together; `calls`, and the ids of `steps`, are what it rests on."""
    numbered = [f"{number}. {one_line(line, MAX_LINE)}" for number, line in enumerate(told.lines[:MAX_LINES], 1)]
    has_task = material.task and not told.of_any_task
    task = f'{_MET}"{material.task}".' if has_task else ""
    program = next((call.command.main.program for call in reversed(calls) if call.command and call.command.main), None)
    draft = MemoryDraft(
        title=told.title[:1].upper() + one_line(told.title, MAX_TITLE)[1:],
        description=one_line(f"Of use when {told.when}.", 300) + task,
        content="\n".join(numbered),
        tags=_tags(told.tags, calls, program),
        domain=_domain(calls, program),
        evidence=tuple(dict.fromkeys([*steps, *(step for call in calls for step in call.ids)]))[:20],
    )
    return Lesson(value, draft, proven, told.topic)


def _tags(tags: Sequence[str], calls: Sequence[Call], program: str | None) -> tuple[str, ...]:
    language = _LANGUAGE.get(program or "")
    named = [*tags, *(call.tool for call in calls if call.command is None), program or "", language or ""]
    return tuple(dict.fromkeys(one_line(tag.lower(), 40) for tag in named if tag))[:8]


def _domain(calls: Sequence[Call], program: str | None) -> str | None:
    if program:
        return f"{_LANGUAGE.get(program, 'shell')}.{program}"[:100]
    tool = next((call.tool for call in calls), None)
    return f"tool.{tool.lower()}"[:100] if tool else None
