"""A person's own copy of what the team shares: pulled in the background, read like their own memories, and answered
with evidence; and what a person sends to the team: a memory's words, redacted and screened again, and its evidence, but
nothing of its tasks.

What a server sends is data from outside: bounded, redacted, screened, never trusted more for what it claims to be.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from swarm_memory.schema.base import GLOBAL_PROJECT, Scope, counted, digest, is_teams
from swarm_memory.schema.errors import InputError, TeamUnavailable
from swarm_memory.schema.memory import FIX, OPEN_PROBLEM, MemoryDraft, MemoryItem, Provenance
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.team.sharing import (
    MAX_EVIDENCE,
    MAX_SENT,
    MAX_SIGNATURES,
    MAX_WORD_CHARS,
    Changes,
    ItemEvidence,
    Proposal,
    Proposed,
    SentProposal,
    SharedMemory,
    team_scope,
)
from swarm_memory.tools.consolidate.pairs import duplicate_threshold, is_same, real_outcome
from swarm_memory.tools.guard.gate import WORDS, admit_memory, mark_suspect
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.memories.manage import get_memories
from swarm_memory.tools.ports.memories import MemoryFilter, StoredMemory
from swarm_memory.tools.ports.team import CacheState, Sent, Team
from swarm_memory.tools.retrieve.embed import prepare_or_report
from swarm_memory.tools.text.cleaning import clean
from swarm_memory.tools.toolbox import Toolbox

_OF_A_TASK = " Met in a task such as: "
"""In memories of an earlier version, words of the task that taught them follow this: they stay on this machine."""


async def outgoing(toolbox: Toolbox, ids: Sequence[str], project: str, word: str = "") -> list[Proposed]:
    """Return what would be sent of memories, in their order: this is all, nothing is added later.

    Raises as `get_memories`, and `InputError` for one that is not active, already the team's, no advice, or held back.
    """
    if len(ids) > MAX_SENT:
        raise InputError(f"{len(ids)} memories at once: propose at most {MAX_SENT}")
    items = await get_memories(toolbox, ids)
    for item in items:
        if is_teams(item.scope):
            raise InputError(f"{item.id} is already the team's")
        if item.status != "active":
            raise InputError(f"{item.id} is {item.status}: only active memories can be proposed")
        if OPEN_PROBLEM in item.tags and FIX not in item.tags and item.provenance.distiller == "extractive":
            raise InputError(f"{item.id} is an open problem: it holds no advice yet")
    evidence = await toolbox.store.team_cache.own_evidence([item.id for item in items])
    said = clean(redact(word).text, MAX_WORD_CHARS)
    drafts = [_draft(item, toolbox.settings) for item in items]
    return [
        Proposed(
            draft=draft,
            suspect=suspect,
            outcome=real_outcome(item),
            confidence=item.confidence,
            distiller=item.provenance.distiller,
            signatures=(await toolbox.store.team_cache.signatures(item.id))[:MAX_SIGNATURES],
            evidence=evidence[item.id],
            origin_id=item.id,
            project=project,
            word=said,
        )
        for item, (draft, suspect) in zip(items, drafts, strict=True)
    ]


def _draft(item: MemoryItem, settings: Settings) -> tuple[MemoryDraft, str | None]:
    """Return the words of a memory as they leave this machine, without personal data, and why they are suspect."""
    strict = settings if settings.distill.redact_pii else Settings()
    given = {**dict(item), "description": item.description.partition(_OF_A_TASK)[0], "status": "active"}
    screened = admit_memory(given, item.provenance.model_copy(update={"imported_from": "here"}), strict)
    if screened.status != "active":
        raise InputError(f"{item.id} is not sent: {screened.status_reason}; edit it first")
    draft = MemoryDraft.model_validate(screened.model_dump(include=WORDS))
    return draft, mark_suspect(screened, item.provenance.suspect).provenance.suspect


async def propose(toolbox: Toolbox, team: Team, url: str, proposed: Sequence[Proposed]) -> list[Proposal]:
    """Send what `outgoing` returned, note it, and return it as the server has it. Raises what the server raises."""
    if not proposed:
        return []
    answered = await team.propose(await toolbox.store.team_cache.bank_id(), proposed)
    sent = {each.origin_id: digest(each.draft.model_dump(mode="json", exclude={"evidence"})) for each in proposed}
    await note(toolbox, url, answered, sent)
    return answered


async def note(toolbox: Toolbox, url: str, proposals: Sequence[Proposal], digests: dict[str, str]) -> None:
    """Note what became of one's own proposals, with the digests of the words that were sent."""
    kept = set(SentProposal.model_fields)
    known = [
        Sent(each.origin_id, digests[each.origin_id], SentProposal.model_validate(each.model_dump(include=kept)))
        for each in proposals
        if each.origin_id in digests
    ]
    await toolbox.store.team_cache.note_sent(toolbox.scope, url, known, toolbox.clock.now())


