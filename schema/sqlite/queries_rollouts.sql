-- name: add_matts_run
-- Write a MaTTS run unless its id is taken.
INSERT INTO matts_runs (run_id, scope_id, task_id, mode, k, status, summary, created_at)
VALUES (:run_id, :scope_id, :task_id, :mode, :k, 'queued', :summary, :created_at) ON CONFLICT (run_id) DO NOTHING;

-- name: start_matts_run
-- Set a run that has not ended, or that failed, running.
UPDATE matts_runs SET status = 'running' WHERE run_id = ? AND scope_id = ? AND status IN ('queued', 'running', 'failed');

-- name: matts_runs
-- Runs of a scope that a filter lets through, newest first. Empty parameters do not filter.
SELECT run_id, task_id, mode, k, status, summary, created_at FROM matts_runs
WHERE scope_id = :scope_id AND (:id IS NULL OR run_id = :id)
  AND (:statuses IS NULL OR status IN (SELECT value FROM json_each(:statuses)))
ORDER BY created_at DESC, run_id DESC LIMIT :limit;

-- name: update_matts_run
-- Write how a run stands.
UPDATE matts_runs SET status = :status, summary = :summary WHERE run_id = :run_id AND scope_id = :scope_id;

-- name: cancel_matts_run
-- Cancel a run that has not ended.
UPDATE matts_runs SET status = 'cancelled' WHERE run_id = ? AND scope_id = ? AND status IN ('queued', 'running');

-- name: reopen_matts_run
-- Queue a run that was cancelled once more.
UPDATE matts_runs SET status = 'queued' WHERE run_id = ? AND scope_id = ? AND status = 'cancelled';

-- name: link_rollout
-- Link a trajectory to its run.
UPDATE task_trajectories SET matts_run_id = ? WHERE id = ? AND scope_id = ?;
