-- name: find_scope_in_write
-- The id of a scope, locked: what is written in a scope is written one after the other.
SELECT id FROM scopes WHERE tenant_id = ? AND project = ? FOR NO KEY UPDATE;

-- name: find_scopes_in_write
-- The same of scopes (a JSON list of pairs), in the list's order.
SELECT s.id, wanted.key FROM json_each(?) AS wanted
JOIN scopes AS s ON s.tenant_id = wanted.value ->> 0 AND s.project = wanted.value ->> 1
ORDER BY wanted.key FOR NO KEY UPDATE OF s;

-- name: add_scope
-- Make a scope unless it is there; a number is taken for a new one alone.
INSERT INTO scopes (tenant_id, project)
SELECT new.tenant_id, new.project FROM (SELECT ? AS tenant_id, ? AS project) AS new
WHERE NOT EXISTS (SELECT 1 FROM scopes AS s WHERE s.tenant_id = new.tenant_id AND s.project = new.project)
ON CONFLICT DO NOTHING;

-- name: briefing
-- What the user said, and the surest memories; of two that contradict each other one.
WITH surest AS (
  (
    SELECT seq, 0 AS shared FROM patterns AS p
    WHERE scope_id = (SELECT id FROM scopes WHERE tenant_id = :tenant_id AND project = :project) AND status = 'active'
      AND p.standing >= 0 AND NOT EXISTS (
      SELECT 1 FROM pattern_links AS l JOIN patterns AS o ON o.id = iif(l.src_id = p.id, l.dst_id, l.src_id)
      WHERE (l.src_id = p.id OR l.dst_id = p.id) AND l.relation = 'contradicts' AND o.status = 'active'
        AND (o.standing, round(o.confidence, 1), o.seq)
          > (p.standing, round(p.confidence, 1), p.seq))
    ORDER BY standing DESC, confidence DESC, usage_count DESC, seq DESC LIMIT :limit)
  UNION ALL
  (
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
SELECT p.id, (p.pattern_data ->> '$.content') || coalesce((
  SELECT chr(10) || 'Another note says otherwise and is left out: '
    || string_agg('"' || (o.pattern_data ->> '$.title') || '"', ', ')
  FROM pattern_links AS l JOIN patterns AS o ON o.id = iif(l.src_id = p.id, l.dst_id, l.src_id)
  WHERE (l.src_id = p.id OR l.dst_id = p.id) AND l.relation = 'contradicts' AND o.status = 'active'
    AND o.standing >= 0), ''), p.standing
FROM surest JOIN patterns AS p ON p.seq = surest.seq
ORDER BY
  p.standing DESC, surest.shared, p.confidence DESC, p.usage_count DESC, p.seq DESC
LIMIT :limit;
