"""The people of a bank, the audit trail, and who wrote what."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from swarm_memory.schema.base import Scope
from swarm_memory.schema.sqlite.events import VERDICT
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.schema.team.person import AuditEntry, Person, Role
from swarm_memory.server.storage.engine.author import author
from swarm_memory.server.storage.engine.engine import Part, reads, reads_beside, writes
from swarm_memory.server.storage.stores.memories import EDITED
from swarm_memory.server.storage.stores.rows import made, named, now_text, pairs, to_json, to_moment, to_text
from swarm_memory.server.storage.stores.upkeep import UNDONE
from swarm_memory.tools.ports.journal import DECIDED, TAKEN_BACK

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import Connection

ADDED, TOKEN_MADE, ROLE_CHANGED, REVOKED = "person.added", "person.token", "person.role", "person.revoked"
FORGOTTEN_PERSON = "person.forgotten"
REFUSED = "sign_in.refused"
"""Requests without a valid token, counted."""

_QUERIES = queries("people")

_SHOWN = ("reason", "decision", "role", "count", "from", "to", "label", "name", "issuer")
"""What is told of an event's data: no texts of memories or tasks."""

_KINDS = ("reasoning_memory.forgotten", DECIDED, TAKEN_BACK, VERDICT, UNDONE)
_KINDS_OF_PEOPLE = (EDITED, "reasoning_memory.active", "reasoning_memory.quarantined", "reasoning_memory.archived")
"""Kinds of events that are shown where a person wrote them: others are upkeep."""


class People(Part):
    """The people of one bank."""

    @writes
    def add(self, connection: "Connection", person: Person, token_hash: str | None) -> bool:
        """Write a new person; False where the name, or the subject of the issuer, is taken."""
        values = person.model_dump(exclude={"revoked_at"}) | {"token_hash": token_hash}
        values["created_at"] = to_text(person.created_at)
        if connection.execute(_QUERIES["add_person"], values).rowcount != 1:
            return False
        known = {"role": person.role} | ({"issuer": person.issuer} if person.issuer else {})
        note(connection, person.tenant_id, ADDED, person.id, known)
        return True

    @reads_beside
    def by_token(self, connection: "Connection", tenant_id: str, token_hash: str) -> Person | None:
        """Return whose token it is; None for one that was revoked."""
        return _one(connection, "person_of_token", (token_hash, tenant_id))

    @reads_beside
    def by_subject(self, connection: "Connection", tenant_id: str, issuer: str, subject: str) -> Person | None:
        """Return whom an issuer calls so; one that was revoked too."""
        return _one(connection, "person_of_subject", (tenant_id, issuer, subject))

    @reads_beside
    def by_name(self, connection: "Connection", tenant_id: str, name: str) -> Person | None:
        return _one(connection, "person_of_name", (tenant_id, name))

    @reads_beside
    def get(self, connection: "Connection", tenant_id: str, person_id: str) -> Person | None:
        return _one(connection, "get_person", (tenant_id, person_id))

    @reads
    def list(self, connection: "Connection", tenant_id: str) -> list[Person]:
        """Return all, those that were revoked too, by name."""
        return [made(Person, row) for row in named(connection, _QUERIES["list_people"], (tenant_id,))]

    @writes
    def set_role(self, connection: "Connection", person: Person, role: Role) -> None:
        connection.execute(_QUERIES["set_role"], (role, person.id))
        note(connection, person.tenant_id, ROLE_CHANGED, person.id, {"from": person.role, "to": role})

    @writes
    def set_token(self, connection: "Connection", person: Person, token_hash: str) -> None:
        """Give another token in the place of the former; whoever was revoked may come in again."""
        connection.execute(_QUERIES["set_token"], (token_hash, person.id))
        note(connection, person.tenant_id, TOKEN_MADE, person.id, {})

    @writes
    def revoke(self, connection: "Connection", person: Person) -> None:
        """Let somebody in no more, by whatever they were known."""
        connection.execute(_QUERIES["revoke_person"], (now_text(), person.id))
        note(connection, person.tenant_id, REVOKED, person.id, {})

    @writes
    def note(
        self, connection: "Connection", tenant_id: str, action: str, subject_id: str | None, data: dict[str, JsonValue]
    ) -> None:
        """Write a line of the audit trail."""
        note(connection, tenant_id, action, subject_id, data)

    @writes
    def count_refused(self, connection: "Connection", tenant_id: str, count: int) -> None:
        """Add to the requests without a valid token of this hour, in one line of the audit trail."""
        hour = f"{now_text()[:13]}:00:00.000000Z"
        row = connection.execute(_QUERIES["counted_since"], (tenant_id, REFUSED, hour)).fetchone()
        if row is None:
            note(connection, tenant_id, REFUSED, None, {"count": count})
        else:
            connection.execute(
                _QUERIES["count_audit"], (to_json({"count": count + json.loads(row[1])["count"]}), row[0])
            )

    @reads
    def audit(
        self, connection: "Connection", tenant_id: str, limit: int, before: datetime | None = None
    ) -> Sequence[AuditEntry]:
        """Return the newest lines first: what was done to people, and what people did to memories."""
        values = {
            "tenant_id": tenant_id,
            "kinds": to_json(_KINDS),
            "kinds_of_people": to_json(_KINDS_OF_PEOPLE),
            "before": to_text(before or datetime.max.replace(tzinfo=UTC)),
            "limit": limit,
        }
        return [_entry(row) for row in connection.execute(_QUERIES["audit"], values).fetchall()]

    @reads
    def scopes(self, connection: "Connection", tenant_id: str) -> Sequence[Scope]:
        """Return every scope of the tenant."""
        rows = connection.execute(_QUERIES["scopes_of_tenant"], (tenant_id,)).fetchall()
        return [Scope(tenant_id=tenant, project=project) for tenant, project in rows]

    @reads
    def brought(self, connection: "Connection", person: Person, limit: int) -> Sequence[str]:
        """Return the ids of so many memories that somebody brought."""
        values = {"person_id": person.id, "tenant_id": person.tenant_id, "limit": limit}
        rows = connection.execute(_QUERIES["brought"], values).fetchall()
        return [memory_id for (memory_id,) in rows]

    @reads_beside
    def authors(self, connection: "Connection", scopes: Sequence[Scope], memory_ids: Sequence[str]) -> dict[str, str]:
        """Return the names of those who brought memories, by the memory's id; the bank's own user has none."""
        values = {"ids": to_json(list(memory_ids)), "scopes": pairs(scopes)}
        return dict(connection.execute(_QUERIES["authors"], values).fetchall())


def note(connection: "Connection", tenant_id: str, action: str, subject_id: str | None, data: dict[str, Any]) -> None:
    """Write a line of the audit trail, by whoever this transaction runs for."""
    values = {"tenant_id": tenant_id, "at": now_text(), "person_id": author(), "action": action}
    connection.execute(_QUERIES["add_audit"], values | {"subject_id": subject_id, "data": to_json(data)})


def _one(connection: "Connection", query: str, values: tuple[str, ...]) -> Person | None:
    rows = named(connection, _QUERIES[query], values)
    return made(Person, rows[0]) if rows else None


def _entry(row: Sequence[Any]) -> AuditEntry:
    at, action, person_id, person, subject_id, subject, data = row
    told: dict[str, Any] = json.loads(data)
    shown = {name: told[name] for name in _SHOWN if isinstance(told.get(name), str | int | float)}
    return AuditEntry(to_moment(at), action, person_id, person, subject_id, subject, shown)
