"""Passes a hook command's event to a running server, over a private Unix socket and never for long.

In an exchange the command says what it wants and for which project; a server with the same settings says that it is
ready; only then does the command hand over the work. So a command that gave up waiting and did the work itself can be
sure that no server does it too.

A request is a line with the lengths of its two parts, then the parts: the fields of `head`, and the event in JSON. A
person waits while this is imported: json, pathlib, typing and socket would take longer than the server's answer.
"""

# ruff: noqa: PTH108, PTH116, PTH118, PTH119, PTH120, PTH208 - see above
import _socket
import os
import stat
import sys
import time
from zlib import crc32

from swarm_memory.server.folders import CHILD_VARIABLE, ENV_PREFIX, user_state_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator

CLAUDE = "claude"
"""The host whose hooks do not name their host."""

READY_S = 0.05
"""How long a command waits for a server to be ready, if it otherwise does the work itself."""

PATIENT_S = 0.25
"""How long it waits if the work is not done otherwise, so that no note is lost on a busy machine."""

READY, GO = b"ready\n", b"go\n"
MAX_REQUEST_BYTES = MAX_ANSWER_BYTES = 2_000_000
MAX_ADDRESS_BYTES = 100
"""A length that every system accepts for the name of a Unix socket."""


def run_folder() -> str:
    """Return the folder of the sockets of running servers; it may not exist."""
    return os.path.join(user_state_folder(), "run")


def socket_prefix(root: str | os.PathLike[str]) -> str:
    """Return the prefix of a project's socket names; other projects may share it, so servers check again."""
    return f"{crc32(os.fsencode(os.path.realpath(root))):08x}-"


def given_settings() -> list[bytes]:
    """Return the settings in this process's environment: a server answers only a command that has the same ones."""
    own = (name for name in sorted(os.environ) if name.startswith(ENV_PREFIX) and name != CHILD_VARIABLE)
    return [os.fsencode(f"{name}={os.environ[name]}") for name in own]


def ask(
    root: str | os.PathLike[str], event: bytes, answer_s: float, *, called: str = "", patiently: bool = False
) -> bytes | None:
    """Return a server's answer, hook JSON in a line, to an event in JSON; None when no server was ready in time.

    `called`: the host, the event's name, and 1 if a person reads along, else 0; `patiently`: nobody else does the work.

    Raises `TimeoutError` when a server took the event and did not answer within `answer_s`, `ConnectionError` when it
    ended before it answered: it may have done the work.
    """
    for channel in _reached(root, called=called, event=event, patiently=patiently):
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
            raise TimeoutError(f"a server accepted the event but did not answer within {answer_s:g} s") from None
        except OSError:
            answer = b""
        if not answer.endswith(b"\n"):
            raise ConnectionError("a server accepted the event but exited before it answered")
        return answer
    return None


def notify_servers(root: str | os.PathLike[str], session_id: str) -> None:
    """Wake the servers of a project, as there may be work from this session."""
    list(_reached(root, session_id))


def _reached(
    root: str | os.PathLike[str], session_id: str = "", called: str = "", event: bytes = b"", patiently: bool = False
) -> "Generator[_socket.socket]":
    """Send a request to each server of a project, within the time limit; yield a channel to each one that took it."""
    fields = b"\0".join(head(root, session_id, called))
    request = b"%d %d\n%b%b" % (len(fields), len(event), fields, event)
    by = time.monotonic() + (PATIENT_S if patiently else READY_S)
    for path in _sockets(root):
        channel = _socket.socket(_socket.AF_UNIX)
        try:
            send(channel, path, request, by)
            yield channel
        except OSError:
            continue
        finally:
            channel.close()


def head(root: str | os.PathLike[str], session_id: str = "", called: str = "") -> list[bytes]:
    """Return the fields of a request: the project, the parent process, the session, the call, the settings."""
    named, parent = os.fsencode(os.path.realpath(root)), str(os.getppid()).encode()
    return [named, parent, session_id.encode("utf-8", "replace"), called.encode("utf-8", "replace"), *given_settings()]


def send(channel: _socket.socket, path: str, request: bytes, by: float) -> None:
    """Connect and send. Raises `OSError`; the socket of a server that has ended is removed."""
    channel.settimeout(max(by - time.monotonic(), 0.001))
    try:
        with short_socket_path(path) as address:
            channel.connect(address)
    except ConnectionRefusedError:
        try:
            os.kill(int(path.rpartition("-")[2].removesuffix(".sock")), 0)
        except ProcessLookupError:
            os.unlink(path)
        raise
    channel.sendall(request)


def _sockets(root: str | os.PathLike[str]) -> list[str]:
    """Return the sockets of a project's servers: first those of the host that started this command, then the newest."""
    if sys.platform == "win32":
        return []
    folder, prefix = run_folder(), socket_prefix(root)
    try:
        names = [name for name in os.listdir(folder) if name.startswith(prefix) and name.endswith(".sock")]
    except OSError:
        return []
    if not is_private(folder):
        return []
    own = f"{prefix}{os.getppid()}-"
    ordered = sorted(names, key=lambda name: (name.startswith(own), name), reverse=True)
    return [os.path.join(folder, name) for name in ordered]


def is_private(folder: str) -> bool:
    """Whether a folder is this user's and nobody else may enter it. Raises `OSError`."""
    status = os.stat(folder)
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)


class short_socket_path:  # noqa: N801 - used as a function; contextlib would take as long as all else
    """Holds a socket's name that fits into an address: on Linux a long one is reached through its open folder."""

    def __init__(self, path: "str | os.PathLike[str]") -> None:
        self._path = os.fspath(path)
        self._folder: int | None = None

    def __enter__(self) -> str:
        if sys.platform != "linux" or len(os.fsencode(self._path)) <= MAX_ADDRESS_BYTES:
            return self._path
        self._folder = os.open(os.path.dirname(self._path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        return f"/proc/self/fd/{self._folder}/{os.path.basename(self._path)}"

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            os.close(self._folder)


def _line(channel: _socket.socket) -> bytes:
    """Return what is received until the end of a line or of the connection. Raises `OSError`."""
    got = b""
    while not got.endswith(b"\n") and len(got) < MAX_ANSWER_BYTES:
        piece = channel.recv(65536)
        if not piece:
            break
        got += piece
    return got
