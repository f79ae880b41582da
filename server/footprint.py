"""What C libraries take in our processes: no threads of numpy's, one heap of the C library's; others keep their own."""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress

_COUNTS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
"""The first counts for OpenBLAS where both are set."""

_ARENA_MAX = -8
"""`M_ARENA_MAX` of glibc's malloc.h."""

_added: dict[str, str] = {}


def start_no_threads() -> None:
    """Let a later `import numpy` of this process start no threads, unless the user says how many.

    OpenBLAS starts one for each processor when it is loaded, and each takes address space: a process that may have
    little of it dies there. What is computed here gains nothing by them.
    """
    if not any(name in os.environ for name in _COUNTS):
        os.environ[_COUNTS[0]] = _added[_COUNTS[0]] = "1"


def share_one_heap() -> None:
    """Let all threads of this process allocate from one heap where the C library is glibc.

    It reserves 64 MB of address space for each new thread: a server that may have 512 MB spent most of it on that. The
    threads wait for each other then: of 32 clients' calls over HTTP it costs one in fourteen.
    """
    if sys.platform == "linux":
        import ctypes

        with suppress(AttributeError):  # another C library
            ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)


def for_others(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without what `start_no_threads` added: how many threads a child uses is not ours to say."""
    return {name: value for name, value in environment.items() if _added.get(name) != value}
