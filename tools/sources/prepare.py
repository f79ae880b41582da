"""Groups of passages as they are stored: redacted, cleaned, within bounds, with their tokens. Pure."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pydantic import JsonValue

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.source import Fault, Passage
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.ports.sources import ReadGroup, StoredGroup, StoredPassage
from swarm_memory.tools.text.cleaning import clean, shorten
from swarm_memory.tools.text.tokens import tokenize

MAX_TITLE_CHARS, MAX_DESCRIPTION_CHARS, MAX_CONTENT_CHARS = 1_000, 20_000, 60_000

_DIVIDER = "\n\x02\n"
"""What no rule of redaction reaches over, and no cleaned text holds."""

Prepared: TypeAlias = StoredGroup | Fault
"""A group without vectors, or why it has no passages."""


@dataclass(frozen=True, slots=True)
class Preparation:
    """Groups that are to be parsed and prepared together; it can be pickled where their `parse` can."""

    groups: Sequence[ReadGroup]
    pii: bool
    """Whether personal data is taken out too."""

    def __call__(self) -> list[Prepared]:
        """Return what became of each group, in order."""
        return [self._prepared(each) for each in self.groups]

    def _prepared(self, group: ReadGroup) -> Prepared:
        name, content_hash, parse = group
        try:
            passages = parse()
        except InputError as error:
            return Fault(group=name, reason=str(error).removeprefix(f"{name} "))
        texts: list[str] = []
        for each in passages:
            _mapped([each.title, each.description, each.content, each.data], texts.append)
        safe = _safe_texts(texts, pii=self.pii)
        return StoredGroup(name, content_hash, tokenize(name), tuple(_stored(each, safe) for each in passages))


def _safe_texts(texts: Sequence[str], *, pii: bool) -> Iterator[str]:
    """Yield the texts of a group cleaned and redacted: together, in a sixth of the time."""
    cleaned = [clean(each) for each in texts]
    parts = redact(_DIVIDER.join(cleaned), pii=pii).text.split(_DIVIDER)
    if len(parts) != len(cleaned):  # a secret that is spread over several of them
        parts = [redact(each, pii=pii).text for each in cleaned]
    yield from map(clean, parts)


def _stored(passage: Passage, safe: Iterator[str]) -> StoredPassage:
    """Make a passage of its safe texts, which come in the order in which they were listed."""
    title, description, content = next(safe), next(safe), next(safe)
    data = _mapped(passage.data, lambda _: next(safe))
    assert isinstance(data, dict)
    kept = passage.model_copy(
        update={
            "title": shorten(title, MAX_TITLE_CHARS).strip() or passage.group,
            "description": shorten(description, MAX_DESCRIPTION_CHARS),
            "content": shorten(content, MAX_CONTENT_CHARS),
            "data": data,
        }
    )
    return StoredPassage(kept, None, tokenize(kept.title), tokenize(kept.description), tokenize(kept.content))


def _mapped(value: JsonValue, text: Callable[[str], str | None]) -> JsonValue:
    """Return JSON with what `text` makes of each text in it, in order; without numbers that are none."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, list):
        return [_mapped(part, text) for part in value]
    if isinstance(value, dict):
        return {clean(name): _mapped(part, text) for name, part in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
