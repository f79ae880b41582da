"""What a team shares: on its server, proposals, decisions, evidence and changes; in a person's bank, a copy of the
shared memories, and what was proposed from that bank.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from itertools import takewhile
from typing import Any

from swarm_memory.schema.base import TEAM, Scope, new_id
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.memory import MemoryDraft, MemoryItem
from swarm_memory.schema.sqlite.events import TRIED
from swarm_memory.schema.team.sharing import (
    Changes,
    Evidence,
    ItemEvidence,
    Proposal,
    ProposalStatus,
    Proposed,
    SentProposal,
    SharedMemory,
    SharedMemoryInfo,
)
from swarm_memory.server.storage.driver import Connection
from swarm_memory.server.storage.engine.engine import Part, reads, writes, writing_as
from swarm_memory.server.storage.stores.memories import (
    add_items,
    change_status,
    delete_item,
    find_patterns,
    items_at,
    replace_item,
)
from swarm_memory.server.storage.stores.rows import Queries, log_event, made, make_scope, now_text, to_moment
from swarm_memory.tools.guard.trust import CREDITED
from swarm_memory.tools.ports.memories import StoredMemory
from swarm_memory.tools.ports.team import CacheState, ProposalFilter, Sent

PROPOSED, RULED = "team.proposed", "team.ruled"
"""Events: something was proposed; a reviewer decided. The subject is the proposal."""

_WIRE = set(Proposed.model_fields) - {"project", "word"}
_RULING = {"id", "status", "decided_by", "decided_at", "decision", "memory_id"}
_OWN_USER = "the server's own user"
_COUNTS = {"worked", "tried", "shown"}
_EVERY_STATUS: tuple[ProposalStatus, ...] = ("waiting", "accepted", "declined")
_MOST_ALIKE = 10_000
_SQL, _MEMORIES, _FIXES = Queries("team"), Queries("memories"), Queries("fixes")


class SharedMemories(Part):
    """What a team's server keeps."""

    @writes
    def add_proposal(
        self, connection: Connection, scope: Scope, asked: Proposal, bank: str, most_waiting: int
    ) -> Proposal:
        """Write a proposal from a bank; if the same person proposed its memory before, that proposal is kept.

        A waiting proposal gets the new text; a decided one is reopened only if the text differs. Raises `InputError`
        when more than `most_waiting` proposals of the person would wait.
        """
        scope_id, person_id = make_scope(connection, scope), asked.person_id or ""
        place = {"scope_id": scope_id, "person_id": person_id, "origin_id": asked.origin_id}
        columns = asked.model_dump(exclude=_WIRE) | {"item": asked.model_dump_json(include=_WIRE)}
        values: dict[str, Any] = {**columns, **place, "bank": bank}
        found = _SQL.row(connection, "find_proposal_of", **place)
        if found is not None:
            proposal_id, status, item = found
            same = json.loads(item)["draft"] == json.loads(values["item"])["draft"]
            if same and (status != "waiting" or item == values["item"]):
                return _one(connection, scope.tenant_id, proposal_id)
            _SQL.run(connection, "replace_proposal", **{**values, "id": proposal_id})
        else:
            proposal_id = asked.id
            (waiting,) = _SQL.row(connection, "count_waiting_of", tenant_id=scope.tenant_id, person_id=person_id)
            if waiting >= most_waiting:
                raise InputError(
                    f"{waiting} of your proposals are waiting for a decision: no more are taken until some are decided"
                )
            _SQL.run(connection, "add_proposal", **values)
        if asked.memory_id is not None:
            _enter(connection, scope_id, asked.memory_id, by=None, at=asked.created_at)
        log_event(connection, scope_id, PROPOSED, proposal_id, {"status": asked.status, "by": asked.person})
        return _one(connection, scope.tenant_id, proposal_id)

    @reads
    def proposals(self, connection: Connection, tenant_id: str, which: ProposalFilter) -> list[Proposal]:
        return _proposals(connection, tenant_id, which)

    @reads
    def count_waiting(self, connection: Connection, tenant_id: str) -> int:
        """Return how many proposals wait for a decision; those that say the same count as one."""
        return int(_SQL.row(connection, "count_waiting", tenant_id=tenant_id)[0])

    @reads
    def get_proposal(
        self, connection: Connection, tenant_id: str, proposal_id: str
    ) -> tuple[Proposal, list[Proposal]] | None:
        """Return a proposal, and those that say the same, which wait or were decided together with it."""
        found = {each.id: each for each in _with_same(connection, tenant_id, proposal_id)}
        leading = found.pop(proposal_id, None)
        return None if leading is None else (leading, [*found.values()])

    @writes
    def share(
        self, connection: Connection, scope: Scope, accepted: Proposal, memory: StoredMemory | None, embedder: str
    ) -> bool:
        """Accept a waiting proposal, and those that say the same, in one transaction.

        The memory is new or replaces its former text; None: it is shared already. It gets the proposals' evidence and
        the errors that they ended. Return False, writing nothing, if the proposals are not as they were seen.
        """
        assert accepted.memory_id is not None
        assert accepted.decided_at is not None
        scope_id = make_scope(connection, scope)
        if not _ruled(connection, scope_id, accepted, "waiting"):
            return False
        if memory is not None:
            with writing_as(accepted.person_id):  # who contributed it
                if _MEMORIES.row(connection, "find_pattern", accepted.memory_id, scope_id) is None:
                    add_items(connection, self.bank, [memory], embedder)
                else:
                    replace_item(connection, self.bank, memory, embedder, "accepted again")
        _enter(connection, scope_id, accepted.memory_id, by=accepted.decided_by, at=accepted.decided_at)
        self.bank.index.tidy(connection)
        return True

    @writes
    def rule(self, connection: Connection, scope: Scope, ruled: Proposal, former: ProposalStatus) -> bool:
        """Write a decision that shares nothing; `former`: the status the proposal must have. False as with `share`."""
        if not _ruled(connection, make_scope(connection, scope), ruled, former):
            return False
        if former == "accepted" and ruled.memory_id is not None:
            left = _SQL.rows(connection, "accepted_for", memory_id=ruled.memory_id)
            for row in find_patterns(connection, (scope,), [ruled.memory_id]) if not left else ():
                if row[3] != "archived":
                    change_status(connection, self.bank.index, row, ("archived", "its acceptance was taken back"))
            self.bank.index.tidy(connection)
        return True

    @writes
    def put_evidence(
        self, connection: Connection, tenant_id: str, by: tuple[str, str], counted: Sequence[ItemEvidence], at: datetime
    ) -> list[tuple[Scope, str, Evidence]]:
        """Write the evidence that a person counted; `by`: the ids of the person and of their bank.

        Return the active memories whose counts changed, each with its evidence since a person last vouched for it.
        """
        changed: list[str] = []
        stepped: set[int] = set()
        for each in counted:
            found = _SQL.row(connection, "shared_scope", memory_id=each.memory_id, tenant_id=tenant_id)
            if found is None:
                continue
            (scope_id,) = found
            if scope_id not in stepped:
                stepped.add(scope_id)
                _take_step(connection, scope_id)
            key = {"memory_id": each.memory_id, "person_id": by[0], "bank": by[1]}
            counts = each.evidence.model_dump(include=_COUNTS)
            if _SQL.row(connection, "find_evidence", **key) == tuple(counts.values()):
                continue
            _SQL.run(connection, "put_evidence", **key, **counts, scope_id=scope_id, at=at)
            _count_evidence(connection, scope_id, each.memory_id)
            changed.append(each.memory_id)
        return [
            (made(Scope, row, tenant_id=tenant_id), row["memory_id"], made(Evidence, row))
            for row in _SQL.named(connection, "counted", ids=changed, tenant_id=tenant_id)
        ]

    async def changes(self, scope: Scope, stamp: str, after: int, person_id: str, limit: int) -> Changes:
        """Return what changed after a cursor, in commit order."""
        if await self._out_of_step(scope):
            await self.write(lambda connection: _take_step(connection, make_scope(connection, scope)))
        return await self._changes(scope, stamp, after, person_id, limit)

    @reads
    def _out_of_step(self, connection: Connection, scope: Scope) -> bool:
        return _SQL.row(connection, "out_of_step", scope_id=scope) is not None

    @reads
    def _changes(
        self, connection: Connection, scope: Scope, stamp: str, after: int, person_id: str, limit: int
    ) -> Changes:
        counted = _SQL.row(connection, "find_revision", scope_id=scope)
        if counted is None:
            return Changes(stamp="", cursor=0)
        own_stamp, reached = counted
        after = after if stamp == own_stamp and after <= reached else 0
        rows = _SQL.rows(connection, "changed", scope_id=scope, after=after, limit=limit + 1)
        page = [(memory_id, revision, state.startswith("active:")) for memory_id, revision, state in rows[:limit]]
        ids = [memory_id for memory_id, _, is_active in page if is_active]
        items = {item.id: item for item in items_at(connection, (scope,), ids) if item.status == "active"}
        # Whether a memory that was withdrawn meanwhile stays withdrawn is not known yet: the next call returns it.
        sure = list(takewhile(lambda row: row[0] in items or not row[2], page))
        return Changes(
            stamp=own_stamp,
            cursor=sure[-1][1] if sure else after if rows else reached,
            shared=tuple(_shared(connection, items[each], person_id) for each, _, is_active in sure if is_active),
            withdrawn=tuple(memory_id for memory_id, _, is_active in sure if not is_active),
            has_more=len(rows) > limit and len(sure) == len(page),
        )

    @reads
    def sharing(self, connection: Connection, memory_ids: Sequence[str]) -> dict[str, SharedMemoryInfo]:
        """Return what is known of those memories that are shared, by id."""
        return _sharings(connection, memory_ids)


