"""Turns what a caller passes as a trajectory (a transcript's path, or a task with steps) into trajectories."""

import io
import json
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from swarm_memory.schema.base import digest
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.trajectory import Label
from swarm_memory.server.hosts.paths import checked_file
from swarm_memory.server.streaming import in_thread
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.text.cleaning import clean

if TYPE_CHECKING:
    from swarm_memory.schema.trajectory import Trajectory

Source: TypeAlias = Path | io.StringIO | BinaryIO

A_STEP = (
    'give each step as {"role": "user", "assistant" or "tool", "content": "what was said, or what the tool returned"}, '
    'and a tool call as {"role": "assistant", "tool_calls": [{"id": "c1", "name": "Bash", "arguments": {"command": '
    '"make"}}]}, answered by {"role": "tool", "tool_call_id": "c1", "content": "..."}'
)


class Given(NamedTuple):
    """The arguments of the tools that take a trajectory."""

    transcript_path: str | None = None
    task: str | None = None
    steps: list[dict[str, JsonValue]] | None = None
    task_id: str | None = None
    agent_id: str | None = None
    """Who acted; by default whoever the transcript names."""
    folders: tuple[Path, ...] | None = None
    """The transcript must be in one of these; None allows any path, or `-` for stdin, because a person names it."""

    def source(self) -> Source:
        """Return the source to read. Raises an `InputError` that names the argument to change."""
        from swarm_memory.server.hosts.messages import is_step

        if (self.transcript_path is None) == (self.steps is None):
            raise InputError("give either transcript_path, or task together with steps")
        if (path := self.transcript_path) is not None:
            if self.folders is None:
                return sys.stdin.buffer if path == "-" else Path(path)
            return Path(checked_file(path, self.folders))
        if not self.task or not self.task.strip():
            raise InputError("task is missing: give what was asked, in the words of whoever asked it")
        if not self.steps:
            raise InputError("steps is empty: give what was done, as {role, content} in order")
        for number, step in enumerate(self.steps, 1):  # a verdict on unreadable steps would be about nothing
            if not is_step(step):
                keys = ", ".join(repr(key[:40]) for key in list(step)[:8]) or "no keys"
                raise InputError(f"step {number} of steps contains nothing that can be read (it has {keys}): {A_STEP}")
        record = {"id": self.task_id or f"task-{digest(self.task)[:16]}", "task": self.task, "steps": self.steps}
        return io.StringIO(json.dumps(record))


class GivenAttempt(BaseModel):
    """One attempt of the caller's."""

    model_config = ConfigDict(extra="forbid")

    steps: list[dict[str, JsonValue]]
    verdict: Label | None = None
    confidence: float = Field(default=0.8, ge=0, le=1)


def existing_folder(text: str) -> str | None:
    """Return the absolute path of the folder that `text` names; None if it names none."""
    try:
        path = Path(text).expanduser()
        return str(path.absolute()) if text.strip() and path.is_dir() else None
    except (OSError, ValueError, RuntimeError):
        return None  # not a name that a file system accepts


async def read_one(given: Given) -> "Trajectory":
    """Return the one requested trajectory; for a transcript without `task_id`, its last task.

    Raises `InputError`, `NotFoundError`.
    """
    last = None
    async for trajectory in read_all(given, subagents=False):
        last = trajectory
    if last is None:
        raise InputError("the transcript contains no task: no prompt was followed by any work")
    return last


async def read_all(given: Given, *, subagents: bool = True) -> "AsyncGenerator[Trajectory]":
    """Yield the requested trajectories, one at a time in memory: all of a transcript, or only that of `task_id`.

    Raises `InputError`, `NotFoundError`.
    """
    from swarm_memory.server.hosts.transcript import read_trajectories

    source = given.source()
    wanted = None if isinstance(source, io.StringIO) else given.task_id
    acted = {} if given.agent_id is None else {"agent_id": redact(clean(given.agent_id, 200)).text}
    async for trajectory in in_thread(lambda: read_trajectories(source, wanted, subagents=subagents)):
        yield trajectory.model_copy(update=acted)
