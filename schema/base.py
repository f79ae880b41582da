"""What all values of the schema share: strictness, immutability, scope and ids; and how counts are put into words."""

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
"""Prefix of the project name under which a bank keeps what a team shares: on the server and in each person's cache."""
_FIRST, _LAST = (moment.replace(tzinfo=UTC) for moment in (datetime.min, datetime.max))
Timestamp = Annotated[AwareDatetime, Field(ge=_FIRST, le=_LAST)]
"""A moment with a zone that is still a valid date once converted to UTC, in which banks store it."""
MEMORY, TRAJECTORY, RETRIEVAL, VERDICT, JOB, RUN, PERSON, CONNECTION = "rm", "tr", "rt", "vd", "job", "run", "pn", "mcp"


class Model(BaseModel):
    """An immutable value that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Scope(Model):
    """The boundary between items: those of another tenant or of another project are never visible."""

    tenant_id: str = Field(default="default", min_length=1, max_length=200)
    project: str = Field(default=GLOBAL_PROJECT, min_length=1, max_length=MAX_PROJECT_CHARS)

    def readable(self) -> "tuple[Scope, ...]":
        """Return the scopes that are visible from here: this one, then the tenant's global one."""
        if self.project == GLOBAL_PROJECT:
            return (self,)
        return self, Scope(tenant_id=self.tenant_id)


def is_teams(scope: Scope) -> bool:
    """Whether a scope holds what a team shares."""
    return scope.project.startswith(TEAM)


LocalTimestamp = Annotated[datetime, AfterValidator(lambda at: at if at.tzinfo is not None else at.astimezone())]
"""A moment that some program may have written without a zone: then it is in this machine's."""


def digest(value: Any) -> str:
    """Return the SHA-256 hex of `value` as canonical JSON (sorted keys, no white space)."""
    import hashlib

    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def counted(number: int, noun: str) -> str:
    """Return a number, with thousands separators, and its noun: `counted(1, "new memory")` is "1 new memory"."""
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
