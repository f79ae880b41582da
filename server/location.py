"""Where a project's database is; it opens nothing, and asks only the environment and the folders above."""

import os
from pathlib import Path
from typing import NamedTuple

FOLDER = ".swarm"
FILE = "memory.db"


class Location(NamedTuple):
    """The database of a project and what lies around it."""

    root: Path
    """The project's root folder."""
    database: Path

    @property
    def folder(self) -> Path:
        """The folder of the database, where the log and the spool are too."""
        return self.database.parent

    @property
    def project(self) -> str:
        """The project's name unless a setting gives another: that of its root folder."""
        return self.root.name or "root"


def locate(cwd: Path | None = None, db: str | None = None) -> Location:
    """Return where the database of the project is that `cwd` (default: the process's) lies in.

    The root is CLAUDE_PROJECT_DIR, else the nearest folder upwards with a `.git`, else `cwd`. The file is `db`, else
    SWARM_MEMORY_DB, else `.swarm/memory.db` in the root. Nothing needs to exist.
    """
    here = Path(cwd or Path.cwd())
    given = os.environ.get("CLAUDE_PROJECT_DIR")
    root = Path(given) if given and cwd is None else _git_root(here) or here
    root = Path(os.path.abspath(root))  # noqa: PTH100 - resolve() would follow links, which must be seen later
    named = db or os.environ.get("SWARM_MEMORY_DB")
    if not named:
        return Location(root, root / FOLDER / FILE)
    return Location(root, Path(os.path.abspath(os.path.expanduser(named))))  # noqa: PTH100, PTH111 - as above


def _git_root(start: Path) -> Path | None:
    return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), None)