MAX_CACHED = 5_000
"""At most this many memories of a project are kept; a team that shares more is asked to tidy up."""

_MAX_PAGES = 500
_MAX_DECLINED = 5
_NEAREST = 5
_COMPARED = 100
_MAX_NAMES, _MAX_NAME = 20, 100


@dataclass(slots=True)
class Synced:
    """What one exchange with the server did."""

    pulled: int = 0
    """Memories that are new, or have other words or counts."""
    withdrawn: int = 0
    refused: list[str] = field(default_factory=list[str])
    """Why something that the server sent was not taken in."""


async def sync(toolbox: Toolbox, team: Team, url: str, project: str) -> Synced:
    """Pull what changed, send what came of shared memories here, and check what became of one's own proposals.

    Only evidence about what the team shares is sent. Raises `TeamUnavailable` and the server's refusals; what was done
    until then stays.
    """
    store, projects = toolbox.store.team_cache, (project, GLOBAL_PROJECT)
    await store.keep_caches(toolbox.scope, url, projects)
    done, fresh = Synced(), list[StoredMemory]()
    caches = {cache.project: cache for cache in await store.caches(toolbox.scope)}
    for each in projects:
        fresh += await _pull(toolbox, team, caches[each], done)
    await _link(
        toolbox, fresh, [team_scope(toolbox.scope.tenant_id, each) for each in projects], caches[project].checked_at
    )
    await _send_evidence(toolbox, team, projects)
    sent = await store.sent(toolbox.scope, url)
    if sent:
        mine = await team.proposals(None, mine=True)
        await note(toolbox, url, mine, {each.memory_id: each.content_hash for each in sent.values()})
    await store.note_check(toolbox.scope, toolbox.clock.now(), None)
    return done


async def _pull(toolbox: Toolbox, team: Team, cache: CacheState, done: Synced) -> list[StoredMemory]:
    """Take in the pages of changes, and return what is new; what a recreated server no longer names is removed."""
    store, there = toolbox.store.team_cache, team_scope(toolbox.scope.tenant_id, cache.project)
    stamp, after, seen = cache.stamp, cache.cursor, set[str]()
    new, begun_again = list[StoredMemory](), False
    for _ in range(_MAX_PAGES):
        changes = await team.changes(cache.project, stamp, after)
        begun_again = begun_again or changes.stamp != cache.stamp or changes.cursor < after
        seen.update(each.id for each in changes.shared)
        if len(seen) > MAX_CACHED:
            raise TeamUnavailable(f"the team shares more than {MAX_CACHED:,} memories about {cache.project}: tidy them")
        prepared = await _prepared(toolbox, there, changes)
        # Until all was seen no cursor is kept, so that after an interruption the next pull begins again too.
        written = changes
        if begun_again and changes.has_more:
            written = changes.model_copy(update={"stamp": "", "cursor": 0})
        elif begun_again:
            gone = await store.cached_ids(there) - seen
            written = changes.model_copy(update={"withdrawn": (*changes.withdrawn, *gone)})
        refused = await store.take_in(toolbox.scope, cache.project, written, prepared, toolbox.embedder.name)
        new += [memory for memory, _ in prepared if memory is not None and memory.item.status == "active"]
        done.pulled += len(changes.shared)
        done.withdrawn += len(changes.withdrawn)
        done.refused += [f"{each}: one of your own memories has this id" for each in refused]
        if not changes.has_more:
            break
        if changes.stamp == stamp and changes.cursor <= after:
            raise TeamUnavailable("the team's server sends the same changes again and again")
        stamp, after = changes.stamp, changes.cursor
    return new


async def _prepared(toolbox: Toolbox, there: Scope, changes: Changes) -> list[tuple[StoredMemory | None, SharedMemory]]:
    """Return what was pulled as it may be stored; None in place of a memory whose words are unchanged."""
    former = {
        item.id: item for item in await toolbox.store.get_memories((there,), [each.id for each in changes.shared])
    }
    taken: list[tuple[SharedMemory, MemoryItem | None]] = []
    for each in changes.shared:
        shared = _bounded(each)
        try:
            item = _item(toolbox, there, shared, former.get(each.id))
        except InputError:
            continue  # nothing of it can be kept: its words have no allowed length
        before = former.get(each.id)
        is_same_text = before is not None and before.model_dump(include=WORDS) == item.model_dump(include=WORDS)
        taken.append((shared, None if is_same_text else item))
    stored, _ = await prepare_or_report(toolbox, [item for _, item in taken if item is not None])
    by_id = {each.item.id: each for each in stored}
    return [(None if item is None else by_id[item.id], shared) for shared, item in taken]


