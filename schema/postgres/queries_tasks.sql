-- name: newest_tasks
-- The newest trajectory of each task that a filter lets through, in an order; of equals the one that ended last first. Empty parameters do not filter.
SELECT t.seq FROM task_trajectories AS t
WHERE t.scope_id = :scope_id
  AND (:label IS NULL OR t.judge_label = :label)
  AND (:source IS NULL OR t.source = :source)
  AND (:text IS NULL OR strpos(lower(t.query), lower(:text COLLATE "C")) > 0)
  AND (:week::text IS NULL OR substr(coalesce(t.ended_at, t.created_at), 1, 10) BETWEEN :week AND (:week::date + 6)::text)
  AND (:taught = 0 OR EXISTS (SELECT 1 FROM patterns AS p WHERE p.task_id = t.task_id AND p.scope_id = t.scope_id))
  AND NOT EXISTS (
    SELECT 1 FROM task_trajectories AS later
    WHERE later.scope_id = t.scope_id AND later.task_id = t.task_id AND later.seq > t.seq)
ORDER BY CASE :sort
    WHEN 'taught' THEN (SELECT count(*) FROM patterns AS p WHERE p.task_id = t.task_id AND p.scope_id = t.scope_id)
    WHEN 'took' THEN extract(epoch FROM t.ended_at::timestamptz - t.started_at::timestamptz)
  END DESC NULLS LAST, coalesce(t.ended_at, t.created_at) DESC, t.seq DESC LIMIT :limit OFFSET :offset;
