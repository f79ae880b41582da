"""A query as it is searched: whole and by its sentences, embedded once."""

import re
from collections.abc import Sequence
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
            views += [View(light.name, light.embed(each)) for each in (text, *parts)]
        except InputError:  # its words say nothing to it
            views = views[: len(parts)]
    return Vectors(found[0], tuple(views), len(parts))


def sentences(text: str) -> list[str]:
    """Return the sentences of a text that are looked at by themselves; none of a text that is one."""
    parts = dict.fromkeys(map(str.strip, _ENDS.split(text[:_QUERY_CHARS])))
    counted = [(len(query_tokens(part)), part) for part in parts]
    said = [each for each in counted if each[0] >= _LEAST_WORDS]
    longest = sorted(said, key=lambda each: -each[0])[:MAX_PARTS]
    return [part for _, part in longest] if len(said) > 1 else []


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
        if len(text) <= REMEMBERED_CHARS:
            remembered[embedder.name, text] = vector  # behind those that were asked for longer ago
    while len(remembered) > REMEMBERED_QUERIES:
        del remembered[next(iter(remembered))]
    return vectors
