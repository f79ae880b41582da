"""What people propose and share: on a team's server the proposals and the evidence, in a person's bank the cache."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from swarm_memory.schema.base import TEAM, Scope, new_id
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.memory import MemoryItem
from swarm_memory.schema.sqlite.events import TRIED
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.schema.team.sharing import (
    Changes,
    Counted,
    Evidence,
    Proposal,
    Proposed,
    SentProposal,
    SharedMemory,
    Sharing,
)
from swarm_memory.server.storage.engine.engine import Part, reads, writes
from swarm_memory.server.storage.stores.memories import MemoryWriter, change_status, find_patterns, items_at
from swarm_memory.server.storage.stores.rows import (
    find_scope,
    log_event,
    make_scope,
    named,
    now_text,
    optional_moment,
    to_json,
    to_moment,
    to_text,
)
from swarm_memory.tools.guard.trust import CREDITED
from swarm_memory.tools.ports.memories import StoredMemory
from swarm_memory.tools.ports.team import Cache, NewProposal, ProposalFilter, Ruling, Sent

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import Connection

PROPOSED, RULED = "team.proposed", "team.ruled"
"""Events: something was proposed; a reviewer decided. The subject is the proposal."""

_WIRE = set(Proposed.model_fields) - {"project", "word"}
_OWN_USER = "the server's own user"
_COUNTS = {"worked", "tried", "shown"}
_QUERIES, _MEMORIES, _WAYS = queries("team"), queries("memories"), queries("ways_out")


class Proven(NamedTuple):
    """What tasks showed of a memory of a bank."""

    memory_id: str
    evidence: Evidence
    sessions: int
    """In which it worked."""


class SharedMemories(Part):
    """The tables of a team in one bank."""

    @writes
    def add_proposal(self, connection: "Connection", scope: Scope, new: NewProposal, most_waiting: int) -> Proposal:
        """Write a proposal; where its memory was proposed before by the same person, that one stands.

        One that waits gets the new words; one that was decided is opened again by other words alone. Raises
        `InputError` where more than `most_waiting` of the person would wait.
        """
        asked, scope_id = new.proposal, make_scope(connection, scope)
        place: dict[str, Any] = {"scope_id": scope_id, "person_id": asked.person_id or "", "origin_id": asked.origin_id}
        values = place | _columns(asked) | {"bank": new.bank}
        found = connection.execute(_QUERIES["find_proposal_of"], place).fetchone()
        if found is not None:
            proposal_id, status, item = found[0], found[1], str(found[2])
            same = json.loads(item)["draft"] == json.loads(values["item"])["draft"]
            if same and (status != "waiting" or item == values["item"]):
                return _one(connection, scope.tenant_id, proposal_id)
            connection.execute(_QUERIES["replace_proposal"], {**values, "id": proposal_id})
        else:
            proposal_id, person = asked.id, {"tenant_id": scope.tenant_id, "person_id": asked.person_id or ""}
            (waiting,) = connection.execute(_QUERIES["count_waiting_of"], person).fetchone()
            if waiting >= most_waiting:
                raise InputError(
                    f"{waiting} of your proposals wait for a decision: no more are taken before some have one"
                )
            connection.execute(_QUERIES["add_proposal"], values)
        if asked.memory_id is not None:
            self._entered(connection, scope_id, asked.memory_id, by=None, at=asked.created_at)
        log_event(connection, scope_id, PROPOSED, proposal_id, {"status": asked.status, "by": asked.person})
        return _one(connection, scope.tenant_id, proposal_id)

    @reads
    def proposals(self, connection: "Connection", tenant_id: str, which: ProposalFilter) -> list[Proposal]:
        statuses = (which.statuses * 3)[:3]
        values = {
            "tenant_id": tenant_id,
            "first_status": statuses[0],
            "second_status": statuses[1],
            "third_status": statuses[2],
            "any_person": int(which.person_id is None),
            "person_id": which.person_id or "",
            "any_project": int(which.project is None),
            "project": f"{TEAM}{which.project}",
            "leading": int(which.leading),
            "limit": which.limit,
            "offset": which.offset,
        }
        return [_proposal(row) for row in named(connection, _QUERIES["proposals"], values)]

    @reads
    def latest_decided(self, connection: "Connection", tenant_id: str, limit: int) -> list[Proposal]:
        """Return the proposals that a person decided last, the newest first."""
        values = {"tenant_id": tenant_id, "limit": limit}
        return [_proposal(row) for row in named(connection, _QUERIES["latest_decided"], values)]

    @reads
    def count_waiting(self, connection: "Connection", tenant_id: str) -> int:
        """Return how many proposals wait for a decision, each with those that say the same."""
        (count,) = connection.execute(_QUERIES["count_waiting"], {"tenant_id": tenant_id}).fetchone()
        return int(count)

    @reads
    def get_proposal(
        self, connection: "Connection", tenant_id: str, proposal_id: str
    ) -> tuple[Proposal, list[Proposal]] | None:
        """Return a proposal, and those that say the same and wait, or were decided, with it."""
        found = _with_same(connection, tenant_id, proposal_id)
        leading = next((each for each in found if each.id == proposal_id), None)
        return None if leading is None else (leading, [each for each in found if each.id != proposal_id])

    @writes
    def share(
        self, connection: "Connection", scope: Scope, ruling: Ruling, memory: StoredMemory | None, embedder: str
    ) -> bool:
        """Accept proposals in one transaction: write the memory, which is new or in the place of its former words.

        None: it is shared already. Their evidence and the errors that they ended go to it. False where they are not as
        they were seen: then nothing was written.
        """
        assert ruling.memory_id is not None
        scope_id = make_scope(connection, scope)
        if not self._ruled(connection, scope_id, ruling):
            return False
        if memory is not None:
            place = (ruling.memory_id, scope_id)
            writer = MemoryWriter(connection, self.bank, embedder)
            if connection.execute(_MEMORIES["find_pattern"], place).fetchone() is None:
                writer.add([memory])
            else:
                writer.replace(memory, "accepted again")
        self._entered(connection, scope_id, ruling.memory_id, by=ruling.by, at=ruling.at)
        self.bank.index.tidy(connection)
        return True

    @writes
    def rule(self, connection: "Connection", scope: Scope, ruling: Ruling) -> bool:
        """Write a decision that shares nothing. False as `share`."""
        scope_id = make_scope(connection, scope)
        if not self._ruled(connection, scope_id, ruling):
            return False
        if ruling.former == "accepted" and ruling.memory_id is not None:
            left = connection.execute(_QUERIES["accepted_for"], {"memory_id": ruling.memory_id}).fetchall()
            for row in find_patterns(connection, (scope,), [ruling.memory_id]) if not left else ():
                if row[3] != "archived":
                    change_status(connection, self.bank.index, row, "archived", "its acceptance was taken back")
            self.bank.index.tidy(connection)
        return True

    def _ruled(self, connection: "Connection", scope_id: int, ruling: Ruling) -> bool:
        values = {
            "id": ruling.proposal_id,
            "status": ruling.status,
            "former": ruling.former,
            "by": ruling.by if ruling.status != "waiting" else None,
            "at": to_text(ruling.at) if ruling.status != "waiting" else None,
            "word": ruling.word,
            "memory_id": ruling.memory_id,
        }
        if not connection.execute(_QUERIES["rule_proposal"], values).rowcount:
            return False
        connection.execute(_QUERIES["rule_proposals_alike"], values)
        told = {"status": ruling.status, "by": ruling.by, "word": ruling.word, "memory_id": ruling.memory_id}
        log_event(connection, scope_id, RULED, ruling.proposal_id, told, ruling.at)
        return True

    def _entered(
        self, connection: "Connection", scope_id: int, memory_id: str, *, by: str | None, at: datetime
    ) -> None:
        """Give a shared memory the evidence, the errors and the names of all whose proposals it stands for."""
        _take_step(connection, scope_id)
        names: list[str] = []
        for person_id, name, bank, text, _ in connection.execute(
            _QUERIES["accepted_for"], {"memory_id": memory_id}
        ).fetchall():
            proposed = json.loads(text)
            names.append(name or _OWN_USER)
            for signature in proposed.get("signatures", ()):
                values = {"signature": signature, "id": memory_id, "scope_id": scope_id}
                connection.execute(_WAYS["add_way_out"], values)
            key = {"memory_id": memory_id, "person_id": person_id, "bank": bank}
            if connection.execute(_QUERIES["find_evidence"], key).fetchone() is None:
                counts = Evidence.model_validate(proposed["evidence"]).model_dump(include=_COUNTS)
                values = {**key, **counts, "scope_id": scope_id, "at": to_text(at)}
                connection.execute(_QUERIES["put_evidence"], values)
        revision = next_revision(connection, scope_id)
        values = {"memory_id": memory_id, "scope_id": scope_id, "revision": revision, "accepted_by": by}
        values |= {"proposed_by": to_json(list(dict.fromkeys(names))), "accepted_at": to_text(at)}
        connection.execute(_QUERIES["put_shared"], values)
        connection.execute(_QUERIES["count_evidence"], {"memory_id": memory_id, "revision": revision})

    @writes
    def put_evidence(
        self,
        connection: "Connection",
        tenant_id: str,
        person_id: str,
        bank: str,
        counted: Sequence[Counted],
        at: datetime,
    ) -> list[str]:
        """Write what a person's bank counted; return the ids of the memories whose counts that changed."""
        changed: list[str] = []
        stepped: set[int] = set()
        for each in counted:
            place = {"memory_id": each.memory_id, "tenant_id": tenant_id}
            found = connection.execute(_QUERIES["shared_scope"], place).fetchone()
            if found is None:
                continue
            if found[0] not in stepped:
                stepped.add(found[0])
                _take_step(connection, found[0])
            key = {"memory_id": each.memory_id, "person_id": person_id, "bank": bank}
            counts = (each.evidence.worked, each.evidence.tried, each.evidence.shown)
            if connection.execute(_QUERIES["find_evidence"], key).fetchone() == counts:
                continue
            told = each.evidence.model_dump(include=_COUNTS)
            connection.execute(_QUERIES["put_evidence"], {**key, **told, "scope_id": found[0], "at": to_text(at)})
            summed = {"memory_id": each.memory_id, "revision": next_revision(connection, found[0])}
            connection.execute(_QUERIES["count_evidence"], summed)
            changed.append(each.memory_id)
        return changed

    @reads
    def failing(self, connection: "Connection", tenant_id: str, ids: Sequence[str]) -> list[tuple[Scope, Sharing]]:
        """Return the active ones of these with their evidence since a person last vouched for them."""
        found: list[tuple[Scope, Sharing]] = []
        for memory_id in ids:
            row = connection.execute(_QUERIES["failing"], {"memory_id": memory_id, "tenant_id": tenant_id}).fetchone()
            if row is not None:
                tenant, project, worked, tried, told, people, at = row
                counts = Evidence(worked=max(0, worked), tried=max(0, tried), shown=told, people=people)
                scope = Scope(tenant_id=tenant, project=project)
                found.append((scope, Sharing(memory_id, counts, (), None, to_moment(at))))
        return found

    async def changes(self, scope: Scope, stamp: str, after: int, person_id: str, limit: int) -> Changes:
        """Return what changed after a cursor, in the order of its being committed."""
        if await self._out_of_step(scope):
            await self.write(lambda connection: _take_step(connection, make_scope(connection, scope)))
        return await self._changes(scope, stamp, after, person_id, limit)

    @reads
    def _out_of_step(self, connection: "Connection", scope: Scope) -> bool:
        values = {"scope_id": find_scope(connection, scope)}
        return connection.execute(_QUERIES["out_of_step"], values).fetchone() is not None

    @reads
    def _changes(
        self, connection: "Connection", scope: Scope, stamp: str, after: int, person_id: str, limit: int
    ) -> Changes:
        scope_id = find_scope(connection, scope)
        counted = connection.execute(_QUERIES["find_revision"], {"scope_id": scope_id}).fetchone()
        if counted is None:
            return Changes(stamp="", cursor=0)
        own_stamp, reached = counted
        after = after if stamp == own_stamp and after <= reached else 0
        values = {"scope_id": scope_id, "after": after, "limit": limit + 1}
        rows = connection.execute(_QUERIES["changed"], values).fetchall()
        page = rows[:limit]
        ids = [memory_id for memory_id, _, state in page if state.startswith("active:")]
        items = {item.id: item for item in items_at(connection, (scope,), ids) if item.status == "active"}
        # Of what was withdrawn meanwhile nobody can say yet whether it stays so: it is told by who looks next.
        sure = list(takewhile(lambda row: row[0] in items or not row[2].startswith("active:"), page))
        told = [memory_id for memory_id, _, state in sure if state.startswith("active:")]
        return Changes(
            stamp=own_stamp,
            cursor=sure[-1][1] if sure else after if rows else reached,
            shared=tuple(_shared(connection, items[each], person_id) for each in told),
            withdrawn=tuple(memory_id for memory_id, _, state in sure if not state.startswith("active:")),
            has_more=len(rows) > limit and len(sure) == len(page),
        )

    @reads
    def sharing(self, connection: "Connection", memory_ids: Sequence[str]) -> dict[str, Sharing]:
        """Return what is known of those that are shared, by id."""
        found = (_sharing(connection, each) for each in memory_ids)
        return {each.memory_id: each for each in found if each is not None}

    @reads
    def bank_id(self, connection: "Connection") -> str:
        """Return the id of the bank."""
        row = connection.execute(_QUERIES["bank_id"]).fetchone()
        return "" if row is None else str(row[0])

    @reads
    def caches(self, connection: "Connection", scope: Scope) -> list[Cache]:
        rows = connection.execute(_QUERIES["caches"], {"scope_id": find_scope(connection, scope)}).fetchall()
        return [
            Cache(project.removeprefix(TEAM), url, stamp, cursor, optional_moment(at), failures, fault)
            for project, url, stamp, cursor, at, failures, fault in rows
        ]

    @writes
    def keep_caches(self, connection: "Connection", scope: Scope, url: str, projects: Sequence[str]) -> None:
        """Have a project read what is shared under these names at a server, and nothing else any more."""
        scope_id, kept = make_scope(connection, scope), [f"{TEAM}{each}" for each in projects]
        for project, *_ in connection.execute(_QUERIES["caches"], {"scope_id": scope_id}).fetchall():
            if project in kept:
                continue
            connection.execute(_QUERIES["drop_cache"], {"scope_id": scope_id, "project": project})
            place = {"tenant_id": scope.tenant_id, "project": project}
            if connection.execute(_QUERIES["readers_of_cache"], place).fetchone()[0] == 0:
                self._drop(connection, Scope(tenant_id=scope.tenant_id, project=project))
        for project in kept:
            values = {"scope_id": scope_id, "project": project, "url": url}
            connection.execute(_QUERIES["keep_cache"], values)

    @writes
    def note_check(self, connection: "Connection", scope: Scope, at: datetime, fault: str | None) -> int:
        """Note how asking the server went; return how often it failed in a row."""
        values = {"scope_id": make_scope(connection, scope), "at": to_text(at), "fault": fault}
        connection.execute(_QUERIES["note_answer" if fault is None else "note_fault"], values)
        rows = connection.execute(_QUERIES["caches"], values).fetchall()
        return max((failures for *_, failures, _ in rows), default=0)

    @writes
    def take_in(
        self,
        connection: "Connection",
        scope: Scope,
        project: str,
        changes: Changes,
        memories: Sequence[tuple[StoredMemory | None, SharedMemory]],
        embedder: str,
    ) -> tuple[str, ...]:
        """Write what was pulled, and the cursor, in one transaction; return the ids that were refused.

        Refused is an id that a memory of another scope has; None stands for words that are as they were.
        """
        team = Scope(tenant_id=scope.tenant_id, project=f"{TEAM}{project}")
        team_id, refused = make_scope(connection, team), list[str]()
        writer = MemoryWriter(connection, self.bank, embedder)
        for memory, shared in memories:
            found = connection.execute(_QUERIES["scope_of_memory"], {"memory_id": shared.id}).fetchone()
            if found is not None and found[0] != team_id:
                refused.append(shared.id)
                continue
            if memory is not None:
                writer.add([memory]) if found is None else writer.replace(memory, "pulled")
            connection.execute(_QUERIES["drop_ways_out"], {"memory_id": shared.id})
            for signature in shared.signatures:
                connection.execute(_WAYS["add_way_out"], {"signature": signature, "id": shared.id, "scope_id": team_id})
            values = {"memory_id": shared.id, "scope_id": team_id, **shared.evidence.model_dump()}
            values |= {"proposed_by": to_json(list(shared.proposed_by)), "accepted_by": shared.accepted_by}
            connection.execute(_QUERIES["put_cached"], {**values, "accepted_at": to_text(shared.accepted_at)})
            for origin in shared.origins:
                own = {"own_id": origin, "shared_id": shared.id, "at": now_text()}
                connection.execute(_QUERIES["link_same"], own)
        self._drop(connection, team, changes.withdrawn)
        values = {"scope_id": make_scope(connection, scope), "project": team.project}
        connection.execute(_QUERIES["put_cursor"], {**values, "stamp": changes.stamp, "cursor": changes.cursor})
        self.bank.index.tidy(connection)
        return tuple(refused)

    @reads
    def cached_ids(self, connection: "Connection", project: Scope) -> set[str]:
        """Return the ids of what is kept of a team's scope, whatever its status."""
        values = {"scope_id": find_scope(connection, project)}
        return {memory_id for (memory_id,) in connection.execute(_QUERIES["ids_of_scope"], values).fetchall()}

    @writes
    def drop_cached(self, connection: "Connection", project: Scope, ids: Sequence[str]) -> None:
        """Delete from the cache what is not shared any more."""
        self._drop(connection, project, ids)

    def _drop(self, connection: "Connection", team: Scope, ids: Sequence[str] | None = None) -> None:
        """Delete memories of a cache, or all of it, with their indexes."""
        values = {"scope_id": find_scope(connection, team)}
        wanted = ids if ids is not None else [row[0] for row in connection.execute(_QUERIES["ids_of_scope"], values)]
        for seq, memory_id, scope_id, status in find_patterns(connection, (team,), wanted):
            if status == "active":
                self.bank.index.leave(connection, seq, scope_id)
            connection.execute(_MEMORIES["note_forgotten"], {"seq": seq})
            connection.execute(_MEMORIES["delete_pattern"], (seq,))
            connection.execute(_MEMORIES["clear_events_of"], (memory_id,))
            connection.execute(_QUERIES["drop_shared"], {"memory_id": memory_id})
        self.bank.index.tidy(connection)

    @writes
    def link_same(self, connection: "Connection", pairs: Sequence[tuple[str, str]]) -> None:
        """Note that an own memory (first) says the same as a shared one (second)."""
        for own_id, shared_id in pairs:
            values = {"own_id": own_id, "shared_id": shared_id, "at": now_text()}
            connection.execute(_QUERIES["link_same"], values)

    @reads
    def newest(self, connection: "Connection", scope: Scope, since: datetime | None, limit: int) -> list[str]:
        """Return the ids of the active memories of a scope that were made since a moment, newest first."""
        values = {"scope_id": find_scope(connection, scope), "since": to_text(since) if since else "", "limit": limit}
        return [memory_id for (memory_id,) in connection.execute(_QUERIES["newest_of_scope"], values).fetchall()]

    @reads
    def same_as_shared(self, connection: "Connection", memory_ids: Sequence[str]) -> dict[str, str]:
        """Return of own memories the shared one that says the same and is active."""
        found: dict[str, str] = {}
        for memory_id in memory_ids:
            row = connection.execute(_QUERIES["same_as_shared"], {"memory_id": memory_id}).fetchone()
            if row is not None:
                found[memory_id] = str(row[0])
        return found

    @reads
    def own_same(self, connection: "Connection", memory_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return of shared memories the own ones that say the same."""
        return {each: tuple(_same_as(connection, each)) for each in memory_ids}

    @reads
    def own_evidence(self, connection: "Connection", memory_ids: Sequence[str]) -> dict[str, Proven]:
        """Return what tasks of this bank showed of memories, or of own ones that say the same."""
        return {each: _proven(connection, each) for each in memory_ids}

    @reads
    def signatures(self, connection: "Connection", memory_id: str) -> tuple[str, ...]:
        """Return the digests of the errors that a memory ended."""
        return tuple(row[0] for row in connection.execute(_QUERIES["signatures"], {"memory_id": memory_id}).fetchall())

    @writes
    def note_sent(self, connection: "Connection", scope: Scope, url: str, sent: Sequence[Sent], at: datetime) -> None:
        """Note what was proposed, and what became of it."""
        scope_id = make_scope(connection, scope)
        for each in sent:
            values = {"memory_id": each.memory_id, "url": url, "scope_id": scope_id, "at": to_text(at)}
            values |= {"content_hash": each.content_hash, "proposal": each.proposal.model_dump_json()}
            connection.execute(_QUERIES["put_sent"], values)

    @reads
    def sent(self, connection: "Connection", scope: Scope, url: str) -> Mapping[str, Sent]:
        """Return what was proposed to a server from a project, by the memory's id."""
        values = {"scope_id": find_scope(connection, scope), "url": url}
        return {
            memory_id: Sent(memory_id, written, SentProposal.model_validate_json(text))
            for memory_id, written, text in connection.execute(_QUERIES["sent"], values).fetchall()
        }


def forget_shared(connection: "Connection", memory_id: str) -> None:
    """Forget what was proposed, counted and said of a memory that is forgotten; that it is gone is told everybody."""
    for name in ("forget_proposals", "forget_evidence", "forget_names", "forget_sent"):
        connection.execute(_QUERIES[name], {"memory_id": memory_id})


def _take_step(connection: "Connection", scope_id: int) -> None:
    """Count as changed what was edited, withdrawn, restored or forgotten, by whatever way.

    What a person restored is weighed from now on only by what comes after.
    """
    for memory_id, former, state in connection.execute(_QUERIES["out_of_step"], {"scope_id": scope_id}).fetchall():
        if former.startswith("archived:") and state.startswith("active:"):
            connection.execute(_QUERIES["vouch"], {"memory_id": memory_id})
        values = {"memory_id": memory_id, "state": state, "revision": next_revision(connection, scope_id)}
        connection.execute(_QUERIES["put_state"], values)


def next_revision(connection: "Connection", scope_id: int) -> int:
    connection.execute(_QUERIES["add_revision"], {"scope_id": scope_id, "stamp": new_id("ts")})
    return int(connection.execute(_QUERIES["next_revision"], {"scope_id": scope_id}).fetchone()[0])


def _columns(proposal: Proposal) -> dict[str, Any]:
    return {
        "id": proposal.id,
        "item": proposal.model_dump_json(include=_WIRE),
        "word": proposal.word,
        "held": proposal.held,
        "same_as": proposal.same_as,
        "status": proposal.status,
        "memory_id": proposal.memory_id,
        "decision": proposal.decision,
        "created_at": to_text(proposal.created_at),
    }


def _proposal(row: Mapping[str, Any]) -> Proposal:
    """Return the proposal of a row of `proposals` or `proposal`."""
    columns = {**row, "project": row["project"].removeprefix(TEAM), "person_id": row["person_id"] or None}
    del columns["item"]
    return Proposal.model_validate(json.loads(row["item"]) | columns)


def _with_same(connection: "Connection", tenant_id: str, proposal_id: str) -> list[Proposal]:
    values = {"tenant_id": tenant_id, "id": proposal_id}
    return [_proposal(row) for row in named(connection, _QUERIES["proposal"], values)]


def _one(connection: "Connection", tenant_id: str, proposal_id: str) -> Proposal:
    return next(each for each in _with_same(connection, tenant_id, proposal_id) if each.id == proposal_id)


def _sharing(connection: "Connection", memory_id: str) -> Sharing | None:
    row = connection.execute(_QUERIES["sharing"], {"memory_id": memory_id}).fetchone()
    if row is None:
        return None
    _, worked, tried, told, people, proposed_by, accepted_by, at = row
    evidence = Evidence(worked=worked, tried=tried, shown=told, people=people)
    return Sharing(memory_id, evidence, tuple(json.loads(proposed_by)), accepted_by, to_moment(at))


def _shared(connection: "Connection", item: MemoryItem, person_id: str) -> SharedMemory:
    """Return a shared memory as the server tells it a person."""
    known = _sharing(connection, item.id)
    assert known is not None
    rows = connection.execute(_QUERIES["accepted_for"], {"memory_id": item.id}).fetchall()
    signatures = connection.execute(_QUERIES["signatures"], {"memory_id": item.id}).fetchall()
    return SharedMemory.model_validate(
        {
            "id": item.id,
            "draft": item.model_dump(include={"title", "description", "content", "tags", "domain"}),
            "outcome": item.outcome,
            "confidence": item.confidence,
            "distiller": item.provenance.distiller,
            "signatures": [signature for (signature,) in signatures],
            "evidence": known.evidence,
            "proposed_by": known.proposed_by,
            "accepted_by": known.accepted_by,
            "accepted_at": known.accepted_at,
            "origins": [origin for owner, *_, origin in rows if owner == person_id],
        }
    )


def _same_as(connection: "Connection", memory_id: str) -> list[str]:
    rows = connection.execute(_QUERIES["says_the_same"], {"memory_id": memory_id}).fetchall()
    return [str(own_id) for (own_id,) in rows]


def _proven(connection: "Connection", memory_id: str) -> Proven:
    """Count what tasks showed: of each task by what was seen of its errors, else by its outcome."""
    ids, told = [memory_id], 0
    for each in ids:  # which grows: a duplicate of a duplicate counts too
        ids += [other for other in _same_as(connection, each) if other not in ids]
    seen: dict[str, bool] = {}
    ended: dict[str, bool] = {}
    sessions: set[str] = set()
    for each in ids:
        told += sum(row[0] for row in connection.execute(_QUERIES["uses_of"], {"memory_id": each}).fetchall())
        for kind, text in connection.execute(_QUERIES["outcomes_of"], {"memory_id": each}).fetchall():
            if kind not in (TRIED, CREDITED):
                continue
            data = json.loads(text)
            task_id = str(data.get("task_id"))
            if kind == TRIED and data.get("signature"):
                seen[task_id] = seen.get(task_id, False) or bool(data.get("worked"))
            elif kind == CREDITED and data.get("method", "none") != "none" and data.get("label") != "Undecided":
                ended[task_id] = data.get("label") == "Success"
            if data.get("worked") or data.get("label") == "Success":
                sessions.add(str(data.get("session_id") or task_id.rpartition(":")[0] or task_id))
    tasks = {**ended, **seen}
    counts = Evidence(worked=sum(tasks.values()), tried=len(tasks), shown=told)
    return Proven(memory_id, counts, len(sessions))
