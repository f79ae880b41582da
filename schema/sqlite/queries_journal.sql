-- name: use_patterns
-- Count a use of each of some items (a JSON list of ids) of a tenant.
UPDATE patterns SET usage_count = usage_count + 1, last_used = max(coalesce(last_used, ''), :at)
WHERE id IN (SELECT value FROM json_each(:ids)) AND scope_id IN (SELECT id FROM scopes WHERE tenant_id = :tenant_id);

-- name: add_metric
-- Write a figure.
INSERT INTO performance_metrics (scope_id, metric, value, data, created_at) VALUES (?, ?, ?, ?, ?);

-- name: get_session
-- A session of the host.
SELECT session_id, transcript_path, task_id, task, task_number, updated_at FROM host_sessions
WHERE scope_id = ? AND session_id = ?;

-- name: put_session
-- Write how a session of the host stands.
INSERT INTO host_sessions (session_id, scope_id, transcript_path, task_id, task, task_number, updated_at)
VALUES (:session_id, :scope_id, :transcript_path, :task_id, :task, :task_number, :updated_at)
ON CONFLICT (scope_id, session_id) DO UPDATE SET
  transcript_path = excluded.transcript_path, task_id = excluded.task_id, task = excluded.task,
  task_number = excluded.task_number, updated_at = excluded.updated_at;

-- name: counts
-- What a scope holds, as (what, name, how many): memories by status, active ones by the model of their vector, tasks by verdict, retrievals, jobs by status, active memories by project of the tenant.
SELECT 'memories', status, count(*) FROM patterns WHERE scope_id = :scope_id GROUP BY status
UNION ALL
SELECT 'embedded', s.model, sum(m.active) FROM space_members AS m JOIN vector_spaces AS s ON s.id = m.space_id
WHERE m.scope_id = :scope_id AND m.active > 0 GROUP BY s.model
UNION ALL
SELECT 'verdicts', coalesce(judge_label, ''), count(*) FROM task_trajectories WHERE scope_id = :scope_id GROUP BY judge_label
UNION ALL
SELECT 'events', type, count(*) FROM events WHERE scope_id = :scope_id AND type = :retrieved GROUP BY type
UNION ALL
SELECT 'jobs', status, count(*) FROM jobs WHERE scope_id = :scope_id GROUP BY status
UNION ALL
SELECT 'projects', project, active FROM scopes WHERE tenant_id = :tenant_id;

-- name: new_patterns
-- How many active items of a scope are new since the last consolidation.
SELECT count(*) FROM patterns NOT INDEXED
WHERE seq > (SELECT consolidated_seq FROM scopes WHERE id = :scope_id) AND scope_id = :scope_id AND status = 'active';

-- name: events_of_kind
-- The newest events of a type in a scope since a moment, newest first.
SELECT type, created_at, subject_id, data FROM events
WHERE scope_id = ? AND type = ? AND created_at >= ? ORDER BY seq DESC LIMIT ?;

-- name: chat_days
-- What calls to chat models took in any scope since a moment, by day (UTC), the newest first.
SELECT
  substr(created_at, 1, 10) AS day, count(*) AS calls, CAST(sum(value) AS INTEGER) AS tokens,
  sum(json_extract(data, '$.cost_usd')) AS cost_usd,
  count(*) FILTER (WHERE data ->> '$.outcome' IN ('answered', 'invalid')) AS answers,
  count(*) FILTER (WHERE data ->> '$.outcome' = 'invalid') AS unusable
FROM performance_metrics
WHERE scope_id IN (SELECT id FROM scopes) AND metric = ? AND created_at >= ?
GROUP BY day ORDER BY day DESC;

-- name: shown_in
-- What some tasks (a JSON list) of a session were shown since its context was cleared.
SELECT data FROM events
WHERE subject_id IN (SELECT value FROM json_each(:tasks)) AND scope_id = :scope_id AND type = :injected
  AND seq > coalesce((SELECT max(c.seq) FROM events AS c WHERE c.subject_id = :session_id AND c.type = :cleared), 0);
