"""A chat model behind any endpoint that speaks chat completions."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import math
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from swarm_memory.schema.errors import ModelUnavailable
from swarm_memory.schema.settings import OPENAI_URL, ChatProviderSettings
from swarm_memory.server.chat.exchange import Repair, Reply, exchange
from swarm_memory.server.chat.metering import ChatMeter, Tally
from swarm_memory.server.chat.openai_wire import (
    MAX_BODY_BYTES,
    RETRIED_STATUSES,
    Completion,
    Dialect,
    Failure,
    read_completion,
    request_body,
)
from swarm_memory.tools.guard.redact import redact

if TYPE_CHECKING:
    from httpx2 import Response
    from openai import APIStatusError, AsyncOpenAI

    from swarm_memory.tools.ports.models import ChatAnswer, ChatRequest

_log = logging.getLogger(__name__)
_FINAL_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
"""Codes of a 429 that no waiting cures."""


class OpenAIChatModel:
    """One model of one endpoint.

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
        self._dialect = Dialect.first(settings.structured, settings.base_url == OPENAI_URL)

    @property
    def name(self) -> str:
        return self._settings.name

    @property
    def is_local(self) -> bool:
        return _is_loopback(urlsplit(self._settings.base_url).hostname or "") and not self._settings.price_out

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Answer as `ChatModel.complete` says; tokens of an endpoint that tells none are estimated."""
        tally = Tally(self._settings.price_in, self._settings.price_out)
        deadline = time.monotonic() + request.timeout_s
        async with self._client(request.timeout_s) as client:
            ask = partial(self._ask, client, deadline)
            return await exchange(self.name, request, ask, self._meter, tally)

    def _client(self, timeout_s: float) -> AsyncOpenAI:
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        # A redirect would carry the request, and with it the trajectory, to a host that nobody named.
        http = DefaultAsyncHttpxClient(follow_redirects=False, timeout=timeout_s, event_hooks={"response": [_cap_body]})
        return AsyncOpenAI(
            api_key=self._api_key or "none",
            base_url=self._settings.base_url,
            max_retries=0,
            http_client=http,
            default_headers={"Accept-Encoding": "identity"},
        )

    async def _ask(
        self, client: AsyncOpenAI, deadline: float, request: ChatRequest, repair: Repair | None, tally: Tally
    ) -> Reply:
        dialect, failed = self._dialect, 0
        while True:
            tally.tries += 1
            answer = await self._try(client, request, request_body(self._settings.model, request, repair, dialect))
            if isinstance(answer, Completion):
                tally.add(answer.input_tokens, answer.output_tokens)
                self._remember(dialect)
                return answer.reply
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

    async def _try(self, client: AsyncOpenAI, request: ChatRequest, body: dict[str, Any]) -> Completion | Failure:
        from openai import APIConnectionError, APIStatusError

        try:
            create = cast("Any", client.chat.completions.with_raw_response).create
            answer = await create(**body)
        except _BodyTooLarge:
            return Failure(f"Its answer is compressed unasked or has more than {MAX_BODY_BYTES:,} bytes.")
        except APIStatusError as error:
            return self._status_failure(error)
        except APIConnectionError as error:
            reason = type(error.__cause__ or error).__name__
            return Failure(f"{self._settings.base_url} was not reached or hung up ({reason}).", is_passing=True)
        return read_completion(cast("bytes", answer.content), request)

    def _status_failure(self, error: APIStatusError) -> Failure:
        status = error.status_code
        return Failure(
            f"HTTP {status}{self._advice(status)}: {self._said(error)}",
            status=status,
            is_passing=status in RETRIED_STATUSES and error.code not in _FINAL_CODES,
            retry_after_s=retry_after_s(error.response.headers),
        )

    def _said(self, error: APIStatusError) -> str:
        """Return the endpoint's words on one line, without the key, which endpoints echo; at most 300 characters."""
        words = " ".join(error.message.split())[:2000]
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


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential back-off with jitter, never shorter than what the endpoint asks for."""

    base_s: float = 0.5
    cap_s: float = 8.0
    longest_wait_s: float = 30.0
    """An endpoint that asks for more is given up at once."""

    def delay_s(self, attempt: int, retry_after_s: float | None) -> float | None:
        """Return the seconds to wait after failed try number `attempt` (from 0); None: not worth waiting."""
        if retry_after_s is not None and retry_after_s > self.longest_wait_s:
            return None
        grown: float = min(self.cap_s, self.base_s * 2.0 ** min(attempt, 30))
        # Half of it is random, so that callers who failed together do not come back together.
        return max(grown * random.uniform(0.5, 1.0), retry_after_s or 0.0)


def retry_after_s(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return the seconds that `Retry-After` asks for (RFC 9110 §10.2.3: seconds or a date); None: no sound value."""
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after", "").strip()
    seconds = _number(value)
    return seconds if seconds is not None else _until(value, now or datetime.now(UTC))


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return max(number, 0.0) if math.isfinite(number) else None


def _until(value: str, now: datetime) -> float | None:
    try:
        at = parsedate_to_datetime(value)
    except ValueError:
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return max((at - now).total_seconds(), 0.0)


class _BodyTooLarge(Exception):
    """The endpoint sends more than any answer can have, or what may unfold to it."""


async def _cap_body(response: Response) -> None:
    """Make the response end at `MAX_BODY_BYTES`, whatever its headers promise; a compressed one is not read at all."""
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise _BodyTooLarge
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
                    raise _BodyTooLarge
                yield chunk

        async def aclose(self) -> None:
            await inner.aclose()

    return Capped()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
