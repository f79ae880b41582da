-- name: old_trajectories
-- The tasks (each once) whose every trajectory is old, of the oldest that still have their words.
SELECT DISTINCT t.task_id FROM task_trajectories AS t
WHERE t.scope_id = :scope_id AND t.created_at < :before AND t.query NOT IN (:removed, :forgotten)
  AND t.seq < coalesce((
    SELECT seq FROM task_trajectories WHERE scope_id = :scope_id AND created_at >= :before ORDER BY seq LIMIT 1
  ), 9223372036854775807)
  AND NOT EXISTS (
    SELECT 1 FROM task_trajectories AS n
    WHERE n.scope_id = :scope_id AND n.task_id = t.task_id AND n.created_at >= :before
  )
LIMIT :limit;

-- name: old_events
-- The oldest of the audit trail, read in its order (`+`), but for outcomes and what happened to a memory that is there.
SELECT e.seq FROM events AS e
WHERE +e.scope_id = :scope_id AND e.created_at < :before AND e.type <> :outcome
  AND e.seq < coalesce((
    SELECT seq FROM events WHERE +scope_id = :scope_id AND created_at >= :before ORDER BY seq LIMIT 1
  ), 9223372036854775807)
  AND NOT EXISTS (SELECT 1 FROM patterns WHERE id = e.subject_id)
ORDER BY e.seq LIMIT :limit;

-- name: old_jobs
-- Jobs that ended long ago.
SELECT seq FROM jobs
WHERE scope_id = :scope_id AND status NOT IN ('queued', 'running') AND ended_at < :before ORDER BY seq LIMIT :limit;

-- name: old_metrics
-- The oldest figures.
SELECT seq FROM performance_metrics
WHERE scope_id = :scope_id AND created_at < :before
  AND seq < coalesce((
    SELECT seq FROM performance_metrics WHERE scope_id = :scope_id AND created_at >= :before ORDER BY seq LIMIT 1
  ), 9223372036854775807)
ORDER BY seq LIMIT :limit;

-- name: old_tool_calls
-- Old calls of tools.
SELECT seq FROM tool_calls WHERE scope_id = :scope_id AND created_at < :before ORDER BY seq LIMIT :limit;

-- name: drop_events
-- Delete lines of the audit trail (a JSON list).
DELETE FROM events WHERE seq IN (SELECT value FROM json_each(?));

-- name: drop_jobs
-- Delete jobs (a JSON list).
DELETE FROM jobs WHERE seq IN (SELECT value FROM json_each(?));

-- name: drop_metrics
-- Delete figures (a JSON list).
DELETE FROM performance_metrics WHERE seq IN (SELECT value FROM json_each(?));
