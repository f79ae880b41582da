"""Identifiers: prefixed ULIDs for rows and content digests for idempotence."""

import hashlib
import json
from typing import Any

from ulid import ULID

MEMORY, TRAJECTORY, RETRIEVAL, VERDICT, JOB, RUN = "rm", "tr", "rt", "vd", "job", "run"


def new_id(kind: str) -> str:
    """Return `<kind>_<ULID>`: unique, and sortable by the time it was made."""
    return f"{kind}_{ULID()}"


def digest(value: Any) -> str:
    """Return the SHA-256 hex of `value` as canonical JSON (sorted keys, no white space)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
