"""One rendered prompt to a chat model, and its answer as a checked value."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue

from swarm_memory.schema.errors import ModelAnswerInvalid
from swarm_memory.tools.model.parse import Unparsed, parse_model
from swarm_memory.tools.model.prompt import Rendered
from swarm_memory.tools.ports.models import ChatModel, ChatRequest


class Answered(BaseModel):
    """Base of what a model answers: closed, and every field required, as the strict mode of endpoints demands.

    Limits of size belong in the reader of the answer: many endpoints refuse a schema that has any.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


@dataclass(frozen=True, slots=True)
class Effort:
    """What an answer may take, and how free it is."""

    max_tokens: int
    timeout_s: float
    temperature: float = 0.0
    seed: int | None = None


AnyAnswer = TypeVar("AnyAnswer", bound=Answered)


async def ask(
    model: ChatModel,
    prompt: Rendered,
    form: type[AnyAnswer],
    *,
    purpose: str,
    effort: Effort,
) -> tuple[AnyAnswer | Unparsed, str]:
    """Return the answer, or why there is no usable one, and the name of the model that was asked or that answered.

    Raises `ModelUnavailable`.
    """
    request = ChatRequest(
        purpose=purpose,
        system=prompt.system,
        user=prompt.user,
        answer_schema=_schema(form),
        temperature=effort.temperature,
        max_tokens=effort.max_tokens,
        timeout_s=effort.timeout_s,
        seed=effort.seed,
    )
    try:
        answer = await model.complete(request)
    except ModelAnswerInvalid as error:
        return Unparsed(str(error)), model.name
    return parse_model(answer.text, form), answer.model


def _schema(form: type[Answered]) -> dict[str, JsonValue]:
    """Return the form as one JSON schema without references, which not every endpoint follows, and without comments."""
    whole: dict[str, JsonValue] = form.model_json_schema()
    definitions = whole.pop("$defs", {})
    assert isinstance(definitions, dict)
    plain = _plain(whole, definitions)
    assert isinstance(plain, dict)
    return plain


def _plain(value: JsonValue, definitions: Mapping[str, JsonValue]) -> JsonValue:
    if isinstance(value, list):
        return [_plain(part, definitions) for part in value]
    if not isinstance(value, dict):
        return value
    reference = value.get("$ref")
    if isinstance(reference, str):
        return _plain(definitions[reference.removeprefix("#/$defs/")], definitions)
    return {
        key: _plain(part, definitions)
        for key, part in value.items()
        if key not in ("title", "description") or not isinstance(part, str)
    }
