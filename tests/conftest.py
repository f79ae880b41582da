"""What every test gets: a home of its own, so that none touches the developer's files; and a bank on request."""

import gc
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from patience import FULL
from still_bank import add, toolbox

__all__ = ["add", "toolbox"]

settings.register_profile(
    "any machine",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=not FULL,
    max_examples=100 if FULL else 30,
)  # the same examples each time; `make faults` finds new ones
settings.load_profile("any machine")  # how long an example takes says how busy the machine is, not whether it is right

for _name in ("SIGINT", "SIGHUP"):  # a shell makes its background processes ignore them, and all their children
    if (_signal := getattr(signal, _name, None)) is not None and signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(_signal, signal.SIG_DFL)

if "TMPDIR" not in os.environ and not FULL and os.access(memory := "/dev/shm", os.W_OK):
    _has_room = shutil.disk_usage(memory).free > 4 << 30 and not os.statvfs(memory).f_flag & os.ST_NOEXEC
    if _has_room:  # a bank waits for the disk at each commit: only `make faults` uses a real one
        os.environ["TMPDIR"] = tempfile.tempdir = memory

_PREFIXES = ("SWARM_MEMORY_", "CLAUDE", "OPENAI_", "ANTHROPIC_", "XDG_")
_KEPT = {"SWARM_MEMORY_SQLITE"}


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Point the user's folder at an empty one and drop settings in the environment, except the forced SQLite driver.

    The embedder is the static table, which needs no loading; tests of MiniLM name it.
    """
    for name in list(os.environ):
        if name.startswith(_PREFIXES) and name not in _KEPT:
            monkeypatch.delenv(name)
    monkeypatch.setenv("SWARM_MEMORY_EMBEDDING__PROVIDER", "static")
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("USERPROFILE", str(folder))
    return folder


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Disable garbage collection during collection: what is imported and collected is not garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Freeze what was imported and collected: it stays to the end, so garbage collection need not visit it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return one more than the number of processors: tests wait for disks, processes and time limits."""
    return (os.cpu_count() or 1) + 1


REST_S = 1.2
REST_WITHIN_S = 100.0


@pytest.fixture
def rests() -> Callable[[int], bool]:
    """Return a function that says whether a process comes to rest: no thread of it runs for a while (Linux)."""

    def switches(pid: int) -> dict[str, list[str]]:
        statuses = Path(f"/proc/{pid}/task").glob("*/status")
        return {
            path.parent.name: [line for line in path.read_text("ascii").splitlines() if "ctxt_switches" in line]
            for path in statuses
        }

    def come_to_rest(pid: int) -> bool:
        give_up = time.monotonic() + REST_WITHIN_S
        while time.monotonic() < give_up:
            before = switches(pid)
            time.sleep(REST_S)  # rest is time in which nothing happens
            if switches(pid) == before:
                return True
        return False

    return come_to_rest
