-- name: find_scope
-- The id of a scope.
SELECT id FROM scopes WHERE tenant_id = ? AND project = ?;

-- name: find_scopes
-- The ids of scopes (a JSON list of pairs) with their places in the list, in its order.
SELECT s.id, wanted.key FROM json_each(?) AS wanted
JOIN scopes AS s ON s.tenant_id = wanted.value ->> 0 AND s.project = wanted.value ->> 1 ORDER BY wanted.key;

-- name: add_scope
-- Make a scope unless it is there.
INSERT INTO scopes (tenant_id, project) VALUES (?, ?) ON CONFLICT DO NOTHING;

-- name: add_event
-- Write a line of the audit trail.
INSERT INTO events (scope_id, type, subject_id, data, created_at, person_id) VALUES (?, ?, ?, ?, ?, ?);

-- name: briefing
-- What the user said, and the surest memories; of two that contradict each other one.
WITH surest AS (
  SELECT * FROM (
    SELECT seq, 0 AS shared FROM patterns AS p
    WHERE scope_id = (SELECT id FROM scopes WHERE tenant_id = :tenant_id AND project = :project) AND status = 'active'
      AND p.standing >= 0 AND NOT EXISTS (
      SELECT 1 FROM pattern_links AS l JOIN patterns AS o ON o.id = iif(l.src_id = p.id, l.dst_id, l.src_id)
      WHERE (l.src_id = p.id OR l.dst_id = p.id) AND l.relation = 'contradicts' AND o.status = 'active'
        AND (o.standing, round(o.confidence, 1), o.seq)
          > (p.standing, round(p.confidence, 1), p.seq))
    ORDER BY standing DESC, confidence DESC, usage_count DESC, seq DESC LIMIT :limit)
  UNION ALL
  SELECT * FROM (
    SELECT seq, 1 AS shared FROM patterns AS p
    WHERE status = 'active' AND scope_id = (
      SELECT id FROM scopes WHERE tenant_id = :tenant_id AND project = :global AND :project <> :global)
      AND p.standing >= 0 AND NOT EXISTS (
      SELECT 1 FROM pattern_links AS l JOIN patterns AS o ON o.id = iif(l.src_id = p.id, l.dst_id, l.src_id)
      WHERE (l.src_id = p.id OR l.dst_id = p.id) AND l.relation = 'contradicts' AND o.status = 'active'
        AND (o.standing, round(o.confidence, 1), o.seq)
          > (p.standing, round(p.confidence, 1), p.seq))
    ORDER BY standing DESC, confidence DESC, usage_count DESC, seq DESC LIMIT :limit)
)
SELECT p.id, p.pattern_data ->> '$.content' || coalesce((
  SELECT char(10) || 'Another note says otherwise and is left out: '
    || group_concat('"' || (o.pattern_data ->> '$.title') || '"', ', ')
  FROM pattern_links AS l JOIN patterns AS o ON o.id = iif(l.src_id = p.id, l.dst_id, l.src_id)
  WHERE (l.src_id = p.id OR l.dst_id = p.id) AND l.relation = 'contradicts' AND o.status = 'active'
    AND o.standing >= 0), ''), p.standing
FROM surest JOIN patterns AS p ON p.seq = surest.seq
ORDER BY
  p.standing DESC, surest.shared, p.confidence DESC, p.usage_count DESC, p.seq DESC
LIMIT :limit;

-- name: team_briefing
-- The surest of what a team shares, without what an own item says too.
SELECT p.id, p.pattern_data ->> '$.content', 0
FROM patterns AS p JOIN shared_memories AS h ON h.memory_id = p.id AND h.scope_id = p.scope_id
WHERE p.scope_id IN (SELECT id FROM scopes WHERE tenant_id = :tenant_id AND project IN (:team, :team_global))
  AND p.status = 'active' AND p.standing >= 0
  AND NOT EXISTS (
    SELECT 1 FROM pattern_links AS l JOIN patterns AS o ON o.id = l.src_id AND o.status = 'active'
    JOIN scopes AS s ON s.id = o.scope_id AND s.tenant_id = :tenant_id AND s.project IN (:project, :global)
    WHERE l.dst_id = p.id AND l.relation = 'duplicate_of')
ORDER BY h.people DESC, p.confidence DESC, p.seq DESC LIMIT :limit;

-- name: set_status
-- Change the status of an item.
UPDATE patterns SET status = ?, status_reason = ?, updated_at = ? WHERE seq = ?;

-- name: set_confidence
-- Change how sure an item is.
UPDATE patterns SET confidence = ?, updated_at = ? WHERE seq = ?;
