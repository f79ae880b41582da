"""numpy is loaded without threads of its own, of which no program that is started hears; threads share a heap."""

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import json, os, sys
from pathlib import Path
import anyio
from swarm_memory.server.footprint import start_no_threads
from swarm_memory.server.child_process import run
start_no_threads()
import numpy
threads = len(os.listdir("/proc/self/task"))
show = "import json, os; print(json.dumps({name: os.environ[name] for name in os.environ if 'THREADS' in name}))"

async def child():
    return await run(
        [sys.executable, "-c", show], stdin=b"", cwd=Path.cwd(), environment=os.environ, max_output_bytes=1000
    )

print(json.dumps([threads, json.loads(anyio.run(child).output)]))
"""


def loaded(**added: str) -> tuple[int, dict[str, str]]:
    """Return how many threads a process has that loaded numpy, and what a child of it hears of threads."""
    environ = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environ | added, capture_output=True, check=True)
    threads, heard = json.loads(done.stdout)
    return threads, heard


@pytest.mark.skipif(sys.platform != "linux", reason="threads as Linux lists them")
def test_loading_numpy_starts_no_thread_and_children_hear_nothing() -> None:
    assert loaded() == (1, {})


@pytest.mark.skipif(sys.platform != "linux", reason="threads as Linux lists them")
def test_a_number_of_threads_that_the_user_gave_stays() -> None:
    assert loaded(OPENBLAS_NUM_THREADS="2")[1] == {"OPENBLAS_NUM_THREADS": "2"}
