"""An OAuth 2.1 issuer from outside, whose access tokens let people in: its keys, and what its tokens say (RFC 9068).

This server is a resource server alone: it gives no tokens, keeps none and asks the issuer for nothing but its keys.
"""

import asyncio
import logging
import time
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import anyio.to_thread
import jwt
from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
from pydantic import AnyHttpUrl, ConfigDict, TypeAdapter
from starlette.routing import Route

from swarm_memory.schema.errors import ConfigError, SwarmMemoryError
from swarm_memory.schema.settings import HttpSettings
from swarm_memory.schema.team.person import ROLES, Role, greatest

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

log = logging.getLogger(__name__)


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
        for address in (self.url, settings.oauth_keys_url):
            _check_address(address)
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
        return self._read(claims)

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

    def _read(self, claims: dict[str, Any]) -> Claims | None:
        subject = claims["sub"]
        if not isinstance(subject, str) or not subject:
            return None
        role: Role | None = None
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


def _check_address(address: str) -> None:
    """Raise `ConfigError` for an address at which keys could be changed on the way."""
    parts = urlsplit(address)
    is_local = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost", "::1")
    if not is_local and not (parts.scheme == "https" and parts.hostname):
        raise ConfigError(f"an issuer of tokens is reached over https, not at {address[:120]!r}")
