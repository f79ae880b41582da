"""What a person sends to the team: a memory's words, redacted and screened again, its evidence, and no task of it."""

from collections.abc import Sequence

from swarm_memory.schema.base import digest, is_teams
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.memory import OPEN_PROBLEM, WAY_OUT, MemoryDraft, MemoryItem
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.team.sharing import MAX_SENT, MAX_SIGNATURES, MAX_WORD_CHARS, Proposal, Proposed, SentProposal
from swarm_memory.tools.consolidate.duplicates import outcome_of
from swarm_memory.tools.guard.gate import gated
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.guard.trust import rests_on_evidence
from swarm_memory.tools.memories.edit import checked_texts, get_memories
from swarm_memory.tools.ports.memories import MemoryFilter
from swarm_memory.tools.ports.team import Sent, Team
from swarm_memory.tools.text.cleaning import clean
from swarm_memory.tools.toolbox import Toolbox

PROVEN_SESSIONS = 2
"""In so many sessions a memory must have worked, and in none failed, before it is proposed by itself."""

_LOOKED_AT = 200
_OF_A_TASK = " Met in a task such as: "
"""What follows, in memories of an earlier version, are words of the task that gave them: these stay on this machine."""


async def outgoing(toolbox: Toolbox, ids: Sequence[str], project: str, word: str = "") -> list[Proposed]:
    """Return what would be sent of memories, in their order: all of it, nothing is added later.

    Raises `InputError` for one that is not active, is the team's already, is no advice, or that screening holds back;
    and as `get_memories`.
    """
    if len(ids) > MAX_SENT:
        raise InputError(f"{len(ids)} memories at once: propose at most {MAX_SENT}")
    items = await get_memories(toolbox, ids)
    proven = await toolbox.store.team_cache.own_evidence([item.id for item in items])
    said = clean(redact(word).text, MAX_WORD_CHARS)
    return [
        Proposed(
            draft=_draft(item, toolbox.settings),
            outcome=outcome_of(item),
            confidence=item.confidence,
            distiller=item.provenance.distiller,
            signatures=(await toolbox.store.team_cache.signatures(item.id))[:MAX_SIGNATURES],
            evidence=proven[item.id].evidence,
            origin_id=item.id,
            project=project,
            word=said,
        )
        for item in map(_checked, items)
    ]


def _checked(item: MemoryItem) -> MemoryItem:
    if is_teams(item.scope):
        raise InputError(f"{item.id} is the team's already")
    if item.status != "active":
        raise InputError(f"{item.id} is {item.status}: only what is active can be proposed")
    if OPEN_PROBLEM in item.tags and WAY_OUT not in item.tags and item.provenance.distiller == "extractive":
        raise InputError(f"{item.id} is an open problem: there is no advice in it yet")
    return item


def _draft(item: MemoryItem, settings: Settings) -> MemoryDraft:
    """Return the words of a memory as they leave this machine: personal data is taken out whatever is set."""
    strict = settings.model_copy(update={"distill": settings.distill.model_copy(update={"redact_pii": True})})
    texts = checked_texts(item.model_dump(include={"title", "description", "content", "tags", "domain"}), strict)
    texts["description"] = texts["description"].partition(_OF_A_TASK)[0]
    bare = item.provenance.model_copy(update={"imported_from": "here", "suspect": None})
    screened = gated(item.model_copy(update={**texts, "status": "active", "provenance": bare}))
    if screened.status != "active":
        raise InputError(f"{item.id} is not sent: {screened.status_reason}; edit it first")
    return MemoryDraft.model_validate(texts)


async def propose(toolbox: Toolbox, team: Team, url: str, proposed: Sequence[Proposed]) -> list[Proposal]:
    """Send what `outgoing` gave, note it, and return it as it stands on the server. Raises what the server does."""
    if not proposed:
        return []
    answered = await team.propose(await toolbox.store.team_cache.bank_id(), proposed)
    await note(toolbox, url, answered, {each.origin_id: digest_of(each.draft) for each in proposed})
    return answered


async def note(toolbox: Toolbox, url: str, proposals: Sequence[Proposal], digests: dict[str, str]) -> None:
    """Note what became of one's own proposals, by what is known of the words that were sent."""
    known = [
        Sent(each.origin_id, digests[each.origin_id], SentProposal.model_validate(each.model_dump(include=_KEPT)))
        for each in proposals
        if each.origin_id in digests
    ]
    await toolbox.store.team_cache.note_sent(toolbox.scope, url, known, toolbox.clock.now())


_KEPT = set(SentProposal.model_fields)


def digest_of(draft: MemoryDraft) -> str:
    """Return by what the words of a proposal are known again."""
    return digest(draft.model_dump(mode="json", exclude={"evidence"}))


async def proven(toolbox: Toolbox, url: str) -> list[str]:
    """Return the ids of memories of the project that are proven and were not proposed yet.

    Proven is what rests on hard evidence, worked in two sessions and never failed. What the user said is not sent by
    itself: it is said to this machine.
    """
    sent = await toolbox.store.team_cache.sent(toolbox.scope, url)
    items = await toolbox.store.list_memories((toolbox.scope,), MemoryFilter(limit=_LOOKED_AT))
    asked = [
        item.id
        for item in items
        if item.id not in sent and not item.provenance.is_users_word and rests_on_evidence(item)
    ]
    links = [each for each in await toolbox.store.memory_links((toolbox.scope,), asked) if each.src_id in asked]
    shared = await toolbox.store.team.sharing([each.dst_id for each in links if each.relation == "duplicate_of"])
    active = {
        each.id for each in await toolbox.store.get_memories(toolbox.team, list(shared)) if each.status == "active"
    }
    same = {each.src_id for each in links if each.dst_id in active}
    found = await toolbox.store.team_cache.own_evidence([each for each in asked if each not in same])
    return [
        memory_id
        for memory_id, known in found.items()
        if known.sessions >= PROVEN_SESSIONS and known.evidence.worked == known.evidence.tried
    ][:MAX_SENT]
