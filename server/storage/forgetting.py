"""Forgetting for good: memories, the records of their tasks, and every text in the bank that quotes them.

That a transcript was learned from stays known by label and digest, and which calls were logged by their ids, so that
the same transcript does not bring any of it back.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swarm_memory.schema.base import Scope
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.server.location import LOG
from swarm_memory.server.storage import memories
from swarm_memory.server.storage.rows import content_hash, to_json
from swarm_memory.server.storage.search.index import Index
from swarm_memory.server.storage.traces import Task, Traces, texts_of
from swarm_memory.tools.ports.bank import Forgotten

if TYPE_CHECKING:
    from swarm_memory.server.storage.engine.driver import Connection

FORGOTTEN = "(forgotten)"
"""Stands in the place of what was taken out."""

_COLUMNS = {
    "events": ("put_event", ("data",)),
    "sessions": ("put_session", ("task",)),
    "jobs": ("put_job", ("payload", "result", "error")),
    "runs": ("put_run", ("summary",)),
    "benchmarks": ("put_benchmark", ("settings", "results")),
}
_WORDS_OF_RUN = ("task", "preamble", "notes", "reason")
_WORDS_OF_ROLLOUT = ("notes", "error")
_QUERIES, _TOOLS = queries("forgetting"), queries("tools")


def forget(connection: "Connection", index: Index, scopes: Sequence[Scope], traces: Traces) -> Forgotten:
    """Delete the memories and take their traces out of every table."""
    records = _take_out(connection, traces)
    memories.forget(connection, index, scopes, traces.ids)
    index.tidy(connection)
    return Forgotten(traces.ids, records, traces.resting, traces.alike)


def _take_out(connection: "Connection", traces: Traces) -> int:
    """Take the traces out of everything but the memories' own rows; return how many trajectories lost their text."""
    calls = set(traces.quoting.get("calls", ()))
    blanked = 0
    for task in traces.tasks:
        blanked += _blank_task(connection, task, traces.scope_ids)
        calls.update(seq for (seq,) in connection.execute(_QUERIES["calls_of_task"], task._asdict()).fetchall())
    for seq in traces.quoting.get("trajectories", ()):
        _scrub_trajectory(connection, traces, seq)
    for seq in traces.queries:
        connection.execute(_QUERIES["clear_query"], (seq,))
    for name in _COLUMNS:
        for key in traces.quoting.get(name, ()):
            _scrub_row(connection, traces, name, key)
    _drop_calls(connection, calls, traces.tools)
    return blanked


def take_out_of_log(folder: Path, traces: Traces) -> int:
    """Take the lines that quote what is forgotten out of the log beside the bank; return how many."""
    taken = 0
    for path in (folder / LOG, folder / f"{LOG}.1"):
        if not path.is_file() or path.is_symlink():
            continue
        lines = path.read_text("utf-8", errors="replace").splitlines(keepends=True)
        kept = [line for line in lines if not traces.phrases.stand_in((line,))]
        if len(kept) == len(lines):
            continue
        taken += len(lines) - len(kept)
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.writelines(kept)
        part.replace(path)
    return taken


def _blank_task(connection: "Connection", task: Task, scope_ids: Sequence[int]) -> int:
    """Take the words out of all that is kept of a task; label, confidence and digest stay."""
    values = task._asdict()
    rows = connection.execute(_QUERIES["trajectories_of_task"], values).fetchall()
    for seq, trajectory_id, _, verdict in rows:
        text = Trajectory(task_id=task.task_id, task=FORGOTTEN).model_dump_json(exclude_defaults=True)
        _put_trajectory(
            connection, seq, trajectory_id, FORGOTTEN, text, None if verdict is None else _without_words(verdict)
        )
    for run_id, summary in connection.execute(_QUERIES["runs_of_task"], values).fetchall():
        if summary is not None:
            connection.execute(_QUERIES["put_run"], {"key": run_id, "summary": _run_without_words(summary)})
    connection.execute(_QUERIES["clear_jobs_of_task"], values)
    connection.execute(_QUERIES["clear_session_of_task"], {**values, "query": FORGOTTEN})
    connection.execute(
        _QUERIES["clear_queries_of_task"], {"task_id": task.task_id, "scope_ids": to_json(list(scope_ids))}
    )
    return len(rows)


def _scrub_trajectory(connection: "Connection", traces: Traces, seq: int) -> None:
    for _, query, text, verdict in list(texts_of(connection, "trajectories", traces.scope_ids, seq)):
        (trajectory_id,) = connection.execute(_QUERIES["trajectory_id"], (seq,)).fetchone()
        changed = [traces.phrases.taken_from(each, FORGOTTEN) for each in (query, text, verdict)]
        _put_trajectory(connection, seq, trajectory_id, *changed)


def _put_trajectory(
    connection: "Connection", seq: int, trajectory_id: str, query: str | None, text: str | None, verdict: str | None
) -> None:
    values = {
        "seq": seq,
        "query": query,
        "trajectory_json": text,
        "verdict_json": verdict,
        "content_hash": content_hash(trajectory_id, text or ""),
    }
    connection.execute(_QUERIES["blank_trajectory"], values)


def _scrub_row(connection: "Connection", traces: Traces, name: str, key: object) -> None:
    put, columns = _COLUMNS[name]
    for _, *texts in list(texts_of(connection, name, traces.scope_ids, key)):
        changed = [traces.phrases.taken_from(each, FORGOTTEN) for each in texts]
        values = {"key": key, "scope_ids": to_json(list(traces.scope_ids)), **dict(zip(columns, changed, strict=True))}
        connection.execute(_QUERIES[put], values)


def _drop_calls(connection: "Connection", seqs: Iterable[int], summaries: Iterable[tuple[int, str]]) -> None:
    """Take calls out of the window of their tools, as old ones leave it: totals and ids stay, words do not."""
    tools: dict[tuple[int, str], int] = dict.fromkeys(summaries, 0)
    for seq in sorted(seqs):
        found = connection.execute(_QUERIES["tool_of_call"], (seq,)).fetchone()
        if found is None:
            continue
        connection.execute(_TOOLS["remember_call_id"], (seq,))
        connection.execute(_TOOLS["unindex_call"], (seq,))
        connection.execute(_TOOLS["drop_call"], (seq,))
        tools[found] = tools.get(found, 0) + 1
    for (scope_id, tool), dropped in tools.items():
        connection.execute(_TOOLS["shrink_window"], (dropped, scope_id, tool))
        connection.execute(_QUERIES["clear_summary"], (scope_id, tool))
        connection.execute(_QUERIES["summarize_again"], (scope_id, tool))
    if tools:
        connection.execute(_QUERIES["unindex_all_that_waits"])
        connection.execute(_TOOLS["forget_calls_to_unindex"])
        connection.execute(_TOOLS["optimize_tool_index"])


def _run_without_words(summary: str) -> str:
    told: dict[str, Any] = json.loads(summary)
    kept = {name: value for name, value in told.items() if name not in _WORDS_OF_RUN}
    rollouts: Sequence[Mapping[str, Any]] = kept.get("rollouts", ())
    if rollouts:
        kept["rollouts"] = [
            {name: value for name, value in each.items() if name not in _WORDS_OF_ROLLOUT} for each in rollouts
        ]
    return to_json(kept)


def _without_words(verdict: str) -> str:
    judged = Verdict.model_validate_json(verdict)
    return judged.model_copy(update={"reasons": (), "evidence": ()}).model_dump_json()
