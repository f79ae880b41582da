"""What all stores share: how values become rows and rows values again, the ids of scopes, the audit trail."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from swarm_memory.schema.base import Model, Scope
from swarm_memory.schema.errors import StoreDamaged
from swarm_memory.schema.memory import MemoryItem, Provenance
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.server.storage.engine.engine import author
from swarm_memory.tools.ports.journal import Event

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import Connection

M = TypeVar("M", bound=Model)

_QUERIES = queries("bank")
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def to_json(value: object) -> str:
    """Return a value as compact JSON. Raises `ValueError` for NaN."""
    return _COMPACT.encode(value)


def now_text() -> str:
    """Return the present as the bank has every time."""
    return to_text(datetime.now(UTC))


def to_text(moment: datetime) -> str:
    """Return a moment as ISO 8601 in UTC with microseconds: texts sort as the moments do."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def optional_text(moment: datetime | None) -> str | None:
    """Return a moment as `to_text` does, or nothing."""
    return None if moment is None else to_text(moment)


def to_moment(text: str) -> datetime:
    """Return the moment of a text that `to_text` made."""
    return datetime.fromisoformat(text)


def optional_moment(text: str | None) -> datetime | None:
    """Return the moment of a text, or nothing."""
    return None if text is None else datetime.fromisoformat(text)


def named(connection: "Connection", query: str, values: Any) -> list[dict[str, Any]]:
    """Return what a query gives, each row by the names of its columns."""
    rows = connection.execute(query, values)
    names = [column[0] for column in rows.description]
    return [dict(zip(names, row, strict=True)) for row in rows.fetchall()]


def made(kind: type[M], row: Mapping[str, Any], **others: Any) -> M:
    """Return a model of the columns that carry the names of its fields, and of others. Raises `ValueError`."""
    return kind.model_validate({name: row[name] for name in kind.model_fields if name in row} | others)


def find_scope(connection: "Connection", scope: Scope) -> int | None:
    """Return the id of a scope; None when nothing was ever written in it."""
    row = connection.execute(_QUERIES["find_scope"], (scope.tenant_id, scope.project)).fetchone()
    return None if row is None else int(row[0])


def make_scope(connection: "Connection", scope: Scope) -> int:
    """Return the id of a scope, which is made when it is new. Within a write transaction."""
    scope_id = find_scope(connection, scope)
    if scope_id is None:
        connection.execute(_QUERIES["add_scope"], (scope.tenant_id, scope.project))
        scope_id = find_scope(connection, scope)
        assert scope_id is not None
    return scope_id


def find_scopes(connection: "Connection", scopes: Sequence[Scope]) -> dict[int, Scope]:
    """Return those of the scopes that exist by their ids, in order."""
    rows = connection.execute(_QUERIES["find_scopes"], (pairs(scopes),)).fetchall()
    return {scope_id: scopes[place] for scope_id, place in rows}


def pairs(scopes: Sequence[Scope]) -> str:
    """Return scopes as a query takes them that looks them up itself: a JSON list of (tenant, project)."""
    return to_json([(scope.tenant_id, scope.project) for scope in scopes])


def log_event(
    connection: "Connection", scope_id: int, kind: str, subject_id: str | None, data: Any, at: datetime | None = None
) -> None:
    """Write a line of the audit trail."""
    connection.execute(_QUERIES["add_event"], event_row(scope_id, kind, subject_id, data, at))


def event_row(
    scope_id: int, kind: str, subject_id: str | None, data: Any, at: datetime | None = None
) -> tuple[int, str, str | None, str, str, str | None]:
    """Return what `add_event` writes."""
    return scope_id, kind, subject_id, to_json(data), to_text(at or datetime.now(UTC)), author()


def event_of(row: Sequence[Any]) -> Event:
    """Return the event of a row (type, moment, subject, data)."""
    kind, at, subject, data = row
    return Event(kind, to_moment(at), subject, json.loads(data))


def pattern_data(item: MemoryItem) -> str:
    """Return the part of an item that its JSON column holds; the defaults of `Provenance` are part of that format."""
    source = item.provenance.model_dump(mode="json", exclude_defaults=True)
    source["outcome"] = item.outcome
    data: dict[str, Any] = {
        "title": item.title,
        "description": item.description,
        "content": item.content,
        "source": source,
        "tags": list(item.tags),
        "domain": item.domain,
    }
    return to_json(data)


_OF_SOURCE = {field.serialization_alias or name for name, field in Provenance.model_fields.items()}
_OWN_COLUMNS = {"id", "confidence", "usage_count", "status", "status_reason", "outcome", "domain"}


def pattern_row(item: MemoryItem, scope_id: int, now: str) -> dict[str, Any]:
    """Return the columns of an item."""
    data = pattern_data(item)
    return item.model_dump(include=_OWN_COLUMNS) | {
        "pattern_data": data,
        "created_at": to_text(item.created_at),
        "last_used": optional_text(item.last_used),
        "updated_at": now,
        "scope_id": scope_id,
        "task_id": item.provenance.task_id,
        "run_id": item.provenance.run_id,
        "agent_id": item.provenance.agent_id,
        "standing": item.provenance.standing,
        "content_hash": content_hash(item.id, data),
        "person_id": author(),
    }


def item_of(row: Sequence[Any]) -> MemoryItem:
    """Return the item of a row of `get_patterns` or `list_patterns`. Raises `StoreDamaged` when it cannot be one."""
    item_id, tenant_id, project, data, confidence, usage, created_at, last_used, status, reason, outcome = row
    try:
        if type(usage) is not int or not (isinstance(created_at, str) and isinstance(last_used, str | None)):
            raise ValueError("a number or a moment is of another type")  # pydantic would take `"2"`, and 5 as a moment
        kept = json.loads(data)
        source = {name: value for name, value in kept["source"].items() if name in _OF_SOURCE}
        values = {
            "id": item_id,
            "scope": {"tenant_id": tenant_id, "project": project},
            **{name: kept[name] for name in ("title", "description", "content", "tags", "domain")},
            "outcome": outcome,
            "confidence": confidence,
            "usage_count": usage,
            "created_at": created_at,
            "last_used": last_used,
            "status": status,
            "status_reason": reason,
            "provenance": source,
        }
        return MemoryItem.model_validate(values)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreDamaged(
            f"the memory {str(item_id)[:40]} is not what was written: run `swarm-memory doctor --repair`"
        ) from error


def content_hash(row_id: str, text: str) -> str:
    """Return the SHA-256 of a row's text with its id: SQLite has no checksums of its own."""
    import hashlib

    return hashlib.sha256(f"{row_id}\0{text}".encode()).hexdigest()
