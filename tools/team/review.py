"""What a team's server does with proposals: takes them in as untrusted, joins what says the same, and decides."""

from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from swarm_memory.schema.base import MEMORY, new_id
from swarm_memory.schema.errors import InputError, NotFoundError
from swarm_memory.schema.memory import MemoryDraft, MemoryItem, Provenance
from swarm_memory.schema.team.person import Person
from swarm_memory.schema.team.sharing import MAX_WORD_CHARS, Decided, Proposal, Proposed, team_scope
from swarm_memory.tools.consolidate.duplicates import gist_of, is_same
from swarm_memory.tools.consolidate.pairs import duplicate_threshold
from swarm_memory.tools.guard.gate import gated
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.learn.items import same_in_bank
from swarm_memory.tools.memories.edit import checked_texts
from swarm_memory.tools.ports.memories import StoredMemory
from swarm_memory.tools.ports.team import PROPOSAL, NewProposal, ProposalFilter, Ruling
from swarm_memory.tools.retrieve.embed import prepare_or_say
from swarm_memory.tools.retrieve.rank import cosine
from swarm_memory.tools.text.cleaning import clean
from swarm_memory.tools.text.faults import faults
from swarm_memory.tools.toolbox import Toolbox

MAX_WAITING = 200
"""So many proposals of one person wait at once."""

_COMPARED = 1_000
SAYS_THE_SAME = "says the same as what the team shares"


def checked_project(project: str) -> str:
    """Return the name of a team's project. Raises `InputError`."""
    name = clean(project).strip()
    if not name or name != project or "\n" in name:
        raise InputError("project is the team's name of it, such as github.com/acme/shop, or * for all")
    return name


async def take_proposal(toolbox: Toolbox, person: Person | None, bank: str, given: Proposed) -> Proposal:
    """Take in what somebody proposes; what says the same as a shared memory is joined to it at once.

    Texts are cleaned, redacted and screened again: what sends them is not trusted. Raises `InputError`.
    """
    scope = team_scope(toolbox.scope.tenant_id, checked_project(given.project))
    draft = clean_draft(toolbox, given.draft)
    evidence = given.evidence.model_copy(
        update={"people": 1, "worked": min(given.evidence.worked, given.evidence.tried)}
    )
    asked = given.model_copy(update={"draft": draft, "evidence": evidence, "word": clean_word(given.word)})
    there = toolbox.in_project(scope.project)
    item = gated(item_of(there, asked))
    held = item.status_reason if item.status != "active" else None
    memory_id = same = None
    if held is None:
        (stored,), _ = await prepare_or_say(there, [item])
        known = await same_in_bank(there, stored)
        memory_id = None if known is None else known.id
        same = await _same_waiting(there, person, asked, stored) if known is None else None
    proposal = Proposal(
        **dict(asked),
        id=new_id(PROPOSAL),
        person_id=None if person is None else person.id,
        person=None if person is None else person.name,
        held=held,
        same_as=same,
        memory_id=memory_id,
        status="waiting" if memory_id is None else "accepted",
        decision="" if memory_id is None else SAYS_THE_SAME,
        created_at=toolbox.clock.now(),
    )
    return await toolbox.store.team.add_proposal(scope, NewProposal(proposal, clean(bank)[:100]), MAX_WAITING)


async def _same_waiting(toolbox: Toolbox, person: Person | None, asked: Proposed, stored: StoredMemory) -> str | None:
    """Return the proposal that says the same and waits already; only what its words let pass is embedded."""
    which = ProposalFilter(project=asked.project, limit=_COMPARED, leading=True)
    gist, threshold = gist_of(stored.item), toolbox.settings.consolidate.contradiction_threshold
    own = (None if person is None else person.id, asked.origin_id)
    near: list[tuple[str, MemoryItem]] = []
    for each in await toolbox.store.team.proposals(toolbox.scope.tenant_id, which):
        if each.held is None and (each.person_id, each.origin_id) != own:
            other = item_of(toolbox, each)
            if is_same(gist, gist_of(other), threshold):
                near.append((each.id, other))
    if not near:
        return None
    others, _ = await prepare_or_say(toolbox, [item for _, item in near])
    for (proposal_id, _), other in zip(near, others, strict=True):
        if other.vector is None or stored.vector is None:
            continue
        if cosine(stored.vector, other.vector) >= duplicate_threshold(toolbox):
            return proposal_id
    return None


def clean_draft(toolbox: Toolbox, draft: MemoryDraft) -> MemoryDraft:
    """Return words from outside as any others come in: cleaned, redacted, of allowed length. Raises `InputError`."""
    texts = draft.model_dump(include={"title", "description", "content", "tags", "domain"})
    return MemoryDraft.model_validate(checked_texts(texts, toolbox.settings))


