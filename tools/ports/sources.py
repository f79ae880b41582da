"""What the operations on sources need from outside: a store of passages. No adapter is known."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from swarm_memory.schema.base import Scope
from swarm_memory.schema.source import Passage, SourceKind
from swarm_memory.tools.ports.memories import Pools
from swarm_memory.tools.ports.models import Vector

ReadGroup: TypeAlias = tuple[str, str, Callable[[], Sequence[Passage]]]
"""One group as a reader returns it: its name, the hash of what it is made from, and a function that makes its passages.

The function may raise `InputError`. It runs in a thread or a process, and only where the hash is not known yet.
"""


class StoredPassage(NamedTuple):
    """A passage with what its indexes hold."""

    passage: Passage
    vector: Vector | None
    title_tokens: tuple[str, ...]
    description_tokens: tuple[str, ...]
    content_tokens: tuple[str, ...]


class StoredGroup(NamedTuple):
    """A group of passages that is written, and replaced, as a whole."""

    name: str
    content_hash: str
    name_tokens: tuple[str, ...]
    passages: tuple[StoredPassage, ...]


class SourceKey(NamedTuple):
    """Identifies one source of a scope."""

    scope: Scope
    kind: SourceKind
    location: str


class PassageCandidate(NamedTuple):
    """What a search returns of one passage: enough to score it. All tokens are joined by spaces."""

    seq: int
    """Its position in the index, by which it is fetched."""
    kind: SourceKind
    group: int
    position: int
    title: str
    description: str
    content: str
    group_name: str
    cosine: float | None
    """None without a query vector, or when the passage has no vector in its space."""


SourceResult: TypeAlias = Pools[PassageCandidate]
"""The neighbours of everything in the pools are candidates too."""


class FoundPassage(NamedTuple):
    """A passage as it is kept, with its surroundings; the search of sources adds how well it fits."""

    seq: int
    passage: Passage
    location: str
    """The location of its source."""
    project: str
    before_title: str | None
    before: str | None
    """The text of the passage before it, and that passage's title where it differs."""
    after_title: str | None
    after: str | None
    score: float = 0.0
    """Relevance 0…1 by the index, among what it found."""
    is_unlikely: bool = False
    """Whether it shares no word with the query and is not near it in meaning."""
    rerank_score: float | None = None
    """The reranker's score, where a reranker was asked."""
    justification: str | None = None
    """Why the reranker chose it."""
