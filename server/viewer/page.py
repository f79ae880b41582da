"""What a page is made of: what was asked, the template with what it shows, or where an action leads."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.team.person import Role
from swarm_memory.server.viewer.access import Undo

if TYPE_CHECKING:
    from pathlib import Path

    from swarm_memory.server.config import ResolvedSettings
    from swarm_memory.tools.toolbox import Toolbox

MAX_PAGE = 10_000


@dataclass(frozen=True, slots=True)
class Asked:
    """One request of a browser that was let in."""

    toolbox: "Toolbox"
    path: Mapping[str, str]
    """What the address names, by the names in the route's pattern."""
    query: Mapping[str, str]
    form: Mapping[str, str]
    """What was posted; empty for a page."""
    root: "Path"
    """The project's folder."""
    settings: "Callable[[], ResolvedSettings]"
    """Reads each setting with its origin."""
    wake_worker: Callable[[], None]
    """Says to the worker that a job was queued."""

    @property
    def page(self) -> int:
        """Which page of a list is asked for, from 1. Raises `InputError`."""
        asked = self.query.get("page", "1")
        if not (asked.isascii() and asked.isdigit() and 1 <= int(asked[:9]) <= MAX_PAGE):
            raise InputError(f"page is a number from 1 to {MAX_PAGE:,}, not {asked[:20]!r}")
        return int(asked)


class Page(NamedTuple):
    """A template, and what it shows."""

    template: str
    shown: Mapping[str, object]


class Done(NamedTuple):
    """What an action did: the page that comes next says so, with a way back where there is one."""

    to: str
    """A path below `/ui`."""
    says: str
    undo: Undo | None = None


Handler: TypeAlias = Callable[[Asked], Awaitable[Page | Done]]


class Route(NamedTuple):
    """A path below `/ui`, as Starlette writes it, and what answers there. What changes something is posted."""

    path: str
    handler: Handler
    method: Literal["GET", "POST"] = "GET"
    role: Role = "review"
    """The least that it needs: nobody with less is let in at all."""
