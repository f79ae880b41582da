"""Identifies the sender of a request by a token: the server's own, which is made here, or a person's."""

import hmac
import os
import secrets
import stat
from pathlib import Path

from starlette.datastructures import Headers
from starlette.types import Scope

from swarm_memory.schema.base import digest
from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.access.roles import OWNER, Caller
from swarm_memory.server.location import write_private
from swarm_memory.server.served_bank import ServedBank
from swarm_memory.tools.team.people import TOKEN_PREFIX, hash_of

TOKEN_BYTES = 32
"""Random bytes in the server's own token."""

MIN_CHARS, MAX_CHARS = 32, 4096
"""The fewest characters of the token in a file, and the most that are read from it."""

AGAIN = "Delete it, and the next start creates a new one"

MAX_TOKEN_CHARS = 16_384
"""The most characters of a token in a request."""


class Authenticator:
    """Knows who may come in. People are looked up at each request, so that a revoked one is refused immediately."""

    def __init__(self, token: str, bank: ServedBank) -> None:
        """`token` is the server's own; its holder is the bank's own user."""
        self._expected = token.encode()
        self.bank = bank

    async def __call__(self, scope: Scope) -> Caller | None:
        """Return the sender of a request; None for one who may not come in. Raises `SwarmMemoryError`."""
        given = Headers(scope=scope).getlist("authorization")
        scheme, _, sent = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        if scheme.lower() != "bearer":
            return None
        return await self.by_token(sent.strip())

    async def by_token(self, token: str) -> Caller | None:
        """Return the holder of a token; None where it is none of ours. Raises `SwarmMemoryError`."""
        if hmac.compare_digest(token.encode("utf-8", "replace"), self._expected):
            return OWNER
        if not token.startswith(TOKEN_PREFIX) or len(token) > MAX_TOKEN_CHARS:
            return None
        found = await self.bank.people()
        if found is None:
            return None
        people, tenant_id = found
        # Looked up by its hash, whose beginning nobody can choose: the time that this takes reveals nothing.
        person = await people.find(tenant_id, token_hash=hash_of(token))
        return None if person is None else Caller(person)

    async def still(self, caller: Caller) -> Caller | None:
        """Return a caller who was let in before as they are now; None if revoked since. Raises `SwarmMemoryError`."""
        if caller.person is None:
            return caller
        found = await self.bank.people()
        person = None if found is None else await found[0].find(found[1], person_id=caller.person.id)
        return None if person is None or person.revoked_at is not None else Caller(person)


def token_file(database: Path, user_folder: Path) -> Path:
    """Return where the token for a bank is kept.

    It is in the user's own folder, not next to the bank: others know a token that comes with a cloned repository.
    """
    return user_folder / "http" / f"{digest(str(database))[:16]}.token"


def _make_token(path: Path) -> None:
    """Write a new token. If several servers start at the same moment, one makes it and all read that one."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    write_private(draft, secrets.token_urlsafe(TOKEN_BYTES) + "\n")
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def load_or_create_token(path: Path) -> str:
    """Return the token of a file, which is made at the first call.

    Raises `ConfigError` when the file is not a private file of this user, or holds nothing that could be a token.
    """
    try:
        if not os.path.lexists(path):
            _make_token(path)
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(f"the token file {path} cannot be used: {reason}; name another with --token-file") from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise ConfigError(f"the token file {path} is not a file")
    with os.fdopen(descriptor, "rb") as file:
        if os.name == "posix" and (status.st_mode & 0o077 or status.st_uid != os.geteuid()):
            raise ConfigError(f"the token file {path} is not private to you: others may know the token. {AGAIN}")
        token = file.read(MAX_CHARS).decode("ascii", "replace").strip()
    if len(token) < MIN_CHARS or not token.isprintable() or not token.isascii() or " " in token:
        raise ConfigError(f"the token file {path} has no token of {MIN_CHARS} or more printable characters. {AGAIN}")
    return token
