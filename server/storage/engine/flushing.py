"""Having files and the names in folders on the disk, where a power cut leaves them; it knows no database.

A file that was flushed is lost with its name: its folder must be flushed too, and that folder's name in the one above.
"""

import errno
import os
from pathlib import Path

_NOT_FLUSHED_HERE = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)
"""What a file system says whose folders cannot be flushed: some network file systems."""


def flush(path: Path) -> None:
    """Have a file's content, or the names in a folder, on the disk. Raises `OSError` when the disk says no.

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
