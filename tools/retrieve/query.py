"""A query as it is searched: without the template of a harness, whole and by its sentences.

What is in most tasks of a project says nothing there: roles, rules of a harness, templates of tasks.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from swarm_memory.schema.errors import InputError, ModelError
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.ports.memories import SearchResult, View
from swarm_memory.tools.ports.models import Accompanied, Vector
from swarm_memory.tools.text.tokens import query_tokens
from swarm_memory.tools.toolbox import Toolbox

MAX_PARTS = 4
"""So many sentences, those of the most words, are looked at by themselves."""

LIGHT = 0.3
"""The share of the light embedder's cosine, which goes by words, in the order of what fits."""

REMEMBERED_QUERIES, REMEMBERED_CHARS = 512, 4_000
"""Vectors of the last queries that are remembered, of queries up to this length: at most 3 MB."""

LEAST_TASKS, MOST_TASKS, READ_CHARS = 20, 200, 4_000
"""Among fewer tasks nothing is thought common; of more the newest count, and of each its first characters."""

LEAST_WORDS = 12
"""A query of fewer distinct words has no template."""

_MOST, _SAYS_NOTHING = 0.5, 0.8
"""What is in more of the tasks is common; a sentence of which so many words are common is part of a template."""

_QUERY_CHARS = 8_000
_LEAST_WORDS = 2
_ENDS = re.compile(r"(?<=[.!?;:])\s+|(?<=[\u3002\uff01\uff1b\uff1f])|\n+")


@dataclass(frozen=True, slots=True)
class Vectors:
    """The vectors of a query."""

    whole: Vector | None
    """None: the embedder failed."""
    views: tuple[View, ...] = ()
    """Its sentences; then, where a light embedder stands beside, the same of that one, the whole first."""
    parts: int = 0

    def compared(self, result: SearchResult) -> tuple[SearchResult, list[float | None]]:
        """Return what was found, each with the cosine that decides whether it fits, and those that decide the order.

        The former is that of the whole query, or half of it and half the best sentence's, where that is greater; the
        latter is halved so in any case, and has the light embedder's with its share.
        """
        if not self.views:
            return result, [each.cosine for each in result.candidates]
        both = [self._likeness(each.cosine, each.views) for each in result.candidates]
        nearest = (
            each if own == each.cosine else each._replace(cosine=own)
            for each, (own, _) in zip(result.candidates, both, strict=True)
        )
        return result._replace(candidates=tuple(nearest)), [weighed for _, weighed in both]

    def _likeness(self, own: float | None, views: Sequence[float | None]) -> tuple[float | None, float | None]:
        if own is None or not views:
            return own, own
        halved = _halved(own, views[: self.parts])
        light = views[self.parts] if len(views) > self.parts else None
        if light is None:
            return max(own, halved), halved
        return max(own, halved), (1 - LIGHT) * halved + LIGHT * _halved(light, views[self.parts + 1 :])


async def vectors_of(toolbox: Toolbox, text: str, notices: list[str]) -> Vectors:
    """Return the vectors of a query, embedded at once; none, with a notice, where the embedder fails."""
    parts = sentences(text)
    found = await embed_queries(toolbox, [text, *parts], notices)
    if not found:
        return Vectors(None)
    embedder = toolbox.embedder
    views = [View(embedder.name, vector) for vector in found[1:]]
    if isinstance(embedder, Accompanied):
        light = embedder.light
        try:
            for each in (text, *parts):
                vector = toolbox.embedded.pop((light.name, each), None) or light.embed(each)
                _remember(toolbox, light.name, each, vector)
                views.append(View(light.name, vector))
        except InputError:  # its words say nothing to it
            views = views[: len(parts)]
    return Vectors(found[0], tuple(views), len(parts))


def sentences(text: str) -> list[str]:
    """Return the sentences of a text that are looked at by themselves; none of a text that is one."""
    counted = [(len(query_tokens(part)), part) for part in dict.fromkeys(_split(text[:_QUERY_CHARS]))]
    said = [each for each in counted if each[0] >= _LEAST_WORDS]
    longest = sorted(said, key=lambda each: -each[0])[:MAX_PARTS]
    return [part for _, part in longest] if len(said) > 1 else []


def _split(text: str) -> list[str]:
    """Return the sentences and lines of a text, in order."""
    return [part for part in map(str.strip, _ENDS.split(text)) if part]


def _halved(whole: float, parts: Sequence[float | None]) -> float:
    """Return the mean of the whole's cosine and the best part's."""
    known = [part for part in parts if part is not None]
    return (whole + max(known)) / 2 if known else whole


async def embed_queries(toolbox: Toolbox, texts: Sequence[str], notices: list[str]) -> list[Vector]:
    """Return the vectors of queries, in order; none of any, with a notice, where the embedder fails."""
    embedder, remembered = toolbox.embedder, toolbox.embedded
    known = {text: remembered.pop((embedder.name, text), None) for text in texts}
    missing = [text for text, vector in known.items() if vector is None]
    try:
        if missing:
            known |= zip(missing, await embedder.embed_queries(missing), strict=True)
    except ModelError as error:
        failed = f"the embedder {embedder.name} failed: {redact(str(error)).text}"
        notices.append(f"keywords only, because {failed}")
        return []
    vectors = [vector for text in texts if (vector := known[text]) is not None]
    for text, vector in zip(texts, vectors, strict=True):
        _remember(toolbox, embedder.name, text, vector)
    return vectors


def _remember(toolbox: Toolbox, embedder: str, text: str, vector: Vector) -> None:
    """Put a query behind those that were asked for longer ago."""
    if len(text) <= REMEMBERED_CHARS:
        toolbox.embedded[embedder, text] = vector
        if len(toolbox.embedded) > REMEMBERED_QUERIES:
            del toolbox.embedded[next(iter(toolbox.embedded))]


async def note_common_words(toolbox: Toolbox) -> None:
    """Note in the bank which words stand in most of the project's tasks. Raises `StorageError`."""
    tasks = await toolbox.store.recent_tasks(toolbox.scope, MOST_TASKS, READ_CHARS)
    await toolbox.store.put_common_words(toolbox.scope, common_words(tasks))


def common_words(tasks: Iterable[str]) -> list[str]:
    """Return the words that stand in more than half of the tasks, the same task counting once; none of a few tasks."""
    distinct = set(tasks)
    if len(distinct) < LEAST_TASKS:
        return []
    counts = Counter(word for task in distinct for word in query_tokens(task))
    return sorted(word for word, count in counts.items() if count > _MOST * len(distinct))


async def own_words(toolbox: Toolbox, text: str) -> tuple[str, tuple[str, ...]]:
    """Return what of a query is not common in the project's tasks, and the words to look up. Raises `StorageError`.

    Left out are the sentences that hardly hold any other word. Both are the whole where nothing is common, or nothing
    else is said.
    """
    words = query_tokens(text)
    common = await toolbox.store.common_words(toolbox.scope) if len(words) >= LEAST_WORDS else frozenset[str]()
    if common.isdisjoint(words):
        return text, words
    kept: list[str] = []
    for part in _split(text):
        words = query_tokens(part)
        if sum(word in common for word in words) < _SAYS_NOTHING * len(words):
            kept.append(part)
    said = "\n".join(kept) or text
    words = query_tokens(said)
    return said, tuple(word for word in words if word not in common) or words
