"""How long tests wait, which limits of time they hold, and how time grows with the length of a text."""

import os
import time
from collections.abc import Callable
from typing import TypeVar

import pytest

Text = TypeVar("Text")

FULL = os.environ.get("FAULTS") == "full"
"""Whether this is `make faults`, which runs at full length on a machine at rest."""

AT_FULL_LENGTH = (
    pytest.mark.fault,
    pytest.mark.skipif(not FULL, reason="make faults runs it: the same is shown once in every run"),
)
"""For a further case of what another one shows, which takes seconds of processes."""

HANG_S = 120.0
"""Longer than anything here takes on a busy machine: what is not done by then hangs."""

STATIC = {"SWARM_MEMORY_EMBEDDING__PROVIDER": "static"}
"""What processes of tests are given: they embed with the table, which needs no loading."""

UNHURRIED = """
import sys
from swarm_memory.server.hooks import main
main.VERBS = {verb: (name, 60.0, alone) for verb, (name, _, alone) in main.VERBS.items()}
main.main(sys.argv[1:])
"""
"""A hook command that lets the host go only when it has ended: a busy machine needs longer than its limit to start."""


def is_in_time(took_s: float, limit_s: float) -> bool:
    """Whether a limit of time was kept; only `make faults` holds it, for elsewhere the machine may be busy."""
    return not FULL or took_s < limit_s


def grows_by(work: Callable[[Text], object], small: Text, large: Text, *, at_most: float, rounds: int = 15) -> float:
    """Return how many times the processor time of `small` is needed for `large`.

    The least times of several rounds are compared: noise only adds to a time, so more rounds come nearer to the truth.
    The first round in which the factor is not over `at_most` is the last.
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
