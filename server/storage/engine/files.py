"""The files of a bank as the system sees them: on the disk for good, on which file system, still the ones opened.

No database is opened here but to be flushed: opening and closing its file beside SQLite would drop SQLite's locks. Its
log is another file, which SQLite locks nothing of; what is read of it stands in "Database File Format", section 4.
"""

import errno
import os
import struct
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

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

_LOG_HEADER, _LOG_FRAME = struct.Struct(">4I8s8s"), struct.Struct(">2I8s8s")
_MARK = struct.Struct(">8sI8s")
_MAX_GENERATIONS = 1000
"""So many times a log may have begun again, by the `sqlite3` command say, since it was last noted."""


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
    if "\\" not in text:
        return text
    for code, sign in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, sign)
    return text


def size_of(path: str) -> int:
    """Return the size of a file; 0 without one. No `Path` is built: it is asked after each write."""
    try:
        return os.stat(path).st_size  # noqa: PTH116
    except OSError:
        return 0


Found: TypeAlias = Literal["same", "log lost", "moved"]


class OpenedFile:
    """The files of one connection, by device and inode: the database, its log, the log's index."""

    def __init__(self, database: Path, mark_file: str) -> None:
        self._database = str(database)
        self.mark_file = mark_file
        """Where the last commit of its log is noted."""
        self._main = _identity(self._database)
        self._sidecars: dict[str, tuple[int, int]] = {}

    def note(self) -> None:
        """Remember files that were not there before; to be called while the connection is known to be right."""
        self._main = self._main or _identity(self._database)
        for suffix in _SIDECARS:
            if suffix not in self._sidecars and (found := _identity(self._database + suffix)):
                self._sidecars[suffix] = found

    def look(self) -> Found:
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

    def check(self, found: Found | None = None) -> None:
        """Raise `StoreReplaced` unless all is as it was; `found` is what a look gave just now."""
        if (found or self.look()) != "same":
            raise StoreReplaced(
                f"{self._database} was moved, deleted or replaced while it was open: bring it back, "
                "or see `swarm-memory bank restore --list`"
            )


def inode_of(path: str) -> int | None:
    """Return the number of a file on its disk; None without one."""
    found = _identity(path)
    return None if found is None else found[1]


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - asked before each write
    except OSError:
        return None
    return status.st_dev, status.st_ino


_ENDED = b"ended"


class Mark(NamedTuple):
    """The last commit of a log."""

    salts: bytes
    """Of the generation: the first number grows by one each time the log begins again, the second is random."""
    frame: int
    """Frames up to the commit's last one."""
    checksum: bytes
    """Of all frames up to that one."""

    def packed(self) -> bytes:
        """Return it as bytes."""
        return _MARK.pack(*self)

    @classmethod
    def unpacked(cls, data: bytes) -> "Mark | None":
        """Return what was packed; None for anything else."""
        return cls(*_MARK.unpack(data)) if len(data) == _MARK.size else None


def last_commit(log: str, known: Mark | None) -> Mark | None:
    """Return the last commit of a log, looked for from a known one on; None without any. The caller holds the lock."""
    with _opened(log) as file:
        header = None if file is None else _header(file)
        if file is None or header is None:
            return None
        page, salts = header
        found = known if known is not None and known.salts == salts else None
        number = 0 if found is None else found.frame
        while (frame := _frame(file, page, number, salts)) is not None:
            number += 1
            if frame[1]:
                found = Mark(salts, number, frame[3])
        return found


def note_commit(log: str, mark_file: str) -> None:
    """Write the last commit of a log into a file of its own. The caller holds the lock and has not acknowledged it yet.

    Where that cannot be written the former note stands, and is right: the log holds that commit too.
    """
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    with suppress(OSError):
        file = os.open(mark_file, flags, 0o600)
        try:
            known = Mark.unpacked(os.read(file, 100))
            found = last_commit(log, known)
            if found is not None and found != known:
                os.lseek(file, 0, os.SEEK_SET)
                os.write(file, found.packed())
        finally:
            os.close(file)


def begin_commit(log: str, mark_file: str) -> None:
    """Drop what is noted of an earlier log before something is committed to an empty one. The caller holds the lock."""
    if not size_of(log):
        with suppress(OSError):
            os.truncate(mark_file, 0)


def end_log(mark_file: Path) -> None:
    """Note that no log holds anything: one that does is none of ours. The caller holds the lock."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    with suppress(OSError):
        file = os.open(mark_file, flags, 0o600)
        try:
            os.write(file, _ENDED)
        finally:
            os.close(file)


def is_ended(mark_file: Path) -> bool:
    """Return whether `end_log` was the last that was noted."""
    try:
        return mark_file.read_bytes() == _ENDED
    except OSError:
        return False


def compared(log: str, known: Mark) -> Literal["continued", "cut", "other"]:
    """Say whether a log that is not empty holds the known commit, lacks it, or is none that could have followed it."""
    with _opened(log) as file:
        if file is None:
            return "continued"  # folded into the database meanwhile
        header = _header(file)
        if header is None:
            return "cut"
        page, salts = header
        if salts != known.salts:
            ahead = (_first(salts) - _first(known.salts)) % 2**32
            return "continued" if 0 < ahead <= _MAX_GENERATIONS else "other"
        frame = _frame(file, page, known.frame - 1, salts)
        return "continued" if frame is not None and frame[3] == known.checksum else "cut"


@contextmanager
def _opened(log: str) -> Generator[int | None]:
    try:
        file = os.open(log, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        yield None
        return
    try:
        yield file
    finally:
        os.close(file)


def _read(file: int, count: int, at: int) -> bytes:
    os.lseek(file, at, os.SEEK_SET)
    return os.read(file, count)


def _first(salts: bytes) -> int:
    return int.from_bytes(salts[:4])


def _header(file: int) -> tuple[int, bytes] | None:
    data = _read(file, _LOG_HEADER.size, 0)
    if len(data) < _LOG_HEADER.size:
        return None
    _, _, page, _, salts, _ = _LOG_HEADER.unpack(data)
    return page, salts


def _frame(file: int, page: int, number: int, salts: bytes) -> tuple[int, int, bytes, bytes] | None:
    """Return the header of a frame of the generation (page, size after a commit, salts, checksum); None beyond it."""
    data = _read(file, _LOG_FRAME.size, _LOG_HEADER.size + number * (_LOG_FRAME.size + page))
    frame = _LOG_FRAME.unpack(data) if len(data) == _LOG_FRAME.size else None
    return frame if frame is not None and frame[2] == salts else None
