"""The files of a bank as the system sees them: on the disk for good, on which file system, still the ones opened.

No database is opened here but to be flushed: opening and closing its file beside SQLite would drop SQLite's locks.
"""

import errno
import os
from pathlib import Path
from typing import Literal

from swarm_memory.schema.errors import StoreReplaced

MOUNTS = "/proc/self/mountinfo"

_NOT_FLUSHED_HERE = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)
"""What a file system says whose folders cannot be flushed: some network file systems."""

_NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "gpfs", "beegfs"}
)
_CLUSTER = frozenset({"ocfs2", "gfs2", "ncpfs", "coda", "davfs"})
_HOST_OF_A_MACHINE = frozenset({"virtiofs", "vboxsf", "prl_fs", "drvfs"})
_LOCAL_FUSE = frozenset({"fuse.fuse-overlayfs", "fuse.lxcfs"})
_SIDECARS = ("-wal", "-shm")


def flush(path: Path) -> None:
    """Have a file's content, or the names in a folder, on the disk. Raises `OSError` when the disk says no.

    A flushed file is lost with its name: its folder must be flushed too, and that folder's name in the one above.
    A folder that this user may not read, or whose file system flushes none, is left to the system, as SQLite does.
    """
    if not path.is_dir():
        _flush(path, os.O_RDWR)
    elif os.name == "posix":
        try:
            _flush(path, os.O_RDONLY)
        except PermissionError:
            return
        except OSError as error:
            if error.errno not in _NOT_FLUSHED_HERE:
                raise


def _flush(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make a folder for this user alone, with those above it that are missing, and have all their names on the disk."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Another process may have made it and not yet flushed its name.
    for each in missing or [folder]:
        flush(each.parent)


def make_private(path: Path, content: bytes | bytearray = b"") -> None:
    """Make a file for this user alone. Raises `FileExistsError` for one that is there, or a link in its place."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def remote_kind(path: Path) -> str | None:
    """Return the type of the file system if it may be shared over a network or by a user's program; None for a local.

    A line of `MOUNTS` (proc(5)) has ids, device, root, mount point, options, `-`, type, source. The longest mount point
    that the path lies in counts, of equals the last, which hides the others.
    """
    try:
        mounts = Path(MOUNTS).read_text("utf-8", "surrogateescape")
    except OSError:
        return None
    wanted, best, kind = os.path.abspath(path), -1, ""  # noqa: PTH100 - resolve() asks the network
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split(" ")
        if len(fields) < 5 or not right:
            continue
        point = _unescaped(fields[4])
        inside = wanted == point or wanted.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= best:
            best, kind = len(point), right.split(" ", 1)[0]
    return kind if _is_remote(kind) else None


def _is_remote(kind: str) -> bool:
    shared = _NETWORK | _CLUSTER | _HOST_OF_A_MACHINE | {"fuse"}
    return kind in shared or (kind.startswith("fuse.") and kind not in _LOCAL_FUSE)


def _unescaped(text: str) -> str:
    """Undo the octal escapes of blanks, tabs, newlines and backslashes."""
    for code, sign in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, sign)
    return text


def size_of(path: str) -> int:
    """Return the size of a file; 0 without one. No `Path` is built: it is asked after each write."""
    try:
        return os.stat(path).st_size  # noqa: PTH116
    except OSError:
        return 0


class OpenedFile:
    """The files of one connection, by device and inode: the database, its log, the log's index."""

    def __init__(self, database: Path) -> None:
        self._database = str(database)
        self._main = _identity(self._database)
        self._sidecars: dict[str, tuple[int, int]] = {}

    def note(self) -> None:
        """Remember files that were not there before; to be called while the connection is known to be right."""
        self._main = self._main or _identity(self._database)
        for suffix in _SIDECARS:
            if suffix not in self._sidecars and (found := _identity(self._database + suffix)):
                self._sidecars[suffix] = found

    def look(self) -> Literal["same", "log lost", "moved"]:
        """Return `moved` when the database is another file or none, `log lost` when only its log is."""
        if _identity(self._database) != self._main:
            return "moved"
        kept = all(_identity(self._database + suffix) == was for suffix, was in self._sidecars.items())
        return "same" if kept else "log lost"

    def log_is_there(self) -> bool:
        """Return whether there is a log at the path, whichever."""
        return _identity(f"{self._database}-wal") is not None

    def log_is_new(self) -> bool:
        """Return whether another process has begun a new log in the place of the one that was lost."""
        return size_of(f"{self._database}-wal") > 0

    def check(self) -> None:
        """Raise `StoreReplaced` unless all is as it was."""
        if self.look() != "same":
            raise StoreReplaced(
                f"{self._database} was moved, deleted or replaced while it was open: bring it back, "
                "or see `swarm-memory restore --list`"
            )


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - asked before each write
    except OSError:
        return None
    return status.st_dev, status.st_ino
