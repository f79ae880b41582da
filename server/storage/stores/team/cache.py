"""What a person's bank keeps of what a team shares, and of what was proposed to it from here."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from swarm_memory.schema.base import TEAM, Scope
from swarm_memory.schema.sqlite.events import TRIED
from swarm_memory.schema.team.sharing import Changes, Evidence, SentProposal, SharedMemory
from swarm_memory.server.storage.driver import Connection
from swarm_memory.server.storage.engine.engine import Part, reads, writes
from swarm_memory.server.storage.stores.memories import add_items, delete_item, find_patterns, replace_item
from swarm_memory.server.storage.stores.rows import Sql, make_scope, now_text, to_moment
from swarm_memory.server.storage.stores.team.sharing import signatures_of
from swarm_memory.tools.guard.trust import CREDITED
from swarm_memory.tools.ports.memories import StoredMemory
from swarm_memory.tools.ports.team import Cache, Sent

_SQL, _FIXES = Sql("team"), Sql("fixes")


class Proven(NamedTuple):
    """What tasks showed of a memory of a bank."""

    memory_id: str
    evidence: Evidence
    sessions: int
    """In which it worked."""


class TeamCache(Part):
    """A person's copy of what a team shares."""

    @reads
    def bank_id(self, connection: Connection) -> str:
        """Return the id of the bank."""
        return next(iter(_SQL.column(connection, "bank_id")), "")

    @reads
    def caches(self, connection: Connection, scope: Scope) -> list[Cache]:
        return [
            Cache(project.removeprefix(TEAM), url, stamp, cursor, at and to_moment(at), failures, fault)
            for project, url, stamp, cursor, at, failures, fault in _SQL.rows(connection, "caches", scope_id=scope)
        ]

    @writes
    def keep_caches(self, connection: Connection, scope: Scope, url: str, projects: Sequence[str]) -> None:
        """Have a project read what is shared under these names at a server, and nothing else any more."""
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
        """Note how asking the server went; return how often it failed in a row."""
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

        Refused is an id that a memory of another scope has; None stands for words that are as they were.
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
        """Return the ids of what is kept of a team's scope, whatever its status."""
        return {*_SQL.column(connection, "ids_of_scope", scope_id=project)}

    def _drop(self, connection: Connection, team: Scope, ids: Sequence[str]) -> None:
        """Delete memories of a cache with their indexes."""
        for found in find_patterns(connection, (team,), ids):
            delete_item(connection, self.bank.index, found)
            _SQL.run(connection, "drop_shared", memory_id=found[1])
        self.bank.index.tidy(connection)

    @writes
    def link_same(self, connection: Connection, pairs: Sequence[tuple[str, str]]) -> None:
        """Note that an own memory (first) says the same as a shared one (second)."""
        for own_id, shared_id in pairs:
            _SQL.run(connection, "link_same", own_id=own_id, shared_id=shared_id, at=now_text())

    @reads
    def own_evidence(self, connection: Connection, memory_ids: Sequence[str]) -> dict[str, Proven]:
        """Return what tasks of this bank showed of memories, or of own ones that say the same."""
        return {each: _proven(connection, each) for each in memory_ids}

    @reads
    def signatures(self, connection: Connection, memory_id: str) -> tuple[str, ...]:
        """Return the digests of the errors that a memory ended."""
        return signatures_of(connection, memory_id)

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


def _proven(connection: Connection, memory_id: str) -> Proven:
    """Count what tasks showed: of each task by what was seen of its errors, else by its outcome."""
    ids = [memory_id]
    for each in ids:  # which grows: a duplicate of a duplicate counts too
        ids += [other for other in _SQL.column(connection, "says_the_same", memory_id=each) if other not in ids]
    seen: dict[str, bool] = {}
    ended: dict[str, bool] = {}
    sessions: set[str] = set()
    for each in ids:
        for kind, text in _SQL.rows(connection, "outcomes_of", memory_id=each, kinds=(TRIED, CREDITED)):
            data = json.loads(text)
            task_id = str(data.get("task_id"))
            if kind == TRIED and data.get("signature"):
                seen[task_id] = seen.get(task_id, False) or bool(data.get("worked"))
            elif kind == CREDITED and data.get("method", "none") != "none" and data.get("label") != "Undecided":
                ended[task_id] = data.get("label") == "Success"
            if data.get("worked") or data.get("label") == "Success":
                sessions.add(str(data.get("session_id") or task_id.rpartition(":")[0] or task_id))
    tasks = {**ended, **seen}
    shown = sum(_SQL.column(connection, "uses_of", ids=ids))
    counts = Evidence(worked=sum(tasks.values()), tried=len(tasks), shown=shown)
    return Proven(memory_id, counts, len(sessions))
