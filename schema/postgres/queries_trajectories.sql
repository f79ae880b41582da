-- name: reinforce
-- Raise the confidence of an item, at most to 1.
UPDATE patterns SET confidence = least(1.0, confidence + ?), updated_at = ? WHERE seq = ?;

-- name: earlier_of_task
-- Items that earlier runs of a task gave and that are still in use, with :keeps_agents not those that the agent wrote.
SELECT p.seq, p.id, p.scope_id, p.status FROM patterns AS p
WHERE p.task_id = :task_id AND p.scope_id = :scope_id AND p.status <> 'archived'
  AND NOT (:keeps_agents <> 0 AND p.pattern_data ->> '$.source.distiller' IS NOT DISTINCT FROM 'agent')
  AND p.run_id IN (
  SELECT run_id FROM task_trajectories
  WHERE scope_id = :scope_id AND task_id = :task_id AND run_id IS NOT NULL AND run_id <> :run_id
  UNION ALL SELECT :replaces
)
FOR NO KEY UPDATE OF p;
