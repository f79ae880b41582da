"""People of a team: who they are, what they may do, and the record of what they did."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, get_args

from pydantic import Field, JsonValue

from swarm_memory.schema.base import Model, Timestamp

Role = Literal["read", "write", "review", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
"""Each may do what those before it may."""

MAX_NAME_CHARS = 100


def rank(role: Role) -> int:
    """Return the rank of a role, to compare roles: the higher, the more it may do."""
    return ROLES.index(role)


class Person(Model):
    """Somebody who may use a bank over HTTP."""

    id: str
    tenant_id: str
    name: str = Field(min_length=1, max_length=MAX_NAME_CHARS)
    role: Role
    created_at: Timestamp
    revoked_at: Timestamp | None = None
    has_token: bool = True
    """False: revoked, or known from an identity provider, as in an earlier version; such a person has no access."""


class AuditEntry(NamedTuple):
    """One line of the audit trail of a tenant."""

    at: Timestamp
    action: str
    person_id: str | None = None
    """Who did it; None: the bank's own user."""
    person: str | None = None
    """Their name."""
    subject_id: str | None = None
    """The id of the person or thing to which it was done."""
    subject: str | None = None
    """The name of a person to whom it was done."""
    data: Mapping[str, JsonValue] = MappingProxyType({})
