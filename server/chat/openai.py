"""A chat model behind any endpoint that has chat completions, through the package `openai`."""

import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from swarm_memory.schema.errors import ModelAnswerInvalid, ModelUnavailable, ModelWindowTooSmall
from swarm_memory.schema.settings import OPENAI_URL, ChatProviderSettings
from swarm_memory.server.chat.metering import (
    CHARS_PER_TOKEN,
    ChatMeter,
    MeteredModel,
    Reply,
    add,
    shown,
    system_with_schema,
)
from swarm_memory.tools.ports.models import ChatRequest, ChatUsage

if TYPE_CHECKING:
    from ssl import SSLContext

    from httpx2 import Response
    from openai import APIStatusError, AsyncOpenAI

MAX_BODY_BYTES = 8_000_000
"""Twice what 32 vectors of 4,096 numbers take, the longest answer that is asked for."""

_TOO_LONG = re.compile(
    r"(?i)context.?(?:length|window|size|limit)|prompt is too long|input (?:length|is too long)"
    r"|too many (?:input )?tokens|request too large|reduce the length"
)
"""How endpoints report that a request does not fit into the context window (seen with 400, 413, 422, 429 and 500)."""

_REFUSED_STATUSES = frozenset({400, 404, 415, 422, 501})
"""Statuses with which endpoints refuse a request that has a parameter they do not accept."""

_OPTIONAL = {"max_tokens": "max_tokens", "temperature": "temperature", "seed": "seed", "reasoning_effort": "effort"}
"""Parameters that not every endpoint accepts, with the word that names each in its error."""

_log = logging.getLogger(__name__)


class BodyTooLarge(ValueError):
    """The endpoint sends more than any answer can have, or compressed bytes that may expand to that."""


