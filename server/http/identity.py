"""Knows who sends a request: by the server's own token, which is made here, by a person's, or by an OAuth 2.1
issuer's.

This server is a resource server alone: it gives no tokens of OAuth, keeps none and asks the issuer for nothing but
its keys (RFC 9068).
"""

import asyncio
import hmac
import logging
import os
import secrets
import stat
import time
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import anyio.to_thread
import jwt
from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
from pydantic import AnyHttpUrl, ConfigDict, TypeAdapter
from starlette.datastructures import Headers
from starlette.routing import Route
from starlette.types import Scope

from swarm_memory.schema.base import digest
from swarm_memory.schema.errors import ConfigError, SwarmMemoryError
from swarm_memory.schema.settings import HttpSettings
from swarm_memory.schema.team.person import ROLES, Role, greatest
from swarm_memory.server.access.roles import OWNER, Caller
from swarm_memory.server.bank import Bank
from swarm_memory.server.location import write_private
from swarm_memory.tools.team.people import TOKEN_PREFIX, SignedIn, add_signed_in, hash_of

TOKEN_BYTES = 32
"""Of the server's own token."""

MIN_CHARS, MAX_CHARS = 32, 4096
"""Of what its file may hold."""

AGAIN = "Remove it, and the next start makes a new one"

MAX_TOKEN_CHARS = 16_384
"""Of a token that somebody sends."""

COUNTED_S = 60.0
"""Requests without a valid token are written to the audit trail together, so often."""

log = logging.getLogger(__name__)


class Identity:
    """Whoever may come in, looked up again for each request: who was revoked a moment ago does not."""

    def __init__(self, token: str, bank: Bank, issuer: "Issuer | None" = None) -> None:
        """`token` is the server's own: whoever has it is the bank's own user."""
        self._expected = token.encode()
        self.bank = bank
        self.issuer = issuer
        self._refused = 0
        self._counting: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope) -> Caller | None:
        """Return who sends a request; None: nobody who may come in. Raises `SwarmMemoryError`."""
        given = Headers(scope=scope).getlist("authorization")
        scheme, _, sent = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        if scheme.lower() != "bearer":
            return None
        token = sent.strip()
        if self.issuer is not None and token.count(".") == 2:
            return await self._by_issuer(self.issuer, token)
        return await self.by_token(token)

    async def by_token(self, token: str) -> Caller | None:
        """Return whose token of ours it is. Raises `SwarmMemoryError`."""
        if hmac.compare_digest(token.encode("utf-8", "replace"), self._expected):
            return OWNER
        if not token.startswith(TOKEN_PREFIX) or len(token) > MAX_TOKEN_CHARS:
            return None
        found = await self.bank.people()
        if found is None:
            return None
        people, tenant_id = found
        # Looked up by its hash, of which nobody can choose the beginning: the time of the look-up gives nothing away.
        person = await people.find(tenant_id, token_hash=hash_of(token))
        return None if person is None else Caller(person)

    async def still(self, caller: Caller) -> Caller | None:
        """Return who was let in before as they are now; None: they were revoked since. Raises `SwarmMemoryError`."""
        if caller.person is None:
            return caller
        found = await self.bank.people()
        person = None if found is None else await found[0].find(found[1], person_id=caller.person.id)
        return None if person is None or person.revoked_at is not None else Caller(person)

    async def _by_issuer(self, issuer: "Issuer", token: str) -> Caller | None:
        claims = await issuer.claims_of(token) if len(token) <= MAX_TOKEN_CHARS else None
        found = None if claims is None else await self.bank.people()
        if claims is None or found is None:
            return None
        people, tenant_id = found
        person = await people.find(tenant_id, issued=(issuer.url, claims.subject))
        if person is None and claims.role is not None:
            signed = SignedIn(issuer.url, claims.subject, claims.name, claims.role)
            person = await add_signed_in(people, tenant_id, signed)
        if person is None or person.revoked_at is not None:
            return None
        return Caller(person if claims.role is None else person.model_copy(update={"role": claims.role}))

    def note_refused(self) -> None:
        """Count a request without a valid token; what was counted is written behind."""
        self._refused += 1
        if self._counting is None or self._counting.done():
            self._counting = asyncio.get_running_loop().create_task(self._write_refused())

    async def _write_refused(self) -> None:
        while self._refused:
            count, self._refused = self._refused, 0
            try:
                if (found := await self.bank.people()) is not None:
                    await found[0].count_refused(found[1], count)
            except SwarmMemoryError as error:
                log.warning("%d requests without a valid token are not in the audit trail: %s", count, error)
            await asyncio.sleep(COUNTED_S)


def token_file(database: Path, user_folder: Path) -> Path:
    """Return where the token for a bank is kept.

    It is in the user's own folder and not beside the bank: a token that comes with a cloned repository is known.
    """
    return user_folder / "http" / f"{digest(str(database))[:16]}.token"