def forget_shared(connection: Connection, memory_id: str) -> None:
    """Delete the proposals, evidence and names of a forgotten memory; that it is gone still reaches everybody."""
    for query in ("forget_proposals", "forget_evidence", "forget_names", "forget_sent"):
        _SQL.run(connection, query, memory_id=memory_id)


def _ruled(connection: Connection, scope_id: int, ruled: Proposal, former: ProposalStatus) -> bool:
    """Write a decision on a proposal, and on those that say the same; False if its status was not `former`."""
    values: dict[str, Any] = {**ruled.model_dump(include=_RULING), "former": former}
    if ruled.status == "waiting":
        values |= {"decided_by": None, "decided_at": None}
    if not _SQL.run(connection, "rule_proposal", **values).rowcount:
        return False
    _SQL.run(connection, "rule_proposals_alike", **values)
    said = {"status": ruled.status, "by": ruled.decided_by, "word": ruled.decision, "memory_id": ruled.memory_id}
    log_event(connection, scope_id, RULED, ruled.id, said, ruled.decided_at)
    return True


def _enter(connection: Connection, scope_id: int, memory_id: str, *, by: str | None, at: datetime) -> None:
    """Give a shared memory the evidence, the errors and the proposers' names of all proposals accepted for it."""
    _take_step(connection, scope_id)
    names: list[str] = []
    for person_id, name, bank, text, _ in _SQL.rows(connection, "accepted_for", memory_id=memory_id):
        proposed = json.loads(text)
        names.append(name or _OWN_USER)
        for signature in proposed.get("signatures", ()):
            _FIXES.run(connection, "add_fix", signature=signature, id=memory_id, scope_id=scope_id)
        key = {"memory_id": memory_id, "person_id": person_id, "bank": bank}
        if _SQL.row(connection, "find_evidence", **key) is None:
            counts = Evidence.model_validate(proposed["evidence"]).model_dump(include=_COUNTS)
            _SQL.run(connection, "put_evidence", **key, **counts, scope_id=scope_id, at=at)
    values = {"memory_id": memory_id, "scope_id": scope_id, "accepted_by": by, "accepted_at": at}
    _SQL.run(connection, "put_shared", **values, revision=0, proposed_by=list(dict.fromkeys(names)))
    _count_evidence(connection, scope_id, memory_id)


