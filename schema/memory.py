"""The memory item: as it is proposed and kept, and what learning, searching and consolidating the bank give."""

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
"""1: the user's own word. -1: of suspect wording. 0: any other."""
Kind = Literal["preference", "convention", "fact", "procedure"]
"""What the user says; it is a tag of the memory."""

MAX_TITLE, MAX_DESCRIPTION, MAX_CONTENT = 200, 500, 4000

WAY_OUT, OPEN_PROBLEM = "repair", "open-problem"
"""Tags of what was distilled from calls: what was seen to end an error; of older banks: an error that nothing ended."""

CANDIDATE = "candidate"
"""Tag of a draft that is kept as a candidate."""

_ACTION = r"(?m)^\d+\. Run (`[^`]+`)\.$"
"""How an action is written (`tools.distill.drafts`)."""

HeardIn = Literal["prompt", "result", "nowhere", "unseen"]
"""Where the words stand that an agent passed on as the user's: in a prompt of the user's, in a tool's result, in no
prompt of the session; unseen: there was no prompt to look at."""

Use = Literal["strategy", "way_out", "open_problem"]
"""strategy: of use at every prompt that it fits. way_out: when its error comes again, or a task speaks of its program.
open_problem: no advice, of older banks."""

Leg = Literal["vector", "exact_scan", "keyword"]
LearnStatus = Literal["learned", "nothing_new", "already_learned", "broken_off"]
"""broken_off: the host's connection ended the task before the agent did anything; nothing was recorded."""
Relation = Literal["entails", "contradicts", "refines", "duplicate_of"]
"""entails: of older banks. refines: a fix that takes the place of one in vain."""
Method = Literal["rules", "model"]


class MemoryDraft(Model, str_strip_whitespace=True):
    """A strategy, or a guardrail, as it is proposed: the three texts of the paper's memory item, with tags."""

    title: str = Field(min_length=3, max_length=MAX_TITLE, description="What to do, or not to")
    description: str = Field(default="", max_length=MAX_DESCRIPTION, description="One sentence: when this is of use")
    content: str = Field(min_length=3, max_length=MAX_CONTENT, description="Numbered steps, one line each")
    tags: tuple[str, ...] = Field(default=(), max_length=20)
    domain: str | None = Field(default=None, max_length=200)
    evidence: tuple[str, ...] = Field(default=(), description="Ids of the steps that it rests on")


class Note(Model):
    """What an agent teaches by `remember`."""

    title: str = Field(min_length=3, max_length=MAX_TITLE)
    when: str = Field(default="", max_length=MAX_DESCRIPTION, description="One sentence")
    note: str = Field(min_length=3, max_length=MAX_CONTENT, description="Up to 4 sentences, commands in `back-ticks`")
    users_word: bool = Field(default=False, description="The user's own words")
    handles: tuple[str, ...] = Field(
        default=(), max_length=10, description="Other commands, files, error lines or tools beside which to show it"
    )


