"""Where a project's database is, and the log next to it."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from swarm_memory.server.folders import project_root, user_state_folder, without_home

FOLDER = ".swarm"
FILE = "memory.db"
LOG = "log"
"""The file next to the database that records what went wrong in the background."""

MAX_LOG_BYTES = 1_000_000


class Location(NamedTuple):
    """Where a project and its database are."""

    root: Path
    """The project's root folder."""
    database: Path
    is_remote: bool = False
    """Whether a database server holds the bank (`storage.url`); the files that go with a bank are local even then."""

    @property
    def folder(self) -> Path:
        """The folder of the database, where the log is too."""
        return self.database.parent

    @property
    def has_bank(self) -> bool:
        """Whether there is a bank to read; on a database server this is assumed, not checked."""
        return self.is_remote or os.path.lexists(self.database)

    @property
    def project(self) -> str:
        """The name of the root folder: the project's name unless a setting gives another."""
        return self.root.name or "root"


def locate(cwd: Path | None = None, db: str | None = None) -> Location:
    """Return the location of the project that contains `cwd` (default: the process's working folder).

    The database is `db`, else SWARM_MEMORY_DB, else `.swarm/memory.db` in the root. Nothing needs to exist.
    """
    root = Path(project_root(None if cwd is None else str(cwd)))
    named = db or os.environ.get("SWARM_MEMORY_DB")
    if not named:
        return Location(root, root / FOLDER / FILE)
    # Not resolve(): it would follow links, which must be seen later.
    return Location(root, Path(os.path.abspath(os.path.expanduser(named))))  # noqa: PTH100, PTH111


def state_folder() -> Path:
    """Return the folder for the state of this user's installation, outside every project; it may not exist."""
    return Path(user_state_folder())


def user_file(environ: Mapping[str, str]) -> Path:
    """Return the path of the user's own settings file, whether or not it exists. Raises `ConfigError`."""
    base = environ.get("XDG_CONFIG_HOME") or ""
    folder = Path(base if Path(base).is_absolute() else os.path.expanduser("~/.config"))  # noqa: PTH111
    if not folder.is_absolute():
        raise without_home()
    return folder / "swarm-memory" / "config.yaml"


def project_file(root: Path) -> Path:
    """Return the path of a project's settings file, whether or not it exists."""
    return root / FOLDER / "config.yaml"


def log_line(folder: Path, source: str, text: str) -> None:
    """Add one line to the log in `folder`: when, from where, and what. Raises `OSError`."""
    refuse_links(folder)
    line = f"{time.strftime('%Y-%m-%d %H:%M:%S')} {source} {' '.join(text.split())[:1000]}"
    append_private(folder / LOG, line, MAX_LOG_BYTES)


def append_private(path: Path, line: str, max_bytes: int) -> None:
    """Add a line to a file that only this user can read; one that is too large becomes `NAME.1`. Raises `OSError`."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    with os.fdopen(descriptor, "a", encoding="utf-8", errors="replace") as file:
        file.write(f"{line}\n")
        size = file.tell()
    if size > max_bytes:
        path.replace(f"{path}.1")


def write_private(path: Path, text: str, mode: int = 0o600, *, flushes: bool = False) -> None:
    """Atomically replace a file, private but for `mode`; `flushes`: once the text is on disk. Raises `OSError`."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.write(text)
            if flushes:
                file.flush()
                os.fsync(descriptor)
        part.chmod(mode)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def address_file(database: Path) -> Path:
    """Return the file in which a running `ui` records the address of a bank's pages and its own process."""
    import hashlib

    named = hashlib.sha256(os.fsencode(os.path.realpath(database))).hexdigest()
    return state_folder() / f"ui-{named[:16]}.txt"


def address_of_pages(database: Path) -> str | None:
    """Return the address at which a bank's pages are served now; None where they are not."""
    try:
        address, process = address_file(database).read_text(encoding="utf-8").split()
        os.kill(int(process), 0)
    except (OSError, ValueError):  # there is no file, or a `ui` that was killed left it
        return None
    return address


def refuse_links(*folders: Path) -> None:
    """Raise `OSError` for a folder that is a symbolic link: one from a cloned repository may lead anywhere."""
    for folder in folders:
        if folder.is_symlink():
            raise OSError(f"{folder} is a symbolic link: nothing is written there")