def _count_evidence(connection: Connection, scope_id: int, memory_id: str) -> None:
    """Sum up the evidence that everybody counted on a memory; this is a change of its scope."""
    _SQL.run(connection, "count_evidence", memory_id=memory_id, revision=next_revision(connection, scope_id))


def _take_step(connection: Connection, scope_id: int) -> None:
    """Count as changed what was edited, withdrawn, restored or forgotten, in whatever way."""
    for memory_id, former, state in _SQL.rows(connection, "out_of_step", scope_id=scope_id):
        if former.startswith("archived:") and state.startswith("active:"):
            _SQL.run(connection, "vouch", memory_id=memory_id)  # a person restored it: only later evidence counts
        revision = next_revision(connection, scope_id)
        _SQL.run(connection, "put_state", memory_id=memory_id, state=state, revision=revision)


def next_revision(connection: Connection, scope_id: int) -> int:
    """Count a change of a scope, and return its number."""
    _SQL.run(connection, "add_revision", scope_id=scope_id, stamp=new_id("ts"))
    return int(_SQL.row(connection, "next_revision", scope_id=scope_id)[0])


def _proposals(connection: Connection, tenant_id: str, which: ProposalFilter) -> list[Proposal]:
    project = None if which.project is None else f"{TEAM}{which.project}"
    rows = _SQL.named(connection, "proposals", **which._asdict() | {"tenant_id": tenant_id, "project": project})
    return [
        Proposal.model_validate(
            json.loads(row.pop("item"))
            | row
            | {"project": row["project"].removeprefix(TEAM), "person_id": row["person_id"] or None}
        )
        for row in rows
    ]