def _make_token(path: Path) -> None:
    """Write a new token; of servers that start at the same moment one makes it, and all read that one."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    write_private(draft, secrets.token_urlsafe(TOKEN_BYTES) + "\n")
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def load_token(path: Path) -> str:
    """Return the token of a file, which is made at the first call.

    Raises `ConfigError` when the file is not a private file of this user, or holds nothing that could be a token.
    """
    try:
        if not os.path.lexists(path):
            _make_token(path)
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


FETCH_TIMEOUT_S = 5.0
KEYS_HOLD_S = 3600.0
"""Keys are asked for again after so long."""

REFETCH_S = 60.0
"""A key that is not known, and keys that could not be read, are asked for again no more often: no token costs a request
of its own."""

LEEWAY_S = 30
"""So far the issuer's clock may be off."""

MAX_NAME_CHARS = 80

_AS_GIVEN = TypeAdapter[AnyHttpUrl](AnyHttpUrl, config=ConfigDict(url_preserve_empty_path=True))
"""Issuers are compared letter by letter: no slash is added."""


class IssuerUnavailable(SwarmMemoryError):
    """The issuer's keys could not be read, so that nobody can be known by its tokens now."""


class Claims(NamedTuple):
    """What a valid token says."""

    subject: str
    role: Role | None
    """By the claim that a setting names; None: no setting does, and the role is the one that was given here."""
    name: str


class Issuer:
    """Checks access tokens of one issuer for one audience, signed by one algorithm."""

    def __init__(self, settings: HttpSettings, resource: str) -> None:
        """`resource` is the address of this server as clients call it. Raises `ConfigError`."""
        assert settings.oauth_issuer is not None
        if settings.oauth_keys_url is None:
            raise ConfigError(
                "http.oauth_issuer needs http.oauth_keys_url: what the issuer's metadata "
                "(/.well-known/openid-configuration) names as jwks_uri"
            )
        self.url = settings.oauth_issuer
        self.resource = resource
        self.audience = settings.oauth_audience or resource
        self.role_claim = settings.oauth_role_claim
        self._algorithm = settings.oauth_algorithm
        for address in (self.url, settings.oauth_keys_url):  # at another keys could be changed on the way
            parts = urlsplit(address)
            is_local = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost", "::1")
            if not is_local and not (parts.scheme == "https" and parts.hostname):
                raise ConfigError(f"an issuer of tokens is reached over https, not at {address[:120]!r}")
        self._keys = jwt.PyJWKClient(
            settings.oauth_keys_url, lifespan=KEYS_HOLD_S, timeout=FETCH_TIMEOUT_S, cooldown_duration=REFETCH_S
        )
        self._ask_after = 0.0
        self._checking = asyncio.Lock()

    @property
    def routes(self) -> list[Route]:
        """Which issuer's tokens a client needs (RFC 9728): the one thing that is answered without a token."""
        return create_protected_resource_routes(
            resource_url=AnyHttpUrl(self.resource),
            authorization_servers=[_AS_GIVEN.validate_python(self.url)],
            resource_name="swarm-memory",
        )

    @property
    def challenge(self) -> str:
        """What `WWW-Authenticate` says to a client that has no valid token."""
        return f'Bearer resource_metadata="{build_resource_metadata_url(AnyHttpUrl(self.resource))}"'

    async def claims_of(self, token: str) -> Claims | None:
        """Return what a token says; None for one that is not valid here. Raises `IssuerUnavailable`."""
        if not self._may_be_ours(token):
            return None
        async with self._checking:  # of callers at once one asks for keys
            if time.monotonic() < self._ask_after:
                raise IssuerUnavailable("the issuer of tokens did not answer: nobody can be known by them now")
            try:
                claims = await anyio.to_thread.run_sync(self._verified, token)
            except (jwt.PyJWKClientConnectionError, jwt.PyJWKSetError, OSError, ValueError, RecursionError) as error:
                self._ask_after = time.monotonic() + REFETCH_S
                log.warning("the keys of %s could not be read: %s", self.url, type(error).__name__)
                raise IssuerUnavailable("the issuer of tokens does not answer: nobody can be known by them") from error
            except jwt.PyJWTError:
                return None
        subject, role = claims["sub"], None
        if not isinstance(subject, str) or not subject:
            return None
        if self.role_claim is not None:
            given = claims.get(self.role_claim)
            named = cast(list[Any], given) if isinstance(given, list) else [given]
            roles: list[Role] = [each for each in ROLES if each in named]
            if not roles:
                return None
            role = greatest(*roles)
        names = (claims.get(each) for each in ("preferred_username", "email", "name"))
        name = next((each for each in names if isinstance(each, str) and each.strip()), subject)
        return Claims(subject, role, name[:MAX_NAME_CHARS])

    def _may_be_ours(self, token: str) -> bool:
        """Return whether a token claims to be this issuer's; for any other it is asked for nothing."""
        try:
            header = jwt.get_unverified_header(token)
            claims = jwt.decode(token, options={"verify_signature": False})
        except (jwt.InvalidTokenError, RecursionError):
            return False
        is_named = isinstance(header.get("kid"), str)
        return is_named and header.get("alg") == self._algorithm and claims.get("iss") == self.url

    def _verified(self, token: str) -> dict[str, Any]:
        """Return the claims of a token that is signed, for us and in time. Raises `jwt.PyJWTError`."""
        return jwt.decode(
            token,
            self._keys.get_signing_key_from_jwt(token),
            algorithms=[self._algorithm],
            audience=self.audience,
            issuer=self.url,
            leeway=LEEWAY_S,
            options={"require": ["exp", "iss", "aud", "sub"]},
        )
