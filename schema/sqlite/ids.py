"""Ids of rows: a kind and a ULID."""

import os
import time

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def new_id(kind: str) -> str:
    """Return `<kind>_<ULID>`: unique, and sortable by the millisecond it was made in.

    48 bits of milliseconds and 80 random bits in Crockford's base 32 (the ULID specification).
    """
    number = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    return f"{kind}_" + "".join(_CROCKFORD[number >> shift & 31] for shift in range(125, -1, -5))
