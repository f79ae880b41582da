"""How many threads numpy starts in our processes: none but where the user says so; our children decide themselves."""

import os
from collections.abc import Mapping

_COUNTS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
"""The first counts for OpenBLAS where both are set."""

_added: dict[str, str] = {}


def start_no_threads() -> None:
    """Let a later `import numpy` of this process start no threads, unless the user says how many.

    OpenBLAS starts one for each processor when it is loaded, and each takes address space: a process that may have
    little of it dies there. What is computed here gains nothing by them.
    """
    if not any(name in os.environ for name in _COUNTS):
        os.environ[_COUNTS[0]] = _added[_COUNTS[0]] = "1"


def for_others(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without what `start_no_threads` added: how many threads a child uses is not ours to say."""
    return {name: value for name, value in environment.items() if _added.get(name) != value}
