"""How numpy is imported: with one thread for its linear algebra. It knows nothing of what is then computed."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager

_SETTINGS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
"""The first counts for OpenBLAS where both are set."""


@contextmanager
def one_blas_thread() -> Generator[None]:
    """Let a first `import numpy` within it start no threads, unless the environment says how many.

    OpenBLAS starts one for each processor when it is loaded, and each takes address space: a process that may have
    little of it dies there. What is computed here gains nothing by them. The environment is put back at once, because
    the commands of a rollout inherit it, and how many threads those use is not for us to say.
    """
    if "numpy" in sys.modules or any(name in os.environ for name in _SETTINGS):
        yield
        return
    os.environ[_SETTINGS[0]] = "1"
    try:
        yield
    finally:
        os.environ.pop(_SETTINGS[0], None)
