-- name: add_pattern
-- Write a new item behind all that ever were; nothing when its id is taken.
INSERT INTO patterns (
  id, type, pattern_data, confidence, usage_count, created_at, last_used, updated_at, scope_id, status, status_reason,
  outcome, domain, task_id, run_id, agent_id, person_id, standing, content_hash
) VALUES (
  :id, 'reasoning_memory', :pattern_data, :confidence, :usage_count, :created_at, :last_used, :updated_at, :scope_id,
  :status, :status_reason, :outcome, :domain, :task_id, :run_id, :agent_id, :person_id, :standing, :content_hash
) ON CONFLICT (id) DO NOTHING RETURNING seq;

-- name: find_pattern_in_write
-- Where an item stands, by its id and scope, locked.
SELECT seq, status, pattern_data, confidence FROM patterns WHERE id = ? AND scope_id = ? FOR NO KEY UPDATE;

-- name: find_patterns_in_write
-- Where items stand, by their ids (a JSON list), with the ids of their scopes (a list of pairs), locked in their order.
SELECT p.seq, p.id, p.scope_id, p.status FROM patterns AS p JOIN scopes AS s ON s.id = p.scope_id
WHERE p.id IN (SELECT value FROM json_each(:ids))
  AND (s.tenant_id, s.project) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:scopes))
ORDER BY p.seq FOR NO KEY UPDATE OF p;

-- name: note_forgotten
-- A position is never given twice here: nothing needs to be noted.
DELETE FROM meta WHERE key = 'forgotten_position' AND :seq < 0;

-- name: count_members
-- Change the number of active items of a scope that have a vector in a space, and give what it is now.
INSERT INTO space_members AS m (space_id, scope_id, active) VALUES (:space_id, :partition, :change)
ON CONFLICT (space_id, scope_id) DO UPDATE SET active = m.active + excluded.active
RETURNING active;

-- name: optimize_keyword_index
-- What left the index is taken out of it beside: nothing needs to be merged.
SELECT 1 WHERE false;

-- name: said_in_as_many_characters
-- Ids of the items of a standing, or that say where their words were heard, in a scope, active or held back, and their contents, of about so many characters.
SELECT id, pattern_data ->> 'content' FROM patterns
WHERE scope_id = :scope_id AND status = 'active' AND standing IN (-1, 1)
  AND abs(length(pattern_data ->> 'content') - :characters) <= :characters / 8
UNION ALL
SELECT id, pattern_data ->> 'content' FROM patterns
WHERE scope_id = :scope_id AND status = 'quarantined' AND standing <> 0
  AND abs(length(pattern_data ->> 'content') - :characters) <= :characters / 8
UNION ALL
SELECT id, pattern_data ->> 'content' FROM patterns
WHERE scope_id = :scope_id AND status IN ('active', 'quarantined') AND standing = 0
  AND pattern_data LIKE '%"heard_in":%' AND abs(length(pattern_data ->> 'content') - :characters) <= :characters / 8;
