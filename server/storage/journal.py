"""Sessions of hosts, events, figures and counts; the transaction is the caller's."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from swarm_memory.schema.base import Scope
from swarm_memory.schema.hook import HostSession
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.schema.status import BankStatistics
from swarm_memory.server.storage.memories import log_event
from swarm_memory.server.storage.rows import find_scope, find_scopes, make_scope, to_json, to_moment, to_text
from swarm_memory.tools.ports.bank import RetrievalRecord
from swarm_memory.tools.ports.journal import Event

if TYPE_CHECKING:
    from swarm_memory.server.storage.engine.driver import Connection

RETRIEVED = "reasoning_memory.retrieved"
INJECTED, WITHHELD = "task.injected", "task.withheld"
"""What a task was given, and what was found for it and kept from it; the subject is the task."""

_QUERIES = queries()


def get_session(connection: "Connection", scope: Scope, session_id: str) -> HostSession | None:
    """Return a host's session as it was last written."""
    row = connection.execute(_QUERIES["get_session"], (find_scope(connection, scope), session_id)).fetchone()
    if row is None:
        return None
    found_id, transcript_path, task_id, task, task_number, updated_at = row
    return HostSession(
        session_id=found_id,
        scope=scope,
        transcript_path=transcript_path,
        task_id=task_id,
        task=task,
        task_number=task_number,
        updated_at=to_moment(updated_at),
    )


def put_session(connection: "Connection", session: HostSession) -> None:
    """Write how a host's session stands."""
    values = session.model_dump(exclude={"scope"})
    values |= {"scope_id": make_scope(connection, session.scope), "updated_at": to_text(session.updated_at)}
    connection.execute(_QUERIES["put_session"], values)


def add_event(connection: "Connection", scope: Scope, event: Event) -> None:
    """Write a line of the audit trail."""
    log_event(connection, make_scope(connection, scope), event.kind, event.subject_id, dict(event.data), event.at)


def events_of_kind(connection: "Connection", scope: Scope, kind: str, limit: int) -> list[Event]:
    """Return the newest lines of one kind, newest first."""
    values = (find_scope(connection, scope), kind, limit)
    rows = connection.execute(_QUERIES["events_of_kind"], values).fetchall()
    return [Event(found, to_moment(at), subject, json.loads(data)) for found, at, subject, data in rows]


def history(connection: "Connection", scopes: Sequence[Scope], subject_id: str) -> list[Event]:
    """Return what happened to a subject, oldest first."""
    values = {"subject_id": subject_id, "scope_ids": to_json(list(find_scopes(connection, scopes)))}
    rows = connection.execute(_QUERIES["events_of"], values).fetchall()
    return [Event(kind, to_moment(at), subject, json.loads(data)) for kind, at, subject, data in rows]


def histories(
    connection: "Connection", scopes: Sequence[Scope], ids: Sequence[str], kinds: Sequence[str]
) -> dict[str, list[Event]]:
    """Return what of some kinds happened to each of several subjects, oldest first."""
    scope_ids = to_json(list(find_scopes(connection, scopes)))
    values = {"subject_ids": to_json(list(ids)), "scope_ids": scope_ids, "kinds": to_json(list(kinds))}
    found: dict[str, list[Event]] = {subject: [] for subject in ids}
    for kind, at, subject, data in connection.execute(_QUERIES["events_of_kinds"], values).fetchall():
        found[subject].append(Event(kind, to_moment(at), subject, json.loads(data)))
    return found


def write_retrievals(connection: "Connection", records: Sequence[RetrievalRecord]) -> None:
    """Write retrievals: an event and a figure for each, a use for each memory that was given."""
    for record in records:
        scope_id = make_scope(connection, record.scope)
        told = {
            "query": record.query,
            "scores": dict(record.scores),
            "latency_ms": record.latency_ms,
            "task_id": record.task_id,
            "session_id": record.session_id,
        }
        at = to_text(record.at)
        if record.task_id is not None and (record.withheld or record.scores):
            of_task = {"retrieval_id": record.retrieval_id, "ids": list(record.scores)}
            log_event(
                connection, scope_id, WITHHELD if record.withheld else INJECTED, record.task_id, of_task, record.at
            )
        if record.withheld:
            continue
        log_event(connection, scope_id, RETRIEVED, record.retrieval_id, told, record.at)
        figure = to_json({"retrieval_id": record.retrieval_id, "ids": list(record.scores)})
        connection.execute(_QUERIES["add_metric"], (scope_id, "retrieval_ms", record.latency_ms, figure, at))
        for memory_id in record.scores:
            values = {"id": memory_id, "at": at, "tenant_id": record.scope.tenant_id}
            connection.execute(_QUERIES["use_pattern"], values)


def statistics(connection: "Connection", scope: Scope, embedder: str, consolidate_every: int) -> BankStatistics:
    """Return the counts of one scope."""
    scope_id = find_scope(connection, scope)
    memories = _counts(connection, "count_patterns", scope_id)
    verdicts = _counts(connection, "count_trajectories", scope_id)
    embedded = _counts(connection, "count_embedded", scope_id)
    described = connection.execute(_QUERIES["describe_patterns"], {"scope_id": scope_id}).fetchone()
    oldest, newest, mean_confidence, new = described
    (retrievals,) = connection.execute(_QUERIES["count_events"], (scope_id, RETRIEVED)).fetchone()
    return BankStatistics(
        scope=scope,
        memories={"active": 0, "quarantined": 0, "archived": 0} | memories,
        by_outcome=_counts(connection, "count_outcomes", scope_id),
        trajectories=sum(verdicts.values()),
        verdicts={label: count for label, count in verdicts.items() if label},
        retrievals=retrievals,
        jobs=_counts(connection, "count_jobs", scope_id),
        embedded=embedded,
        not_embedded=memories.get("active", 0) - embedded.get(embedder, 0),
        new_since_consolidation=new,
        consolidation_due=new >= consolidate_every,
        oldest=oldest,
        newest=newest,
        mean_confidence=mean_confidence,
    )


def _counts(connection: "Connection", query: str, scope_id: int | None) -> dict[str, int]:
    return dict(connection.execute(_QUERIES[query], (scope_id,)).fetchall())
