"""The one thing that every operation is given: the ports, the settings and the scope."""

from dataclasses import dataclass, replace

from swarm_memory.schema.base import MAX_PROJECT_CHARS, Scope
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.settings import Settings
from swarm_memory.tools.ports.models import ChatModel, Embedder, Reranker
from swarm_memory.tools.ports.store import Clock, Store


@dataclass(frozen=True, slots=True)
class Toolbox:
    """Ports and settings; made by the server's wiring, or by a test."""

    store: Store
    embedder: Embedder
    clock: Clock
    settings: Settings
    scope: Scope
    chat: ChatModel | None = None
    """None: evidence judges and extraction distills, a normal state."""
    reranker: Reranker | None = None
    """A cross-encoder for sources; None, a normal state, without one."""
    new_per_day: int | None = None
    """So much may be added to the project in a day; None: the user is at work, and nothing is limited."""

    def for_agents(self) -> "Toolbox":
        """Return the toolbox for what agents and hooks ask for: held to the day's quota."""
        return replace(self, new_per_day=self.settings.learn.max_new_per_day)

    def in_project(self, project: str | None) -> "Toolbox":
        """Return a toolbox whose scope is that project of the same tenant. Raises `InputError` for no possible name."""
        if project is None:
            return self
        if not 1 <= len(project) <= MAX_PROJECT_CHARS:
            raise InputError(f"project must be a name of 1 to {MAX_PROJECT_CHARS} characters, not of {len(project)}")
        return replace(self, scope=Scope(tenant_id=self.scope.tenant_id, project=project))
