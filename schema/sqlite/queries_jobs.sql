-- name: queued_job
-- The job of a kind and key that is queued.
SELECT id FROM jobs WHERE scope_id = ? AND kind = ? AND key = ? AND status = 'queued';

-- name: add_job
-- Queue a job, unless one of its kind and key is queued.
INSERT INTO jobs (id, scope_id, kind, key, payload, status, attempts, run_after, created_at, person_id)
VALUES (?, ?, ?, ?, ?, 'queued', 0, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING id;

-- name: put_job
-- Queue a job; one of its kind and key that is queued gets its payload and its time.
INSERT INTO jobs (id, scope_id, kind, key, payload, status, attempts, run_after, created_at, person_id)
VALUES (?, ?, ?, ?, ?, 'queued', 0, ?, ?, ?)
ON CONFLICT (scope_id, kind, key) WHERE status = 'queued' DO UPDATE SET
  payload = excluded.payload, run_after = excluded.run_after, person_id = excluded.person_id, attempts = 0, error = NULL
RETURNING id;

-- name: release_jobs
-- Bring queued jobs forward whose key starts so.
UPDATE jobs SET run_after = :run_after
WHERE scope_id = :scope_id AND status = 'queued' AND substr(key, 1, length(:prefix)) = :prefix
  AND run_after > :run_after;

-- name: claim_job
-- Take the oldest due job, or one whose worker was not heard of since :lapsed, or only :ahead of a clock set back.
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
  ORDER BY run_after, seq LIMIT 1
)
RETURNING id, scope_id;

-- name: is_job_due
-- Whether there is a job to take.
SELECT 1 FROM jobs
WHERE kind IN (SELECT value FROM json_each(:kinds)) AND (scope_id = :scope_id
  OR kind IN (SELECT value FROM json_each(:also)) AND scope_id IN (SELECT id FROM scopes WHERE tenant_id = :tenant_id))
  AND (
      (status = 'queued' AND run_after <= :now)
      OR (status = 'running' AND (heartbeat_at <= :lapsed OR heartbeat_at > :ahead))
    )
LIMIT 1;

-- name: heartbeat
-- Renew a worker's lease.
UPDATE jobs SET heartbeat_at = ? WHERE id = ? AND worker = ? AND status = 'running';

-- name: held_job
-- The job that a worker holds.
SELECT scope_id, kind, key FROM jobs WHERE id = ? AND worker = ? AND status = 'running';

-- name: end_job
-- End a job, or put it back.
UPDATE jobs SET
  status = :status, result = :result, error = :error, ended_at = :ended_at, worker = :worker,
  run_after = coalesce(:run_after, run_after), attempts = attempts - :uncounted
WHERE id = :id;

-- name: put_off_job
-- Put off a queued job that asks for the same as one that failed, as that one would have been.
UPDATE jobs SET run_after = :run_after, error = :error, attempts = (SELECT attempts FROM jobs WHERE id = :failed)
WHERE id = :id AND run_after < :run_after AND payload = (SELECT payload FROM jobs WHERE id = :failed);

-- name: list_jobs
-- Jobs of a scope by status, newest first.
SELECT
  j.id, s.tenant_id, s.project, j.kind, j.key, j.payload, j.status, j.attempts, j.run_after, j.created_at,
  j.started_at, j.ended_at, j.worker, j.result, j.error, j.person_id
FROM jobs AS j JOIN scopes AS s ON s.id = j.scope_id
WHERE j.scope_id = :scope_id AND j.status IN (SELECT value FROM json_each(:statuses))
ORDER BY j.seq DESC LIMIT :limit;

-- name: get_job
-- One job of a scope.
SELECT
  j.id, s.tenant_id, s.project, j.kind, j.key, j.payload, j.status, j.attempts, j.run_after, j.created_at,
  j.started_at, j.ended_at, j.worker, j.result, j.error, j.person_id
FROM jobs AS j JOIN scopes AS s ON s.id = j.scope_id WHERE j.id = :id AND j.scope_id = :scope_id;

-- name: find_job
-- The latest job of a scope, kind and key, of a status unless that is NULL.
SELECT
  j.id, s.tenant_id, s.project, j.kind, j.key, j.payload, j.status, j.attempts, j.run_after, j.created_at,
  j.started_at, j.ended_at, j.worker, j.result, j.error, j.person_id
FROM jobs AS j JOIN scopes AS s ON s.id = j.scope_id WHERE j.scope_id = :scope_id AND j.kind = :kind AND j.key = :key AND j.status = coalesce(:status, j.status)
ORDER BY j.seq DESC LIMIT 1;

-- name: next_due
-- When the next queued job is due, and when a worker of the running ones was heard of longest ago.
SELECT min(run_after) FILTER (WHERE status = 'queued'), min(heartbeat_at) FILTER (WHERE status = 'running')
FROM jobs WHERE status IN ('queued', 'running') AND kind IN (SELECT value FROM json_each(:kinds)) AND (scope_id = :scope_id
  OR kind IN (SELECT value FROM json_each(:also)) AND scope_id IN (SELECT id FROM scopes WHERE tenant_id = :tenant_id));

-- name: report_job
-- Note how far a running job is.
UPDATE jobs SET result = ? WHERE id = ? AND worker = ? AND status = 'running';

-- name: cancel_job
-- Cancel a job that has not ended.
UPDATE jobs SET status = 'cancelled', ended_at = ?, error = 'cancelled' WHERE id = ? AND scope_id = ?
  AND status IN ('queued', 'running');
