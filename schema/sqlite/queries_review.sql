-- name: showings
-- The newest times that an item was shown in some scopes (a JSON list), or kept from a task, with the newest outcome of that task and the beginning of its words.
SELECT e.type, e.created_at, e.subject_id, e.data, o.data, substr(t.query, 1, :chars)
FROM (
  SELECT
    seq, scope_id, type, subject_id, data, created_at,
    CASE type WHEN :retrieved THEN data ->> '$.task_id' ELSE subject_id END AS task_id
  FROM events
  WHERE scope_id IN (SELECT value FROM json_each(:scopes)) AND type IN (:retrieved, :withheld, :injected)
    AND (type <> :injected OR data ->> '$.via' = :briefing)
    AND seq >= coalesce((SELECT min(seq) FROM events WHERE subject_id = :id), 0) AND instr(data, :id)
  ORDER BY seq DESC LIMIT :limit
) AS e
LEFT JOIN events AS o ON o.seq = (
  SELECT max(seq) FROM events WHERE subject_id = e.task_id AND +type = :outcome AND +scope_id = e.scope_id)
LEFT JOIN task_trajectories AS t ON t.seq = (
  SELECT max(seq) FROM task_trajectories WHERE scope_id = e.scope_id AND task_id = e.task_id)
ORDER BY e.seq DESC;

-- name: contradicting
-- Links between active items of some scopes (a JSON list) that contradict each other, the newest first.
SELECT l.src_id, l.dst_id, l.relation, l.weight
FROM pattern_links AS l
CROSS JOIN patterns AS s ON s.id = l.src_id AND s.status = 'active'
CROSS JOIN patterns AS d ON d.id = l.dst_id AND d.status = 'active'
WHERE l.relation = 'contradicts' AND s.scope_id IN (SELECT value FROM json_each(:scopes))
  AND d.scope_id IN (SELECT value FROM json_each(:scopes))
ORDER BY l.created_at DESC, l.rowid DESC LIMIT :limit;

-- name: most_shown
-- Ids of the active items of some scopes (a JSON list) that were shown most often.
SELECT p.id
FROM (
  SELECT seq, usage_count FROM patterns INDEXED BY patterns_by_standing -- which has all that is asked for
  WHERE scope_id IN (SELECT value FROM json_each(:scopes)) AND status = 'active' AND usage_count > 0
  ORDER BY usage_count DESC, seq LIMIT :limit
) AS shown
CROSS JOIN patterns AS p ON p.seq = shown.seq
ORDER BY shown.usage_count DESC, shown.seq;

-- name: events_of_types
-- What of some types (a JSON list) happened in some scopes (a JSON list), oldest first.
SELECT type, created_at, subject_id, data FROM events
WHERE scope_id IN (SELECT value FROM json_each(:scopes)) AND type IN (SELECT value FROM json_each(:types))
ORDER BY seq;

-- name: facets
-- What active items of some scopes (a JSON list) differ by, and how many have each; the most frequent first.
SELECT * FROM (
  SELECT 'domains' AS facet, domain AS value, count(*) AS items FROM patterns
  WHERE scope_id IN (SELECT value FROM json_each(:scopes)) AND status = 'active' AND domain IS NOT NULL
  GROUP BY domain
  UNION ALL
  SELECT 'agents', agent_id, count(*) FROM patterns
  WHERE scope_id IN (SELECT value FROM json_each(:scopes)) AND status = 'active' AND agent_id IS NOT NULL
  GROUP BY agent_id
  UNION ALL
  SELECT 'tags', t.tag, count(*) FROM pattern_tags AS t JOIN patterns AS p ON p.seq = t.seq
  WHERE p.scope_id IN (SELECT value FROM json_each(:scopes)) AND p.status = 'active' GROUP BY t.tag) AS counted
ORDER BY items DESC, value;

-- name: projects
-- The projects of a tenant, and how many active items each has.
SELECT project, active FROM scopes WHERE tenant_id = ? ORDER BY project;

-- name: move_pattern
-- Put an item into another scope.
UPDATE patterns SET scope_id = ?, updated_at = ? WHERE seq = ?;

-- name: move_events
-- Put what happened to it there too.
UPDATE events SET scope_id = :scope_id WHERE subject_id = :id AND scope_id = :former;

-- name: link
-- Link two items unless they are linked so already, or one of them is gone.
INSERT INTO pattern_links (src_id, dst_id, relation, weight, created_at)
SELECT s.id, d.id, :relation, :weight, :at FROM patterns AS s JOIN patterns AS d ON d.id = :dst_id
WHERE s.id = :src_id ON CONFLICT DO NOTHING;

-- name: unlink
-- Take a link away.
DELETE FROM pattern_links WHERE src_id = :src_id AND dst_id = :dst_id AND relation = :relation;
