"""The memory item as proposed and as kept, and the results of learning, searching and consolidating."""

import re
from typing import Literal

from pydantic import AliasChoices, Field

from swarm_memory.schema.base import Model, Scope, Timestamp, Unit
from swarm_memory.schema.trajectory import Judge, Verdict

Outcome = Literal["Success", "Failure"]
MemoryStatus = Literal["active", "quarantined", "archived", "candidate"]
"""candidate: a fix that one task showed; it is kept hidden until a second one bears it out."""
Distiller = Literal["model", "agent", "extractive", "user", "imported"]
Priority = Literal[-1, 0, 1]
"""1: the user's own word. -1: suspect wording. 0: any other."""
Kind = Literal["preference", "convention", "fact", "procedure"]
"""What kind of thing the user said; kept as a tag of the memory."""

MAX_TITLE, MAX_DESCRIPTION, MAX_CONTENT = 200, 500, 4000

FIX, OPEN_PROBLEM = "repair", "open-problem"
"""Tags of memories distilled from calls: a fix seen to end an error; in older banks, an error that nothing ended."""

CANDIDATE = "candidate"
"""Tag of a draft that is kept as a candidate."""

_ACTION = r"(?m)^\d+\. Run (`[^`]+`)\.$"
"""How an action is written (`tools.distill.drafts`)."""

HeardIn = Literal["prompt", "result", "nowhere", "unseen"]
"""Where the words that an agent passed on as the user's were found: in a prompt of the user, in a tool's result, or in
no prompt of the session; unseen: there was no prompt to search."""

Use = Literal["strategy", "fix", "open_problem"]
"""strategy: useful at every prompt that it fits. fix: useful when its error comes again, or when a task mentions
its program. open_problem: no advice; only in older banks."""

Leg = Literal["vector", "exact_scan", "keyword"]
LearnStatus = Literal["learned", "nothing_new", "already_learned", "broken_off"]
"""broken_off: the host's connection failed and ended the task before the agent did anything; nothing was recorded."""
Relation = Literal["entails", "contradicts", "refines", "duplicate_of"]
"""entails: only in older banks. refines: a fix that replaces one that did not work."""
Method = Literal["rules", "model"]


class MemoryDraft(Model, str_strip_whitespace=True):
    """A strategy or guardrail as proposed: the three texts of the paper's memory item, with tags."""

    title: str = Field(min_length=3, max_length=MAX_TITLE, description="What to do, or not to")
    description: str = Field(default="", max_length=MAX_DESCRIPTION, description="One sentence: when this helps")
    content: str = Field(min_length=3, max_length=MAX_CONTENT, description="Numbered steps, one line each")
    tags: tuple[str, ...] = Field(default=(), max_length=20)
    domain: str | None = Field(default=None, max_length=200)
    evidence: tuple[str, ...] = Field(default=(), description="Ids of the steps that it rests on")


class Note(Model):
    """What an agent teaches through `remember`."""

    title: str = Field(min_length=3, max_length=MAX_TITLE)
    when: str = Field(default="", max_length=MAX_DESCRIPTION, description="One sentence")
    note: str = Field(min_length=3, max_length=MAX_CONTENT, description="Up to 4 sentences, commands in `backticks`")
    users_word: bool = Field(default=False, description="The user's own words")
    handles: tuple[str, ...] = Field(
        default=(), max_length=10, description="Other commands, files, error lines or tools to show it with"
    )


