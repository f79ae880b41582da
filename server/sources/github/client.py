"""GitHub's REST API: requests to its one host, within bounds of time, size and rate; what it says is untrusted."""

import asyncio
import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import urljoin, urlsplit

import httpx

from swarm_memory.schema.errors import ConfigError, NotFoundError, SourceUnavailable

TOKEN_VARIABLES = ("GH_TOKEN", "GITHUB_TOKEN")
"""The token stands nowhere else, and goes to the API's host alone."""

JSON_FORM, RAW_FORM, SHA_FORM = (f"application/vnd.github.{form}" for form in ("json", "raw", "sha"))
MATCHES_FORM = "application/vnd.github.text-match+json"
VERSION = "2022-11-28"

TIMEOUT_S = 30.0
REQUEST_LIMIT_S = 120.0
"""Of one request, its repetitions and pauses included."""

MAX_ANSWER_BYTES = 20_000_000
MAX_TRIES = 3
MAX_PAUSE_S = 60.0
"""A longer pause that the API asks for is not waited for."""

_PAUSE_S = 0.5
_REDIRECTS = frozenset({301, 302, 307, 308})
_AGAIN = frozenset({500, 502, 503, 504})


class RateLimited(SourceUnavailable):
    """The API takes no more requests for now."""


class Answer(NamedTuple):
    """What the API answered."""

    is_new: bool
    """False: what the caller knows by its ETag still holds, and nothing was sent."""
    etag: str
    body: bytes
    has_more: bool = False
    """Whether there is a next page."""

    @property
    def json(self) -> Any:
        """Return the body as JSON. Raises `SourceUnavailable`."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise SourceUnavailable("GitHub's API answered with something that is not JSON") from None


def token_of(environ: Mapping[str, str]) -> str | None:
    """Return the token of the environment, where there is one."""
    return next((value for name in TOKEN_VARIABLES if (value := environ.get(name, "").strip())), None)


class GitHub:
    """A connection to the API. Raises `ConfigError` for an address that is neither HTTPS nor this machine's."""

    def __init__(self, base_url: str, token: str | None) -> None:
        parts = urlsplit(base_url)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1")):
            raise ConfigError("sources.github_url must begin with https://, such as https://api.github.com")
        self.host = parts.netloc
        self.has_token = token is not None
        self._base = base_url.rstrip("/")
        headers = {"user-agent": "swarm-memory", "x-github-api-version": VERSION}
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        try:
            self._client = httpx.AsyncClient(headers=headers, timeout=TIMEOUT_S, trust_env=False)
        except (UnicodeError, ValueError):
            raise ConfigError(
                f"the token in {' or '.join(TOKEN_VARIABLES)} has characters that none can have"
            ) from None

    @classmethod
    def of_environment(cls, base_url: str) -> Self:
        return cls(base_url, token_of(os.environ))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def get(
        self, path: str, params: Mapping[str, str | int] | None = None, *, form: str = JSON_FORM, etag: str = ""
    ) -> Answer:
        """Ask for a path, and only for what changed where an ETag is given.

        Raises `NotFoundError`, `ConfigError` for a refused token, `RateLimited`, `SourceUnavailable`. No error quotes
        what the API said: it may echo the token.
        """
        headers = {"accept": form} | ({"if-none-match": etag} if etag else {})
        url = str(httpx.URL(f"{self._base}{path}", params=dict(params) if params else None))
        try:
            async with asyncio.timeout(REQUEST_LIMIT_S):
                return await self._tried(url, headers)
        except TimeoutError:
            raise SourceUnavailable(f"GitHub's API gave no answer within {REQUEST_LIMIT_S:g} s") from None
        except httpx.HTTPError as error:
            raise SourceUnavailable(f"GitHub's API at {self.host} was not reached ({type(error).__name__})") from None

    async def _tried(self, url: str, headers: Mapping[str, str]) -> Answer:
        for number in range(1, MAX_TRIES + 1):
            is_last = number == MAX_TRIES
            async with self._client.stream("GET", url, headers=headers) as response:
                status = response.status_code
                if status in _REDIRECTS:  # the repository was renamed
                    url = self._same_host(urljoin(url, response.headers.get("location", "")))
                    continue
                if status == 304:
                    return Answer(False, headers["if-none-match"], b"")
                if status == 200:
                    etag = response.headers.get("etag", "")[:200]
                    return Answer(True, etag, await _body(response), 'rel="next"' in response.headers.get("link", ""))
                pause = _pause(response)
            if is_last or pause is None:
                raise self._refusal(response)
            await asyncio.sleep(pause)
        raise SourceUnavailable("GitHub's API led from one address to the next")

    def _same_host(self, url: str) -> str:
        own, other = urlsplit(self._base), urlsplit(url)
        if (own.scheme, own.netloc) != (other.scheme, other.netloc):
            raise SourceUnavailable("GitHub's API pointed to another host: that one is not asked")
        return url

    def _refusal(self, response: httpx.Response) -> Exception:
        status, names = response.status_code, " or ".join(TOKEN_VARIABLES)
        if _is_limited(response):
            advice = "" if self.has_token else f"; with a token in {names} it takes 5,000 requests an hour"
            return RateLimited(f"GitHub's API takes no more requests {_until(response)}{advice}")
        if status == 401:
            return ConfigError(f"GitHub refused the token in {names}")
        if status in (403, 404, 409, 410, 422, 451):
            with_it = "the token may not read it" if self.has_token else f"it needs a token in {names}"
            return NotFoundError(f"GitHub shows no such thing (HTTP {status}): the name is wrong, or {with_it}")
        return SourceUnavailable(f"GitHub's API failed (HTTP {status})")


async def _body(response: httpx.Response) -> bytes:
    read = bytearray()
    async for part in response.aiter_bytes():
        read += part
        if len(read) > MAX_ANSWER_BYTES:
            raise SourceUnavailable(f"GitHub's API answered with more than {MAX_ANSWER_BYTES:,} bytes")
    return bytes(read)


def _pause(response: httpx.Response) -> float | None:
    """Return how long to wait before another try; None where there is none to be made."""
    if response.status_code in _AGAIN:
        return _PAUSE_S
    asked = response.headers.get("retry-after", "")
    is_short = asked.isdecimal() and float(asked) <= MAX_PAUSE_S
    return float(asked) if response.status_code in (403, 429) and is_short else None


def _is_limited(response: httpx.Response) -> bool:
    if response.status_code == 429:
        return True
    headers = response.headers
    return response.status_code == 403 and (headers.get("x-ratelimit-remaining") == "0" or "retry-after" in headers)


def _until(response: httpx.Response) -> str:
    reset = response.headers.get("x-ratelimit-reset", "")
    if reset.isdecimal() and len(reset) < 12:
        return f"before {datetime.fromtimestamp(int(reset), UTC):%Y-%m-%d %H:%M} UTC"
    return "for now"
