"""What all stores share: queries that take Python values, rows turned into values, scope ids, the audit trail."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from swarm_memory.schema.base import Model, Scope
from swarm_memory.schema.errors import StoreDamaged
from swarm_memory.schema.memory import MemoryItem, Provenance
from swarm_memory.schema.sqlite.statements import Query, queries
from swarm_memory.server.storage.driver import Connection, Cursor
from swarm_memory.server.storage.engine.engine import author
from swarm_memory.tools.ports.records import BankEvent

M = TypeVar("M", bound=Model)


def _to_plain(value: Any) -> Any:
    """Return a value that JSON does not know as one that it does: a scope as its tenant and project."""
    if isinstance(value, Scope):
        return value.tenant_id, value.project
    return to_text(value) if isinstance(value, datetime) else dict(value)


_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_to_plain)


def to_json(value: object) -> str:
    """Return a value as compact JSON. Raises `ValueError` for NaN."""
    return _COMPACT.encode(value)


def now_text() -> str:
    """Return the current time in the bank's format."""
    return to_text(datetime.now(UTC))


def to_text(moment: datetime) -> str:
    """Return a moment as ISO 8601 in UTC with microseconds: texts sort as the moments do."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


to_moment = datetime.fromisoformat
"""Returns the moment in a text that `to_text` made."""


def to_column(value: Any) -> Any:
    """Return a value as it is stored or passed to a query: a moment as text; a list, a mapping or scopes as JSON."""
    if value is None or isinstance(value, str | int | float | bytes):
        return value
    return to_text(value) if isinstance(value, datetime) else to_json(value)


class Queries(dict[str, Query]):
    """The queries of one file by name.

    A query's values are passed by place or by name, and converted by `to_column`; a single scope is converted to its
    id, or to None if nothing was ever written in it.
    """

    def __init__(self, subject: str) -> None:
        super().__init__(queries(subject))

    def run(self, connection: Connection, query: str, /, *places: Any, **values: Any) -> Cursor:
        """Run a query."""
        bound = [
            find_scope(connection, value) if isinstance(value, Scope) else to_column(value)
            for value in (*places, *values.values())
        ]
        return connection.execute(self[query], dict(zip(values, bound, strict=True)) if values else bound)

    def rows(self, connection: Connection, query: str, /, *places: Any, **values: Any) -> list[Any]:
        """Return the rows of a query."""
        return self.run(connection, query, *places, **values).fetchall()

    def row(self, connection: Connection, query: str, /, *places: Any, **values: Any) -> Any:
        """Return the first row; None where there is none."""
        return self.run(connection, query, *places, **values).fetchone()

    def column(self, connection: Connection, query: str, /, *places: Any, **values: Any) -> list[Any]:
        """Return the first value of each row."""
        return [row[0] for row in self.rows(connection, query, *places, **values)]

    def named(self, connection: Connection, query: str, /, *places: Any, **values: Any) -> list[dict[str, Any]]:
        """Return the rows, each as a dict by column name."""
        cursor = self.run(connection, query, *places, **values)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def models(self, connection: Connection, kind: type[M], query: str, /, *places: Any, **values: Any) -> list[M]:
        """Return the rows as models whose fields have the names of the columns."""
        return [made(kind, row) for row in self.named(connection, query, *places, **values)]


def made(kind: type[M], row: Mapping[str, Any], **others: Any) -> M:
    """Return a model made of the columns that have its fields' names, and of `others`. Raises `ValueError`."""
    return kind.model_validate({name: row[name] for name in kind.model_fields if name in row} | others)


_SQL = Queries("bank")


def find_scope(connection: Connection, scope: Scope) -> int | None:
    """Return the id of a scope; None when nothing was ever written in it."""
    row = _SQL.row(connection, "find_scope", scope.tenant_id, scope.project)
    return None if row is None else int(row[0])


def make_scope(connection: Connection, scope: Scope) -> int:
    """Return the id of a scope, creating the scope if it is new. Call it within a write transaction."""
    scope_id = find_scope(connection, scope)
    if scope_id is None:
        _SQL.run(connection, "add_scope", scope.tenant_id, scope.project)
        scope_id = find_scope(connection, scope)
        assert scope_id is not None
    return scope_id


def find_scopes(connection: Connection, scopes: Sequence[Scope]) -> list[int]:
    """Return the ids of those scopes that exist, in order."""
    return _SQL.column(connection, "find_scopes", scopes)


def log_event(
    connection: Connection, scope_id: int, kind: str, subject_id: str | None, data: Any, at: datetime | None = None
) -> None:
    """Write a line of the audit trail."""
    connection.execute(_SQL["add_event"], event_row(scope_id, kind, subject_id, data, at))


def event_row(
    scope_id: int, kind: str, subject_id: str | None, data: Any, at: datetime | None = None
) -> tuple[int, str, str | None, str, str, str | None]:
    """Return the parameters of `add_event`."""
    return scope_id, kind, subject_id, to_json(data), to_text(at or datetime.now(UTC)), author()


def events(rows: Iterable[Sequence[Any]]) -> list[BankEvent]:
    """Return the events in rows of (type, moment, subject, data)."""
    return [BankEvent(kind, to_moment(at), subject, json.loads(data)) for kind, at, subject, data in rows]


_OF_SOURCE = {field.serialization_alias or name for name, field in Provenance.model_fields.items()}


def pattern_row(item: MemoryItem, scope_id: int, now: str) -> dict[str, Any]:
    """Return the columns of an item; the defaults of `Provenance` are part of the format of its JSON column."""
    source = item.provenance.model_dump(mode="json", exclude_defaults=True) | {"outcome": item.outcome}
    texts = {"title": item.title, "description": item.description, "content": item.content, "source": source}
    data = to_json({**texts, "tags": item.tags, "domain": item.domain})
    columns = {"id", "confidence", "usage_count", "status", "status_reason", "outcome", "domain"}
    return item.model_dump(include=columns) | {
        "pattern_data": data,
        "created_at": to_text(item.created_at),
        "last_used": to_column(item.last_used),
        "updated_at": now,
        "scope_id": scope_id,
        "task_id": item.provenance.task_id,
        "run_id": item.provenance.run_id,
        "agent_id": item.provenance.agent_id,
        "standing": item.provenance.priority,
        "content_hash": content_hash(item.id, data),
        "person_id": author(),
    }


def item_of(row: Sequence[Any]) -> MemoryItem:
    """Return the item in a row of `get_patterns` or `list_patterns`. Raises `StoreDamaged` when it cannot be one."""
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
            f"the memory {str(item_id)[:40]} does not match what was written: run `swarm-memory doctor --repair`"
        ) from error


def content_hash(row_id: str, text: str) -> str:
    """Return the SHA-256 of a row's text with its id: SQLite has no checksums of its own."""
    import hashlib

    return hashlib.sha256(f"{row_id}\0{text}".encode()).hexdigest()
