"""One prompt to a chat model, strictly rendered with untrusted text fenced, and its answer as a checked value.

A file of `tools/model/prompts` has two parts, `# System` and `# User`. `{{name}}` stands for a value. Untrusted text
may not be in the system part, and in the user part only between the two markers of its fence.
"""

import asyncio
import hashlib
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue

from swarm_memory.schema.errors import ModelAnswerInvalid, ModelUnavailable, ModelWindowTooSmall
from swarm_memory.tools.model.parse import ParseFailure
from swarm_memory.tools.ports.models import ChatModel, ChatRequest
from swarm_memory.tools.text.cleaning import clean

FENCE = "fence"
"""The placeholder for the fence in a prompt."""

_PLACEHOLDER = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_PARTS = re.compile(r"\A# System\n(.*?)^# User\n(.*)\Z", re.DOTALL | re.MULTILINE)
_HASH_CHARS, _FENCE_CHARS = 12, 16


@dataclass(frozen=True, slots=True)
class Prompt:
    """A template as its file has it."""

    name: str
    system: str
    user: str
    hash: str
    """The first 12 hex digits of the SHA-256 of the whole file, with line ends as `\\n`: its provenance."""


class Rendered(Prompt):
    """A prompt with its values in it, ready to be sent."""


@cache
def load_prompt(name: str) -> Prompt:
    """Read `tools/model/prompts/<name>.md`."""
    return parse_prompt(name, files("swarm_memory.tools.model.prompts").joinpath(f"{name}.md").read_text("utf-8"))


def parse_prompt(name: str, text: str) -> Prompt:
    """Parse a template. Raises `ValueError` unless it is a `# System` part followed by a `# User` part."""
    text = text.replace("\r\n", "\n")
    parts = _PARTS.match(text)
    if parts is None:
        raise ValueError(f"prompt `{name}` must begin with a line `# System`, followed later by a line `# User`.")
    system, user = (part.strip() for part in parts.groups())
    return Prompt(name, system, user, hashlib.sha256(text.encode()).hexdigest()[:_HASH_CHARS])


def render(prompt: Prompt, *, given: Mapping[str, str], untrusted: Mapping[str, str]) -> Rendered:
    """Insert our own values and the fenced untrusted ones, in one pass: braces inside a value mean nothing.

    `{{fence}}` becomes the fence's marker. Raises `ValueError` where the placeholders are not exactly the names of the
    values, where two values have one name, and for untrusted text in the system part.
    """
    fence = fence_of(*untrusted.values())
    values = {FENCE: fence, **given, **{name: fenced(name, text, fence) for name, text in untrusted.items()}}
    in_system, in_user = (set(_PLACEHOLDER.findall(part)) for part in (prompt.system, prompt.user))
    fits = in_system | in_user | {FENCE} == set(values) and len(values) == 1 + len(given) + len(untrusted)
    if not fits or not in_system.isdisjoint(untrusted):
        raise ValueError(
            f"prompt `{prompt.name}` has {sorted(in_system)} in its system part and {sorted(in_user)} in its user part;"
            f" it was given {sorted(given)}, and {sorted(untrusted)}, which may only be in its user part"
        )
    system, user = (_PLACEHOLDER.sub(lambda found: values[found[1]], part) for part in (prompt.system, prompt.user))
    return Rendered(prompt.name, system, user, prompt.hash)


def fence_of(*texts: str) -> str:
    """Return a marker that is in none of the texts: 16 hex digits, the same for the same texts.

    It is derived from all texts, so that none of them can contain it: changing a text changes the marker.
    """
    cleaned = [clean(text) for text in texts]
    whole = hashlib.sha256()
    for text in cleaned:
        whole.update(f"{len(text)}\n{text}".encode())
    haystack = "\n".join(cleaned).casefold()
    while (marker := whole.hexdigest()[:_FENCE_CHARS]) in haystack:
        whole.update(b"again")
    return marker


