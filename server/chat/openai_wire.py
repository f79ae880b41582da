"""Chat completions on the wire: a request's body in an endpoint's dialect, and what an answer says.

An endpoint's answer is untrusted down to its types.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from pydantic import JsonValue

from swarm_memory.schema.settings import Structured
from swarm_memory.server.chat.exchange import Repair, Reply, schema_instruction
from swarm_memory.tools.model.parse import Unparsed, parse_json
from swarm_memory.tools.ports.models import ChatRequest

MAX_BODY_BYTES = 4_000_000
RETRIED_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_ADAPTED_STATUSES = frozenset({400, 404, 415, 422, 501})
_CHARS_PER_TOKEN = 4

Form = Literal["json_schema", "json_object", "text"]
_LOWER: Mapping[Form, Form] = {"json_schema": "json_object", "json_object": "text"}


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a try gave no answer."""

    reason: str
    """Without the key."""
    status: int | None = None
    is_passing: bool = False
    """Whether another try may help."""
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Dialect:
    """What one endpoint takes."""

    form: Form
    is_form_fixed: bool
    limit_key: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    is_limit_key_tried: bool = False
    has_temperature: bool = True
    has_seed: bool = True

    @classmethod
    def first(cls, structured: Structured, is_openai: bool) -> "Dialect":
        """Return what is tried first."""
        return cls(
            form="json_schema" if structured == "auto" else structured,
            is_form_fixed=structured != "auto",
            limit_key="max_completion_tokens" if is_openai else "max_tokens",
        )

    def summary(self) -> str:
        """Return in words what is sent."""
        left_out = [
            key for key, is_sent in (("temperature", self.has_temperature), ("seed", self.has_seed)) if not is_sent
        ]
        return f"JSON as {self.form}, {self.limit_key}, without {' and '.join(left_out) or 'nothing'}"

    def after(self, failure: Failure, request: ChatRequest) -> "Dialect | None":
        """Return what to try after a request was refused; None when the dialect is not to blame or nothing is left."""
        if failure.status not in _ADAPTED_STATUSES:
            return None
        said = failure.reason.lower()
        if self.limit_key in said and not self.is_limit_key_tried:
            other = "max_tokens" if self.limit_key == "max_completion_tokens" else "max_completion_tokens"
            return replace(self, limit_key=other, is_limit_key_tried=True)
        if "temperature" in said and self.has_temperature:
            return replace(self, has_temperature=False)
        if "seed" in said and self.has_seed and request.seed is not None:
            return replace(self, has_seed=False)
        if request.answer_schema is not None and not self.is_form_fixed and self.form in _LOWER:
            return replace(self, form=_LOWER[self.form])
        return None


def request_body(model: str, request: ChatRequest, repair: Repair | None, dialect: Dialect) -> dict[str, Any]:
    """Return the arguments of `chat.completions.create`."""
    schema = request.answer_schema
    system = request.system if schema is None else f"{request.system}\n\n{schema_instruction(schema)}"
    messages = [{"role": "system", "content": system}, {"role": "user", "content": request.user}]
    if repair is not None:
        messages.append({"role": "assistant", "content": repair.text or "(nothing)"})
        messages.append({"role": "user", "content": repair.message(schema)})
    body: dict[str, Any] = {"model": model, "messages": messages, dialect.limit_key: request.max_tokens}
    if dialect.has_temperature:
        body["temperature"] = request.temperature
    if dialect.has_seed and request.seed is not None:
        body["seed"] = request.seed
    if schema is not None and dialect.form != "text":
        body["response_format"] = _response_format(request.purpose, schema, dialect.form)
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


@dataclass(frozen=True, slots=True)
class Completion:
    """A reply and what it cost."""

    reply: Reply
    input_tokens: int
    output_tokens: int


def read_completion(raw: bytes, request: ChatRequest) -> Completion | Failure:
    """Read the body of an answer with status 200; a `Failure` where it is no chat completion."""
    envelope = parse_json(raw.decode("utf-8", "replace"), MAX_BODY_BYTES)
    if isinstance(envelope, Unparsed) and raw.lstrip()[:1] == b"<":
        return Failure("It answered with a web page, not with a chat completion: check base_url.")
    if isinstance(envelope, Unparsed):
        return Failure(f"Its answer is cut or broken: {envelope.reason}", is_passing=True)
    if not isinstance(envelope, dict) or "choices" not in envelope:
        return _error_in_200(envelope)
    reply = _reply(envelope["choices"], request)
    if isinstance(reply, Failure):
        return reply
    usage = envelope.get("usage")
    counts = usage if isinstance(usage, dict) else {}
    sent = len(request.system) + len(request.user)
    return Completion(
        reply, _tokens(counts.get("prompt_tokens"), sent), _tokens(counts.get("completion_tokens"), len(reply.text))
    )


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
        return Reply(content or "", f"The answer was cut at {request.max_tokens} tokens: be briefer.")
    return Reply(content or "")


def _tokens(told: JsonValue, chars: int) -> int:
    """Return the told count, or an estimate where an endpoint tells none: a budget must hold for it too."""
    is_count = isinstance(told, int) and not isinstance(told, bool) and 0 <= told < 10**9
    return told if is_count else chars // _CHARS_PER_TOKEN  # pyright: ignore[reportReturnType]
