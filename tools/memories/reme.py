"""Memories and calls of tools as ReMe writes them: its JSON, the nodes of its vector store, answers of its service."""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

from pydantic import ValidationError

from swarm_memory.schema.base import MEMORY, Scope, local, new_id
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.memory import MAX_CONTENT, MAX_DESCRIPTION, MAX_TITLE, MemoryItem, Provenance
from swarm_memory.schema.tool_memory import Evaluation, ToolCall
from swarm_memory.tools.text.faults import faults
from swarm_memory.tools.tool_memory.transfer import CallLine

Json = Mapping[str, Any]

UNSCORED = 0.5
"""The confidence of a memory to which ReMe gave no score: its default is 0."""

MAX_NESTED = 4
_LEAST_CHARS = 3
_SENTENCE = re.compile(r"(?<=[.!?。])\s|\n")
_NUMBERED = re.compile(r"^\s*(?:\d{1,3}[.)]|[-*])\s+")


class Read(NamedTuple):
    """What a record holds."""

    memories: list[MemoryItem]
    calls: list[CallLine]


def is_reme(record: Json) -> bool:
    """Whether a record is a memory, a node, a call, or what holds a list of them."""
    return next(_parts(record, 0), None) is not None


def read_reme(record: Json, scope: Scope, now: datetime) -> Read:
    """Return the memories and calls of a record; times without a zone are this machine's. Raises `InputError`."""
    found = Read([], [])
    for part in _parts(record, 0):
        try:
            _take(part, scope, now, found)
        except ValidationError as error:
            raise InputError(faults(error, MemoryItem.model_json_schema())) from error
    return found


def _parts(record: Json, depth: int) -> Iterator[Json]:
    """Yield memories and calls as ReMe's own classes have them."""
    metadata = record.get("metadata")
    if "when_to_use" in record and ("content" in record or "tool_call_results" in record):
        yield record
    elif {"unique_id", "content"} <= record.keys() and isinstance(metadata, dict) and "memory_type" in metadata:
        held = cast("dict[str, Any]", metadata)
        yield {**cast("dict[str, Any]", held.get("metadata") or {}), **held, "when_to_use": record["content"]}
    elif {"tool_name", "create_time", "output"} <= record.keys():
        yield record
    elif depth < MAX_NESTED:
        for name in ("memory_list", "tool_call_results", "metadata"):
            for part in _objects(record.get(name)):
                yield from _parts(part, depth + 1)


def _objects(value: object) -> list[Json]:
    parts: list[object] = cast("list[object]", value) if isinstance(value, list) else [value]
    return [cast("Json", part) for part in parts if isinstance(part, dict)]


def _take(part: Json, scope: Scope, now: datetime, found: Read) -> None:
    if "tool_name" in part and "when_to_use" not in part:
        found.calls.append(_call(part, scope, now))
        return
    at = _moment(part.get("time_created"), now)
    found.calls.extend(_call(each, scope, at) for each in _objects(part.get("tool_call_results")))
    if _text(part.get("content")).strip():
        found.memories.append(_memory(part, scope, at))


def _memory(part: Json, scope: Scope, at: datetime) -> MemoryItem:
    content, when = _text(part.get("content")).strip(), _text(part.get("when_to_use")).strip()
    kind = _text(part.get("memory_type")) or "task"
    if kind == "tool":
        title, when = f"How to use {when}", f"Before a call of {when}"
    else:
        title = _SENTENCE.split(_NUMBERED.sub("", content), maxsplit=1)[0]
    if len(title.strip()) < _LEAST_CHARS:
        raise InputError(f"content: needs at least {_LEAST_CHARS} characters")
    score = part.get("score")
    sure = float(score) if isinstance(score, int | float) and 0 < score <= 1 else UNSCORED
    return MemoryItem(
        id=new_id(MEMORY),
        scope=scope,
        title=_short(title, MAX_TITLE),
        description=_short(when, MAX_DESCRIPTION),
        content=_short(content, MAX_CONTENT),
        tags=("reme", kind[:40]),
        confidence=sure,
        created_at=at,
        provenance=Provenance(distiller="imported", model=_text(part.get("author"))[:200] or None),
    )


def _call(part: Json, scope: Scope, otherwise: datetime) -> CallLine:
    call = ToolCall(
        scope=scope,
        tool_name=_text(part.get("tool_name")),
        input=_text(part.get("input")),
        output=_text(part.get("output")),
        success=part.get("success") is not False,
        time_cost_s=_cost(part.get("time_cost")),
        token_cost=None if (tokens := _cost(part.get("token_cost"))) is None else int(tokens),
        created_at=_moment(part.get("create_time"), otherwise),
        call_id=_text(part.get("call_id"))[:200] or None,
    )
    summary, said = _text(part.get("summary")), _text(part.get("evaluation"))
    if not (summary or said):
        return CallLine(call=call)
    score = _cost(part.get("score")) or 0.0
    told = Evaluation(score=min(1.0, score), summary=summary, evaluation=said, method="model")
    return CallLine(call=call, evaluation=told)


def _text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _cost(value: object) -> float | None:
    """Return a figure; ReMe writes -1 where it has none."""
    is_figure = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**53
    return float(cast("float", value)) if is_figure else None


def _moment(value: object, otherwise: datetime) -> datetime:
    try:
        return local(datetime.fromisoformat(_text(value))).astimezone(UTC)
    except (ValueError, OverflowError):
        return otherwise


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 2].rstrip()} …"
