"""What a consolidation of the bank found and did, and what taking it back restored."""

from typing import Literal

from pydantic import Field

from swarm_memory.schema.base import Model, Unit

Relation = Literal["entails", "contradicts", "refines", "duplicate_of"]
Method = Literal["rules", "model"]


class MemoryLink(Model):
    """A relation from one memory to another: `src` refines `dst`, `src` is a duplicate of `dst` …"""

    src_id: str
    dst_id: str
    relation: Relation
    weight: Unit
    """Of `duplicate_of` the cosine of the two; of the others the probability that it holds."""


class Merged(Model):
    """A memory that was archived because another one says the same."""

    id: str
    kept: str
    similarity: Unit


class Superseded(Model):
    """A guardrail that was archived because a way out of its error was found later."""

    id: str
    by: str
    """The memory that tells the way out."""


class Related(Model):
    """A relation that was found between two memories, and how."""

    link: MemoryLink
    method: Method
    prompt_hash: str | None = None
    model: str | None = None


class Quarantined(Model):
    """A newer memory that was put aside because it contradicts several well-used ones."""

    id: str
    contradicts: tuple[str, ...]
    confidence: Unit
    """What is left of its confidence."""


class Pruned(Model):
    """A memory that was archived because nobody ever used it and it is no longer believed."""

    id: str
    confidence: Unit
    age_days: float


class Consolidation(Model):
    """What one run did, or with `dry_run` what it would do. Nothing is ever deleted by it."""

    run_id: str
    """What `undo` takes; also of a dry run, where there is nothing to take back."""
    dry_run: bool
    full: bool
    """Whether all memories were compared with each other, or only the new ones with the bank."""
    compared: int
    """Memories whose neighbours were looked at."""
    merged: tuple[Merged, ...] = ()
    superseded: tuple[Superseded, ...] = ()
    related: tuple[Related, ...] = ()
    """Contradictions, refinements and entailments."""
    quarantined: tuple[Quarantined, ...] = ()
    pruned: tuple[Pruned, ...] = ()
    aged: int = 0
    """Memories whose confidence faded, the pruned ones not counted."""
    skipped: tuple[str, ...] = ()
    """Memories that somebody else changed meanwhile; they were left alone."""
    asked: int = Field(default=0, ge=0)
    """Pairs that the chat model was asked about."""
    notices: tuple[str, ...] = ()
    """What was less than usual: memories without a vector, a model that could not be reached …"""


class Undone(Model):
    """What undoing a run restored."""

    run_id: str
    restored: int
    """Memories that are again as they were before the run."""
    links_removed: int
    skipped: tuple[str, ...] = ()
    """Memories that were changed after the run, or forgotten; they were left as they are."""
