"""numpy is loaded without threads of its own, and nothing of that is left in the environment."""

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import json, os
from swarm_memory.tools.blas import one_blas_thread
with one_blas_thread():
    import numpy
kept = {name: value for name, value in os.environ.items() if name.endswith("_NUM_THREADS")}
print(json.dumps([len(os.listdir("/proc/self/task")), kept]))
"""


def loaded(**added: str) -> tuple[int, dict[str, str]]:
    """Return how many threads a process has that loaded numpy, and what its environment says of threads."""
    environ = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environ | added, capture_output=True, check=True)
    threads, kept = json.loads(done.stdout)
    return threads, kept


@pytest.mark.skipif(sys.platform != "linux", reason="threads as Linux lists them")
def test_loading_numpy_starts_no_thread_and_changes_no_environment() -> None:
    assert loaded() == (1, {})


@pytest.mark.skipif(sys.platform != "linux", reason="threads as Linux lists them")
def test_a_number_of_threads_that_the_user_gave_stays() -> None:
    assert loaded(OPENBLAS_NUM_THREADS="2")[1] == {"OPENBLAS_NUM_THREADS": "2"}
