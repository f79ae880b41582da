"""Chat completions on the wire: a request's body in an endpoint's dialect, and what an answer says.

An endpoint's answer is untrusted down to its types.
"""

from typing import Any, cast

from pydantic import JsonValue

from swarm_memory.schema.settings import ChatProviderSettings
from swarm_memory.server.chat.dialect import Completion, Dialect, Failure, Form, envelope_of, tokens
from swarm_memory.server.chat.exchange import Repair, Reply, schema_instruction
from swarm_memory.server.chat.retries import RETRIED_STATUSES
from swarm_memory.tools.ports.models import ChatRequest

FORMS: tuple[Form, ...] = ("json_schema", "json_object", "text")


def request_body(
    settings: ChatProviderSettings, request: ChatRequest, repair: Repair | None, dialect: Dialect
) -> dict[str, Any]:
    """Return the arguments of `chat.completions.create`."""
    schema = request.answer_schema
    system = request.system if schema is None else f"{request.system}\n\n{schema_instruction(schema)}"
    messages = [{"role": "system", "content": system}, {"role": "user", "content": request.user}]
    if repair is not None:
        messages.append({"role": "assistant", "content": repair.text or "(nothing)"})
        messages.append({"role": "user", "content": repair.message(schema)})
    body: dict[str, Any] = {"model": settings.model, "messages": messages, dialect.limit_key: request.max_tokens}
    if dialect.has_temperature:
        body["temperature"] = request.temperature
    if dialect.has_seed and request.seed is not None:
        body["seed"] = request.seed
    if dialect.has_effort and settings.effort is not None:
        body["reasoning_effort"] = settings.effort
    if schema is not None and dialect.forms[0] != "text":
        body["response_format"] = _response_format(request.purpose, schema, dialect.forms[0])
    return body


def _response_format(purpose: str, schema: dict[str, JsonValue], form: Form) -> dict[str, Any]:
    if form == "json_object":
        return {"type": "json_object"}
    name = "".join(sign if sign.isascii() and sign.isalnum() else "_" for sign in purpose)[:64] or "answer"
    return {"type": "json_schema", "json_schema": {"name": name, "schema": schema, "strict": _is_closed(schema)}}


def _is_closed(schema: JsonValue) -> bool:
    """Whether every object forbids other keys and requires all of its own: what the strict mode demands."""
    if isinstance(schema, list):
        return all(_is_closed(part) for part in schema)
    if not isinstance(schema, dict):
        return True
    properties = schema.get("properties")
    if isinstance(properties, dict):
        required = schema.get("required")
        if schema.get("additionalProperties") is not False or not isinstance(required, list):
            return False
        if set(properties) != set(map(str, required)):
            return False
    return all(_is_closed(part) for part in schema.values())


def read_completion(raw: bytes, request: ChatRequest) -> Completion | Failure:
    """Read the body of an answer with status 200; a `Failure` where it is no chat completion."""
    envelope = envelope_of(raw, "chat completion")
    if isinstance(envelope, Failure):
        return envelope
    if not isinstance(envelope, dict) or "choices" not in envelope:
        return _error_in_200(envelope)
    reply = _reply(envelope["choices"], request)
    if isinstance(reply, Failure):
        return reply
    usage = envelope.get("usage")
    counts = usage if isinstance(usage, dict) else {}
    sent = len(request.system) + len(request.user)
    answered = tokens(counts.get("completion_tokens"), len(reply.text))
    return Completion(reply, tokens(counts.get("prompt_tokens"), sent), answered)


def _error_in_200(envelope: JsonValue) -> Failure:
    """Read `{"error": {"code": 429, …}}`: gateways send it with status 200 when the model behind them fails."""
    error = envelope.get("error") if isinstance(envelope, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    if not isinstance(code, int):
        return Failure("Its answer is no chat completion: check base_url.")
    return Failure(f"Its answer is an error with code {code}.", status=code, is_passing=code in RETRIED_STATUSES)


def _reply(choices: JsonValue, request: ChatRequest) -> Reply | Failure:
    if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
        return Failure("Its `choices` is no list of objects.")
    if not choices:
        return Reply("", "The answer holds no choice.")
    choice = cast("dict[str, JsonValue]", choices[0])
    message = choice.get("message")
    if not isinstance(message, dict):
        return Failure("Its first choice holds no message.")
    content = message.get("content")
    if not isinstance(content, str | None):
        return Failure("The `content` of its message is no text.")
    if message.get("refusal") or choice.get("finish_reason") == "content_filter":
        return Reply(content or "", "The model refused to answer.", is_final=True)
    if choice.get("finish_reason") == "length":
        return Reply.cut(content or "", request)
    return Reply(content or "")
