"""Running a program to its end: what it prints, how much, how long, and that no process survives it."""

import asyncio
import os
import sys
from pathlib import Path

import anyio
import pytest
from hook_project import wait_until
from patience import HANG_S

from swarm_memory.server.child_process import Finished, run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process groups are POSIX's")


async def python(code: str, folder: Path, *, stdin: bytes = b"", max_output_bytes: int = 1000) -> Finished:
    return await run(
        [sys.executable, "-I", "-S", "-c", code],
        stdin=stdin,
        cwd=folder,
        environment={"PATH": os.environ["PATH"], "SEEN": "yes"},
        max_output_bytes=max_output_bytes,
    )


def is_alive(pid: int) -> bool:
    """Whether the process is running; a zombie that has not been reaped is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def written(path: Path) -> str:
    """Wait until the program has written the file."""
    wait_until(path.exists)
    return path.read_text()


async def test_output_error_code_input_and_environment_go_through(tmp_path: Path) -> None:
    code = """if True:
        import os, sys
        print(os.environ['SEEN'], sys.stdin.read(), os.getcwd())
        print('x', file=sys.stderr)
        sys.exit(3)"""
    finished = await python(code, tmp_path, stdin=b"hello")
    assert finished == Finished(3, f"yes hello {tmp_path}\n".encode(), b"x\n", is_cut=False)


async def test_a_large_input_that_is_never_read_does_no_harm_and_endless_output_is_cut(tmp_path: Path) -> None:
    assert (await python("print(1)", tmp_path, stdin=b"x" * 5_000_000)).output == b"1\n"
    with anyio.fail_after(HANG_S):
        finished = await python("while True: print('x' * 1000)", tmp_path, max_output_bytes=10_000)
    assert (finished.is_cut, len(finished.output)) == (True, 10_000)


STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-I", "-S", "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"])
with open("pids.tmp", "w") as file:
    file.write(f"{os.getpid()} {child.pid}")
os.rename("pids.tmp", "pids")
time.sleep(600)
"""


async def test_a_cancelled_program_that_ignores_sigterm_is_gone_with_its_children(tmp_path: Path) -> None:
    running = asyncio.create_task(python(STUBBORN, tmp_path))
    pids = [int(pid) for pid in (await asyncio.to_thread(written, tmp_path / "pids")).split()]
    running.cancel()
    with anyio.fail_after(HANG_S), pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.to_thread(wait_until, lambda: not any(map(is_alive, pids)))


async def test_a_child_that_holds_the_pipe_does_not_hold_the_answer(tmp_path: Path) -> None:
    code = """if True:
        import subprocess, sys
        print(subprocess.Popen([sys.executable, '-I', '-S', '-c', 'import time; time.sleep(600)']).pid)"""
    with anyio.fail_after(HANG_S):
        finished = await python(code, tmp_path)
    assert finished.code == 0
    assert not is_alive(int(finished.output))


async def test_a_program_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        await run([str(tmp_path / "no")], stdin=b"", cwd=tmp_path, environment={}, max_output_bytes=10)
