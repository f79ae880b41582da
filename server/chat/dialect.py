"""What one endpoint takes of a request, found out by trying; and what a try came to."""

import re
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import JsonValue

from swarm_memory.schema.settings import Structured
from swarm_memory.server.chat.exchange import Reply
from swarm_memory.tools.model.parse import Unparsed, parse_json
from swarm_memory.tools.ports.models import ChatRequest

MAX_BODY_BYTES = 4_000_000
_ADAPTED_STATUSES = frozenset({400, 404, 415, 422, 501})
_CHARS_PER_TOKEN = 4
_TOO_LONG = re.compile(
    r"(?i)context.?(?:length|window|size|limit)|prompt is too long|input (?:length|is too long)"
    r"|too many (?:input )?tokens|request too large|reduce the length"
)
"""How endpoints say that a request does not fit into the context window (400, 413, 422, 429 and 500 are seen)."""

Form = Literal["json_schema", "json_object", "text"]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a try gave no answer."""

    reason: str
    """Without the key."""
    status: int | None = None
    is_passing: bool = False
    """Whether another try may help."""
    retry_after_s: float | None = None

    @property
    def is_too_long(self) -> bool:
        """Whether the request does not fit into the model's context window."""
        return self.status == 413 or (self.status is not None and _TOO_LONG.search(self.reason) is not None)


@dataclass(frozen=True, slots=True)
class Completion:
    """A reply and what it cost."""

    reply: Reply
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Dialect:
    """What is sent: a form of asking for JSON, and parameters that not every model takes."""

    forms: tuple[Form, ...]
    """The one that is used, then those that are left to try."""
    limit_key: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    is_limit_key_tried: bool = False
    has_temperature: bool = True
    has_seed: bool = True
    has_effort: bool = True

    def summary(self) -> str:
        """Return in words what is sent."""
        sent = {"temperature": self.has_temperature, "seed": self.has_seed, "effort": self.has_effort}
        left_out = " and ".join(key for key, is_sent in sent.items() if not is_sent)
        return f"JSON as {self.forms[0]}, {self.limit_key}, without {left_out or 'nothing'}"

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
        if "effort" in said and self.has_effort:
            return replace(self, has_effort=False)
        if request.answer_schema is not None and len(self.forms) > 1:
            return replace(self, forms=self.forms[1:])
        return None


def forms_of(structured: Structured, known: tuple[Form, ...]) -> tuple[Form, ...]:
    """Return the forms to try, the strictest first, of those that the provider knows; one when the settings fix it."""
    if structured == "auto":
        return known
    return (structured if structured in known else known[-1],)


def envelope_of(raw: bytes, what: str) -> JsonValue | Failure:
    """Return the body of an answer with status 200 as JSON; a `Failure` where it is no `what`."""
    envelope = parse_json(raw.decode("utf-8", "replace"), MAX_BODY_BYTES)
    if isinstance(envelope, Unparsed):
        if raw.lstrip()[:1] == b"<":
            return Failure(f"It answered with a web page, not with a {what}: check base_url.")
        return Failure(f"Its answer is cut or broken: {envelope.reason}", is_passing=True)
    return envelope


def tokens(told: JsonValue, chars: int) -> int:
    """Return the told count, or an estimate where an endpoint tells none: a budget must hold for it too."""
    is_count = isinstance(told, int) and not isinstance(told, bool) and 0 <= told < 10**9
    return told if is_count else chars // _CHARS_PER_TOKEN  # pyright: ignore[reportReturnType]
