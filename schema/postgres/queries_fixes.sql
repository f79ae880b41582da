-- name: fixes
-- The active items that ended errors of a signature, for a duplicate what it was archived for or what the team shares of the same, with the tasks it did so in and was tried in, of the team's for how many people.
WITH RECURSIVE standing (id, origin) AS (
  SELECT p.id, p.id FROM handles AS w JOIN patterns AS p ON p.seq = w.seq WHERE w.handle = 'error:' || :signature
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
SELECT p.id, n.worked, n.tried, n.people
FROM counted AS n JOIN patterns AS p ON p.seq = n.seq
ORDER BY
  n.project IN (:global, :team_global), p.pattern_data ->> '$.source.hearsay' IS NOT DISTINCT FROM 'true',
  (n.worked + 1.0) / (n.tried + 2) DESC,
  p.confidence DESC, p.usage_count DESC, p.seq DESC
LIMIT :limit;

-- name: count_kept
-- How often it was noted that a task which did not meet an item's errors kept to it, or did not.
SELECT count(*) FROM events
WHERE subject_id = :id AND type = :tried AND data ->> '$.signature' = '' AND (data ->> '$.worked')::boolean = (:worked <> 0);