def edited(waiting: Sequence[Proposal], proposal_id: str, texts: Mapping[str, str]) -> MemoryDraft:
    """Return the words of one that waits, with other texts in their places. Raises `InputError`."""
    found = next((each for each in waiting if each.id == proposal_id), None)
    if found is None:
        raise NotFoundError(f"no proposal {proposal_id[:60]!r} waits for a decision")
    try:
        return MemoryDraft.model_validate({**found.draft.model_dump(), **texts})
    except ValidationError as error:
        raise InputError(faults(error, MemoryDraft.model_json_schema())) from error


def clean_word(word: str) -> str:
    """Return what somebody says about a proposal."""
    return clean(redact(word).text, MAX_WORD_CHARS)


def item_of(toolbox: Toolbox, given: Proposed, memory_id: str | None = None) -> MemoryItem:
    """Return a proposal as a memory of the toolbox's scope; nobody's own word is the word of this bank's user."""
    return MemoryItem(
        id=memory_id or new_id(MEMORY),
        scope=toolbox.scope,
        **given.draft.model_dump(include={"title", "description", "content", "tags", "domain"}),
        outcome=given.outcome,
        confidence=given.confidence,
        created_at=toolbox.clock.now(),
        provenance=Provenance(distiller=given.distiller, imported_from="the team"),
    )


async def decide(toolbox: Toolbox, person: Person | None, proposal_id: str, decided: Decided) -> Proposal:
    """Accept a proposal, as it is or with other words, decline it, or take that back; those that say the same too.

    Raises `NotFoundError`, and `InputError` where it was decided meanwhile, or screening holds the words back: what is
    suspect is edited or declined.
    """
    tenant = toolbox.scope.tenant_id
    found = await toolbox.store.team.get_proposal(tenant, proposal_id)
    if found is None:
        raise NotFoundError(f"there is no proposal {proposal_id[:60]!r}")
    proposal, others = found
    if proposal.same_as is not None and proposal.status == "waiting":
        return await decide(toolbox, person, proposal.same_as, decided)
    there = toolbox.in_project(team_scope(tenant, proposal.project).project)
    if decided.act in ("accept", "edit"):
        done = await _accept(there, person, [proposal, *others], decided)
    else:
        done = await _refuse(there, person, proposal, decided)
    if not done:
        raise InputError(f"{proposal_id} was decided meanwhile, or is not waiting: look at it again")
    after = await toolbox.store.team.get_proposal(tenant, proposal_id)
    assert after is not None
    return after[0]


async def _accept(toolbox: Toolbox, person: Person | None, alike: Sequence[Proposal], decided: Decided) -> bool:
    proposal = alike[0]
    if decided.act == "edit":
        if decided.draft is None:
            raise InputError("edit needs the words as they are to be accepted: a title, a description or a content")
        proposal = proposal.model_copy(update={"draft": clean_draft(toolbox, decided.draft)})
    if proposal.status != "waiting":
        return False
    item = gated(item_of(toolbox, proposal, proposal.memory_id))
    if item.status != "active":
        raise InputError(f"{proposal.id} is held back ({item.status_reason}): edit what is suspect, or decline it")
    cleared = item.provenance.model_copy(update={"suspect": None})  # whoever accepts it vouches for its wording
    (stored,), _ = await prepare_or_say(toolbox, [item.model_copy(update={"provenance": cleared})])
    known = await same_in_bank(toolbox, stored)
    same = known is not None and known.id != item.id
    ruling = Ruling(
        proposal.id,
        "accepted",
        "waiting",
        None if person is None else person.name,
        toolbox.clock.now(),
        clean_word(decided.word),
        known.id if known is not None and same else item.id,
    )
    # It is the proposer who brought it.
    by_proposer = toolbox.store.by(proposal.person_id).team
    return await by_proposer.share(toolbox.scope, ruling, None if same else stored, toolbox.embedder.name)


async def _refuse(toolbox: Toolbox, person: Person | None, proposal: Proposal, decided: Decided) -> bool:
    undone = decided.act == "undo"
    if undone == (proposal.status == "waiting"):
        return False
    ruling = Ruling(
        proposal.id,
        "waiting" if undone else "declined",
        proposal.status if undone else "waiting",
        None if person is None else person.name,
        toolbox.clock.now(),
        clean_word(decided.word),
        proposal.memory_id,
    )
    return await toolbox.store.team.rule(toolbox.scope, ruling)
