"""The bearer token of an HTTP server: made once, kept in a private file of the user."""

import os
import secrets
import stat
from pathlib import Path

from swarm_memory.schema.base import digest
from swarm_memory.schema.errors import ConfigError

TOKEN_BYTES = 32
MIN_CHARS = 32
MAX_CHARS = 4096


def token_file(database: Path, user_folder: Path) -> Path:
    """Return where the token for a bank is kept.

    It is in the user's own folder and not beside the bank: a token that comes with a cloned repository is known.
    """
    return user_folder / "http" / f"{digest(str(database))[:16]}.token"


def load_token(path: Path) -> str:
    """Return the token of a file, which is made at the first call.

    Raises `ConfigError` when the file is not a private file of this user, or holds nothing that could be a token.
    """
    made = _make(path)
    return made if made is not None else _read(path)


def _make(path: Path) -> str | None:
    """Write a new token, in one step for every reader; None where there is a file already."""
    token = secrets.token_urlsafe(TOKEN_BYTES)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists():
            return None
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(token + "\n")
        try:
            path.hardlink_to(draft)
        finally:
            draft.unlink()
    except FileExistsError:
        return None
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(f"the token file {path} cannot be made: {reason}; name another by --token-file") from error
    return token


def _read(path: Path) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        raise ConfigError(f"the token file {path} cannot be read: {error.strerror}") from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise ConfigError(f"the token file {path} is not a file")
    with os.fdopen(descriptor, "rb") as file:
        if os.name == "posix" and (status.st_mode & 0o077 or status.st_uid != os.geteuid()):
            raise ConfigError(
                f"the token file {path} is not private to you: others may know the token. Remove it, "
                "and the next start makes a new one"
            )
        token = file.read(MAX_CHARS).decode("ascii", "replace").strip()
    if len(token) < MIN_CHARS or not token.isprintable() or not token.isascii() or " " in token:
        raise ConfigError(
            f"the token file {path} holds no token of {MIN_CHARS} or more printable characters. Remove it, "
            "and the next start makes a new one"
        )
    return token
