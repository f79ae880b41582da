"""Runs of benchmarks as rows; the values of single cases are left to a run's file, which may be long."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from swarm_memory.schema.base import Scope
from swarm_memory.schema.benchmark import BenchmarkRun
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.server.storage.engine.access import Access
from swarm_memory.server.storage.rows import find_scope, make_scope, optional_text, to_json, to_text

if TYPE_CHECKING:
    from swarm_memory.server.storage.engine.driver import Connection

_QUERIES = queries("benchmarks")


class BenchmarkTables:
    """The benchmark runs of a bank."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def save_benchmark(self, scope: Scope, run: BenchmarkRun) -> None:
        """Write a run, new or as it stands now. Raises `StorageError`."""
        await self._access.write(lambda connection: _save(connection, scope, run))

    async def get_benchmark(self, scope: Scope, run_id: str) -> BenchmarkRun | None:
        """Return a run of the scope."""

        def find(connection: "Connection") -> BenchmarkRun | None:
            values = (run_id, find_scope(connection, scope))
            row = connection.execute(_QUERIES["find_benchmark_run"], values).fetchone()
            return None if row is None else _run(row)

        return await self._access.read(find)

    async def list_benchmarks(self, scope: Scope, limit: int) -> list[BenchmarkRun]:
        """Return the newest runs of the scope, newest first."""

        def find(connection: "Connection") -> list[BenchmarkRun]:
            values = (find_scope(connection, scope), limit)
            return [_run(row) for row in connection.execute(_QUERIES["list_benchmark_runs"], values).fetchall()]

        return await self._access.read(find)


def _save(connection: "Connection", scope: Scope, run: BenchmarkRun) -> None:
    kept = run.results.model_copy(update={"cases": (), "case_ids": ()})
    connection.execute(
        _QUERIES["save_benchmark_run"],
        {
            "run_id": run.run_id,
            "scope_id": make_scope(connection, scope),
            "suite": run.suite,
            "status": run.status,
            "settings": to_json(run.model_dump(mode="json", exclude={"results"})),
            "results": to_json(kept.model_dump(mode="json", exclude_defaults=True)),
            "created_at": to_text(run.started_at),
            "ended_at": optional_text(run.ended_at),
        },
    )


def _run(row: Sequence[Any]) -> BenchmarkRun:
    described, results = row
    return BenchmarkRun.model_validate({**json.loads(described), "results": json.loads(results or "{}")})
