"""An empty bank that is made once and then laid where a test needs one: how banks are made is tested in `storage`."""

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from swarm_memory.server.storage.driver import choose
from swarm_memory.server.storage.engine import registry
from swarm_memory.server.storage.engine.connection import close, connect


def laid(database: Path, sqlite: str = os.environ.get("SWARM_MEMORY_SQLITE") or "auto") -> Path:
    """Lay an empty bank where there is no file, as this user's; return the path."""
    if not database.exists():
        database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copyfile(_made(sqlite), database)
        database.chmod(0o600)
        registry.begin(database)
    return database


@cache
def _made(sqlite: str) -> Path:
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    database = folder / "memory.db"
    close(connect(database, driver=choose(sqlite)), database)
    return database
