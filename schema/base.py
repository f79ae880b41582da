"""What every model of the schema shares: strictness, immutability, the scope."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

Unit = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
"""A finite number from 0 to 1."""

GLOBAL_PROJECT = "*"
"""The project name of what belongs to every project of a tenant."""


MAX_PROJECT_CHARS = 500


class Model(BaseModel):
    """A value: immutable, and refusing keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Scope(Model):
    """The boundary of items: nothing of another tenant, and of another project, is ever seen."""

    tenant_id: str = Field(default="default", min_length=1, max_length=200)
    project: str = Field(default=GLOBAL_PROJECT, min_length=1, max_length=MAX_PROJECT_CHARS)


def utc_now() -> datetime:
    """Return the present in UTC. Operations take their time from the `Clock` port instead."""
    return datetime.now(UTC)


Timestamp = AwareDatetime
