"""What all stores share: how values become rows and rows values again, the ids of scopes, the audit trail."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from pydantic import TypeAdapter
from pydantic_core import SchemaValidator, core_schema

from swarm_memory.schema.base import Model, Scope
from swarm_memory.schema.errors import StoreDamaged
from swarm_memory.schema.memory import MemoryItem, MemoryStatus, Outcome, Provenance
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.server.storage.engine.author import author
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


_STATUSES, _OUTCOMES = frozenset(get_args(MemoryStatus)), frozenset(get_args(Outcome))
_ITEM_FIELDS = set(MemoryItem.model_fields)
_NO_SOURCE = Provenance().model_dump()


def item_of(row: Sequence[Any], *, is_often_read: bool = False) -> MemoryItem:
    """Return the item of a row of `get_patterns` or `list_patterns`. Raises `StoreDamaged` when it cannot be one.

    Of one that is often read, as those are that fit what is asked, it is remembered what its JSON column holds.
    """
    try:
        return _item_of(row, _remembered if is_often_read else _read)
    except (ValueError, TypeError) as error:
        raise StoreDamaged(
            f"the memory {str(row[0])[:40]} is not what was written: run `swarm-memory doctor --repair`"
        ) from error


def _item_of(row: Sequence[Any], read: Callable[[str], Mapping[str, Any]]) -> MemoryItem:
    """Check a row and make the item: the model's own check would take as long again."""
    item_id, tenant_id, project, data, confidence, usage, created_at, last_used, status, reason, outcome = row
    is_sound = (
        type(item_id) is str
        and 0.0 <= confidence <= 1.0
        and type(usage) is int
        and usage >= 0
        and status in _STATUSES
        and outcome in _OUTCOMES
        and (reason is None or type(reason) is str)
    )
    if not is_sound:
        raise ValueError("a column of a memory holds what it cannot hold")
    kept = read(data)
    values = {
        "id": item_id,
        "scope": _scope(tenant_id, project),
        "title": kept["title"],
        "description": kept["description"],
        "content": kept["content"],
        "tags": kept["tags"],
        "domain": kept["domain"],
        "outcome": outcome,
        "confidence": confidence,
        "usage_count": usage,
        "created_at": _aware(created_at),
        "last_used": None if last_used is None else _aware(last_used),
        "status": status,
        "status_reason": reason,
        "provenance": kept["source"],
    }
    return _unpickled(MemoryItem, values, _ITEM_FIELDS)


def _unpickled(kind: type[M], values: dict[str, Any], given: set[str]) -> M:
    """Return a model of values that were checked, as unpickling makes it."""
    model = _new(kind)
    _set(model, "__dict__", values)
    _set(model, "__pydantic_fields_set__", given)
    _set(model, "__pydantic_extra__", None)
    _set(model, "__pydantic_private__", None)
    return model


_new, _set = object.__new__, object.__setattr__


def _read(text: str) -> dict[str, Any]:
    """Return what the JSON column of an item holds."""
    kept = _kept().validate_json(text)
    source = kept["source"]
    kept["source"] = _unpickled(Provenance, _NO_SOURCE | source, set(source))
    return kept


_remembered = lru_cache(maxsize=512)(_read)
"""By the text itself."""


@cache
def _kept() -> SchemaValidator:
    """Return what checks the JSON column. As a model the source would take as long as all else: most of its fields have
    their defaults. Keys that it does not know are passed over, such as the outcome, which stands in a column too.
    """
    texts = {"title": str, "description": str, "content": str, "tags": tuple[str, ...], "domain": str | None}
    source = _fields(Provenance.__annotations__, required=False)
    kept = _fields(texts, required=True)
    kept["source"] = core_schema.typed_dict_field(core_schema.typed_dict_schema(source), required=True)
    return SchemaValidator(core_schema.typed_dict_schema(kept))


def _fields(types: Mapping[str, Any], *, required: bool) -> "dict[str, core_schema.TypedDictField]":
    return {
        name: core_schema.typed_dict_field(TypeAdapter(each).core_schema, required=required)
        for name, each in types.items()
    }


def _aware(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a moment has no time zone")
    return moment


@lru_cache(maxsize=256)
def _scope(tenant_id: str, project: str) -> Scope:
    return Scope(tenant_id=tenant_id, project=project)


def content_hash(row_id: str, text: str) -> str:
    """Return the SHA-256 of a row's text with its id: SQLite has no checksums of its own."""
    import hashlib

    return hashlib.sha256(f"{row_id}\0{text}".encode()).hexdigest()