class OpenAIChatModel(MeteredModel):
    """One model of one endpoint; tokens are estimated if the endpoint does not count them.

    The package retries, and waits as the endpoint requests. A call opens and closes its own connections, so that a
    model is not tied to an event loop; only which parameters the endpoint refuses is kept between calls. The key never
    appears in an error or a log.
    """

    def __init__(
        self, settings: ChatProviderSettings, api_key: str | None, meter: ChatMeter, *, retries: int = 2
    ) -> None:
        """`api_key` is None for an endpoint that needs none; an empty one is a key that is missing."""
        fault = f"{settings.key_variable} is not set." if api_key == "" else None
        super().__init__(settings.name, meter, fault)
        host = urlsplit(settings.url).hostname
        self.is_local = host in {"localhost", "127.0.0.1", "::1"} and not settings.price_out
        self._settings = settings
        self._api_key = api_key
        self._retries = retries
        self._refused = frozenset[str]()

    async def _ask(self, request: ChatRequest, usage: ChatUsage) -> Reply:
        """Send a request, and again without each parameter that the endpoint refuses. Raises `ModelError`."""
        from openai import APIConnectionError, APIError, APIStatusError

        async def count_try(_: object) -> None:
            usage.tries += 1

        refused = self._refused
        while True:
            body = self._body(request, refused)
            try:
                async with open_client(self._settings.url, self._api_key, self._retries, count_try) as client:
                    completion = await cast("Any", client.chat.completions).create(**body)
                break
            except APIStatusError as error:
                said = self._said(error)
                if error.status_code == 413 or _TOO_LONG.search(said):
                    raise ModelWindowTooSmall(f"{self.name} cannot take a request this long: {said}") from None
                # It refuses the parameter that it names, or else the answer's format.
                named = [name for name, word in _OPTIONAL.items() if name in body and word in said.lower()]
                if "response_format" in body:
                    named.append("response_format")
                if error.status_code not in _REFUSED_STATUSES or not named:
                    raise ModelUnavailable(f"{self.name} failed: {said}") from None
                refused |= {named[0]}
            except APIConnectionError as error:
                reason = type(error.__cause__ or error).__name__
                raise ModelUnavailable(f"{self._settings.url} could not be reached or hung up ({reason}).") from None
            except BodyTooLarge:
                raise ModelUnavailable(f"{self.name} sent an answer that is compressed or too large.") from None
            except (APIError, ValueError, RecursionError):
                raise self._no_completion() from None
        if refused != self._refused:
            _log.warning("%s does not accept %s: no longer sent", self.name, ", ".join(sorted(refused)))
            self._refused = refused
        return self._read(completion, request, usage)

    def _body(self, request: ChatRequest, refused: frozenset[str]) -> dict[str, Any]:
        """Return the arguments of `chat.completions.create`."""
        renamed = self._settings.url == OPENAI_URL or "max_tokens" in refused
        # Each answer's schema is closed and requires all of its fields (`BaseAnswer`), as the strict mode demands.
        form = {"name": request.purpose, "schema": request.answer_schema, "strict": True}
        system = {"role": "system", "content": system_with_schema(request)}
        body: dict[str, Any] = {
            "model": self._settings.model,
            "messages": [system, {"role": "user", "content": request.user}],
            "max_completion_tokens" if renamed else "max_tokens": request.max_tokens,
            "temperature": 0.0,
            "seed": request.seed,
            "reasoning_effort": self._settings.effort,
            "response_format": {"type": "json_schema", "json_schema": form},
        }
        return {key: value for key, value in body.items() if value is not None and key not in refused}

    def _said(self, error: "APIStatusError") -> str:
        """Return the endpoint's words on one line, at most 300 characters, without the key, which endpoints echo."""
        status = error.status_code
        key = f"check the key in {self._settings.key_variable or 'chat.providers: api_key_env is not set'}"
        advice = {401: key, 403: key, 404: "check model and base_url", 307: "it redirects", 308: "it redirects"}
        hint = f" ({advice[status]})" if status in advice else ""
        words = error.message.replace(self._api_key, "[key]") if self._api_key else error.message
        return f"HTTP {status}{hint}: {shown(words)}"

    def _read(self, completion: Any, request: ChatRequest, usage: ChatUsage) -> Reply:
        """Return what an answer says, which the package does not check. Raises `ModelError` for none or a refusal."""
        try:
            choice = completion.choices[0]
            text, refusal, ended = choice.message.content or "", choice.message.refusal, choice.finish_reason
        except (AttributeError, IndexError, TypeError):
            raise self._no_completion() from None
        if not isinstance(text, str):
            raise self._no_completion()
        sent = _tokens(completion, "prompt_tokens", len(request.system) + len(request.user))
        answered = _tokens(completion, "completion_tokens", len(text))
        price_in, price_out = self._settings.price_in, self._settings.price_out
        cost = None if price_in is None or price_out is None else (sent * price_in + answered * price_out) / 1_000_000
        add(usage, sent, answered, cost)
        if refusal or ended == "content_filter":
            raise ModelAnswerInvalid(f"{self.name} refused to answer.")
        return Reply(text, is_cut=ended == "length")

    def _no_completion(self) -> ModelUnavailable:
        return ModelUnavailable(f"{self.name} returned no chat completion: check base_url.")


def _tokens(completion: Any, kind: str, chars: int) -> int:
    """Return the reported count, or an estimate if the endpoint reports none: a budget must hold for it too."""
    given = getattr(getattr(completion, "usage", None), kind, None)
    return given if type(given) is int and 0 <= given < 10**9 else chars // CHARS_PER_TOKEN


def open_client(
    url: str | None, api_key: str | None, retries: int = 2, *on_try: Callable[[object], Awaitable[None]]
) -> "AsyncOpenAI":
    """Return a client of an endpoint, OpenAI's own without `url`; a body that is too large raises `BodyTooLarge`."""
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient

    # A redirect would carry the request, and with it private texts, to a host that nobody named.
    hooks, headers = {"request": [*on_try], "response": [_cap_body]}, {"Accept-Encoding": "identity"}
    http = DefaultAsyncHttpxClient(follow_redirects=False, verify=_tls(), event_hooks=hooks)
    return AsyncOpenAI(
        api_key=api_key or "none", base_url=url, max_retries=retries, http_client=http, default_headers=headers
    )


@cache
def _tls() -> "SSLContext":
    """Return the context that checks certificates, one for all calls: making it takes 0.1 s and holds up the others."""
    from httpx2 import create_ssl_context

    return create_ssl_context()


async def _cap_body(response: "Response") -> None:
    """Make a response raise `BodyTooLarge` past `MAX_BODY_BYTES`, whatever its headers say; refuse a compressed one."""
    from httpx2 import AsyncByteStream

    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise BodyTooLarge
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

    response.stream = Capped()
