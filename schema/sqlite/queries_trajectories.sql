-- name: reinforce
-- Raise the confidence of an item, at most to 1.
UPDATE patterns SET confidence = min(1.0, confidence + ?), updated_at = ? WHERE seq = ?;

-- name: add_trajectory
-- Write a trajectory, or its newer verdict.
INSERT INTO task_trajectories (
  id, task_id, scope_id, agent_id, query, trajectory_json, content_digest, started_at, ended_at, judge_label,
  judge_conf, verdict_json, run_id, created_at, content_hash, source, session_id, failures, person_id
) VALUES (
  :id, :task_id, :scope_id, :agent_id, :query, :trajectory_json, :content_digest, :started_at, :ended_at,
  :judge_label, :judge_conf, :verdict_json, :run_id, :created_at, :content_hash, :source, :session_id, :failures,
  :person_id
) ON CONFLICT (id) DO UPDATE SET
  judge_label = excluded.judge_label, judge_conf = excluded.judge_conf, verdict_json = excluded.verdict_json,
  run_id = coalesce(excluded.run_id, task_trajectories.run_id),
  failures = coalesce(excluded.failures, task_trajectories.failures)
WHERE task_trajectories.scope_id = excluded.scope_id AND task_trajectories.content_digest = excluded.content_digest;

-- name: learned_before
-- The run that learned from exactly this trajectory, or from its copy in another session: one that began as it did.
SELECT id, task_id, run_id, verdict_json FROM task_trajectories
WHERE scope_id = :scope_id AND content_digest = :content_digest AND run_id IS NOT NULL
  AND (task_id = :task_id OR started_at = :started_at)
ORDER BY task_id = :task_id DESC, seq DESC LIMIT 1;

-- name: judged_before
-- Exactly this trajectory, where it has a verdict and nothing was learned from it.
SELECT id FROM task_trajectories
WHERE scope_id = ? AND task_id = ? AND content_digest = ? AND run_id IS NULL ORDER BY seq DESC LIMIT 1;

-- name: ids_of_run
-- The items that a run made in a scope.
SELECT id FROM patterns WHERE run_id = ? AND scope_id = ? ORDER BY seq;

-- name: earlier_of_task
-- Items that earlier runs of a task gave and that are still in use, with :keeps_agents not those that the agent wrote.
SELECT p.seq, p.id, p.scope_id, p.status FROM patterns AS p
WHERE p.task_id = :task_id AND p.scope_id = :scope_id AND p.status <> 'archived'
  AND NOT (:keeps_agents AND p.pattern_data ->> '$.source.distiller' IS 'agent')
  AND p.run_id IN (
  SELECT run_id FROM task_trajectories
  WHERE scope_id = :scope_id AND task_id = :task_id AND run_id IS NOT NULL AND run_id <> :run_id
  UNION ALL SELECT :replaces
);
