"""This bank as a team's server: what a person may request of it. Routes, commands, the review page and tests use it.

Proposals are untrusted; those that say the same are joined, and what fails for many is withdrawn automatically.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import mul

from pydantic import ValidationError

from swarm_memory.schema.base import MEMORY, new_id
from swarm_memory.schema.errors import InputError, NotFoundError
from swarm_memory.schema.memory import MemoryDraft, MemoryItem, Provenance
from swarm_memory.schema.team.person import Person
from swarm_memory.schema.team.sharing import (
    MAX_EVIDENCE,
    MAX_SENT,
    MAX_WORD_CHARS,
    Changes,
    Evidence,
    ItemEvidence,
    Member,
    Proposal,
    ProposalStatus,
    Proposed,
    Ruling,
    team_scope,
)
from swarm_memory.tools.consolidate.pairs import duplicate_threshold, is_same
from swarm_memory.tools.credit.intervals import wilson
from swarm_memory.tools.guard.gate import WORDS, admit_memory, checked_texts, mark_suspect
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.learn.learn import same_in_bank
from swarm_memory.tools.ports.memories import StoredMemory
from swarm_memory.tools.ports.team import PROPOSAL, ProposalFilter
from swarm_memory.tools.retrieve.embed import prepare_or_report
from swarm_memory.tools.text.cleaning import clean, faults
from swarm_memory.tools.toolbox import Toolbox

MAX_LISTED = 200
MAX_WAITING = 200
"""At most this many proposals of one person wait at the same time."""

MIN_PEOPLE = 2
"""For fewer people nothing is withdrawn: what fails for one person alone may be due to that person's machine."""

FAILS_BELOW = 0.5
"""A memory is withdrawn when the whole interval of its success rate is below this: it fails more than it helps."""

_COMPARED = 1_000
SAYS_THE_SAME = "says the same as a memory that the team already shares"


