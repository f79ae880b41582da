"""What the people of a team need of the bank: who may come in, who wrote what, and the audit trail."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from pydantic import JsonValue

from swarm_memory.schema.base import Scope
from swarm_memory.schema.team.person import AuditEntry, Person, Role

ADDED, TOKEN_MADE, ROLE_CHANGED, REVOKED = "person.added", "person.token", "person.role", "person.revoked"
FORGOTTEN_PERSON = "person.forgotten"
REFUSED = "sign_in.refused"
"""Requests without a valid token, counted."""


class PeopleStore(Protocol):
    """The people of a tenant. What changes them is written to the audit trail in the same transaction."""

    async def add(self, person: Person, token_hash: str | None) -> bool:
        """Write a new person; False where the name, or the subject of the issuer, is taken."""
        ...

    async def by_token(self, tenant_id: str, token_hash: str) -> Person | None:
        """Return whose token it is; None for one that was revoked."""
        ...

    async def by_subject(self, tenant_id: str, issuer: str, subject: str) -> Person | None:
        """Return whom an issuer calls so; one that was revoked too."""
        ...

    async def by_name(self, tenant_id: str, name: str) -> Person | None: ...

    async def get(self, tenant_id: str, person_id: str) -> Person | None: ...

    async def list(self, tenant_id: str) -> list[Person]:
        """Return all, those that were revoked too, by name."""
        ...

    async def set_role(self, person: Person, role: Role) -> None: ...

    async def set_token(self, person: Person, token_hash: str) -> None:
        """Give another token in the place of the former; whoever was revoked may come in again."""
        ...

    async def revoke(self, person: Person) -> None:
        """Let somebody in no more, by whatever they were known."""
        ...

    async def note(self, tenant_id: str, action: str, subject_id: str | None, data: dict[str, JsonValue]) -> None:
        """Write a line of the audit trail."""
        ...

    async def count_refused(self, tenant_id: str, count: int) -> None:
        """Add to the requests without a valid token of this hour, in one line of the audit trail."""
        ...

    async def audit(self, tenant_id: str, limit: int, before: datetime | None = None) -> Sequence[AuditEntry]:
        """Return the newest lines first: what was done to people, and what people did to memories."""
        ...

    async def scopes(self, tenant_id: str) -> Sequence[Scope]:
        """Return every scope of the tenant."""
        ...

    async def brought(self, person: Person, limit: int) -> Sequence[str]:
        """Return the ids of so many memories that somebody brought."""
        ...

    async def authors(self, scopes: Sequence[Scope], memory_ids: Sequence[str]) -> dict[str, str]:
        """Return the names of those who brought memories, by the memory's id; the bank's own user has none."""
        ...
