"""Which tasks get no memories, so that the effect of memories can be measured; it needs the standard library alone."""

from __future__ import annotations

import hashlib
import re

_IN_SESSION = re.compile(r"([0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}):.+", re.DOTALL)
"""A task of a host's session: what was put into the context for one of them is still there for the next."""


def is_held_out(task_id: str, rate: float, seed: int = 0) -> bool:
    """Tell whether a task gets no memories: a share `rate` (0…1) of all tasks, chosen by a hash of the id.

    The same id, rate and seed always give the same answer, and a task that is held out at one rate is held out at every
    higher one. The tasks of one session of a host go together, so that none sees what another of them was given.
    """
    if rate <= 0.0:
        return False
    found = _IN_SESSION.fullmatch(task_id)
    unit = found[1] if found else task_id
    drawn = hashlib.sha256(f"{seed}\0{unit}".encode("utf-8", "replace")).digest()
    return int.from_bytes(drawn[:8], "big") / 2**64 < rate