def fenced(name: str, text: str, fence: str) -> str:
    """Return the text, cleaned of invisible characters, between a line that opens the fence and one that closes it."""
    return f"<{name} {fence}>\n{clean(text)}\n</{name} {fence}>"


ANSWER_TOKENS = 4_000
"""Room for an answer: models that reason use most of it before they begin to answer."""

LEAST_ANSWER_TOKENS, LEAST_RECORD_TOKENS = 1_000, 400
"""The fewest tokens to which the answer and the record are cut when a model's context window is too small."""


class BaseAnswer(BaseModel):
    """Base of a model's answers: closed, and every field required, as the strict mode of endpoints demands.

    Limits of size belong in the reader of the answer: many endpoints refuse a schema that has any.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


@dataclass(frozen=True, slots=True)
class AskOptions:
    """What an answer may take."""

    timeout_s: float
    max_tokens: int = ANSWER_TOKENS
    seed: int | None = None


AnyAnswer = TypeVar("AnyAnswer", bound=BaseAnswer)
Shown = TypeVar("Shown")


async def ask(
    model: ChatModel,
    prompt: Rendered,
    form: type[AnyAnswer],
    *,
    purpose: str,
    effort: AskOptions,
    can_shorten: bool = False,
) -> tuple[AnyAnswer | ParseFailure, str]:
    """Return the answer, or why it is unusable, and the name of the model that answered or, if unusable, was asked.

    `can_shorten` is that of `ChatRequest`. Raises `ModelUnavailable`.
    """
    whole: dict[str, JsonValue] = form.model_json_schema()
    definitions = whole.pop("$defs", {})
    schema = _plain(whole, definitions if isinstance(definitions, dict) else {})
    assert isinstance(schema, dict)
    request = ChatRequest(
        purpose=purpose,
        system=prompt.system,
        user=prompt.user,
        answer_schema=schema,
        max_tokens=effort.max_tokens,
        timeout_s=effort.timeout_s,
        seed=effort.seed,
        can_shorten=can_shorten,
    )
    try:
        answer = await model.complete(request)
    except ModelAnswerInvalid as error:
        return ParseFailure(str(error)), model.name
    return form.model_validate(answer.data), answer.model


@dataclass(frozen=True, slots=True)
class Asked(Generic[AnyAnswer, Shown]):
    """An answer about a record, with the part of the record that the model was shown."""

    answer: AnyAnswer | ParseFailure
    model: str
    prompt: Rendered
    shown: Shown


async def ask_about(
    model: ChatModel,
    write: Callable[[int], tuple[Rendered, Shown]],
    form: type[AnyAnswer],
    *,
    purpose: str,
    effort: AskOptions,
    record_tokens: int,
) -> Asked[AnyAnswer, Shown]:
    """Ask about a record that `write` puts into a prompt, within a number of tokens that it is given.

    If a model's context window is too small, the record and the room for the answer are halved until they fit.
    Raises `ModelUnavailable` if even the shortest does not fit, or the time is over.
    """
    deadline = time.monotonic() + effort.timeout_s
    while True:
        prompt, shown = await asyncio.to_thread(write, record_tokens)
        can_shorten = record_tokens > LEAST_RECORD_TOKENS
        try:
            answer, name = await ask(model, prompt, form, purpose=purpose, effort=effort, can_shorten=can_shorten)
        except ModelWindowTooSmall as error:
            if not can_shorten:
                raise
            record_tokens = max(record_tokens // 2, LEAST_RECORD_TOKENS)
            left_s, room = deadline - time.monotonic(), max(effort.max_tokens // 2, LEAST_ANSWER_TOKENS)
            if left_s <= 0:
                raise ModelUnavailable(f"no time was left to try again after: {error}") from error
            effort = replace(effort, timeout_s=left_s, max_tokens=room)
        else:
            return Asked(answer, name, prompt, shown)


def _plain(value: JsonValue, definitions: Mapping[str, JsonValue]) -> JsonValue:
    """Return a part of a JSON schema without references, which not every endpoint follows, and without comments."""
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
