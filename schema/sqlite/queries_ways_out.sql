-- name: add_way_out
-- Note that an item of a scope was seen to end errors of a signature.
INSERT INTO ways_out (signature, seq)
SELECT :signature, seq FROM patterns WHERE id = :id AND scope_id = :scope_id ON CONFLICT DO NOTHING;

-- name: ways_out
-- The active items that ended errors of a signature, in the place of a duplicate what it was archived for: the project's first.
WITH RECURSIVE standing (id) AS (
  SELECT p.id FROM ways_out AS w JOIN patterns AS p ON p.seq = w.seq WHERE w.signature = :signature
  UNION
  SELECT l.dst_id FROM standing AS s
  JOIN patterns AS p ON p.id = s.id AND p.status = 'archived'
  JOIN pattern_links AS l ON l.src_id = p.id AND l.relation = 'duplicate_of'
)
SELECT p.id, p.pattern_data ->> '$.title', p.pattern_data ->> '$.content'
FROM standing AS s
CROSS JOIN patterns AS p ON p.id = s.id AND p.status = 'active' AND p.standing >= 0
JOIN scopes AS c ON c.id = p.scope_id AND c.tenant_id = :tenant_id AND c.project IN (:project, :global)
ORDER BY c.project = :global, p.pattern_data ->> '$.source.hearsay' IS TRUE, p.confidence DESC, p.usage_count DESC, p.seq DESC LIMIT :limit;

-- name: told_at_failures
-- What a session was told when calls failed; the signs keep SQLite from reading all events of the type.
SELECT e.data ->> '$.id' FROM events AS e
WHERE e.subject_id = :session_id AND +e.type = :type AND +e.scope_id = (
  SELECT id FROM scopes WHERE tenant_id = :tenant_id AND project = :project);

-- name: task_of_session
-- The task that a session of a host is working on.
SELECT h.task_id FROM host_sessions AS h
JOIN scopes AS c ON c.id = h.scope_id
WHERE c.tenant_id = :tenant_id AND c.project = :project AND h.session_id = :session_id;