class Provenance(Model, serialize_by_alias=True):
    """Where a memory item came from."""

    task_id: str | None = None
    trajectory_id: str | None = None
    session_id: str | None = None
    """The host's session that the task belonged to: what this session says again does not count as another witness."""
    agent_id: str | None = None
    evidence: tuple[str, ...] = ()
    judge: Judge | None = None
    distiller: Distiller = "extractive"
    prompt_hash: str | None = None
    model: str | None = None
    screened_by: str | None = None
    """What screened it for attacks before it was stored: `rules and classifier`, then `, <model>` if one was asked."""
    suspect: str | None = None
    """Why its wording is suspect though no rule held it back, or though the user's own command stored it."""
    run_id: str | None = None
    """The learn, import or MaTTS run that made it; such a run can be undone as a whole."""
    imported_from: str | None = None
    person: str | None = None
    """The name of the person who added it over HTTP: shown and exported, but never stored; the bank keeps their id."""
    anchors: tuple[str, ...] = ()
    """What it names that was in the project when it was made: `file:src/app.py` by its path from the project's folder,
    `script:make test` as it is run, `package:click` as it is declared; older ones also hold versions and branches."""
    handles: tuple[str, ...] = ()
    """Handles that call for it besides those in its text (`tools.anchors.handles`): of its task, or its author's."""
    repeats_shown: bool = Field(
        default=False, validation_alias=AliasChoices("repeats_shown", "hearsay"), serialization_alias="hearsay"
    )
    """Whether the agent was shown a step of it (by the task, an output or an unverified memory) before taking that
    step: that it took the step then proves nothing. It is stored as `hearsay`."""

    heard_in: HeardIn | None = None
    """For what an agent passed on as the user's word: where it was heard. Only `prompt` makes it the user's word."""

    @property
    def is_users_word(self) -> bool:
        """Whether the user of this bank said it: by a command of their own, or in a prompt."""
        return self.distiller == "user" and self.imported_from is None

    @property
    def is_own_command(self) -> bool:
        """Whether the user typed it as a command: then no agent passed it on, and there was no judge."""
        return self.is_users_word and self.judge is None

    @property
    def priority(self) -> Priority:
        """Its rank before anything is known of its use. What the user typed is not doubted for its wording."""
        if self.suspect is not None and not self.is_own_command:
            return -1
        return 1 if self.is_users_word else 0


class MemoryItem(Model):
    """One memory in the bank."""

    id: str
    scope: Scope
    title: str
    description: str = ""
    content: str
    tags: tuple[str, ...] = ()
    domain: str | None = None
    outcome: Outcome = "Success"
    """Success: a strategy. Failure: a guardrail."""
    confidence: Unit
    usage_count: int = Field(default=0, ge=0, le=10**9)
    created_at: Timestamp
    last_used: Timestamp | None = None
    status: MemoryStatus = "active"
    status_reason: str | None = None
    provenance: Provenance = Field(default_factory=Provenance)

    @property
    def use(self) -> Use:
        """What it is for."""
        if self.provenance.distiller in ("model", "agent", "user"):
            return "strategy"
        return "fix" if FIX in self.tags else "open_problem" if OPEN_PROBLEM in self.tags else "strategy"

    @property
    def embedding_text(self) -> str:
        """The text that is embedded: title, description, content."""
        return "\n".join(part for part in (self.title, self.description, self.content) if part)

    @property
    def actions(self) -> tuple[str, ...]:
        """The commands that the steps say to run, in their order, each in backticks."""
        return tuple(re.findall(_ACTION, self.content))

    @property
    def advice(self) -> str:
        """What it says to do: title and content."""
        return f"{self.title}\n{self.content}"


class ScoreParts(Model):
    """How a score came about; every number is from 0 to 1, except `diversity_penalty` and the legs' raw scores."""

    relevance: Unit
    recency: Unit
    confidence: Unit
    diversity_penalty: float = 0.0
    """δ · the greatest cosine to an item chosen before; subtracted."""
    cosine: float | None = None
    """Similarity to the query; None for an item without a vector in the embedder's space."""
    keyword: float | None = None
    """BM25 among the items of the scopes, higher is better; None: no word in common."""


class ScoredMemory(Model):
    """A memory item with its score and the parts of it."""

    item: MemoryItem
    score: float
    parts: ScoreParts
    fits: Literal["likely", "uncertain", "unlikely"] = "likely"
    """unlikely: returned only because the caller asked and no better one was left. uncertain: the caller did not ask,
    and only when the memory applies is shown."""
    contradicts: tuple[str, ...] = ()
    """Titles of memories that say otherwise and are less sure or older; those that fit are left out for this one."""
    changed: str = ""
    """A remark: which files, scripts … that it names are gone, or that tasks of both outcomes taught it."""
    says: str = ""
    """Who says it, as written before its title."""
    worked: int = 0
    tried: int = 0
    """For a fix: the number of tasks in which it ended the error (`worked`), and in which it was tried."""
    people: int | None = None
    """For a memory that a team shares: how many people these counts come from; None: it is the user's own."""


