-- name: memories
-- Every memory as `get_patterns` gives it.
SELECT
  p.id, s.tenant_id, s.project, p.pattern_data, p.confidence, p.usage_count, p.created_at, p.last_used, p.status,
  p.status_reason, p.outcome
FROM patterns AS p NOT INDEXED
JOIN scopes AS s ON s.id = p.scope_id
ORDER BY p.seq;

-- name: trajectories
-- How many trajectories there are.
SELECT count(*) FROM task_trajectories NOT INDEXED;

-- name: calls
-- How many calls of tools are kept.
SELECT count(*) FROM tool_calls NOT INDEXED;

-- name: jobs
-- How many jobs wait.
SELECT count(*) FROM jobs NOT INDEXED WHERE status = 'queued';

-- name: forget_who_vouched
-- Delete what would make a memory a verified one.
DELETE FROM events
WHERE type IN ('reasoning_memory.active', 'reasoning_memory.credited', 'reasoning_memory.reinforced', 'reasoning_memory.tried');

-- name: forget_summaries
-- Have the calls of every tool evaluated and summarized again.
UPDATE tool_memories SET evaluated = 0, good = 0, summary = NULL, summarized_at = NULL, warned_at = NULL;

-- name: places
-- Where the row of each memory is.
SELECT id, seq, scope_id, updated_at FROM patterns;

-- name: put_memory
-- Write a memory over its row.
UPDATE patterns SET
  pattern_data = :pattern_data, status = :status, status_reason = :status_reason, domain = :domain,
  agent_id = :agent_id, standing = :standing, content_hash = :content_hash
WHERE id = :id;

-- name: drop_memory
-- Delete the row of a memory that cannot be read as one.
DELETE FROM patterns WHERE seq = ?;

-- name: rename_only_project
-- Let a bank of one project and tenant belong to the folder that it lies in now.
UPDATE scopes SET tenant_id = :tenant_id, project = :project
WHERE project <> '*' AND (SELECT count(*) FROM scopes WHERE project <> '*') = 1;
