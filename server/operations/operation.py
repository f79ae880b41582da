"""What an operation is that agents and people call: declared once, made into a tool of the server and a command."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from pydantic import JsonValue

if TYPE_CHECKING:
    from swarm_memory.schema.team.person import Role
    from swarm_memory.tools.toolbox import Toolbox

T = TypeVar("T")

Row: TypeAlias = dict[str, Any]
"""An answer, or a part of one, as it becomes JSON."""

READS = {"read_only_hint": True, "idempotent_hint": True}
ADDS = {"read_only_hint": False, "destructive_hint": False, "idempotent_hint": True}
AGAIN = ADDS | {"idempotent_hint": False}
"""Adds something at each call."""
MENDS = ADDS | {"destructive_hint": True}


class Flag(NamedTuple):
    """In an argument's annotation: how the command line takes it, beyond its name and what the annotation says.

    A plain string there is its flag where it begins with a dash, as "-k"; else its help.
    """

    metavar: str | None = None
    type: Any = None
    """A type of click."""


class Word(NamedTuple):
    """In an argument's annotation: the command line takes it without a flag."""

    metavar: str | None = None
    type: Any = None


class Site(Protocol):
    """Where an operation is called: by an agent through the server, or by a person at the command line."""

    @property
    def is_users(self) -> bool:
        """Whether the user asks, who may do more than the settings let an agent do."""
        ...

    async def toolbox(self) -> "Toolbox":
        """Return the bank's toolbox; the bank is made where there is none. Raises `ConfigError`, `StorageError`."""
        ...

    async def for_reading(self) -> "Toolbox":
        """As `toolbox`, but an empty bank stands for one that is not there, and none is made."""
        ...

    async def task_id(self) -> str | None:
        """Return the task that the caller works on, where its host's hooks said so."""
        ...

    async def work(self, kind: str, payload: Mapping[str, JsonValue]) -> Row:
        """Do a job of a kind and return what it gave; over MCP how it stands when a host would wait no longer.

        Raises `InputError` with what a failed job says, `StorageError`.
        """
        ...


@dataclass(frozen=True, slots=True)
class Operation(Generic[T]):
    """One operation: `run` has its name, its help (the docstring) and its arguments with their descriptions."""

    run: Callable[..., Awaitable[T]]
    """Its first parameter is the `Site`; the others are annotated as pydantic does. Raises `SwarmMemoryError`."""
    title: str
    hints: dict[str, bool]
    """What the tool does to the world, in the words of MCP."""
    role: "Role | dict[str, Role]"
    """The least role over HTTP; by action where `action` is an argument."""
    answer: Callable[[T], Any]
    """Shapes the result for a model: a `Row`, or a model whose `text` is shown beside its structure."""
    meta: dict[str, Any] | None = None
