-- name: showings
-- The newest times that an item was shown in some scopes (a JSON list), or kept from a task, with the newest outcome of that task and the beginning of its words.
SELECT e.type, e.created_at, e.subject_id, e.data, o.data, substr(t.query, 1, :chars)
FROM (
  SELECT
    seq, scope_id, type, subject_id, data, created_at,
    CASE type WHEN :retrieved THEN data ->> '$.task_id' ELSE subject_id END AS task_id
  FROM events
  WHERE scope_id IN (SELECT value::bigint FROM json_each(:scopes)) AND type IN (:retrieved, :withheld, :injected)
    AND (type <> :injected OR data ->> '$.via' = :briefing)
    AND seq >= coalesce((SELECT min(seq) FROM events WHERE subject_id = :id), 0) AND strpos(data, :id) > 0
  ORDER BY seq DESC LIMIT :limit
) AS e
LEFT JOIN events AS o ON o.seq = (
  SELECT max(seq) FROM events WHERE subject_id = e.task_id AND type = :outcome AND scope_id = e.scope_id)
LEFT JOIN task_trajectories AS t ON t.seq = (
  SELECT max(seq) FROM task_trajectories WHERE scope_id = e.scope_id AND task_id = e.task_id)
ORDER BY e.seq DESC;

-- name: contradicting
-- Links between active items of some scopes (a JSON list) that contradict each other, the newest first.
SELECT l.src_id, l.dst_id, l.relation, l.weight
FROM pattern_links AS l
JOIN patterns AS s ON s.id = l.src_id AND s.status = 'active'
JOIN patterns AS d ON d.id = l.dst_id AND d.status = 'active'
WHERE l.relation = 'contradicts' AND s.scope_id IN (SELECT value::bigint FROM json_each(:scopes))
  AND d.scope_id IN (SELECT value::bigint FROM json_each(:scopes))
ORDER BY l.created_at DESC, s.seq DESC, d.seq DESC LIMIT :limit;
