"""The bearer token of an HTTP server: made once, kept in a private file of the user."""

import os
import secrets
import stat
from pathlib import Path

from swarm_memory.schema.base import digest
from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.location import write_private

TOKEN_BYTES = 32
MIN_CHARS = 32
MAX_CHARS = 4096
AGAIN = "Remove it, and the next start makes a new one"


def token_file(database: Path, user_folder: Path) -> Path:
    """Return where the token for a bank is kept.

    It is in the user's own folder and not beside the bank: a token that comes with a cloned repository is known.
    """
    return user_folder / "http" / f"{digest(str(database))[:16]}.token"


def load_token(path: Path) -> str:
    """Return the token of a file, which is made at the first call.

    Raises `ConfigError` when the file is not a private file of this user, or holds nothing that could be a token.
    """
    try:
        if not os.path.lexists(path):
            write_private(path, secrets.token_urlsafe(TOKEN_BYTES) + "\n")
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(f"the token file {path} cannot be used: {reason}; name another by --token-file") from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise ConfigError(f"the token file {path} is not a file")
    with os.fdopen(descriptor, "rb") as file:
        if os.name == "posix" and (status.st_mode & 0o077 or status.st_uid != os.geteuid()):
            raise ConfigError(f"the token file {path} is not private to you: others may know the token. {AGAIN}")
        token = file.read(MAX_CHARS).decode("ascii", "replace").strip()
    if len(token) < MIN_CHARS or not token.isprintable() or not token.isascii() or " " in token:
        raise ConfigError(f"the token file {path} holds no token of {MIN_CHARS} or more printable characters. {AGAIN}")
    return token