def _bounded(shared: SharedMemory) -> SharedMemory:
    """Return a shared memory with names that can be shown and counts that are possible."""
    return shared.model_copy(
        update={
            "proposed_by": tuple(clean(name)[:_MAX_NAME] for name in shared.proposed_by[:_MAX_NAMES]),
            "accepted_by": None if shared.accepted_by is None else clean(shared.accepted_by)[:_MAX_NAME],
            "evidence": shared.evidence.bounded,
        }
    )


def _item(toolbox: Toolbox, there: Scope, shared: SharedMemory, former: MemoryItem | None) -> MemoryItem:
    """Return a shared memory as an item of the cache, in quarantine where a rule holds it back."""
    said = shared.draft.model_dump(include=WORDS) | {
        "id": shared.id,
        "scope": there,
        "outcome": shared.outcome,
        "confidence": shared.confidence if former is None else former.confidence,
        "created_at": min(shared.accepted_at, toolbox.clock.now()),
    }
    source = Provenance(distiller=shared.distiller, imported_from="the team")
    return mark_suspect(admit_memory(said, source, toolbox.settings), shared.suspect)


async def _link(toolbox: Toolbox, fresh: Sequence[StoredMemory], team: Sequence[Scope], since: datetime | None) -> None:
    """Note which own memories say the same as a shared one; compares new shared ones, and own ones new since then."""
    own = (toolbox.scope,)
    pairs = [(own_id, each.item.id) for each in fresh for own_id in await _say_the_same(toolbox, own, each)]
    newest = await toolbox.store.list_memories(own, MemoryFilter(limit=_COMPARED))
    items = [item for item in newest if since is None or item.created_at > since]
    for each in (await prepare_or_report(toolbox, items))[0] if items else []:
        pairs += [(each.item.id, shared_id) for shared_id in await _say_the_same(toolbox, team, each)]
    if pairs:
        await toolbox.store.team_cache.link_same(pairs)


async def _say_the_same(toolbox: Toolbox, scopes: Sequence[Scope], memory: StoredMemory) -> list[str]:
    if memory.vector is None:
        return []
    near = await toolbox.store.nearest(scopes, toolbox.embedder.name, memory.vector, _NEAREST)
    ids = [memory_id for memory_id, similarity in near if similarity >= duplicate_threshold(toolbox)]
    found = await toolbox.store.get_memories(scopes, ids) if ids else []
    return [item.id for item in found if is_same(memory.item, item)]


async def _send_evidence(toolbox: Toolbox, team: Team, projects: Sequence[str]) -> None:
    """Send what tasks here showed about shared memories: absolute counts, and nothing of the tasks."""
    store, tenant = toolbox.store.team_cache, toolbox.scope.tenant_id
    ids = [each for project in projects for each in sorted(await store.cached_ids(team_scope(tenant, project)))]
    known = await store.own_evidence(ids)
    counts = [
        ItemEvidence(memory_id=each, evidence=evidence)
        for each, evidence in known.items()
        if evidence.tried or evidence.shown
    ]
    bank = await store.bank_id()
    for at in range(0, len(counts), MAX_EVIDENCE):
        await team.send_evidence(bank, counts[at : at + MAX_EVIDENCE])


def describe_cache(caches: Sequence[CacheState], now: datetime) -> str:
    """Return the state of the cache in one line, for `status` and `doctor`."""
    if not caches:
        return "not asked yet: the first check runs in the background"
    cache = caches[0]
    if cache.fault is None:
        minutes = 0 if cache.checked_at is None else round((now - cache.checked_at).total_seconds() / 60)
        return f"{cache.url}, project {cache.project}: asked {counted(max(0, minutes), 'minute')} ago"
    kept = "nothing pulled yet" if cache.checked_at is None else f"copy as of {cache.checked_at:%Y-%m-%d %H:%M} UTC"
    return f"{cache.url} does not answer ({counted(cache.failures, 'time')}: {cache.fault}); {kept}"


async def team_status(toolbox: Toolbox) -> list[str]:
    """Return what `status` says about the team: the state of the copy, and what became of one's own proposals.

    Empty without a team. Raises `StorageError`.
    """
    url = toolbox.settings.team.url
    if url is None:
        return []
    if not toolbox.team:
        return [f"the team at {url} has no name for this project: run `swarm-memory team join {url} --project NAME`"]
    lines = [f"the team: {describe_cache(await toolbox.store.team_cache.caches(toolbox.scope), toolbox.clock.now())}"]
    sent = list((await toolbox.store.team_cache.sent(toolbox.scope, url)).values())
    if sent:
        counts = Counter(each.proposal.status for each in sent)
        lines.append(f"proposed: {', '.join(f'{number} {status}' for status, number in sorted(counts.items()))}")
    words = [each for each in sent if each.proposal.status == "declined" and each.proposal.decision]
    lines += [f"{each.memory_id} was declined: {each.proposal.decision}" for each in words[-_MAX_DECLINED:]]
    return lines
