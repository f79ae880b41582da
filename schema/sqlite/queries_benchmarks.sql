-- name: find_benchmark_run
-- A run by its id.
SELECT suite, status, settings, results, created_at, ended_at FROM benchmark_runs WHERE run_id = ? AND scope_id = ?;