@dataclass(frozen=True, slots=True)
class TeamBank:
    """A `Team` that is this bank. What a person may do was checked before: each route requires its least role."""

    toolbox: Toolbox
    person: Person | None = None
    """None: the bank's own user, who may do everything."""

    async def me(self) -> Member:
        return Member(role="admin") if self.person is None else Member(name=self.person.name, role=self.person.role)

    async def propose(self, bank: str, proposed: Sequence[Proposed]) -> list[Proposal]:
        """Take in proposals one by one. Raises `InputError`; the proposals before a refused one were taken in."""
        if len(proposed) > MAX_SENT:
            raise InputError(f"{len(proposed)} proposals at once: send at most {MAX_SENT}")
        return [await self._take(bank, each) for each in proposed]

    async def proposals(self, status: ProposalStatus | None = "waiting", *, mine: bool = False) -> list[Proposal]:
        """Return at most 200 proposals."""
        statuses: tuple[ProposalStatus, ...] = ("waiting", "accepted", "declined") if status is None else (status,)
        own = ("" if self.person is None else self.person.id) if mine else None
        which = ProposalFilter(statuses, own, limit=MAX_LISTED, leading=not mine)
        return await self.toolbox.store.team.proposals(self.toolbox.scope.tenant_id, which)

    async def decide(self, proposal_id: str, ruling: Ruling) -> Proposal:
        """Accept a proposal, as it is or reworded, decline it, or undo that; proposals that say the same go with it.

        Raises `NotFoundError`, and `InputError` where it was decided meanwhile, or where a rule holds its words back:
        edit or decline it then. A proposal marked suspect needs `although_suspect`, and keeps the mark.
        """
        tenant = self.toolbox.scope.tenant_id
        found = await self.toolbox.store.team.get_proposal(tenant, proposal_id)
        if found is None:
            raise NotFoundError(f"there is no proposal {proposal_id[:60]!r}")
        proposal, _ = found
        if proposal.same_as is not None and proposal.status == "waiting":
            return await self.decide(proposal.same_as, ruling)
        there = self.toolbox.in_project(team_scope(tenant, proposal.project).project)
        take = self._accept if ruling.act in ("accept", "edit") else self._refuse
        if not await take(there, proposal, ruling):
            raise InputError(f"{proposal_id} was decided in the meantime, or is not waiting: look at it again")
        after = await self.toolbox.store.team.get_proposal(tenant, proposal_id)
        assert after is not None
        return after[0]

    async def changes(self, project: str, stamp: str, after: int) -> Changes:
        """Return at most 50 changes."""
        scope = team_scope(self.toolbox.scope.tenant_id, _checked_project(project))
        own = "" if self.person is None else self.person.id
        return await self.toolbox.store.team.changes(scope, stamp, after, own, MAX_SENT)

    async def send_evidence(self, bank: str, counted: Sequence[ItemEvidence]) -> None:
        """Write what a person's bank counted, in place of its former counts, and withdraw what surely fails.

        Counts are absolute: sending them again changes nothing. A restored memory is judged only by what came since.
        """
        if len(counted) > MAX_EVIDENCE:
            raise InputError(f"{len(counted)} counts at once: send at most {MAX_EVIDENCE}")
        sound = [each.model_copy(update={"evidence": each.evidence.bounded}) for each in counted]
        tenant, at = self.toolbox.scope.tenant_id, self.toolbox.clock.now()
        own = "" if self.person is None else self.person.id
        changed = await self.toolbox.store.team.put_evidence(tenant, (own, bank[:100]), sound, at)
        for scope, memory_id, evidence in changed:
            if reason := _why_withdrawn(evidence):
                await self.toolbox.store.set_status((scope,), [memory_id], "archived", reason)

    async def _take(self, bank: str, given: Proposed) -> Proposal:
        """Take in a proposal; one that says the same as a shared memory is joined to that memory immediately."""
        scope = team_scope(self.toolbox.scope.tenant_id, _checked_project(given.project))
        draft = _clean_draft(self.toolbox, given.draft)  # once more: the sender is not trusted
        evidence = given.evidence.bounded.model_copy(update={"people": 1})
        asked = given.model_copy(update={"draft": draft, "evidence": evidence, "word": _clean_word(given.word)})
        there = self.toolbox.in_project(scope.project)
        item = mark_suspect(_item(there, asked), given.suspect)
        asked = asked.model_copy(update={"suspect": item.provenance.suspect})
        held = item.status_reason if item.status != "active" else None
        memory_id = same = None
        if held is None:
            (stored,), _ = await prepare_or_report(there, [item])
            known = await same_in_bank(there, stored)
            memory_id = None if known is None else known.id
            same = await self._same_waiting(there, asked, stored) if known is None else None
        proposal = Proposal(
            **dict(asked),
            id=new_id(PROPOSAL),
            person_id=None if self.person is None else self.person.id,
            person=None if self.person is None else self.person.name,
            held=held,
            same_as=same,
            memory_id=memory_id,
            status="waiting" if memory_id is None else "accepted",
            decision="" if memory_id is None else SAYS_THE_SAME,
            created_at=self.toolbox.clock.now(),
        )
        return await self.toolbox.store.team.add_proposal(scope, proposal, clean(bank)[:100], MAX_WAITING)

    async def _same_waiting(self, there: Toolbox, asked: Proposed, stored: StoredMemory) -> str | None:
        """Return the id of a waiting proposal that says the same; only those alike by their words are embedded."""
        which = ProposalFilter(project=asked.project, limit=_COMPARED, leading=True)
        own = (None if self.person is None else self.person.id, asked.origin_id)
        near: list[tuple[str, MemoryItem]] = []
        for each in await there.store.team.proposals(there.scope.tenant_id, which):
            if each.held is None and (each.person_id, each.origin_id) != own:
                said = each.draft.model_dump(include=WORDS)
                other = stored.item.model_copy(update={**said, "id": each.id, "outcome": each.outcome})
                if is_same(stored.item, other):
                    near.append((each.id, other))
        others, _ = await prepare_or_report(there, [item for _, item in near]) if near else ([], None)
        for (proposal_id, _), other in zip(near, others, strict=True):
            if other.vector is None or stored.vector is None:
                continue
            if sum(map(mul, stored.vector, other.vector)) >= duplicate_threshold(there):
                return proposal_id
        return None

    async def _accept(self, there: Toolbox, proposal: Proposal, ruling: Ruling) -> bool:
        if ruling.act == "edit":
            if ruling.draft is None:
                raise InputError("edit needs the wording to accept: a title, a description or content")
            draft = _clean_draft(there, ruling.draft)
            said = proposal.suspect if _words(draft) == _words(proposal.draft) else None  # new words are screened here
            proposal = proposal.model_copy(update={"draft": draft, "suspect": said})
        if proposal.status != "waiting":
            return False
        item = mark_suspect(_item(there, proposal, proposal.memory_id), proposal.suspect)
        if item.status != "active":
            raise InputError(f"{proposal.id} is held back ({item.status_reason}): edit what is suspect, or decline it")
        if item.provenance.suspect is not None and not ruling.although_suspect:
            raise InputError(
                f"{proposal.id} is marked: {item.provenance.suspect}; edit it, decline it, or accept it with "
                f"`--although-suspect` (although_suspect: true): it then keeps the mark"
            )
        (stored,), _ = await prepare_or_report(there, [item])
        known = await same_in_bank(there, stored)
        shared_id = item.id if known is None else known.id
        accepted = self._ruled(there, proposal, ruling, "accepted", shared_id)
        new = stored if shared_id == item.id else None
        return await there.store.team.share(there.scope, accepted, new, there.embedder.name)

    async def _refuse(self, there: Toolbox, proposal: Proposal, ruling: Ruling) -> bool:
        undone = ruling.act == "undo"
        if undone == (proposal.status == "waiting"):
            return False
        ruled = self._ruled(there, proposal, ruling, "waiting" if undone else "declined", proposal.memory_id)
        return await there.store.team.rule(there.scope, ruled, proposal.status if undone else "waiting")

    def _ruled(
        self, there: Toolbox, proposal: Proposal, ruling: Ruling, status: ProposalStatus, memory_id: str | None
    ) -> Proposal:
        by = None if self.person is None else self.person.name
        values = {"status": status, "decided_by": by, "decided_at": there.clock.now(), "memory_id": memory_id}
        return proposal.model_copy(update={**values, "decision": _clean_word(ruling.word)})


