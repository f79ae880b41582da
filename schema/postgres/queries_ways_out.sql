-- name: ways_out
-- The active items that ended errors of a signature, for a duplicate what it was archived for or what the team shares of the same, with the tasks it did so in and was tried in, of the team's for how many people; what tasks with it gained (lifts: a JSON object by id) counts with how often it worked.
WITH RECURSIVE standing (id, origin) AS (
  SELECT p.id, p.id FROM ways_out AS w JOIN patterns AS p ON p.seq = w.seq WHERE w.signature = :signature
  UNION
  SELECT l.dst_id, s.origin FROM standing AS s
  JOIN patterns AS p ON p.id = s.id AND p.status = 'archived'
  JOIN pattern_links AS l ON l.src_id = p.id AND l.relation = 'duplicate_of'
), counted AS (
  SELECT
    p.seq, c.project, h.people,
    coalesce(h.worked, count(DISTINCT e.data ->> '$.task_id') FILTER (WHERE e.data ->> '$.worked' = 'true')) AS worked,
    coalesce(h.tried, count(DISTINCT e.data ->> '$.task_id')) AS tried
  FROM standing AS s
  JOIN patterns AS p ON p.id = s.id AND p.status = 'active' AND p.standing >= 0
  JOIN scopes AS c
    ON c.id = p.scope_id AND c.tenant_id = :tenant_id AND c.project IN (:project, :global, :team, :team_global)
  LEFT JOIN shared_memories AS h ON h.memory_id = p.id AND h.scope_id = p.scope_id
  LEFT JOIN events AS e
    ON e.subject_id IN (s.id, s.origin) AND e.type = :tried AND e.data ->> '$.signature' = :signature
  WHERE :team = '' OR NOT EXISTS (
    SELECT 1 FROM pattern_links AS l
    JOIN patterns AS o ON o.id = l.dst_id AND o.status = 'active'
    JOIN scopes AS t ON t.id = o.scope_id AND t.tenant_id = :tenant_id AND t.project IN (:team, :team_global)
    WHERE l.src_id = p.id AND l.relation = 'duplicate_of')
  GROUP BY p.seq, c.project, h.people, h.worked, h.tried
)
SELECT p.id, p.pattern_data ->> '$.title', p.pattern_data ->> '$.content', n.worked, n.tried, n.people
FROM counted AS n JOIN patterns AS p ON p.seq = n.seq
ORDER BY
  n.project IN (:global, :team_global), p.pattern_data ->> '$.source.hearsay' IS NOT DISTINCT FROM 'true',
  (n.worked + 1.0) / (n.tried + 2) + coalesce((CAST(:lifts AS text) ->> ('$.' || p.id))::double precision, 0) DESC,
  p.confidence DESC, p.usage_count DESC, p.seq DESC
LIMIT :limit;

-- name: count_kept
-- How often it was noted that a task which did not meet an item's errors kept to it, or did not.
SELECT count(*) FROM events
WHERE subject_id = :id AND type = :tried AND data ->> '$.signature' = '' AND (data ->> '$.worked')::boolean = (:worked <> 0);

-- name: kept_to_by_most
-- Of some memories those that were tried, and never in vain, in half of the sessions at least that were learned from since.
SELECT p.id FROM patterns AS p WHERE p.id IN (SELECT value FROM json_each(:ids)) AND 2 * (
  SELECT count(DISTINCT coalesce(e.data ->> '$.session_id', e.data ->> '$.task_id'))
    * coalesce(bool_and((e.data ->> '$.worked')::boolean), false)::integer
  FROM events AS e WHERE e.subject_id = p.id AND e.type = :tried) >= (
  SELECT greatest(count(DISTINCT coalesce(t.session_id, t.task_id)), 1) FROM task_trajectories AS t
  WHERE t.scope_id = p.scope_id AND t.created_at >= p.created_at);