def _with_same(connection: Connection, tenant_id: str, proposal_id: str) -> list[Proposal]:
    return _proposals(connection, tenant_id, ProposalFilter(_EVERY_STATUS, id=proposal_id, limit=_MOST_ALIKE))


def _one(connection: Connection, tenant_id: str, proposal_id: str) -> Proposal:
    return next(each for each in _with_same(connection, tenant_id, proposal_id) if each.id == proposal_id)


def _sharings(connection: Connection, memory_ids: Sequence[str]) -> dict[str, SharedMemoryInfo]:
    return {
        row["memory_id"]: made(
            SharedMemoryInfo, row, evidence=made(Evidence, row), proposed_by=json.loads(row["proposed_by"])
        )
        for row in _SQL.named(connection, "sharing", ids=memory_ids)
    }


def _shared(connection: Connection, item: MemoryItem, person_id: str) -> SharedMemory:
    """Return a shared memory as the server sends it to a person."""
    known = _sharings(connection, [item.id])[item.id]
    proposals = _SQL.rows(connection, "accepted_for", memory_id=item.id)
    return SharedMemory(
        **known.model_dump(exclude={"memory_id", "evidence"}),
        id=item.id,
        draft=MemoryDraft(**item.model_dump(include={"title", "description", "content", "tags", "domain"})),
        outcome=item.outcome,
        confidence=item.confidence,
        distiller=item.provenance.distiller,
        suspect=item.provenance.suspect,
        signatures=error_signatures(connection, item.id),
        evidence=known.evidence,
        origins=tuple(origin for owner, *_, origin in proposals if owner == person_id),
    )


def error_signatures(connection: Connection, memory_id: str) -> tuple[str, ...]:
    """Return the digests of the errors that a memory ended."""
    return tuple(_SQL.column(connection, "signatures", memory_id=memory_id))


