"""What chat models behind an endpoint share: tries and pauses, a dialect that is learned, errors without the key."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import cache, partial
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from swarm_memory.schema.errors import ModelUnavailable, ModelWindowTooSmall
from swarm_memory.schema.settings import ChatProviderSettings
from swarm_memory.server.chat.dialect import MAX_BODY_BYTES, Completion, Dialect, Failure
from swarm_memory.server.chat.exchange import Repair, Reply, exchange
from swarm_memory.server.chat.metering import ChatMeter, Tally
from swarm_memory.server.chat.retries import RETRIED_STATUSES, Backoff, retry_after_s
from swarm_memory.tools.guard.redact import redact

if TYPE_CHECKING:
    from ssl import SSLContext

    from httpx2 import Response

    from swarm_memory.tools.ports.models import ChatAnswer, ChatRequest

_log = logging.getLogger(__name__)
_FINAL_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
"""Codes of a 429 that no waiting cures."""

LEAST_ROOM = 1_000
"""Tokens left for the answer where a context window has no room for more, and the request cannot be made shorter."""

_TOO_LARGE = Failure(f"Its answer is compressed unasked or has more than {MAX_BODY_BYTES:,} bytes.")


@cache
def tls() -> SSLContext:
    """Return what certificates are checked by, one for all calls: to read those that are trusted takes tens of ms."""
    from httpx2 import create_ssl_context

    return create_ssl_context()


class EndpointChatModel(ABC):
    """One model of one endpoint; a provider says how a request is sent and read.

    A call opens its own connections and closes them, so that a model belongs to no event loop. What is kept between
    calls is the dialect that the endpoint took. The key never stands in an error or a log.
    """

    def __init__(
        self,
        settings: ChatProviderSettings,
        api_key: str | None,
        meter: ChatMeter,
        *,
        retries: int = 2,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._settings = settings
        self._api_key = api_key
        self._meter = meter
        self._retries = retries
        self._backoff = Backoff()
        self._sleep = sleep
        self._dialect = self._first_dialect()

    @property
    def name(self) -> str:
        return self._settings.name

    @property
    def is_local(self) -> bool:
        return _is_loopback(urlsplit(self._settings.url).hostname or "") and not self._settings.price_out

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Answer as `ChatModel.complete` says; tokens of an endpoint that tells none are estimated."""
        tally = Tally(self._settings.price_in, self._settings.price_out)
        deadline = time.monotonic() + request.timeout_s
        async with self._client(request.timeout_s) as client:
            ask = partial(self._ask, client, deadline)
            return await exchange(self.name, request, ask, self._meter, tally)

    @abstractmethod
    def _first_dialect(self) -> Dialect:
        """Return what is tried first."""

    @abstractmethod
    def _client(self, timeout_s: float) -> AbstractAsyncContextManager[Any]:
        """Return a client of the provider's package, which is imported now, with `cap_body` and no tries of its own."""

    @abstractmethod
    async def _send(self, client: Any, request: ChatRequest, repair: Repair | None, dialect: Dialect) -> bytes:
        """Send one request and return the body of the answer. Raises the package's `_errors`."""

    @abstractmethod
    def _read(self, raw: bytes, request: ChatRequest) -> Completion | Failure:
        """Read the body of an answer with status 200."""

    @abstractmethod
    def _errors(self) -> tuple[type[Exception], type[Exception]]:
        """Return what the package raises for a status and for a lost connection."""

    async def _ask(
        self, client: Any, deadline: float, request: ChatRequest, repair: Repair | None, tally: Tally
    ) -> Reply:
        dialect, failed = self._dialect, 0
        while True:
            tally.tries += 1
            answer = await self._try(client, request, repair, dialect)
            if isinstance(answer, Completion):
                tally.add(answer.input_tokens, answer.output_tokens)
                self._remember(dialect)
                return answer.reply
            if answer.is_too_long and request.max_tokens > LEAST_ROOM and not request.can_shorten:
                request = request.model_copy(update={"max_tokens": LEAST_ROOM})
                continue
            if answer.is_too_long:
                raise ModelWindowTooSmall(f"{self.name} cannot take so long a request: {answer.reason}")
            if other := dialect.after(answer, request):
                dialect = other
                continue
            await self._sleep(self._pause_s(answer, failed, deadline))
            failed += 1

    def _remember(self, dialect: Dialect) -> None:
        if dialect != self._dialect:
            _log.warning("%s does not take the whole request; from now on: %s", self.name, dialect.summary())
        self._dialect = dialect

    def _pause_s(self, failure: Failure, failed: int, deadline: float) -> float:
        """Return how long to wait before the next try. Raises `ModelUnavailable` when there is to be none."""
        pause_s = self._backoff.delay_s(failed, failure.retry_after_s)
        if not failure.is_passing or failed >= self._retries:
            raise ModelUnavailable(f"{self.name} failed at try {failed + 1}: {failure.reason}")
        if pause_s is None or time.monotonic() + pause_s >= deadline:
            wanted = f"wants a pause of {failure.retry_after_s:g} s" if failure.retry_after_s else "has no time left"
            raise ModelUnavailable(f"{self.name} {wanted}: {failure.reason}")
        return pause_s

    async def _try(
        self, client: Any, request: ChatRequest, repair: Repair | None, dialect: Dialect
    ) -> Completion | Failure:
        status_error, connection_error = self._errors()
        try:
            raw = await self._send(client, request, repair, dialect)
        except BodyTooLarge:
            return _TOO_LARGE
        except status_error as error:
            return self._status_failure(cast("Any", error))
        except connection_error as error:
            if isinstance(error.__cause__, BodyTooLarge):
                return _TOO_LARGE
            reason = type(error.__cause__ or error).__name__
            return Failure(f"{self._settings.url} was not reached or hung up ({reason}).", is_passing=True)
        return self._read(raw, request)

    def _status_failure(self, error: Any) -> Failure:
        status: int = error.status_code
        return Failure(
            f"HTTP {status}{self._advice(status)}: {self._said(str(error.message))}",
            status=status,
            is_passing=status in RETRIED_STATUSES and getattr(error, "code", None) not in _FINAL_CODES,
            retry_after_s=retry_after_s(error.response.headers),
        )

    def _said(self, message: str) -> str:
        """Return the endpoint's words on one line, without the key, which endpoints echo; at most 300 characters."""
        words = " ".join(message.split())[:2000]
        if self._api_key:
            words = words.replace(self._api_key, "[key]")
        return redact(words).text[:300]

    def _advice(self, status: int) -> str:
        if status in {401, 403}:
            return f" (check the key in {self._settings.key_variable or 'chat.providers: api_key_env is not set'})"
        if status == 404:
            return " (check model and base_url)"
        if 300 <= status < 400:
            return " (it redirects: set base_url to where it points)"
        return ""


class BodyTooLarge(Exception):
    """The endpoint sends more than any answer can have, or what may unfold to it."""


async def cap_body(response: Response) -> None:
    """Make the response end at `MAX_BODY_BYTES`, whatever its headers promise; a compressed one is not read at all."""
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise BodyTooLarge
    response.stream = _capped_stream(response)


def _capped_stream(response: Response) -> Any:
    from httpx2 import AsyncByteStream

    inner = cast("AsyncByteStream", response.stream)

    class Capped(AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            read = 0
            async for chunk in inner:
                read += len(chunk)
                if read > MAX_BODY_BYTES:
                    raise BodyTooLarge
                yield chunk

        async def aclose(self) -> None:
            await inner.aclose()

    return Capped()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
