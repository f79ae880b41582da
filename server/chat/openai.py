"""A chat model behind any endpoint that speaks chat completions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from swarm_memory.schema.settings import OPENAI_URL
from swarm_memory.server.chat.dialect import Completion, Dialect, Failure, forms_of
from swarm_memory.server.chat.endpoint import EndpointChatModel, cap_body, tls
from swarm_memory.server.chat.openai_wire import FORMS, read_completion, request_body

if TYPE_CHECKING:
    from openai import AsyncOpenAI

    from swarm_memory.server.chat.exchange import Repair
    from swarm_memory.tools.ports.models import ChatRequest


class OpenAIChatModel(EndpointChatModel):
    """One model of one endpoint for chat completions."""

    def _first_dialect(self) -> Dialect:
        is_openai = self._settings.url == OPENAI_URL
        limit_key = "max_completion_tokens" if is_openai else "max_tokens"
        return Dialect(forms_of(self._settings.structured, FORMS), limit_key)

    def _client(self, timeout_s: float) -> AsyncOpenAI:
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        # A redirect would carry the request, and with it the trajectory, to a host that nobody named.
        http = DefaultAsyncHttpxClient(
            follow_redirects=False, timeout=timeout_s, verify=tls(), event_hooks={"response": [cap_body]}
        )
        return AsyncOpenAI(
            api_key=self._api_key or "none",
            base_url=self._settings.url,
            max_retries=0,
            http_client=http,
            default_headers={"Accept-Encoding": "identity"},
        )

    async def _send(self, client: AsyncOpenAI, request: ChatRequest, repair: Repair | None, dialect: Dialect) -> bytes:
        create = cast("Any", client.chat.completions.with_raw_response).create
        return cast("bytes", (await create(**request_body(self._settings, request, repair, dialect))).content)

    def _read(self, raw: bytes, request: ChatRequest) -> Completion | Failure:
        return read_completion(raw, request)

    def _errors(self) -> tuple[type[Exception], type[Exception]]:
        from openai import APIConnectionError, APIStatusError

        return APIStatusError, APIConnectionError
