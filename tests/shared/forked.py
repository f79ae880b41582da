"""Our commands as real processes, forked from one that has imported everything: imports are nine tenths of a start.

Tests of what a start itself imports, costs or leaves behind use `subprocess`.
"""

import atexit
import json
import os
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from patience import FULL, HANG_S

ISOLATED = [sys.executable, "-I"]
"""The beginning of a command; `-m` and a module, or `-c` and code, follow, and then arguments."""

STARTS = [*ISOLATED, "-m"]

CLI = [*STARTS, "swarm_memory.server.cli"]


class Forked(subprocess.Popen[Any]):
    """`subprocess.Popen` for a command that begins with `ISOLATED`, forked from the nursery on Linux."""

    if sys.platform == "linux" and not FULL:  # elsewhere, and in `make faults`, it is a plain `Popen`

        def _execute_child(self, args: list[Any], *given: Any) -> None:
            assert args[:2] == ISOLATED, args
            (folder, environment), pipes = given[4:6], given[9:15]
            command = {
                "arguments": [str(each) for each in args[2:]],
                "folder": str(folder or Path.cwd()),
                "environment": dict(os.environ if environment is None else environment),
            }
            self._nursed, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            streams = [number if pipe == -1 else pipe for number, pipe in enumerate((pipes[0], pipes[3], pipes[5]))]
            with theirs:
                socket.send_fds(nursery(), [json.dumps(command).encode()], [theirs.fileno(), *streams])
            self.pid = int(self._nursed.recv(20))
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

        def _try_wait(self, flags: int) -> tuple[int, int]:
            """Stand in for `os.waitpid`, which cannot be used: the process is not our child."""
            try:
                status = self._nursed.recv(20, socket.MSG_DONTWAIT if flags else 0)
            except BlockingIOError:
                return 0, 0
            self._nursed.close()
            return self.pid, int(status)

        def _internal_poll(self, **_: Any) -> int | None:
            if self.returncode is None and (ended := self._try_wait(os.WNOHANG))[0]:
                self.returncode = os.waitstatus_to_exitcode(ended[1])
            return self.returncode


def run(
    command: list[Any], *, input: Any = None, timeout: float = HANG_S, check: bool = False, **given: Any
) -> "subprocess.CompletedProcess[Any]":
    """Act like `subprocess.run` with pipes for all three streams."""
    pipe = subprocess.PIPE
    with Forked(command, stdin=pipe, stdout=pipe, stderr=pipe, **given) as process:
        try:
            out, err = process.communicate(input, timeout)
        finally:
            process.kill()
    done = subprocess.CompletedProcess(command, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


@cache
def nursery() -> socket.socket:
    """Return the socket to the process that forks; that process ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    environment = {name: os.environ[name] for name in ("PATH", "HOME")}
    with theirs:
        command = [sys.executable, "-I", str(Path(__file__).with_name("nursery.py")), str(theirs.fileno())]
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment, start_new_session=True)
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours
