-- name: trajectories_of_pattern
-- Every version of the trajectory of the task that an item came from.
SELECT t.seq, t.id, t.task_id, t.verdict_json
FROM patterns p JOIN task_trajectories t ON t.task_id = p.task_id AND t.scope_id = p.scope_id
WHERE p.id = :id AND p.scope_id IN (SELECT value FROM json_each(:scope_ids));

-- name: blank_trajectory
-- Take the text out of a trajectory; that it was learned from stays known.
UPDATE task_trajectories
SET query = :query, trajectory_json = :trajectory_json, verdict_json = :verdict_json, content_hash = :content_hash
WHERE seq = :seq;

-- name: clear_queries_of_task
-- Take the queries out of what was retrieved for a task.
UPDATE events SET data = json_remove(data, '$.query')
WHERE json_valid(data) AND json_extract(data, '$.task_id') = :task_id
  AND scope_id IN (SELECT value FROM json_each(:scope_ids));
