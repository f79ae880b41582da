"""What a world and an agent exchange: actions, their results, the task's text; no rule of any world."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pydantic import JsonValue


@dataclass(frozen=True, slots=True)
class Action:
    """One call that may be tried."""

    tool: str
    input: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])

    @property
    def text(self) -> str:
        """The command line, or the tool with its arguments."""
        command = self.input.get("command")
        if isinstance(command, str):
            return command
        return " ".join([self.tool, *(f"{key}={value}" for key, value in self.input.items())])


@dataclass(frozen=True, slots=True)
class Seen:
    """What came back: the output, and the exit code of a command (None for another tool)."""

    text: str
    failed: bool = False
    exit_code: int | None = None


class Environment(Protocol):
    """All that an agent sees of a world: neither its rules nor whether the task is truly met."""

    @property
    def task(self) -> str:
        """The task's text; it names in backticks what must succeed."""
        ...

    def actions(self) -> Sequence[Action]:
        """Return what might plausibly be tried now, always in the same order."""
        ...

    def act(self, action: Action) -> Seen: ...


def shell(command: str) -> Action:
    """Return a command line as an action."""
    return Action("Bash", {"command": command})
