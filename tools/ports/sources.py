"""What the operations on sources need from outside: a store of passages. No adapter is known."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from swarm_memory.schema.base import Scope
from swarm_memory.schema.memory import Leg
from swarm_memory.schema.source import Passage, SourceKind
from swarm_memory.tools.ports.models import Vector

ReadGroup: TypeAlias = tuple[str, str, Callable[[], Sequence[Passage]]]
"""What a reader gives of a source: a group's name, the hash of what it is made from, and how to make its passages.

Making may raise `InputError`, and is not asked for when the hash is known. It runs in a thread.
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
    """Which source of a scope."""

    scope: Scope
    kind: SourceKind
    location: str


class SourceQuery(NamedTuple):
    """One search of passages."""

    scopes: tuple[Scope, ...]
    kinds: tuple[SourceKind, ...]
    embedder: str
    """Name of the space of `vector`."""
    vector: Vector | None
    """None: keywords only."""
    tokens: tuple[str, ...]
    pool: int
    """Candidates of each leg, in each scope and kind."""
    neighbours: Mapping[SourceKind, int]
    """So many passages on each side of a candidate of a kind are candidates too; none of a kind that is not named."""


class PassageCandidate(NamedTuple):
    """What a search gives of one passage: enough to score it. All tokens are joined by spaces."""

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


class SourceResult(NamedTuple):
    """What one search of passages gave: both pools, and the neighbours of all that are in them."""

    candidates: tuple[PassageCandidate, ...]
    passages: int
    """How many the searched scopes and kinds hold."""
    document_frequency: Mapping[str, int]
    legs: tuple[Leg, ...]
    notices: tuple[str, ...]


class FoundPassage(NamedTuple):
    """A passage as it is kept, with its surroundings."""

    seq: int
    passage: Passage
    location: str
    project: str
    group_title: str | None
    before: str | None
    after: str | None
