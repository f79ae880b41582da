"""A chat model behind the Messages API: Anthropic's own, or an endpoint that speaks it.

Temperature and seed are not sent: current models take neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from swarm_memory.server.chat.dialect import Completion, Dialect, Failure, Form, envelope_of, forms_of, tokens
from swarm_memory.server.chat.endpoint import EndpointChatModel, cap_body, tls
from swarm_memory.server.chat.exchange import Repair, Reply, schema_instruction
from swarm_memory.tools.model.parse import JsonObject

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from pydantic import JsonValue

    from swarm_memory.tools.ports.models import ChatRequest

_FORMS: tuple[Form, ...] = ("json_schema", "text")
_READ = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


class AnthropicChatModel(EndpointChatModel):
    """One model of one endpoint for messages."""

    def _first_dialect(self) -> Dialect:
        return Dialect(
            forms_of(self._settings.structured, _FORMS), is_limit_key_tried=True, has_temperature=False, has_seed=False
        )

    def _client(self, timeout_s: float) -> AsyncAnthropic:
        from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient

        # A redirect would carry the request, and with it the trajectory, to a host that nobody named.
        http = DefaultAsyncHttpxClient(
            follow_redirects=False, timeout=timeout_s, verify=tls(), event_hooks={"response": [cap_body]}
        )
        return AsyncAnthropic(
            # Without a key of ours the package looks for others in the environment and in the user's files.
            api_key=self._api_key or "none",
            base_url=self._settings.url,
            timeout=timeout_s,
            max_retries=0,
            http_client=http,
            default_headers={"Accept-Encoding": "identity"},
            open_telemetry=False,
        )

    async def _send(
        self, client: AsyncAnthropic, request: ChatRequest, repair: Repair | None, dialect: Dialect
    ) -> bytes:
        create = cast("Any", client.messages.with_raw_response).create
        answer = await create(**_body(self._settings.model, self._settings.effort, request, repair, dialect))
        return cast("bytes", await answer.read())

    def _read(self, raw: bytes, request: ChatRequest) -> Completion | Failure:
        return _completion(raw, request)

    def _errors(self) -> tuple[type[Exception], type[Exception]]:
        from anthropic import APIConnectionError, APIStatusError

        return APIStatusError, APIConnectionError


def _body(
    model: str, effort: str | None, request: ChatRequest, repair: Repair | None, dialect: Dialect
) -> dict[str, Any]:
    """Return the arguments of `messages.create`."""
    schema = request.answer_schema
    messages = [{"role": "user", "content": request.user}]
    if repair is not None:
        messages.append({"role": "assistant", "content": repair.text.rstrip() or "(nothing)"})
        messages.append({"role": "user", "content": repair.message(schema)})
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": request.max_tokens,
        "system": request.system if schema is None else f"{request.system}\n\n{schema_instruction(schema)}",
        "messages": messages,
    }
    config: dict[str, Any] = {}
    if schema is not None and dialect.forms[0] == "json_schema":
        config["format"] = {"type": "json_schema", "schema": schema}
    if dialect.has_effort and effort is not None:
        config["effort"] = effort
    return body | ({"output_config": config} if config else {})


def _completion(raw: bytes, request: ChatRequest) -> Completion | Failure:
    message = envelope_of(raw, "message")
    if isinstance(message, Failure):
        return message
    if not isinstance(message, dict) or not isinstance(blocks := message.get("content"), list):
        return Failure("Its answer is no message: check base_url.")
    text = "".join(_text(block) for block in blocks)
    usage = message.get("usage")
    counts: JsonObject = usage if isinstance(usage, dict) else {}
    # Of three counts only the first is always told.
    read = [tokens(counts.get(key), 0) for key in _READ if counts.get(key) is not None]
    sent = sum(read) if read else tokens(None, len(request.system) + len(request.user))
    reason = message.get("stop_reason")
    if reason == "model_context_window_exceeded":
        return Failure("The answer found no room in the context window.", status=413)
    return Completion(_reply(text, reason, request), sent, tokens(counts.get("output_tokens"), len(text)))


def _text(block: JsonValue) -> str:
    text = block.get("text") if isinstance(block, dict) and block.get("type") == "text" else None
    return text if isinstance(text, str) else ""


def _reply(text: str, reason: JsonValue, request: ChatRequest) -> Reply:
    if reason == "refusal":
        return Reply(text, "The model refused to answer.", is_final=True)
    return Reply.cut(text, request) if reason == "max_tokens" else Reply(text)
