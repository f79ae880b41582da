"""The one thing that every operation is given: the ports, the settings and the scope."""

from asyncio import Lock
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from swarm_memory.schema.base import JOB, MAX_PROJECT_CHARS, Scope, new_id
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.job import Job
from swarm_memory.tools.ports.models import Vector

if TYPE_CHECKING:  # not before a hook needs it: a person waits
    from pydantic import JsonValue

    from swarm_memory.schema.settings import Settings
    from swarm_memory.schema.team.person import Person
    from swarm_memory.server.project.folder import ProjectFolder
    from swarm_memory.server.storage.store import Store
    from swarm_memory.tools.ports.models import ChatModel, Clock, Embedder, Reranker

GiveWay = Callable[[], Awaitable[None]]
"""Awaited by long work before each of its pieces, of some milliseconds: it waits while a caller is served."""

Promoted = Callable[[str | None], Mapping[str, str]]
"""Says which memories stand in which files of the project that an agent, by its name (None: any), reads by itself."""


async def at_once() -> None:
    """Go on: nobody is being served beside."""


@dataclass(frozen=True, slots=True)
class Toolbox:
    """Ports and settings; made by the server's wiring, or by a test."""

    store: "Store"
    embedder: "Embedder"
    clock: "Clock"
    settings: "Settings"
    scope: Scope
    chat: "ChatModel | None" = None
    """None: evidence judges and extraction distills, a normal state."""
    reranker: "Reranker | None" = None
    """A cross-encoder for sources and memories; None, a normal state, without one."""
    project: "ProjectFolder | None" = None
    """The project's folder; None: nothing is known of it, and every memory may apply."""
    new_per_day: int | None = None
    """At most this many memories may be added to the project in a day; None: the user is at work, without a limit."""
    embedded: dict[tuple[str, str], Vector] = field(default_factory=dict[tuple[str, str], Vector])
    """Vectors of the last queries, by embedder and text, the last one behind (`retrieve.embed`)."""
    give_way: GiveWay = at_once
    wake: Callable[[], None] | None = None
    """Has the worker beside look for jobs at once; None: there is none."""
    promoted: Promoted = lambda _: {}
    showing: Lock = field(default_factory=Lock)
    """Held while it is looked up and noted what is shown: of two calls at once only one shows a memory."""

    notices: tuple[str, ...] = ()
    """What of it is not as the settings ask for."""

    team: tuple[Scope, ...] = ()
    """What a team shares and is read with the project; none: there is no team."""
    person: "Person | None" = None
    """Who asks, over HTTP; None: the bank's own user, or a job."""

    def by(self, person: "Person | None") -> "Toolbox":
        """Return the toolbox for what a person asks: what it writes is theirs."""
        return self if person is None else replace(self, person=person, store=self.store.by(person.id))

    def for_agents(self) -> "Toolbox":
        """Return the toolbox for what agents and hooks ask for: held to the day's quota."""
        return replace(self, new_per_day=self.settings.learn.max_new_per_day)

    def in_project(self, project: str | None) -> "Toolbox":
        """Return one of that project of the tenant; of another's folder nothing is known. Raises `InputError`."""
        if project is None or project == self.scope.project:
            return self
        if not 1 <= len(project) <= MAX_PROJECT_CHARS:
            raise InputError(f"project must be a name of 1 to {MAX_PROJECT_CHARS} characters, not of {len(project)}")
        return replace(self, scope=Scope(tenant_id=self.scope.tenant_id, project=project), team=(), project=None)

    @property
    def readable(self) -> tuple[Scope, ...]:
        """What is read from here: the project, the global scope, and what a team shares."""
        return (*self.scope.readable(), *self.team)

    @property
    def root(self) -> str:
        """The path of the project's folder; empty where nothing is known of it."""
        return str(self.project.root) if self.project else ""

    def job(
        self, kind: str, key: str, payload: "Mapping[str, JsonValue] | None" = None, after: timedelta = timedelta(0)
    ) -> Job:
        """Return a new job of the project, due `after` that time."""
        now, given = self.clock.now(), dict(payload or {})
        due = now + after
        return Job(id=new_id(JOB), scope=self.scope, kind=kind, key=key, payload=given, run_after=due, created_at=now)

    async def queue(
        self, kind: str, key: str, payload: "Mapping[str, JsonValue] | None" = None, *, after: timedelta = timedelta(0)
    ) -> str:
        """Queue a job, due `after` that time; where one of its kind and key is queued, replace what that one is to do.

        Return the id of the job that stands. Raises `StorageError`.
        """
        return await self.store.enqueue(self.job(kind, key, payload, after))
