"""What is decided by lot: which tasks work without any memory, and from which a suspected one rests."""

from __future__ import annotations

import hashlib
import re

_IN_SESSION = re.compile(r"([0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}):.+", re.DOTALL)
"""A task of a host's session: what was put into the context for one of them is still there for the next."""


def unit_of(task_id: str) -> str:
    """Return what a lot is drawn for: the session of a task of a host, any other task itself."""
    found = _IN_SESSION.fullmatch(task_id)
    return found[1] if found else task_id


def is_held_out(task_id: str, rate: float) -> bool:
    """Tell whether a task gets no memories: a share `rate` (0…1) of all tasks, chosen by a hash of the id.

    The same id and rate always give the same answer, and a task that is held out at one rate is held out at every
    higher one. The tasks of one session of a host go together, so that none sees what another of them was given.
    """
    return rate > 0.0 and _lot("0", task_id) < rate


def rests(task_id: str, memory_id: str) -> bool:
    """Tell whether a suspected memory is not shown to a task: one session in two, by a hash of both ids."""
    return _lot(memory_id, task_id) < 0.5


def _lot(of: str, task_id: str) -> float:
    lot = hashlib.sha256(f"{of}\0{unit_of(task_id)}".encode("utf-8", "replace")).digest()
    return int.from_bytes(lot[:8], "big") / 2**64
