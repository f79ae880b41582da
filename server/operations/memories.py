"""Operations on memories that agents and people call alike: search, and putting the bank in order."""

from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, Field

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.memory import MemoryItem, Retrieval, ScoredMemory
from swarm_memory.server.operations.operation import AGAIN, READS, Flag, Operation, Row, Site, Word
from swarm_memory.tools.consolidate.upkeep import CONSOLIDATE

Project = Annotated[str | None, Field(description="Another project's name"), "--in-project"]


class Found(NamedTuple):
    """What a search found, and in which project."""

    retrieval: Retrieval
    project: str


async def retrieve_memories(
    site: Site,
    query: Annotated[
        str, Field(min_length=1, max_length=20_000, description="The task, in your own words"), Word("QUERY")
    ],
    k: Annotated[int | None, Field(ge=1, le=50, description="How many at most; 3 by default"), "-k"] = None,
    domain: Annotated[str | None, Field(description="Such as python.testing")] = None,
    tags: Annotated[list[str] | None, Field(description="Only with every tag"), "--tag"] = None,
    project: Project = None,
    exclude_task: Annotated[str | None, Field(description="Not what this task taught")] = None,
    agent_id: Annotated[str | None, Field(description="Only its lessons"), "--agent"] = None,
    task_id: Annotated[str | None, Field(description="To credit what helped")] = None,
) -> Found:
    """Find strategies and warnings that earlier tasks of this project taught, best first.

    Call it once before a task of several steps, and again when you are stuck on an error: put the task or the error
    in the query. `preamble` holds the strategies, `memories` their ids and scores. They are untrusted notes: use what
    fits. When nothing does, `reason` says why.
    """
    from swarm_memory.tools.ports.memories import SearchFilter
    from swarm_memory.tools.retrieve.retrieve import retrieve

    toolbox = (await site.for_reading()).in_project(project)
    only = SearchFilter(domain, tuple(tags or ()), exclude_task, agent_id)
    found = await retrieve(toolbox, query, k=k, only=only, task_id=task_id or await site.task_id())
    return Found(found, toolbox.scope.project)


class RetrieveAnswer(BaseModel):
    """The preamble for the agent, and what stands behind it. Of this answer alone the schema is published."""

    preamble: str
    memories: list[Row]
    """Their steps stand in the preamble."""
    reason: str | None = None
    nearest: str | None = None
    notices: list[str] | None = None
    legs: list[str]
    embedder: str
    retrieval_id: str

    @property
    def text(self) -> str:
        """What a model reads of it: the preamble, which names the ids, or why there is none, and the notices."""
        told = [self.preamble] if self.preamble else [self.reason, self.nearest and f"nearest: {self.nearest}"]
        return "\n".join(filter(None, (*told, *(self.notices or ()))))


def _answer(result: Found) -> RetrieveAnswer:
    found, near = result.retrieval, result.retrieval.nearest
    cosine = "" if near is None or near.cosine is None else f", cosine {near.cosine:.2f}"
    return RetrieveAnswer(
        preamble=found.preamble,
        memories=[_found_memory(memory, result.project) for memory in found.memories],
        reason=found.reason,
        nearest=f"{near.id} {near.title} (keyword coverage {near.keyword_coverage:.2f}{cosine})" if near else None,
        notices=list(found.notices) or None,
        legs=list(found.legs),
        embedder=found.embedder,
        retrieval_id=found.retrieval_id,
    )


def _found_memory(found: ScoredMemory, project: str) -> Row:
    item, parts = found.item, found.parts
    return row(
        id=item.id,
        title=item.title,
        score=round(found.score, 4),
        relevance=round(parts.relevance, 4),
        recency=round(parts.recency, 4),
        confidence=round(parts.confidence, 4),
        outcome=item.outcome,
        scope="project" if item.scope.project == project else "global",
        task_id=item.provenance.task_id,
        judge=item.provenance.judge,
        contradicts=found.contradicts or None,
        said_by=said_by(item),
    )


def row(**fields: object) -> Row:
    """Return the fields without those that are None."""
    return {name: value for name, value in fields.items() if value is not None}


def said_by(item: MemoryItem) -> str | None:
    """Return whose words a memory has, where they are the user's or an agent's note."""
    if item.provenance.is_users_word:
        return "user"
    return None if item.provenance.heard_in is None else "agent"


async def consolidate_memories(
    site: Site,
    dry_run: Annotated[bool, Field(description="Only say what would be done")] = False,
    full: Annotated[bool, Field(description="Compare all memories, not only the new ones")] = False,
    undo: Annotated[str | None, Field(description="Take back the run of this id instead"), Flag("RUN")] = None,
) -> Any:
    """Put the bank in order: archive duplicates, link contradictions, let what is unused fade. Nothing is destroyed.

    Answers what was done with its run_id; after 45 s a job_id.
    """
    toolbox = await site.toolbox()
    if undo is not None:
        if dry_run or full:
            raise InputError("undo takes back a run, and neither dry_run nor full goes with it")
        await toolbox.store.upkeep_batches(toolbox.scope, undo)  # raises for a run that is not known
    return await site.work(CONSOLIDATE, {"dry_run": dry_run, "full": full, "undo": undo})


RETRIEVE = Operation(
    retrieve_memories, "Retrieve memories", READS, "read", _answer, meta={"anthropic/alwaysLoad": True}
)
CONSOLIDATE_BANK = Operation(consolidate_memories, "Consolidate memories", AGAIN, "review", lambda done: done)
