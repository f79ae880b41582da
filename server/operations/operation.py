"""Operations that agents and people call: declared once, and made into a tool of the server and a command."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from pydantic import JsonValue

    from swarm_memory.schema.job import Progress
    from swarm_memory.schema.team.person import Role
    from swarm_memory.tools.memories.remember import Session
    from swarm_memory.tools.ports.records import HostSession
    from swarm_memory.tools.toolbox import Toolbox

Row: TypeAlias = dict[str, Any]
"""An answer, or a part of one, as it becomes JSON."""

READ = {"read_only_hint": True, "idempotent_hint": True}
WRITE = {"read_only_hint": False, "destructive_hint": False, "idempotent_hint": True}
APPEND = WRITE | {"idempotent_hint": False}
"""Adds something at each call."""


class Positional(NamedTuple):
    """In an argument's annotation: the command line takes it without a flag.

    `[NAME]` may be left out. A text `NAME...` is the rest of the line, or standard input where that is `-`.
    """

    metavar: str = ""
    type: Any = None
    """A click type."""


class Only(Enum):
    """In an argument's annotation: who alone can give it."""

    AGENT = "the tool has it, the command has not"
    USER = "the command has it, the tool has not"


class Site(Protocol):
    """Where an operation is called: by an agent through the server, or by the user at the command line."""

    is_users: ClassVar[bool]
    """Whether the user is calling, who may do more than the settings let an agent do."""

    @property
    def root(self) -> Path:
        """The project's folder."""
        ...

    @property
    def unmade_bank(self) -> Path | None:
        """The file that the first task creates, if there is no bank yet. Raises `ConfigError`."""
        ...

    async def toolbox(self) -> "Toolbox":
        """Return the bank's toolbox; the bank is created where there is none. Raises `ConfigError`, `StorageError`."""
        ...

    async def for_reading(self) -> "Toolbox":
        """Like `toolbox`, but where there is no bank an empty one is read and none is created."""
        ...

    async def report(self, progress: "Progress") -> None:
        """Show the caller how far the work is."""
        ...

    async def work(self, kind: str, payload: "Mapping[str, JsonValue]", key: str | None = None) -> Row:
        """Do a job of a kind and return its result; over MCP, its state when it ends or a host would wait no longer.

        Raises `InputError` with the error of a failed job, `StorageError`.
        """
        ...

    @property
    def folders(self) -> tuple[Path, ...] | None:
        """The folders below which the caller may name a transcript; None: anywhere."""
        return None

    async def session(self) -> "HostSession | None":
        """Return the host's session that the caller works in, if its hooks recorded it."""
        return None

    async def session_so_far(self) -> "Session":
        """Return what is known about that session so far."""
        from swarm_memory.server.jobs.transcripts import session_so_far

        return await session_so_far(await self.session(), self.folders or (), self.root)

    def wake(self) -> None:
        """Make a worker look at what was queued; without a worker, that waits for a server or for `jobs work`."""

    def waiting(self) -> AbstractContextManager[None]:
        """Mark that the caller waits for the worker while the block runs."""
        return nullcontext()


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation: `run` provides its name, its help (the docstring) and its arguments with their descriptions."""

    run: Callable[..., Awaitable[Any]]
    """Its first parameter is the `Site`; the others are annotated as pydantic does. Raises `SwarmMemoryError`.

    A plain string in an annotation is for the command line: the help, or if it begins with a dash a flag, such as "-k"
    or "--undo RUN", in which RUN is the help's name for the value.

    It returns a `Row`, or a model whose `text` is what an agent reads: the schema of such a model is published.
    """
    title: str
    hints: dict[str, bool]
    """What the tool does to the world, as MCP's hints."""
    role: "Role | dict[str, Role]"
    """The minimum role over HTTP; by action where `action` is an argument."""
    meta: dict[str, Any] | None = None


def row(**fields: object) -> Row:
    """Return the fields without those that are None."""
    return {name: value for name, value in fields.items() if value is not None}
