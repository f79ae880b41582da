"""Runs of benchmarks in the bank; the values of single cases are left to a run's file, which may be long."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from swarm_memory.schema.base import Scope
from swarm_memory.schema.benchmark import BenchmarkRun
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.server.storage.engine.threads import Part, reads, writes
from swarm_memory.server.storage.stores.rows import find_scope, make_scope, optional_text, to_json, to_text

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import Connection

_QUERIES = queries("benchmarks")


class SqliteBenchmarks(Part):
    """The benchmark runs of a bank."""

    @writes
    def save_benchmark(self, connection: "Connection", scope: Scope, run: BenchmarkRun) -> None:
        kept = run.results.model_copy(update={"cases": (), "case_ids": ()})
        values = {
            "run_id": run.run_id,
            "scope_id": make_scope(connection, scope),
            "suite": run.suite,
            "status": run.status,
            "settings": to_json(run.model_dump(mode="json", exclude={"results"})),
            "results": to_json(kept.model_dump(mode="json", exclude_defaults=True)),
            "created_at": to_text(run.started_at),
            "ended_at": optional_text(run.ended_at),
        }
        connection.execute(_QUERIES["save_benchmark_run"], values)

    @reads
    def get_benchmark(self, connection: "Connection", scope: Scope, run_id: str) -> BenchmarkRun | None:
        row = connection.execute(_QUERIES["find_benchmark_run"], (run_id, find_scope(connection, scope))).fetchone()
        return None if row is None else _run(row)

    @reads
    def list_benchmarks(self, connection: "Connection", scope: Scope, limit: int) -> list[BenchmarkRun]:
        rows = connection.execute(_QUERIES["list_benchmark_runs"], (find_scope(connection, scope), limit)).fetchall()
        return [_run(row) for row in rows]


def _run(row: Sequence[Any]) -> BenchmarkRun:
    described, results = row
    return BenchmarkRun.model_validate({**json.loads(described), "results": json.loads(results or "{}")})
