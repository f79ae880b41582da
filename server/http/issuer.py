"""An OAuth 2.1 issuer from outside, whose access tokens let people in: its keys, and what its tokens say (RFC 9068).

This server is a resource server alone: it gives no tokens, keeps none and asks the issuer for nothing but its keys.
"""

import asyncio
import json
import logging
import time
from collections.abc import Callable
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import httpx
import jwt
from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
from pydantic import AnyHttpUrl, ConfigDict, TypeAdapter
from starlette.routing import Route

from swarm_memory.schema.errors import ConfigError, SwarmMemoryError
from swarm_memory.schema.settings import HttpSettings
from swarm_memory.schema.team.person import ROLES, Role, greatest

FETCH_TIMEOUT_S = 5.0
MAX_FETCHED_BYTES = 512 * 1024
KEYS_HOLD_S = 3600.0
"""Keys are asked for again after so long; where the issuer does not answer the former ones hold for a day."""

KEYS_LAST_S = 24 * 3600.0
REFETCH_S = 60.0
"""A key that is not known has them asked for again, but no more often: no token costs a request of its own."""

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

    def __init__(self, settings: HttpSettings, resource: str, now: Callable[[], float] = time.monotonic) -> None:
        """`resource` is the address of this server as clients call it. Raises `ConfigError`."""
        assert settings.oauth_issuer is not None
        self.url = settings.oauth_issuer
        self.resource = resource
        self.audience = settings.oauth_audience or resource
        self.role_claim = settings.oauth_role_claim
        self._algorithm = settings.oauth_algorithm
        self._keys_url = settings.oauth_keys_url
        for address in filter(None, (self.url, self._keys_url)):
            _check_address(address)
        self._now = now
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched: float | None = None
        self._tried: float | None = None
        self._fetching = asyncio.Lock()

    @property
    def routes(self) -> list[Route]:
        """What tells a client which issuer's tokens it needs (RFC 9728): the one thing that is told without a token."""
        return create_protected_resource_routes(
            resource_url=AnyHttpUrl(self.resource),
            authorization_servers=[_AS_GIVEN.validate_python(self.url)],
            resource_name="swarm-memory",
        )

    @property
    def challenge(self) -> str:
        """What `WWW-Authenticate` tells a client that has no valid token."""
        return f'Bearer resource_metadata="{build_resource_metadata_url(AnyHttpUrl(self.resource))}"'

    async def claims_of(self, token: str) -> Claims | None:
        """Return what a token says; None for one that is not valid here. Raises `IssuerUnavailable`."""
        key_id = self._key_id(token)
        key = None if key_id is None else await self._key(key_id)
        if key is None:
            return None
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=[self._algorithm],
                audience=self.audience,
                issuer=self.url,
                leeway=LEEWAY_S,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except jwt.InvalidTokenError:
            return None
        return self._read(claims)

    def _key_id(self, token: str) -> str | None:
        """Return which key a token names, or ""; None where it cannot be this issuer's: then nothing is asked for."""
        try:
            header = jwt.get_unverified_header(token)
            told = jwt.decode(token, options={"verify_signature": False})
        except (jwt.InvalidTokenError, RecursionError):
            return None
        key_id = header.get("kid", "")
        is_ours = header.get("alg") == self._algorithm and told.get("iss") == self.url
        return key_id if is_ours and isinstance(key_id, str) else None

    async def _key(self, key_id: str) -> jwt.PyJWK | None:
        await self._refresh(KEYS_HOLD_S)
        if self._find(key_id) is None:
            await self._refresh(REFETCH_S)
        return self._find(key_id)

    def _find(self, key_id: str) -> jwt.PyJWK | None:
        if not key_id:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(key_id)

    async def _refresh(self, hold_s: float) -> None:
        """Ask for the keys where the last answer is older; of callers at once one asks. Raises `IssuerUnavailable`."""
        async with self._fetching:
            now = self._now()
            if self._fetched is not None and now - self._fetched < hold_s:
                return
            if self._tried is None or now - self._tried >= REFETCH_S:
                self._tried = now
                try:
                    self._keys = await self._fetch_keys()
                    self._fetched = now
                except (httpx.HTTPError, TimeoutError, ValueError, RecursionError) as error:
                    log.warning("the keys of %s could not be read: %s", self.url, type(error).__name__)
            if self._fetched is None or now - self._fetched >= KEYS_LAST_S:
                raise IssuerUnavailable("the issuer of tokens does not answer: nobody can be known by them now")

    async def _fetch_keys(self) -> dict[str, jwt.PyJWK]:
        """Raises `httpx.HTTPError`, `TimeoutError`, `ValueError`."""
        async with (
            asyncio.timeout(FETCH_TIMEOUT_S),
            httpx.AsyncClient(timeout=FETCH_TIMEOUT_S, trust_env=False, follow_redirects=False) as client,
        ):
            keys_url = self._keys_url or await self._discovered(client)
            answer = await _fetched(client, keys_url)
        found = answer.get("keys")
        if not isinstance(found, list):
            raise ValueError("no list of keys")
        keys: dict[str, jwt.PyJWK] = {}
        for each in cast(list[Any], found)[:100]:
            if (key := self._usable(each)) is not None:
                keys[key.key_id or ""] = key
        return keys

    def _usable(self, described: Any) -> jwt.PyJWK | None:
        """Return a public key for the algorithm that is expected; None for any other."""
        try:
            key = jwt.PyJWK(described, algorithm=self._algorithm)
        except (jwt.PyJWTError, ValueError, TypeError, AttributeError, KeyError):
            return None
        told: dict[str, Any] = described
        fits = told.get("alg", self._algorithm) == self._algorithm and told.get("use", "sig") == "sig"
        return key if fits and "d" not in told else None

    async def _discovered(self, client: httpx.AsyncClient) -> str:
        """Return where the keys are by the issuer's metadata (OpenID Connect Discovery, RFC 8414)."""
        parts = urlsplit(self.url)
        inserted = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-authorization-server{parts.path.rstrip('/')}"
        told: dict[str, Any] = {}
        for address in (f"{self.url.rstrip('/')}/.well-known/openid-configuration", inserted):
            try:
                told = await _fetched(client, address)
                break
            except (httpx.HTTPStatusError, ValueError):
                continue
        keys_url = told.get("jwks_uri")
        if told.get("issuer") != self.url or not isinstance(keys_url, str):
            raise ValueError("its metadata is another issuer's, or names no keys")
        try:
            _check_address(keys_url)
        except ConfigError as error:
            raise ValueError("its metadata names keys at no safe address") from error
        return keys_url

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


async def _fetched(client: httpx.AsyncClient, address: str) -> dict[str, Any]:
    """Return the JSON object at an address. Raises `httpx.HTTPError`, `ValueError`."""
    body = bytearray()
    async with client.stream("GET", address, headers={"accept": "application/json"}) as answer:
        answer.raise_for_status()
        async for part in answer.aiter_bytes():
            body += part
            if len(body) > MAX_FETCHED_BYTES:
                raise ValueError("longer than any set of keys")
    told = json.loads(body)
    if not isinstance(told, dict):
        raise ValueError("no JSON object")
    return cast(dict[str, Any], told)


def _check_address(address: str) -> None:
    """Raise `ConfigError` for an address at which keys could be changed on the way."""
    parts = urlsplit(address)
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost", "::1"):
        return
    raise ConfigError(f"an issuer of tokens is reached over https, not at {address[:120]!r}")
