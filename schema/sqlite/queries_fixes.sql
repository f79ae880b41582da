-- name: count_kept
-- How often it was noted that a task which did not meet an item's errors kept to it, or did not.
SELECT count(*) FROM events
WHERE subject_id = :id AND +type = :tried AND data ->> '$.signature' = '' AND data ->> '$.worked' = :worked;

-- name: add_fix
-- Note that an item of a scope was seen to end errors of a signature.
INSERT INTO handles (handle, seq)
SELECT 'error:' || :signature, seq FROM patterns WHERE id = :id AND scope_id = :scope_id ON CONFLICT DO NOTHING;

-- name: fixes
-- The active items that ended errors of a signature, for a duplicate what it was archived for or what the team shares of the same, with the tasks it did so in and was tried in, of the team's for how many people.
WITH RECURSIVE standing (id, origin) AS (
  SELECT p.id, p.id FROM handles AS w JOIN patterns AS p ON p.seq = w.seq WHERE w.handle = 'error:' || :signature
  UNION
  SELECT l.dst_id, s.origin FROM standing AS s
  JOIN patterns AS p ON p.id = s.id AND p.status = 'archived'
  JOIN pattern_links AS l ON l.src_id = p.id AND l.relation = 'duplicate_of'
)
SELECT
  p.id,
  coalesce(h.worked, count(DISTINCT e.data ->> '$.task_id') FILTER (WHERE e.data ->> '$.worked')) AS won,
  coalesce(h.tried, count(DISTINCT e.data ->> '$.task_id')) AS attempts, h.people
FROM standing AS s
CROSS JOIN patterns AS p ON p.id = s.id AND p.status = 'active' AND p.standing >= 0
JOIN scopes AS c
  ON c.id = p.scope_id AND c.tenant_id = :tenant_id AND c.project IN (:project, :global, :team, :team_global)
LEFT JOIN shared_memories AS h ON h.memory_id = p.id AND h.scope_id = p.scope_id
LEFT JOIN events AS e
  ON e.subject_id IN (s.id, s.origin) AND +e.type = :tried AND e.data ->> '$.signature' = :signature
WHERE :team = '' OR NOT EXISTS (
  SELECT 1 FROM pattern_links AS l
  JOIN patterns AS o ON o.id = l.dst_id AND o.status = 'active'
  JOIN scopes AS t ON t.id = o.scope_id AND t.tenant_id = :tenant_id AND t.project IN (:team, :team_global)
  WHERE l.src_id = p.id AND l.relation = 'duplicate_of')
GROUP BY p.seq
ORDER BY
  c.project IN (:global, :team_global), p.pattern_data ->> '$.source.hearsay' IS TRUE,
  (won + 1.0) / (attempts + 2) DESC,
  p.confidence DESC, p.usage_count DESC, p.seq DESC
LIMIT :limit;

-- name: read_with
-- Under which names a project reads what a team shares: that about it before that about all.
SELECT k.project FROM team_caches AS k JOIN scopes AS s ON s.id = k.scope_id
WHERE s.tenant_id = :tenant_id AND s.project = :project ORDER BY k.project DESC;

-- name: signatures_of
-- The signatures of the errors that some items (a JSON list of ids) ended.
SELECT DISTINCT substr(w.handle, 7) FROM patterns AS p JOIN handles AS w ON w.seq = p.seq AND w.handle LIKE 'error:%'
WHERE p.id IN (SELECT value FROM json_each(:ids));

-- name: signatures_ended
-- Those of some signatures (a JSON list) whose errors an item ended.
SELECT DISTINCT substr(handle, 7) FROM handles WHERE handle IN (SELECT 'error:' || value FROM json_each(:ids));

-- name: candidates
-- The candidates of a scope that ended errors of some signatures (a JSON list), the newest first.
SELECT substr(w.handle, 7), p.id FROM handles AS w JOIN patterns AS p ON p.seq = w.seq
WHERE w.handle IN (SELECT 'error:' || value FROM json_each(:signatures)) AND p.scope_id = :scope_id AND p.status = 'candidate'
ORDER BY p.seq DESC;

-- name: borne_out
-- A candidate, where it is of another task than this one, and of another session, and was never done in vain.
SELECT p.seq, p.id, p.scope_id, p.status FROM patterns AS p
WHERE p.id = :id AND p.scope_id = :scope_id AND p.status = 'candidate'
  AND coalesce(p.pattern_data ->> '$.source.task_id', '') <> :task_id
  AND coalesce(p.pattern_data ->> '$.source.session_id', '') <> coalesce(:session_id, '-')
  AND NOT EXISTS (
    SELECT 1 FROM events AS e
    WHERE e.subject_id = p.id AND e.type = :tried AND CAST(e.data ->> '$.worked' AS text) IN ('false', '0'));
