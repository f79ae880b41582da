"""How many threads numpy starts in our processes: none unless the user asks for some; children decide on their own."""

import os
from collections.abc import Mapping

_COUNTS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
"""OpenBLAS follows the first where both are set."""

_added: dict[str, str] = {}


def start_no_threads() -> None:
    """Make a later `import numpy` in this process start no threads, unless the user says how many.

    OpenBLAS starts one for each processor when it is loaded, and each takes address space: a process that is allowed
    little of it dies there. Our computations gain nothing from these threads.
    """
    if not any(name in os.environ for name in _COUNTS):
        os.environ[_COUNTS[0]] = _added[_COUNTS[0]] = "1"


def for_others(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without what `start_no_threads` added: how many threads a child uses is not ours to set."""
    return {name: value for name, value in environment.items() if _added.get(name) != value}
