-- name: newest_tasks
-- The newest trajectory of each task that a filter lets through, the task that ended last first. Empty parameters do not filter.
SELECT t.seq FROM task_trajectories AS t
WHERE t.scope_id = :scope_id
  AND (:label IS NULL OR t.judge_label = :label)
  AND (:source IS NULL OR t.source = :source)
  AND (:text IS NULL OR strpos(lower(t.query), lower(:text COLLATE "C")) > 0)
  AND NOT EXISTS (
    SELECT 1 FROM task_trajectories AS later
    WHERE later.scope_id = t.scope_id AND later.task_id = t.task_id AND later.seq > t.seq)
ORDER BY coalesce(t.ended_at, t.created_at) DESC, t.seq DESC LIMIT :limit OFFSET :offset;

-- name: told_ways
-- Of each way out that sessions were told at an error: how often, how often it was kept from them, and in how many sessions that were told it then worked, or did not.
SELECT
  e.data ->> '$.signature' AS signature, e.data ->> '$.id' AS memory_id,
  count(*) FILTER (WHERE e.data ->> '$.withheld' = 'false') AS told,
  count(*) FILTER (WHERE e.data ->> '$.withheld' = 'true') AS withheld,
  count(*) FILTER (WHERE e.data ->> '$.withheld' = 'false' AND t.worked) AS helped,
  count(*) FILTER (WHERE e.data ->> '$.withheld' = 'false' AND NOT t.worked) AS in_vain
FROM events AS e
LEFT JOIN (
  SELECT subject_id, data ->> '$.signature' AS signature, data ->> '$.session_id' AS session_id,
    bool_or((data ->> '$.worked')::boolean) AS worked
  FROM events WHERE scope_id = :scope_id AND type = :tried GROUP BY 1, 2, 3
) AS t ON t.subject_id = e.data ->> '$.id' AND t.signature = e.data ->> '$.signature' AND t.session_id = e.subject_id
WHERE e.scope_id = :scope_id AND e.type = :told
GROUP BY 1, 2;
