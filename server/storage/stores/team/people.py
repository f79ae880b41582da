"""The people of a bank, the audit trail, and who wrote what."""

import json
from collections.abc import Sequence
from typing import Any

from pydantic import JsonValue

from swarm_memory.schema.base import Scope
from swarm_memory.schema.sqlite.events import VERDICT
from swarm_memory.schema.team.person import AuditEntry, Person, Role
from swarm_memory.server.storage.driver import Connection
from swarm_memory.server.storage.engine.engine import Part, author, reads, writes
from swarm_memory.server.storage.stores.forgetting import FORGOTTEN
from swarm_memory.server.storage.stores.memories import EDITED
from swarm_memory.server.storage.stores.rows import Queries, now_text, to_json, to_moment
from swarm_memory.server.storage.stores.team.sharing import PROPOSED, RULED, next_revision
from swarm_memory.server.storage.stores.upkeep import UNDONE
from swarm_memory.tools.guard.generalize import with_texts
from swarm_memory.tools.ports.records import DECIDED, TAKEN_BACK

ADDED, TOKEN_MADE, ROLE_CHANGED, REVOKED = "person.added", "person.token", "person.role", "person.revoked"
FORGOTTEN_PERSON = "person.forgotten"

_SQL, _TEAM, _FORGETTING = Queries("people"), Queries("team"), Queries("forgetting")

_SHOWN = ("reason", "decision", "role", "count", "from", "to", "label", "name", "issuer", "status")
"""The fields of an event's data that are shown: no texts of memories or tasks."""

_KINDS = ("reasoning_memory.forgotten", DECIDED, TAKEN_BACK, VERDICT, UNDONE, PROPOSED, RULED)
_KINDS_OF_PEOPLE = (EDITED, "reasoning_memory.active", "reasoning_memory.quarantined", "reasoning_memory.archived")
"""Kinds of events that are shown only if a person wrote them: the others are maintenance."""


class People(Part):
    """The people of one bank."""

    @writes
    def add(self, connection: Connection, person: Person, token_hash: str) -> bool:
        """Write a new person; False where the name is taken."""
        if _SQL.run(connection, "add_person", **person.model_dump(), token_hash=token_hash).rowcount != 1:
            return False
        note(connection, person.tenant_id, ADDED, person.id, {"role": person.role})
        return True

    @reads
    def find(
        self,
        connection: Connection,
        tenant_id: str,
        *,
        person_id: str | None = None,
        token_hash: str | None = None,
        name: str | None = None,
    ) -> Person | None:
        """Return the person with an id, a token or a name. Someone revoked is found too, but not by a token."""
        known = {"id": person_id, "token_hash": token_hash, "name": name}
        found = _SQL.models(connection, Person, "find_person", **known, tenant_id=tenant_id)
        return found[0] if found else None

    @reads
    def list(self, connection: Connection, tenant_id: str) -> list[Person]:
        """Return all people, including those revoked, by name."""
        return _SQL.models(connection, Person, "list_people", tenant_id)

    @writes
    def set_role(self, connection: Connection, person: Person, role: Role) -> None:
        _SQL.run(connection, "set_role", role, person.id)
        note(connection, person.tenant_id, ROLE_CHANGED, person.id, {"from": person.role, "to": role})

    @writes
    def set_token(self, connection: Connection, person: Person, token_hash: str) -> None:
        """Replace a person's token; someone revoked gets access again."""
        _SQL.run(connection, "set_token", token_hash, person.id)
        note(connection, person.tenant_id, TOKEN_MADE, person.id, {})

    @writes
    def revoke(self, connection: Connection, person: Person) -> None:
        """Revoke a person's access, however they were identified."""
        _SQL.run(connection, "revoke_person", now_text(), person.id)
        note(connection, person.tenant_id, REVOKED, person.id, {})

    @writes
    def note(
        self, connection: Connection, tenant_id: str, action: str, subject_id: str | None, data: dict[str, JsonValue]
    ) -> None:
        """Write a line of the audit trail."""
        note(connection, tenant_id, action, subject_id, data)

    @reads
    def audit(self, connection: Connection, tenant_id: str, limit: int) -> Sequence[AuditEntry]:
        """Return the audit trail, newest first: what was done to people, and what people did to memories."""
        kinds = {"kinds": _KINDS, "kinds_of_people": _KINDS_OF_PEOPLE}
        rows = _SQL.rows(connection, "audit", **kinds, tenant_id=tenant_id, limit=limit)
        entries: list[AuditEntry] = []
        for at, action, person_id, person, subject_id, subject, text in rows:
            data: dict[str, Any] = json.loads(text)
            shown = {name: data[name] for name in _SHOWN if isinstance(data.get(name), str | int | float)}
            entries.append(AuditEntry(to_moment(at), action, person_id, person, subject_id, subject, shown))
        return entries

    @reads
    def scopes(self, connection: Connection, tenant_id: str) -> Sequence[Scope]:
        """Return every scope of the tenant."""
        return _SQL.models(connection, Scope, "scopes_of_tenant", tenant_id)

    @reads
    def contributed_ids(self, connection: Connection, person: Person, limit: int) -> Sequence[str]:
        """Return the ids of at most `limit` memories that a person contributed."""
        return _SQL.column(connection, "contributed_ids", person_id=person.id, tenant_id=person.tenant_id, limit=limit)

    @reads
    def authors(self, connection: Connection, scopes: Sequence[Scope], memory_ids: Sequence[str]) -> dict[str, str]:
        """Return the names of those who contributed memories, by memory id; the bank's own user has no name."""
        return dict(_SQL.rows(connection, "authors", ids=memory_ids, scopes=scopes))


def note(connection: Connection, tenant_id: str, action: str, subject_id: str | None, data: dict[str, Any]) -> None:
    """Write a line of the audit trail, attributed to the person this transaction runs for."""
    values = {"tenant_id": tenant_id, "at": now_text(), "person_id": author(), "action": action}
    _SQL.run(connection, "add_audit", **values, subject_id=subject_id, data=data)


def take_out_of_team(connection: Connection, person: Person) -> None:
    """Delete a person's proposals and evidence, and remove their name from what others proposed and decided.

    The memories that this changes reach everybody's cache like any other change.
    """
    _SQL.run(connection, "part_from_alike", person.id)
    _SQL.run(connection, "drop_proposals_of_person", person.id)
    _SQL.run(connection, "unname_rulings", name=person.name, instead=FORGOTTEN, tenant_id=person.tenant_id)
    counted = {*_SQL.column(connection, "counted_by_person", person.id)}
    _SQL.run(connection, "drop_evidence_of_person", person.id)
    for memory_id, scope_id, proposed_by, accepted_by in _SQL.rows(connection, "shared_of_tenant", person.tenant_id):
        names = [name for name in json.loads(proposed_by) if name != person.name]
        by = FORGOTTEN if accepted_by == person.name else accepted_by
        if memory_id in counted or by != accepted_by or to_json(names) != proposed_by:
            _SQL.run(connection, "name_shared", memory_id=memory_id, proposed_by=names, accepted_by=by)
            revision = next_revision(connection, scope_id)
            _TEAM.run(connection, "count_evidence", memory_id=memory_id, revision=revision)
    for seq, text in _SQL.rows(connection, "events_of_team", person.tenant_id):
        data = json.loads(text)
        if (unnamed := with_texts(data, lambda text: FORGOTTEN if text == person.name else text)) != data:
            _FORGETTING.run(connection, "put_event", data=unnamed, key=seq)
