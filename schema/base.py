"""What all values of the schema share: strictness, immutability, scope and ids; and how a number of things is said."""

import json
import os
import time
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field

Unit = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
"""A finite number from 0 to 1."""

GLOBAL_PROJECT = "*"
"""The project name of what belongs to every project of a tenant."""

MAX_PROJECT_CHARS = 500

TEAM = "team:"
"""Begins the project under which a bank keeps what a team shares: on the server, and in each person's cache of it."""
_FIRST, _LAST = (moment.replace(tzinfo=UTC) for moment in (datetime.min, datetime.max))
Timestamp = Annotated[AwareDatetime, Field(ge=_FIRST, le=_LAST)]
"""A moment that its zone does not take out of the calendar in UTC, in which a bank keeps it."""
MEMORY, TRAJECTORY, RETRIEVAL, VERDICT, JOB, RUN, PERSON = "rm", "tr", "rt", "vd", "job", "run", "pn"


class Model(BaseModel):
    """A value: immutable, and refusing keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Scope(Model):
    """The boundary of items: nothing of another tenant, and of another project, is ever seen."""

    tenant_id: str = Field(default="default", min_length=1, max_length=200)
    project: str = Field(default=GLOBAL_PROJECT, min_length=1, max_length=MAX_PROJECT_CHARS)

    def readable(self) -> "tuple[Scope, ...]":
        """Return what is seen from here: the scope, and the tenant's global one behind it."""
        if self.project == GLOBAL_PROJECT:
            return (self,)
        return self, Scope(tenant_id=self.tenant_id)


def is_teams(scope: Scope) -> bool:
    """Whether what lies in a scope was shared by a team."""
    return scope.project.startswith(TEAM)


def local(at: datetime) -> datetime:
    """Return a moment with its zone: one that names none is of this machine's. Raises `OverflowError`, `ValueError`."""
    return at if at.tzinfo is not None else at.astimezone()


LocalTimestamp = Annotated[datetime, AfterValidator(local)]
"""A moment that some program may have written without a zone."""


def digest(value: Any) -> str:
    """Return the SHA-256 hex of `value` as canonical JSON (sorted keys, no white space)."""
    import hashlib

    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def counted(number: int, noun: str) -> str:
    """Return the number, with separators of thousands, and its noun: `counted(1, "new memory")` is "1 new memory"."""
    if number != 1:
        ends = noun.endswith("y") and noun[-2:-1] not in "aeiou"
        noun = f"{noun[:-1]}ies" if ends else f"{noun}s"
    return f"{number:,} {noun}"


_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def new_id(kind: str) -> str:
    """Return `<kind>_<ULID>`: unique, and sortable by the millisecond it was made in.

    48 bits of milliseconds and 80 random bits in Crockford's base 32 (the ULID specification).
    """
    number = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    return f"{kind}_" + "".join(_CROCKFORD[number >> shift & 31] for shift in range(125, -1, -5))
