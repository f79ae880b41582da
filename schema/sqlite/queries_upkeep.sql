-- name: unembedded
-- Items of a scope that have no vector but that of a light model (NULL: no such model), by their order of arrival, after a position.
SELECT p.seq, p.pattern_data ->> '$.title', p.pattern_data ->> '$.description', p.pattern_data ->> '$.content'
FROM patterns AS p NOT INDEXED
WHERE p.scope_id = :scope_id AND p.seq > :after
  AND NOT EXISTS (
    SELECT 1 FROM pattern_embeddings AS e
    WHERE e.seq = p.seq AND e.space_id NOT IN (SELECT id FROM vector_spaces WHERE model = :light))
ORDER BY p.seq LIMIT :limit;

-- name: unembedded_of
-- Those of some items (a JSON list of positions) that have no vector but that of a light model.
SELECT p.seq, p.id FROM patterns AS p
WHERE p.seq IN (SELECT value FROM json_each(:seqs))
  AND NOT EXISTS (
    SELECT 1 FROM pattern_embeddings AS e
    WHERE e.seq = p.seq AND e.space_id NOT IN (SELECT id FROM vector_spaces WHERE model = :light))
ORDER BY p.seq;

-- name: pending_upkeep
-- How many active items of a scope are new since its last consolidation, up to :most, how many lack a model's vector, and up to where they are compared.
SELECT
  (SELECT count(*) FROM (
    SELECT 1 FROM patterns AS p NOT INDEXED
    WHERE p.seq > s.consolidated_seq AND p.scope_id = s.id AND p.status = 'active' LIMIT :most) AS new),
  s.active - coalesce((
    SELECT sum(m.active) FROM space_members AS m JOIN vector_spaces AS v ON v.id = m.space_id
    WHERE m.scope_id = s.id AND v.model = :model), 0),
  s.consolidated_seq
FROM scopes AS s WHERE s.id = :scope_id;

-- name: upkeep_state
-- How far a scope was consolidated, its newest position, how many active items it has, and its aging (JSON).
SELECT
  s.consolidated_seq, coalesce((SELECT max(seq) FROM patterns WHERE scope_id = s.id), 0), s.active,
  (SELECT value FROM meta WHERE key = 'aging:' || s.id)
FROM scopes AS s WHERE s.id = ?;

-- name: upkeep_items
-- What upkeep needs of active items after a position; the sign keeps SQLite from sorting them for each page.
SELECT
  p.seq, p.id, p.confidence, p.usage_count, p.created_at, p.last_used, p.status_reason, p.updated_at, p.standing, e.vector
FROM patterns AS p
LEFT JOIN pattern_embeddings AS e
  ON e.seq = p.seq AND e.space_id = (SELECT id FROM vector_spaces WHERE model = :model AND dims = :dims)
WHERE p.seq > :after AND +p.scope_id = :scope_id AND +p.status = 'active'
ORDER BY p.seq LIMIT :limit;

-- name: upkeep_items_of
-- The same of items by their ids (a JSON list).
SELECT
  p.seq, p.id, p.confidence, p.usage_count, p.created_at, p.last_used, p.status_reason, p.updated_at, p.standing, e.vector
FROM json_each(:ids) AS wanted
CROSS JOIN patterns AS p ON p.id = wanted.value
LEFT JOIN pattern_embeddings AS e
  ON e.seq = p.seq AND e.space_id = (SELECT id FROM vector_spaces WHERE model = :model AND dims = :dims)
WHERE p.scope_id = :scope_id AND p.status = 'active';

-- name: pattern_as_it_is
-- What a change must find as it was seen.
SELECT seq, status, status_reason, confidence, updated_at, last_used FROM patterns WHERE id = ? AND scope_id = ?;

-- name: add_link
-- Link two items of a scope unless they are linked so already, or one of them is gone.
INSERT INTO pattern_links (src_id, dst_id, relation, weight, created_at)
SELECT s.id, d.id, :relation, :weight, :at FROM patterns AS s JOIN patterns AS d ON d.id = :dst_id
WHERE s.id = :src_id AND s.scope_id = :scope_id AND d.scope_id = :scope_id
ON CONFLICT DO NOTHING;

-- name: delete_link
-- Take a link away.
DELETE FROM pattern_links WHERE src_id = ? AND dst_id = ? AND relation = ?;

-- name: get_aging
-- The aging of a scope (JSON).
SELECT value FROM meta WHERE key = 'aging:' || ?;

-- name: put_aging
-- Write the aging of a scope.
INSERT INTO meta (key, value) VALUES ('aging:' || ?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- name: delete_aging
-- Forget the aging of a scope: it was never aged.
DELETE FROM meta WHERE key = 'aging:' || ?;

-- name: mark_consolidated
-- Write up to which position a scope is consolidated.
UPDATE scopes SET consolidated_seq = max(consolidated_seq, ?) WHERE id = ?;

-- name: events_of_run
-- What a run wrote in a scope, the latest first.
SELECT seq, type, data FROM events WHERE subject_id = ? AND scope_id = ? ORDER BY seq DESC;
