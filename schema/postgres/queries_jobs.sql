-- name: claim_job
-- Take the oldest due job that no other server is taking, or one whose worker was not heard of since :lapsed, or only :ahead of a clock set back.
UPDATE jobs SET
  status = 'running', worker = :worker, started_at = :now, heartbeat_at = :now, attempts = attempts + 1
WHERE seq = (
  SELECT seq FROM jobs
  WHERE kind IN (SELECT value FROM json_each(:kinds)) AND (scope_id = :scope_id
    OR kind IN (SELECT value FROM json_each(:also)) AND scope_id IN (SELECT id FROM scopes WHERE tenant_id = :tenant_id))
    AND (
      (status = 'queued' AND run_after <= :now)
      OR (status = 'running' AND (heartbeat_at <= :lapsed OR heartbeat_at > :ahead))
    )
  ORDER BY run_after, seq LIMIT 1 FOR UPDATE SKIP LOCKED
)
RETURNING id, scope_id;

-- name: held_job_in_write
-- The job that a worker holds, which nobody else takes until it is written how it ended.
SELECT scope_id, kind, key FROM jobs WHERE id = ? AND worker = ? AND status = 'running' FOR UPDATE;