def edited(draft: MemoryDraft, texts: Mapping[str, str]) -> MemoryDraft:
    """Return the draft of a proposal with some of its texts replaced. Raises `InputError`."""
    try:
        return MemoryDraft.model_validate({**draft.model_dump(), **texts})
    except ValidationError as error:
        raise InputError(faults(error)) from error


def _checked_project(project: str) -> str:
    """Return the name of a team's project, if it is one. Raises `InputError`."""
    name = clean(project).strip()
    if not name or name != project or "\n" in name:
        raise InputError("project must be the team's name for it, such as github.com/acme/shop, or * for all")
    return name


def _clean_draft(toolbox: Toolbox, draft: MemoryDraft) -> MemoryDraft:
    """Return words from outside treated like all others: cleaned, redacted, of allowed length. Raises `InputError`."""
    return MemoryDraft.model_validate(checked_texts(draft.model_dump(include=WORDS), toolbox.settings))


def _words(draft: MemoryDraft) -> list[str]:
    return f"{draft.title} {draft.description} {draft.content}".split()


def _clean_word(word: str) -> str:
    """Return a comment on a proposal, redacted and cut to its greatest length."""
    return clean(redact(word).text, MAX_WORD_CHARS)


def _item(toolbox: Toolbox, given: Proposed, memory_id: str | None = None) -> MemoryItem:
    """Return a proposal as a memory that passed the gate, in the toolbox's scope; it is never this user's own word."""
    said = given.draft.model_dump(include=WORDS) | {
        "id": memory_id or new_id(MEMORY),
        "scope": toolbox.scope,
        "outcome": given.outcome,
        "confidence": given.confidence,
        "created_at": toolbox.clock.now(),
    }
    return admit_memory(said, Provenance(distiller=given.distiller, imported_from="the team"), toolbox.settings)


def _why_withdrawn(evidence: Evidence) -> str:
    """Return why a memory is withdrawn: it fails more often than it works, for more than one person; else empty."""
    if evidence.people < MIN_PEOPLE or not evidence.tried:
        return ""
    most = wilson(evidence.worked, evidence.tried).high
    figures = f"{evidence.says}, so at most {most:.0%} of the time"
    return f"withdrawn automatically: {figures}; if restored, only later use counts" if most < FAILS_BELOW else ""
