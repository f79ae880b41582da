"""How long tests wait, which time limits they enforce, and how run time grows with the length of a text."""

import os
import time
from collections.abc import Callable
from typing import TypeVar

import pytest

Text = TypeVar("Text")

FULL = os.environ.get("FAULTS") == "full"
"""Whether this is `make faults`, which runs at full length on an idle machine."""

AT_FULL_LENGTH = (
    pytest.mark.fault,
    pytest.mark.skipif(not FULL, reason="make faults runs it: the same is shown once in every run"),
)
"""Marks further cases of what another test shows, which take seconds because they start processes."""

HANG_S = 600.0 if FULL else 120.0
"""Longer than anything here takes on a busy machine: whatever is not done by then counts as hung."""

STATIC = {"SWARM_MEMORY_EMBEDDING__PROVIDER": "static"}
"""Environment of the processes that tests start: they embed with the static table, which needs no loading."""

UNHURRIED = """
import sys
from swarm_memory.server.hooks import main
main.VERBS = {verb: (name, 60.0, alone) for verb, (name, _, alone) in main.VERBS.items()}
main.main(sys.argv[1:])
"""
"""A hook command with 60 s for every event: on a busy machine, starting alone can take longer than the real limit."""


def is_in_time(took_s: float, limit_s: float) -> bool:
    """Whether a time limit was met; only `make faults` enforces it, because the machine may be busy otherwise."""
    return not FULL or took_s < limit_s


def grows_by(work: Callable[[Text], object], small: Text, large: Text, *, at_most: float, rounds: int = 15) -> float:
    """Return how many times as much processor time `large` takes as `small`.

    The shortest times of several rounds are compared: noise only adds time, so more rounds come closer to the truth.
    The rounds stop as soon as the factor is not above `at_most`.
    """
    least = [float("inf"), float("inf")]
    for _ in range(rounds):
        for which, text in enumerate((small, large)):
            began = time.thread_time()
            work(text)
            least[which] = min(least[which], time.thread_time() - began)
        if least[1] <= at_most * least[0]:
            break
    return least[1] / max(least[0], 1e-9)
