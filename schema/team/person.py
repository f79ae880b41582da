"""People of a team: who they are, what they may do, and what is written of what they did."""

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
    """Return how much a role may do, to compare it."""
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
    """False: revoked, or known from an identity provider, as in an earlier version; they cannot come in."""


class AuditEntry(NamedTuple):
    """One line of the audit trail of a tenant."""

    at: Timestamp
    action: str
    person_id: str | None = None
    """Who did it; None: the bank's own user."""
    person: str | None = None
    """Their name."""
    subject_id: str | None = None
    """To whom or to what it was done."""
    subject: str | None = None
    """The name of a person to whom it was done."""
    data: Mapping[str, JsonValue] = MappingProxyType({})