class Retrieval(Model):
    """The answer of `retrieve_memories`."""

    retrieval_id: str
    query: str
    memories: tuple[ScoredMemory, ...]
    preamble: str
    """What goes into the agent's prompt; empty when nothing fits."""
    reason: str | None = None
    """Why the answer is empty or short."""
    legs: tuple[Leg, ...]
    """The legs that answered."""
    embedder: str
    notices: tuple[str, ...] = ()
    """What was degraded: items not reachable in this embedder's space, no sqlite-vec …"""
    latency_ms: float


class Distillation(Model):
    """What was distilled from one trajectory."""

    drafts: tuple[MemoryDraft, ...]
    distiller: Distiller
    reason: str | None = None
    """Why nothing, or less, was distilled."""
    prompt_hash: str | None = None
    model: str | None = None


class LearnResult(Model):
    """The answer of `learn_from_trajectory`."""

    status: LearnStatus
    task_id: str
    trajectory_id: str = ""
    """Empty where nothing was recorded."""
    run_id: str | None = None
    verdict: Verdict
    distiller: Distiller | None = None
    stored: tuple[MemoryItem, ...] = ()
    reinforced: tuple[str, ...] = ()
    """Ids of memories already in the bank that say the same; they were not stored again."""
    superseded: tuple[str, ...] = ()
    """Ids of memories that were archived: from an earlier, shorter version of the same task, or fixes that failed."""
    credited: tuple[str, ...] = ()
    """Ids of memories that the task was shown and whose confidence its outcome changed."""
    calls: int = 0
    """Tool calls that had not been logged before."""
    reason: str | None = None
    consolidation_due: bool = False


class MemoryLink(Model):
    """A relation from one memory to another: `src` refines `dst`, `src` is a duplicate of `dst` …"""

    src_id: str
    dst_id: str
    relation: Relation
    weight: Unit
    """For `duplicate_of`, the cosine of the two memories; for the others, the probability that the relation holds."""


class Merged(Model):
    """A memory that was archived because another one says the same."""

    id: str
    kept: str
    similarity: Unit


class Related(Model):
    """A relation found between two memories, and how it was found."""

    link: MemoryLink
    method: Method
    prompt_hash: str | None = None
    model: str | None = None


class Withdrawn(Model):
    """A memory that was quarantined for what it contradicts, or archived: never used, hardly believed and old."""

    id: str
    confidence: Unit
    """What is left of its confidence."""
    reason: str | None


class Consolidation(Model):
    """What one run did or, with `dry_run`, would do. A run never deletes anything."""

    run_id: str
    """The id that `undo` takes; a dry run has one too, although there is nothing to undo."""
    dry_run: bool
    full: bool
    """Whether all memories were compared with each other, or only the new ones with the bank."""
    compared: int
    """How many memories had their neighbours examined."""
    merged: tuple[Merged, ...] = ()
    related: tuple[Related, ...] = ()
    """Contradictions."""
    quarantined: tuple[Withdrawn, ...] = ()
    pruned: tuple[Withdrawn, ...] = ()
    aged: int = 0
    """How many memories lost confidence, not counting the pruned ones."""
    skipped: tuple[str, ...] = ()
    """Memories that somebody else changed meanwhile; they were left alone."""
    asked: int = Field(default=0, ge=0)
    """Pairs that the chat model was asked about."""
    notices: tuple[str, ...] = ()
    """What was degraded: memories without a vector, a model that could not be reached …"""


class Undone(Model):
    """What undoing a run restored."""

    run_id: str
    restored: int
    """How many memories are back in the state they had before the run."""
    links_removed: int
    skipped: tuple[str, ...] = ()
    """Ids of memories that were changed or forgotten after the run; they were left as they are."""
