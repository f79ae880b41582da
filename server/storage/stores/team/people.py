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
from swarm_memory.server.storage.engine.engine import Part, author, reads, reads_beside, writes
from swarm_memory.server.storage.stores.forgetting import FORGOTTEN
from swarm_memory.server.storage.stores.memories import EDITED
from swarm_memory.server.storage.stores.rows import made, named, now_text, pairs, to_json, to_moment, to_text
from swarm_memory.server.storage.stores.team.sharing import next_revision
from swarm_memory.server.storage.stores.upkeep import UNDONE
from swarm_memory.tools.ports.journal import DECIDED, TAKEN_BACK

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import Connection

ADDED, TOKEN_MADE, ROLE_CHANGED, REVOKED = "person.added", "person.token", "person.role", "person.revoked"
FORGOTTEN_PERSON = "person.forgotten"
REFUSED = "sign_in.refused"
"""Requests without a valid token, counted."""

_QUERIES, _TEAM, _FORGETTING = queries("people"), queries("team"), queries("forgetting")

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


def take_out_of_team(connection: "Connection", person: Person) -> None:
    """Delete a person's proposals and evidence, and take their name out of what others proposed and decided.

    What changed by that goes to everybody's cache as any other change does.
    """
    connection.execute(_QUERIES["part_from_alike"], (person.id,))
    connection.execute(_QUERIES["drop_proposals_of_person"], (person.id,))
    values = {"name": person.name, "instead": FORGOTTEN, "tenant_id": person.tenant_id}
    connection.execute(_QUERIES["unname_rulings"], values)
    counted = {each for (each,) in connection.execute(_QUERIES["counted_by_person"], (person.id,)).fetchall()}
    connection.execute(_QUERIES["drop_evidence_of_person"], (person.id,))
    shared = connection.execute(_QUERIES["shared_of_tenant"], (person.tenant_id,)).fetchall()
    for memory_id, scope_id, proposed_by, accepted_by in shared:
        names = [name for name in json.loads(proposed_by) if name != person.name]
        by = FORGOTTEN if accepted_by == person.name else accepted_by
        if memory_id in counted or by != accepted_by or to_json(names) != proposed_by:
            told = {"memory_id": memory_id, "proposed_by": to_json(names), "accepted_by": by}
            connection.execute(_QUERIES["name_shared"], told)
            summed = {"memory_id": memory_id, "revision": next_revision(connection, scope_id)}
            connection.execute(_TEAM["count_evidence"], summed)
    for seq, data in connection.execute(_QUERIES["events_of_team"], (person.tenant_id,)).fetchall():
        told = json.loads(data)
        if (unnamed := _without(told, person.name)) != told:
            connection.execute(_FORGETTING["put_event"], {"data": to_json(unnamed), "key": seq})


def _without(value: JsonValue, name: str) -> JsonValue:
    """Return a value of JSON with another word in the place of a name."""
    if isinstance(value, dict):
        return {key: _without(each, name) for key, each in value.items()}
    if isinstance(value, list):
        return [_without(each, name) for each in value]
    return FORGOTTEN if value == name else value
