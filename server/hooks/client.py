"""What a hook command asks of a server that already runs: over a private Unix socket, and never for long.

One exchange: the command says what it wants and for which project; a server with the same settings says that it is
ready; only then the command hands the work over. So a command that gave up waiting and did the work itself is sure that
nobody else does it too.
"""

import json
import os
import socket
import stat
import sys
import time
import zlib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from swarm_memory.server.location import CHILD_VARIABLE, ENV_PREFIX, project_file, state_folder, user_file

READY_S = 0.05
"""So long a command waits for a server that is ready."""

READY, GO = b"ready\n", b"go\n"
MAX_LINE_BYTES = 2_000_000
MAX_ADDRESS_BYTES = 100
"""What every system takes as the name of a Unix socket."""


def run_folder() -> Path:
    """Return the folder of the sockets of running servers; it may not exist."""
    return state_folder() / "run"


def socket_prefix(root: Path) -> str:
    """Return how the names of the sockets of a project begin; other projects may share it, so servers look again."""
    return f"{zlib.crc32(os.fsencode(os.path.realpath(root))):08x}-"


def given_settings() -> dict[str, str]:
    """Return the settings of this process's environment: a server answers only for a command that has the same."""
    return {name: value for name, value in os.environ.items() if name.startswith(ENV_PREFIX) and name != CHILD_VARIABLE}


def settings_stamp(root: Path) -> tuple[tuple[int, int] | None, ...]:
    """Return what tells whether a project's settings files were changed; None for one that is not there."""
    return tuple(map(_stamp, (project_file(root), user_file(os.environ))))


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def ask(root: Path, event: Mapping[str, Any], answer_s: float) -> dict[str, Any] | None:
    """Return a server's answer to an event; None when none was ready in time.

    Raises `TimeoutError` when a server took the event and did not answer within `answer_s`, `ConnectionError` when it
    ended before: it may have done the work.
    """
    for channel in _reached(root, _request(root, event=event)):
        try:
            if _line(channel) != READY:
                continue
        except OSError:
            continue
        try:
            channel.settimeout(answer_s)
            channel.sendall(GO)
            answer = _line(channel)
        except TimeoutError:
            raise TimeoutError(f"a server took the event and did not answer within {answer_s:g} s") from None
        except OSError:
            answer = b""
        if not answer.endswith(b"\n"):
            raise ConnectionError("a server took the event and ended before it answered")
        return cast("dict[str, Any]", json.loads(answer))
    return None


def wake(root: Path, session_id: str) -> bool:
    """Tell the servers of a project that there may be work, and which session it is of; return whether one is there."""
    return len(list(_reached(root, _request(root, session_id=session_id)))) > 0


def _reached(root: Path, request: bytes) -> Generator[socket.socket]:
    """Yield a channel to each server of a project that took a request, as long as one may still be ready in time."""
    by = time.monotonic() + READY_S
    for path in _sockets(root):
        with socket.socket(socket.AF_UNIX) as channel:
            try:
                _send(channel, path, request, by)
            except OSError:
                continue
            yield channel


def _request(root: Path, **what: object) -> bytes:
    said = {"root": os.path.realpath(root), "settings": given_settings(), "parent": os.getppid(), **what}
    return json.dumps(said).encode() + b"\n"


def _send(channel: socket.socket, path: Path, request: bytes, by: float) -> None:
    """Connect and send. Raises `OSError`; the socket of a server that has ended is removed."""
    channel.settimeout(max(by - time.monotonic(), 0.001))
    try:
        with short_name(path) as address:
            channel.connect(address)
    except ConnectionRefusedError:
        if not _is_running(int(path.stem.rpartition("-")[2])):
            path.unlink(missing_ok=True)
        raise
    channel.sendall(request)


def _sockets(root: Path) -> list[Path]:
    """Return the sockets of a project's servers: first that of the host that started this command, then the newest."""
    if sys.platform == "win32":
        return []
    folder, prefix = run_folder(), socket_prefix(root)
    try:
        names = [name for name in os.listdir(folder) if name.startswith(prefix) and name.endswith(".sock")]  # noqa: PTH208 - pathlib makes a path of each
    except OSError:
        return []
    if not is_private(folder):
        return []
    own = f"{prefix}{os.getppid()}-"
    return [folder / name for name in sorted(names, key=lambda name: (name.startswith(own), name), reverse=True)]


def is_private(folder: Path) -> bool:
    """Return whether a folder is this user's and nobody else may enter it. Raises `OSError`."""
    status = folder.stat()
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)


@contextmanager
def short_name(path: Path) -> Generator[str]:
    """Give a name of a socket that fits into an address: Linux reaches a long one through its opened folder."""
    if sys.platform != "linux" or len(os.fsencode(path)) <= MAX_ADDRESS_BYTES:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _line(channel: socket.socket) -> bytes:
    """Return what comes until a line ends, or the other side does. Raises `OSError`."""
    got = b""
    while not got.endswith(b"\n") and len(got) < MAX_LINE_BYTES:
        piece = channel.recv(65536)
        if not piece:
            break
        got += piece
    return got
