"""What is decided by lot: which tasks get no memories, and which memory a task is not told; the standard library alone.

Both measure what memories are worth: a whole session is held out, or a single memory is left out of a task.
"""

from __future__ import annotations

import re
from _blake2 import blake2b  # what hashlib has; hashlib loads OpenSSL, and a person waits for a hook
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

_IN_SESSION = re.compile(r"([0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}):.+", re.DOTALL)
"""A task of a host's session: what was put into the context for one of them is still there for the next."""


def unit_of(task_id: str) -> str:
    """Return what a lot is drawn for: the session of a task of a host, any other task itself."""
    found = _IN_SESSION.fullmatch(task_id)
    return found[1] if found else task_id


def is_held_out(task_id: str, rate: float, seed: int = 0) -> bool:
    """Tell whether a task gets no memories: a share `rate` (0…1) of all tasks, chosen by a hash of the id.

    The same id, rate and seed always give the same answer, and a task that is held out at one rate is held out at every
    higher one. The tasks of one session of a host go together, so that none sees what another of them was given.
    """
    if rate <= 0.0:
        return False
    import hashlib

    drawn = hashlib.sha256(f"{seed}\0{unit_of(task_id)}".encode("utf-8", "replace")).digest()
    return _share(drawn) < rate


class Lots(NamedTuple):
    """How lots are drawn."""

    holdout_rate: float = 0.0
    holdout_seed: int = 0
    dropout: float = 0.0
    """The probability 0…1 that a task is not told a memory that it would be told."""
    key: bytes = b""
    """Of this installation: whoever writes a memory cannot know in which tasks it will be told. Empty: all is told."""
    rates: Mapping[str, float] = MappingProxyType({})
    """The probability for those that are left out more often, by id."""

    def holds_out(self, task_id: str) -> bool:
        """Whether a task gets no memories."""
        return is_held_out(task_id, self.holdout_rate, self.holdout_seed)

    @property
    def rate(self) -> float:
        """The probability with which a memory is left out here at least."""
        return self.dropout if self.key else 0.0

    def rate_of(self, memory_id: str) -> float:
        """Return the probability with which a memory is left out here."""
        return max(self.dropout, self.rates.get(memory_id, 0.0)) if self.rate else 0.0

    def left_out(self, task_id: str, memory_ids: Iterable[str]) -> set[str]:
        """Return those that a task is not told, by a keyed hash (BLAKE2, RFC 7693) of task and memory.

        All tasks of a host's session draw the same lot for a memory, its briefing too: what one was told stays in sight
        of the next. A higher rate leaves out the same memories and more.
        """
        if not self.rate:
            return set()
        unit = unit_of(task_id).encode("utf-8", "replace")
        drawn = {each: blake2b(unit + b"\0" + each.encode(), key=self.key).digest() for each in memory_ids}
        return {each for each, lot in drawn.items() if _share(lot) < self.rate_of(each)}


def _share(drawn: bytes) -> float:
    return int.from_bytes(drawn[:8], "big") / 2**64
