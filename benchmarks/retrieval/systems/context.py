"""Context under test: an item is ranked by what it says, by what its neighbours say, and by the whole they belong to.

It shows what items that belong together, such as the turns of a conversation, would gain. Items are neighbours when
they stand beside each other and are of the same part; an item without a part has none.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import Field

from swarm_memory.schema.base import Model
from swarm_memory.schema.benchmark import BenchmarkItem, BenchmarkQuestion
from swarm_memory.tools.ports.models import Embedder
from swarm_memory.tools.retrieve.rank import BM25_B, BM25_K1
from swarm_memory.tools.text.tokens import query_tokens, tokenize

if TYPE_CHECKING:
    from numpy import float64, intp
    from numpy.typing import NDArray

    Numbers = NDArray[float64]
    Places = NDArray[intp]


class ContextWeights(Model):
    """What counts how much; the defaults were chosen on LoCoMo's conversations 1 to 5."""

    window: int = Field(default=2, ge=0, le=20, description="Neighbours on each side")
    neighbour_words: float = Field(default=0.4, ge=0, description="A neighbour's word, where the item's own counts 1")
    vector: float = Field(default=0.3, ge=0, description="The item's vector, where the words count 1")
    window_vector: float = Field(default=0.3, ge=0, description="The vector of the item with its neighbours")
    part: float = Field(default=0.1, ge=0, description="The words of the whole part")


@dataclass(frozen=True, slots=True)
class _Field:
    """Where each token stands in one field, and how long the field of each item is."""

    places: "dict[str, tuple[Places, Numbers]]"
    lengths: "Numbers"

    @classmethod
    def of(cls, texts: Sequence[Sequence[str]]) -> "_Field":
        import numpy as np

        found: dict[str, tuple[list[int], list[int]]] = {}
        for at, tokens in enumerate(texts):
            for token, count in Counter(tokens).items():
                places, counts = found.setdefault(token, ([], []))
                places.append(at)
                counts.append(count)
        arrays = {token: (np.array(at, "intp"), np.array(counts, "f8")) for token, (at, counts) in found.items()}
        return cls(arrays, np.array([len(tokens) for tokens in texts], "f8"))


@dataclass(frozen=True, slots=True)
class _Group:
    """One group, indexed."""

    ids: tuple[str, ...]
    own: _Field
    neighbours: _Field
    parts: _Field
    part_of: "Places"
    vectors: "Numbers"
    window_vectors: "Numbers"


class ContextSystem:
    """Ranks by a weighted sum: words of item and neighbours in two fields, two vectors, the words of the part."""

    def __init__(self, embedder: Embedder, weights: ContextWeights, name: str = "hybrid+context") -> None:
        self.name = name
        self._embedder = embedder
        self._weights = weights
        self._groups: dict[str, _Group] = {}

    async def ingest(self, group: str, items: Sequence[BenchmarkItem]) -> None:
        import numpy as np

        tokens = [tokenize(item.content) for item in items]
        near = [_neighbours(items, at, self._weights.window) for at in range(len(items))]
        windows = ["\n".join(items[each].content for each in sorted((*around, at))) for at, around in enumerate(near)]
        vectors = await self._embedder.embed_documents([item.content for item in items])
        window_vectors = await self._embedder.embed_documents(windows)
        names = {part: number for number, part in enumerate(dict.fromkeys(item.part for item in items))}
        parts: list[list[str]] = [[] for _ in names]
        for item, own in zip(items, tokens, strict=True):
            parts[names[item.part]] += own
        self._groups[group] = _Group(
            ids=tuple(item.id for item in items),
            own=_Field.of(tokens),
            neighbours=_Field.of([[token for each in around for token in tokens[each]] for around in near]),
            parts=_Field.of(parts),
            part_of=np.array([names[item.part] for item in items], "intp"),
            vectors=np.array(vectors, "f8"),
            window_vectors=np.array(window_vectors, "f8"),
        )

    async def retrieve(self, question: BenchmarkQuestion, k: int) -> Sequence[str]:
        import numpy as np

        group, weights = self._groups[question.group], self._weights
        tokens = query_tokens(question.query)
        vector = np.array(await self._embedder.embed_query(question.query), "f8")
        scores = _to_greatest(_words(group.own, group.neighbours, weights.neighbour_words, tokens))
        scores += weights.vector * _to_span(group.vectors @ vector)
        scores += weights.window_vector * _to_span(group.window_vectors @ vector)
        if len(group.parts.lengths) > 1:
            scores += weights.part * _to_greatest(_words(group.parts, group.parts, 0.0, tokens))[group.part_of]
        return [group.ids[int(at)] for at in np.argsort(-scores, kind="stable")[:k].tolist()]

    async def size_bytes(self) -> int | None:
        return None


def _neighbours(items: Sequence[BenchmarkItem], at: int, window: int) -> list[int]:
    if not items[at].part:
        return []
    around = range(max(0, at - window), min(len(items), at + window + 1))
    return [each for each in around if each != at and items[each].part == items[at].part]


def _words(own: _Field, neighbours: _Field, weight: float, tokens: Sequence[str]) -> "Numbers":
    """Return BM25F of each item: counts and lengths of the second field times `weight`, added to those of the first.

    Robertson, Zaragoza (2009), 3.6, with one saturation and one length for both fields, and the idf of Lucene.
    """
    import numpy as np

    items = len(own.lengths)
    lengths = own.lengths + weight * neighbours.lengths
    shift = BM25_K1 * (1 - BM25_B + BM25_B * lengths / max(1.0, float(lengths.mean())))
    scores = np.zeros(items)
    for token in tokens:
        counts: Any = np.zeros(items)
        frequency = 1
        if token in own.places:
            places, times = own.places[token]
            counts[places] += times
            frequency = len(places)
        if weight > 0 and token in neighbours.places:
            places, times = neighbours.places[token]
            counts[places] += weight * times
        idf = math.log(1 + (items - frequency + 0.5) / (frequency + 0.5))
        scores += idf * counts * (BM25_K1 + 1) / (counts + shift)
    return scores


def _to_greatest(values: "Numbers") -> "Numbers":
    greatest = float(values.max(initial=0.0))
    return values / greatest if greatest > 0 else values


def _to_span(values: "Numbers") -> "Numbers":
    low, high = float(values.min()), float(values.max())
    return (values - low) / (high - low) if high > low else values * 0.0
