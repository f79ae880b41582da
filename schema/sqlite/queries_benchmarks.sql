-- name: save_benchmark_run
-- A run, new or as it stands now; `settings` holds all that describes it, `results` what it gave.
INSERT INTO benchmark_runs (run_id, scope_id, suite, status, settings, results, created_at, ended_at)
VALUES (:run_id, :scope_id, :suite, :status, :settings, :results, :created_at, :ended_at)
ON CONFLICT (run_id) DO UPDATE
SET status = excluded.status, settings = excluded.settings, results = excluded.results, ended_at = excluded.ended_at
WHERE benchmark_runs.scope_id = excluded.scope_id;

-- name: find_benchmark_run
-- A run by its id.
SELECT settings, results FROM benchmark_runs WHERE run_id = ? AND scope_id = ?;

-- name: list_benchmark_runs
-- The runs of a scope, newest first.
SELECT settings, results FROM benchmark_runs WHERE scope_id = ? ORDER BY created_at DESC, run_id DESC LIMIT ?;