class Provenance(Model, serialize_by_alias=True):
    """Where a memory item came from."""

    task_id: str | None = None
    trajectory_id: str | None = None
    session_id: str | None = None
    """The host's session that the task belonged to: what it says again does not count as another witness."""
    agent_id: str | None = None
    evidence: tuple[str, ...] = ()
    judge: Judge | None = None
    distiller: Distiller = "extractive"
    prompt_hash: str | None = None
    model: str | None = None
    screened_by: str | None = None
    """Who looked for attacks in it before it was stored: `rules and classifier`, and `, <model>` where it was asked."""
    suspect: str | None = None
    """Why its wording is suspect though no rule held it back, or though the user's own command stored it."""
    run_id: str | None = None
    """The learn, import or MaTTS run that made it: what can be undone as a whole."""
    imported_from: str | None = None
    person: str | None = None
    """Who brought it over HTTP, by name: as it is shown and exported, never as it is kept, which is by their id."""
    anchors: tuple[str, ...] = ()
    """What it names that was in the project when it was made: `file:src/app.py` by its path from the project's folder,
    `script:make test` as it is run, `package:click` as it is declared; older ones also hold versions and branches."""
    handles: tuple[str, ...] = ()
    """What calls for it beside what its text names (`tools.anchors.handles`): of its task, or named by its author."""
    repeats_shown: bool = Field(
        default=False, validation_alias=AliasChoices("repeats_shown", "hearsay"), serialization_alias="hearsay"
    )
    """Whether the agent was shown a step of it (by the task, an output, a memory nobody vouches for) before it did it:
    following it proves nothing then. It is kept as `hearsay`."""

    heard_in: HeardIn | None = None
    """Of what an agent brought as the user's word; only `prompt` makes it that."""

    @property
    def is_users_word(self) -> bool:
        """Whether the user of this bank said it: by a command of their own, or in a prompt."""
        return self.distiller == "user" and self.imported_from is None

    @property
    def is_own_command(self) -> bool:
        """Whether they typed it as a command: then no agent brought it, and nobody judged."""
        return self.is_users_word and self.judge is None

    @property
    def priority(self) -> Priority:
        """Where it stands before anything is known of its use. What the user typed is not doubted for its wording."""
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
        return "way_out" if WAY_OUT in self.tags else "open_problem" if OPEN_PROBLEM in self.tags else "strategy"

    @property
    def embedding_text(self) -> str:
        """The text that is embedded: title, description, content."""
        return "\n".join(part for part in (self.title, self.description, self.content) if part)

    @property
    def actions(self) -> tuple[str, ...]:
        """The commands that the steps say to run, in their order, each in back-ticks."""
        return tuple(re.findall(_ACTION, self.content))

    @property
    def advice(self) -> str:
        """What it says to do: title and content."""
        return f"{self.title}\n{self.content}"


class ScoreParts(Model):
    """How a score came to be; every number from 0 to 1 but `diversity_penalty` and the raw legs."""

    relevance: Unit
    recency: Unit
    confidence: Unit
    diversity_penalty: float = 0.0
    """δ · the greatest cosine to an item chosen before; subtracted."""
    cosine: float | None = None
    """Nearness to the query; None for an item without vector in the embedder's space."""
    keyword: float | None = None
    """BM25 among the items of the scopes, higher is better; None: not one word in common."""


class ScoredMemory(Model):
    """A memory item with its score and the parts of it."""

    item: MemoryItem
    score: float
    parts: ScoreParts
    fits: Literal["likely", "uncertain", "unlikely"] = "likely"
    """unlikely: it is given since somebody asked, and no better one was left; uncertain: nobody asked, and only when it
    matters is shown."""
    contradicts: tuple[str, ...] = ()
    """Titles of those that say otherwise, are less sure or older, and are left out for this one where they fitted."""
    changed: str = ""
    """What of the files, scripts … that it names is gone from the project; that tasks of both outcomes taught it."""
    says: str = ""
    """Who says it, as it stands before its title."""
    worked: int = 0
    tried: int = 0
    """Of a fix: tasks in which it ended the error, and in which it was tried."""
    people: int | None = None
    """Of what a team shares: for how many people it was tried; None: it is one's own."""


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
    """What was less than usual: items not reachable in this embedder's space, no sqlite-vec …"""
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
    """Ids of memories that were archived: of an earlier, shorter version of the same task, or fixes in vain."""
    credited: tuple[str, ...] = ()
    """Ids of memories that the task was given and whose confidence its outcome changed."""
    calls: int = 0
    """Calls of tools that were not logged before."""
    reason: str | None = None
    consolidation_due: bool = False


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


class Related(Model):
    """A relation that was found between two memories, and how."""

    link: MemoryLink
    method: Method
    prompt_hash: str | None = None
    model: str | None = None


class Withdrawn(Model):
    """A memory that was put aside for what it contradicts, or archived since nobody used or believed it."""

    id: str
    confidence: Unit
    """What is left of its confidence."""
    reason: str | None


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
    related: tuple[Related, ...] = ()
    """Contradictions."""
    quarantined: tuple[Withdrawn, ...] = ()
    pruned: tuple[Withdrawn, ...] = ()
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