class TeamCache(Part):
    """A person's copy of what a team shares."""

    @reads
    def bank_id(self, connection: Connection) -> str:
        """Return a digest of the bank's id, by which others can tell banks apart without knowing the id."""
        bank = next(iter(_SQL.column(connection, "bank_id")), "")
        return sha256(f"outward {bank}".encode()).hexdigest()[:32] if bank else ""

    @reads
    def caches(self, connection: Connection, scope: Scope) -> list[CacheState]:
        return [
            CacheState(project.removeprefix(TEAM), url, stamp, cursor, at and to_moment(at), failures, fault)
            for project, url, stamp, cursor, at, failures, fault in _SQL.rows(connection, "caches", scope_id=scope)
        ]

    @writes
    def keep_caches(self, connection: Connection, scope: Scope, url: str, projects: Sequence[str]) -> None:
        """Make a project read what a server shares under these names, and no longer anything else."""
        scope_id, kept = make_scope(connection, scope), [f"{TEAM}{each}" for each in projects]
        for project in _SQL.column(connection, "caches", scope_id=scope_id):
            if project in kept:
                continue
            _SQL.run(connection, "drop_cache", scope_id=scope_id, project=project)
            cache = Scope(tenant_id=scope.tenant_id, project=project)
            if _SQL.row(connection, "readers_of_cache", **cache.model_dump())[0] == 0:
                self._drop(connection, cache, _SQL.column(connection, "ids_of_scope", scope_id=cache))
        for project in kept:
            _SQL.run(connection, "keep_cache", scope_id=scope_id, project=project, url=url)

    @writes
    def note_check(self, connection: Connection, scope: Scope, at: datetime, fault: str | None) -> int:
        """Record the result of a request to the server; return how many requests in a row have failed."""
        values = {"scope_id": make_scope(connection, scope), "at": at, "fault": fault}
        _SQL.run(connection, "note_answer" if fault is None else "note_fault", **values)
        return max((failures for *_, failures, _ in _SQL.rows(connection, "caches", **values)), default=0)

    @writes
    def take_in(
        self,
        connection: Connection,
        scope: Scope,
        project: str,
        changes: Changes,
        memories: Sequence[tuple[StoredMemory | None, SharedMemory]],
        embedder: str,
    ) -> tuple[str, ...]:
        """Write what was pulled, and the cursor, in one transaction; return the ids that were refused.

        An id is refused if a memory of another scope has it. A stored memory of None means that its text is unchanged.
        """
        team = Scope(tenant_id=scope.tenant_id, project=f"{TEAM}{project}")
        team_id, refused = make_scope(connection, team), list[str]()
        for memory, shared in memories:
            found = _SQL.row(connection, "scope_of_memory", memory_id=shared.id)
            if found is not None and found[0] != team_id:
                refused.append(shared.id)
                continue
            if memory is not None and found is None:
                add_items(connection, self.bank, [memory], embedder)
            elif memory is not None:
                replace_item(connection, self.bank, memory, embedder, "pulled")
            _SQL.run(connection, "drop_fixes", memory_id=shared.id)
            for signature in shared.signatures:
                _FIXES.run(connection, "add_fix", signature=signature, id=shared.id, scope_id=team_id)
            names = shared.model_dump(include={"proposed_by", "accepted_by", "accepted_at"})
            place = {"memory_id": shared.id, "scope_id": team_id}
            _SQL.run(connection, "put_cached", **place, **names, **shared.evidence.model_dump())
            for origin in shared.origins:
                _SQL.run(connection, "link_same", own_id=origin, shared_id=shared.id, at=now_text())
        self._drop(connection, team, changes.withdrawn)
        reader = {"scope_id": make_scope(connection, scope), "project": team.project}
        _SQL.run(connection, "put_cursor", **reader, stamp=changes.stamp, cursor=changes.cursor)
        self.bank.index.tidy(connection)
        return tuple(refused)

    @reads
    def cached_ids(self, connection: Connection, project: Scope) -> set[str]:
        """Return the ids of the memories kept of a team's scope, whatever their status."""
        return {*_SQL.column(connection, "ids_of_scope", scope_id=project)}

    def _drop(self, connection: Connection, team: Scope, ids: Sequence[str]) -> None:
        """Delete memories from a cache, with their indexes."""
        for found in find_patterns(connection, (team,), ids):
            delete_item(connection, self.bank.index, found)
            _SQL.run(connection, "drop_shared", memory_id=found[1])
        self.bank.index.tidy(connection)

    @writes
    def link_same(self, connection: Connection, pairs: Sequence[tuple[str, str]]) -> None:
        """Note that one of the bank's own memories (first) says the same as a shared one (second)."""
        for own_id, shared_id in pairs:
            _SQL.run(connection, "link_same", own_id=own_id, shared_id=shared_id, at=now_text())

    @reads
    def own_evidence(self, connection: Connection, memory_ids: Sequence[str]) -> dict[str, Evidence]:
        """Return what tasks of this bank showed of memories, and of its own memories that say the same."""
        return {each: _evidence_of(connection, each) for each in memory_ids}

    @reads
    def signatures(self, connection: Connection, memory_id: str) -> tuple[str, ...]:
        """Return the digests of the errors that a memory ended."""
        return error_signatures(connection, memory_id)

    @writes
    def note_sent(self, connection: Connection, scope: Scope, url: str, sent: Sequence[Sent], at: datetime) -> None:
        """Note what was proposed, and what became of it."""
        scope_id = make_scope(connection, scope)
        for each in sent:
            values = each._asdict() | {"proposal": each.proposal.model_dump()}
            _SQL.run(connection, "put_sent", **values, url=url, scope_id=scope_id, at=at)

    @reads
    def sent(self, connection: Connection, scope: Scope, url: str) -> Mapping[str, Sent]:
        """Return what was proposed to a server from a project, by the memory's id."""
        rows = _SQL.rows(connection, "sent", scope_id=scope, url=url)
        return {
            memory_id: Sent(memory_id, written, SentProposal.model_validate_json(text))
            for memory_id, written, text in rows
        }


def _evidence_of(connection: Connection, memory_id: str) -> Evidence:
    """Count what tasks showed: each task by what became of its errors, or else by its outcome."""
    ids = [memory_id]
    for each in ids:  # which grows: a duplicate of a duplicate counts too
        ids += [other for other in _SQL.column(connection, "says_the_same", memory_id=each) if other not in ids]
    seen: dict[str, bool] = {}
    ended: dict[str, bool] = {}
    for each in ids:
        for kind, text in _SQL.rows(connection, "outcomes_of", memory_id=each, kinds=(TRIED, CREDITED)):
            data = json.loads(text)
            task_id = str(data.get("task_id"))
            if kind == TRIED and data.get("signature"):
                seen[task_id] = seen.get(task_id, False) or bool(data.get("worked"))
            elif kind == CREDITED and data.get("method", "none") != "none" and data.get("label") != "Undecided":
                ended[task_id] = data.get("label") == "Success"
    tasks = {**ended, **seen}
    shown = sum(_SQL.column(connection, "uses_of", ids=ids))
    return Evidence(worked=sum(tasks.values()), tried=len(tasks), shown=shown)
