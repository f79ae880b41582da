"""The results of distilling and of the whole loop judge → distill → store."""

from typing import Literal

from swarm_memory.schema.base import Model
from swarm_memory.schema.memory import Distiller, MemoryDraft, MemoryItem
from swarm_memory.schema.verdict import Verdict


class Distillation(Model):
    """What a distiller drew from one trajectory."""

    drafts: tuple[MemoryDraft, ...]
    distiller: Distiller
    reason: str | None = None
    """Why nothing, or less, was drawn."""
    prompt_hash: str | None = None
    model: str | None = None


LearnStatus = Literal["learned", "nothing_new", "already_learned"]


class LearnResult(Model):
    """The answer of `learn_from_trajectory`."""

    status: LearnStatus
    task_id: str
    trajectory_id: str
    run_id: str | None = None
    verdict: Verdict
    distiller: Distiller | None = None
    stored: tuple[MemoryItem, ...] = ()
    reinforced: tuple[str, ...] = ()
    """Ids of memories already in the bank that say the same; they were not stored again."""
    superseded: tuple[str, ...] = ()
    """Ids of memories that were archived: of an earlier, shorter version of the same task, or guardrails to whose
    errors this gave a way out."""
    credited: tuple[str, ...] = ()
    """Ids of memories that the task was given and whose confidence its outcome changed."""
    reason: str | None = None
    consolidation_due: bool = False
