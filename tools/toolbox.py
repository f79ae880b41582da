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

if TYPE_CHECKING:  # a hook imports these only when it needs them: a person is waiting
    from pydantic import JsonValue

    from swarm_memory.schema.settings import Settings
    from swarm_memory.schema.team.person import Person
    from swarm_memory.server.project.folder import ProjectFolder
    from swarm_memory.server.storage.store import Store
    from swarm_memory.tools.ports.models import ChatModel, Clock, Embedder, Reranker

GiveWay = Callable[[], Awaitable[None]]
"""Awaited by long work before each of its pieces of some milliseconds: it waits while a caller is being served."""

Promoted = Callable[[str | None], Mapping[str, str]]
"""Returns which memories are in which of the project's files that an agent (by name; None: any) reads by itself."""


async def noop() -> None:
    """Continue immediately: no caller is being served meanwhile."""


@dataclass(frozen=True, slots=True)
class Toolbox:
    """Ports and settings; made by the server's wiring, or by a test."""

    store: "Store"
    embedder: "Embedder"
    clock: "Clock"
    settings: "Settings"
    scope: Scope
    chat: "ChatModel | None" = None
    """None, a normal state: evidence judges and extraction distills."""
    reranker: "Reranker | None" = None
    """A cross-encoder for sources and memories; None, a normal state: there is none."""
    project: "ProjectFolder | None" = None
    """The project's folder; None: it is unknown, and every memory may apply."""
    new_per_day: int | None = None
    """At most this many memories may be added to the project in a day; None: the user is at work, without a limit."""
    embedded: dict[tuple[str, str], Vector] = field(default_factory=dict[tuple[str, str], Vector])
    """Vectors of the last queries, by embedder and text, the latest at the end (`retrieve.query`)."""
    give_way: GiveWay = noop
    wake: Callable[[], None] | None = None
    """Makes this process's worker look for jobs immediately; None: it has no worker."""
    promoted: Promoted = lambda _: {}
    showing: Lock = field(default_factory=Lock)
    """Held while what to show is looked up and recorded: of two calls at the same time only one shows a memory."""

    notices: tuple[str, ...] = ()
    """What of the toolbox is not as the settings ask for."""

    team: tuple[Scope, ...] = ()
    """The scopes that a team shares, read along with the project; empty: there is no team."""
    person: "Person | None" = None
    """The person who calls over HTTP; None: the bank's own user, or a job."""
    speakers: tuple[str, ...] = ()
    """Who is heard over MCP: the host's session, if known, and the connection. Its steps, ids and prompts are claims,
    which bear out nothing that it said itself. Empty: the user, or what a host wrote."""

    def by(self, person: "Person | None") -> "Toolbox":
        """Return the toolbox for a person's requests: what it writes is recorded as theirs."""
        return self if person is None else replace(self, person=person, store=self.store.by(person.id))

    async def close(self) -> None:
        """Write what is queued, and close the database and the connections that the embedder holds, if any."""
        try:
            await self.store.close()
        finally:
            if (close := getattr(self.embedder, "aclose", None)) is not None:
                await close()

    def for_agents(self) -> "Toolbox":
        """Return the toolbox for requests of agents and hooks, which are limited to the day's quota."""
        return replace(self, new_per_day=self.settings.learn.max_new_per_day)

    def in_project(self, project: str | None) -> "Toolbox":
        """Return the toolbox for a project of the tenant; another project's folder is unknown. Raises `InputError`."""
        if project is None or project == self.scope.project:
            return self
        if not 1 <= len(project) <= MAX_PROJECT_CHARS:
            raise InputError(f"project must be a name of 1 to {MAX_PROJECT_CHARS} characters, not of {len(project)}")
        return replace(self, scope=Scope(tenant_id=self.scope.tenant_id, project=project), team=(), project=None)

    @property
    def readable(self) -> tuple[Scope, ...]:
        """The scopes that are read from here: the project, the global scope, and what a team shares."""
        return (*self.scope.readable(), *self.team)

    @property
    def root(self) -> str:
        """The path of the project's folder; empty where it is unknown."""
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
        """Queue a job, due `after` that time; a queued job of the same kind and key is updated to it instead.

        Return the id of the queued job. Raises `StorageError`.
        """
        return await self.store.enqueue(self.job(kind, key, payload, after))
