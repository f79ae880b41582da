-- name: newest_tasks
-- The newest trajectory of each task that a filter lets through, in an order; of equals the one that ended last first. Empty parameters do not filter.
SELECT t.seq FROM task_trajectories AS t
WHERE t.scope_id = :scope_id
  AND (:label IS NULL OR t.judge_label = :label)
  AND (:source IS NULL OR t.source = :source)
  AND (:text IS NULL OR instr(lower(t.query), lower(:text)))
  AND (:week IS NULL OR substr(coalesce(t.ended_at, t.created_at), 1, 10) BETWEEN :week AND date(:week, '+6 days'))
  AND (:taught = 0 OR EXISTS (SELECT 1 FROM patterns AS p WHERE p.task_id = t.task_id AND p.scope_id = t.scope_id))
  AND NOT EXISTS (
    SELECT 1 FROM task_trajectories AS later
    WHERE later.scope_id = t.scope_id AND later.task_id = t.task_id AND later.seq > t.seq)
ORDER BY CASE :sort
    WHEN 'taught' THEN (SELECT count(*) FROM patterns AS p WHERE p.task_id = t.task_id AND p.scope_id = t.scope_id)
    WHEN 'took' THEN julianday(t.ended_at) - julianday(t.started_at)
  END DESC NULLS LAST, coalesce(t.ended_at, t.created_at) DESC, t.seq DESC LIMIT :limit OFFSET :offset;

-- name: tasks_by_day
-- How many tasks of a scope ended on each day (UTC), by the newest verdict.
SELECT substr(coalesce(t.ended_at, t.created_at), 1, 10), coalesce(t.judge_label, 'not judged'), count(*) FROM task_trajectories AS t
WHERE t.scope_id = :scope_id
  AND NOT EXISTS (
    SELECT 1 FROM task_trajectories AS later
    WHERE later.scope_id = t.scope_id AND later.task_id = t.task_id AND later.seq > t.seq)
GROUP BY 1, 2;

-- name: find_task
-- A trajectory by its own id, or the newest of a task, with how many of its task came later.
SELECT t.seq, t.trajectory_json, t.verdict_json, (
  SELECT count(*) FROM task_trajectories AS later
  WHERE later.scope_id = t.scope_id AND later.task_id = t.task_id AND later.seq > t.seq)
FROM task_trajectories AS t
WHERE t.scope_id = :scope_id AND (t.id = :id OR t.task_id = :id) ORDER BY t.id = :id DESC, t.seq DESC LIMIT 1;

-- name: describe_tasks
-- What a list shows of trajectories (a JSON list of positions), in that order.
SELECT
  t.id AS trajectory_id, t.task_id, substr(t.query, 1, :chars) AS task, t.source, t.agent_id, t.session_id,
  t.started_at AS began, coalesce(t.ended_at, t.created_at) AS ended, t.judge_label AS label, t.judge_conf AS confidence,
  t.verdict_json ->> '$.judge' AS judge, t.failures, t.run_id, t.matts_run_id,
  t.query IN (:removed, :forgotten) AS is_blank,
  (SELECT count(*) FROM patterns AS p WHERE p.task_id = t.task_id AND p.scope_id = t.scope_id) AS taught,
  (SELECT e.data FROM events AS e
   WHERE e.subject_id = t.task_id AND e.scope_id = t.scope_id AND +e.type = :outcome ORDER BY e.seq DESC LIMIT 1) AS outcome
FROM json_each(:seqs) AS wanted CROSS JOIN task_trajectories AS t ON t.seq = wanted.value
ORDER BY wanted.key;

-- name: sources_of_tasks
-- From which agents there are trajectories.
SELECT DISTINCT source FROM task_trajectories WHERE scope_id = ? AND source IS NOT NULL ORDER BY source;

-- name: put_verdict
-- Write another verdict on a trajectory, and the run whose memories it stands for.
UPDATE task_trajectories SET judge_label = :label, judge_conf = :confidence, verdict_json = :verdict, run_id = :run_id
WHERE id = :id AND scope_id = :scope_id;
