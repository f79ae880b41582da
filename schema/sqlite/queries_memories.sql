-- name: add_pattern
-- Write a new item behind all that ever were; nothing when its id is taken.
INSERT INTO patterns (
  seq, id, type, pattern_data, confidence, usage_count, created_at, last_used, updated_at, scope_id, status, status_reason,
  outcome, domain, task_id, run_id, agent_id, standing, content_hash, person_id
) VALUES (
  1 + max(
    coalesce((SELECT max(seq) FROM patterns), 0),
    coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'forgotten_position'), 0)
  ),
  :id, 'reasoning_memory', :pattern_data, :confidence, :usage_count, :created_at, :last_used, :updated_at, :scope_id,
  :status, :status_reason, :outcome, :domain, :task_id, :run_id, :agent_id, :standing, :content_hash, :person_id
) ON CONFLICT (id) DO NOTHING;

-- name: update_pattern
-- Write the changed text, status and confidence of an item.
UPDATE patterns SET
  pattern_data = :pattern_data, confidence = :confidence, updated_at = :updated_at, status = :status,
  status_reason = :status_reason, outcome = :outcome, domain = :domain, task_id = :task_id, run_id = :run_id,
  agent_id = :agent_id, standing = :standing, content_hash = :content_hash
WHERE seq = :seq;

-- name: just_written
-- Titles and contents of those of the last items that have the scope, the status and the kind of one that is to be written.
SELECT p.pattern_data ->> 'title', p.pattern_data ->> 'content' FROM patterns AS p NOT INDEXED
WHERE p.seq > (SELECT max(seq) FROM patterns) - 32 AND p.scope_id = :scope_id AND p.status = :status
  AND p.outcome = :outcome AND p.standing = :standing;

-- name: find_pattern
-- Where an item stands, by its id and scope.
SELECT seq, status, pattern_data, confidence FROM patterns WHERE id = ? AND scope_id = ?;

-- name: find_patterns
-- Where items stand, by their ids (a JSON list), with the ids of their scopes (a list of pairs).
SELECT p.seq, p.id, p.scope_id, p.status FROM patterns AS p JOIN scopes AS s ON s.id = p.scope_id
WHERE p.id IN (SELECT value FROM json_each(:ids))
  AND (s.tenant_id, s.project) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:scopes));

-- name: get_patterns
-- Items by their ids (a JSON list) within scopes (a list of pairs), in the order of the ids.
SELECT
  p.id, s.tenant_id, s.project, p.pattern_data, p.confidence, p.usage_count, p.created_at, p.last_used, p.status,
  p.status_reason, p.outcome
FROM json_each(:ids) AS wanted
JOIN patterns AS p ON p.id = wanted.value
JOIN scopes AS s ON s.id = p.scope_id
WHERE (s.tenant_id, s.project) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:scopes))
ORDER BY wanted.key;

-- name: list_patterns
-- Items that a filter lets through, newest first. Empty parameters do not filter. `says` is a function of the store's.
SELECT
  p.id, s.tenant_id, s.project, p.pattern_data, p.confidence, p.usage_count, p.created_at, p.last_used, p.status,
  p.status_reason, p.outcome
FROM (
  SELECT p.seq, p.created_at FROM patterns AS p
  WHERE p.scope_id IN (
      SELECT each.id FROM json_each(:scopes) AS wanted
      JOIN scopes AS each ON each.tenant_id = wanted.value ->> 0 AND each.project = wanted.value ->> 1)
    AND p.status IN (SELECT value FROM json_each(:statuses))
    AND (:domain IS NULL OR p.domain = :domain)
    AND (:agent_id IS NULL OR p.agent_id = :agent_id)
    AND (:outcome IS NULL OR p.outcome = :outcome)
    AND (:task_id IS NULL OR p.task_id = :task_id)
    AND NOT EXISTS (
      SELECT 1 FROM json_each(:tags) AS wanted
      WHERE NOT EXISTS (SELECT 1 FROM pattern_tags AS t WHERE t.seq = p.seq AND t.tag = wanted.value)
    )
    AND (:text IS NULL OR says(p.pattern_data, :text))
  ORDER BY p.created_at DESC, p.seq DESC -- positions alone: sorting whole rows takes twice as long
  LIMIT :limit OFFSET :offset
) AS found
CROSS JOIN patterns AS p ON p.seq = found.seq
CROSS JOIN scopes AS s ON s.id = p.scope_id
ORDER BY found.created_at DESC, found.seq DESC; -- by its own columns: SQLite knows that it is in order

-- name: state_of_patterns
-- How many items a scope has, and when one was written last.
SELECT count(*) || ' ' || coalesce(max(updated_at), 'never') FROM patterns WHERE scope_id = :scope_id;

-- name: said_in_as_many_characters
-- Ids of the items of a standing, or that say where their words were heard, in a scope, and their contents, of about so many characters: active ones with certain words (all, where none are given), and those that are held back.
SELECT id, pattern_data ->> 'content' FROM patterns
WHERE :words <> '' AND seq IN (SELECT rowid FROM pattern_fts WHERE pattern_fts MATCH :words)
  AND +scope_id = :scope_id AND +status = 'active' AND (standing <> 0 OR pattern_data LIKE '%"heard_in":%')
  AND abs(length(pattern_data ->> 'content') - :characters) <= :characters / 8
UNION ALL
SELECT id, pattern_data ->> 'content' FROM patterns
WHERE :words = '' AND scope_id = :scope_id AND status = 'active' AND standing IN (-1, 1)
  AND abs(length(pattern_data ->> 'content') - :characters) <= :characters / 8
UNION ALL
SELECT id, pattern_data ->> 'content' FROM patterns
WHERE scope_id = :scope_id AND status = 'quarantined' AND standing <> 0
  AND abs(length(pattern_data ->> 'content') - :characters) <= :characters / 8
UNION ALL
SELECT id, pattern_data ->> 'content' FROM patterns
WHERE scope_id = :scope_id AND status IN ('quarantined', iif(:words = '', 'active', '')) AND standing = 0
  AND pattern_data LIKE '%"heard_in":%' AND abs(length(pattern_data ->> 'content') - :characters) <= :characters / 8;

-- name: is_embedding
-- Whether memories of some scopes (a list of pairs) are being given vectors by a job that did not fail yet.
SELECT 1 FROM jobs AS j JOIN scopes AS s ON s.id = j.scope_id
WHERE j.status IN ('queued', 'running') AND j.kind = 'embed' AND j.error IS NULL
  AND (s.tenant_id, s.project) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:scopes)) LIMIT 1;

-- name: delete_pattern
-- Delete an item with its tags, tokens, vectors and links.
DELETE FROM patterns WHERE seq = ?;

-- name: note_forgotten
-- Keep the position of a deleted item from being given again: what was consolidated or aged up to it stays so.
INSERT INTO meta (key, value) VALUES ('forgotten_position', :seq)
ON CONFLICT (key) DO UPDATE SET value = max(CAST(value AS INTEGER), :seq);

-- name: delete_tags
-- Take an item's tags away before new ones are written.
DELETE FROM pattern_tags WHERE seq = ?;

-- name: add_tag
-- Give an item a tag.
INSERT INTO pattern_tags (seq, tag) VALUES (?, ?) ON CONFLICT DO NOTHING;

-- name: put_tokens
-- Write the tokens of an item's fields, packed.
INSERT INTO pattern_tokens (seq, tokens) VALUES (?, ?) ON CONFLICT (seq) DO UPDATE SET tokens = excluded.tokens;

-- name: count_active
-- Change the number of active items of a scope.
UPDATE scopes SET active = active + ? WHERE id = ?;

-- name: index_tokens
-- Enter an item into the keyword index. `scoped` is a function of the store's.
INSERT INTO pattern_fts (rowid, title, description, content)
SELECT t.seq, scoped(t.tokens, 0, p.scope_id), scoped(t.tokens, 1, p.scope_id), scoped(t.tokens, 2, p.scope_id)
FROM pattern_tokens AS t JOIN patterns AS p ON p.seq = t.seq WHERE t.seq = ?;

-- name: unindex_tokens
-- Take an item out of the keyword index; its tokens must be those it was entered with.
INSERT INTO pattern_fts (pattern_fts, rowid, title, description, content)
SELECT 'delete', t.seq, scoped(t.tokens, 0, p.scope_id), scoped(t.tokens, 1, p.scope_id), scoped(t.tokens, 2, p.scope_id)
FROM pattern_tokens AS t JOIN patterns AS p ON p.seq = t.seq WHERE t.seq = ?;

-- name: empty_keyword_index
-- Take everything out of the keyword index.
INSERT INTO pattern_fts (pattern_fts) VALUES ('delete-all');

-- name: fill_keyword_index
-- Enter every active item into the empty keyword index.
INSERT INTO pattern_fts (rowid, title, description, content)
SELECT t.seq, scoped(t.tokens, 0, p.scope_id), scoped(t.tokens, 1, p.scope_id), scoped(t.tokens, 2, p.scope_id)
FROM pattern_tokens AS t JOIN patterns AS p ON p.seq = t.seq WHERE p.status = 'active';

-- name: optimize_keyword_index
-- Merge the keyword index into one part, so that nothing of deleted items is left in it.
INSERT INTO pattern_fts (pattern_fts) VALUES ('optimize');

-- name: recount_active
-- Count the active items of every scope again.
UPDATE scopes SET active = (SELECT count(*) FROM patterns WHERE scope_id = scopes.id AND status = 'active');

-- name: find_space
-- The space of a model's vectors of so many dimensions.
SELECT id, model, dims, quantization, stale, 'vec_' FROM vector_spaces WHERE model = ? AND dims = ?;

-- name: all_spaces
-- Every space.
SELECT id, model, dims, quantization, stale, 'vec_' FROM vector_spaces ORDER BY id;

-- name: spaces_of_item
-- The spaces in which an item has a vector, with that vector.
SELECT s.id, s.model, s.dims, s.quantization, s.stale, 'vec_', e.vector
FROM pattern_embeddings AS e JOIN vector_spaces AS s ON s.id = e.space_id WHERE e.seq = ?;

-- name: add_space
-- Register a space.
INSERT INTO vector_spaces (model, dims, quantization, stale) VALUES (?, ?, ?, ?);

-- name: mark_space
-- Say whether the vector index of a space lacks what was written without sqlite-vec.
UPDATE vector_spaces SET stale = ? WHERE id = ?;

-- name: delete_space
-- Forget a space; its vectors and its index are dropped beside.
DELETE FROM vector_spaces WHERE id = ?;

-- name: delete_vectors_of_space
-- Drop the vectors of a space.
DELETE FROM pattern_embeddings WHERE space_id = (SELECT id FROM vector_spaces WHERE model = ? AND dims = ?);

-- name: count_members
-- Change the number of active items of a scope that have a vector in a space.
INSERT INTO space_members (space_id, scope_id, active) VALUES (:space_id, :partition, :change)
ON CONFLICT (space_id, scope_id) DO UPDATE SET active = space_members.active + :change;

-- name: forget_members
-- Drop the counts of a space before they are made again.
DELETE FROM space_members WHERE space_id = ?;

-- name: recount_members
-- Count the active items of every scope that have a vector in a space.
INSERT INTO space_members (space_id, scope_id, active)
SELECT s.id, p.scope_id, count(*)
FROM vector_spaces AS s
JOIN pattern_embeddings AS e ON e.space_id = s.id
JOIN patterns AS p ON p.seq = e.seq AND p.status = 'active'
WHERE s.id = ? GROUP BY s.id, p.scope_id;

-- name: put_vector
-- Write the vector of an item in a space.
INSERT INTO pattern_embeddings (seq, space_id, vector) VALUES (:seq, :space_id, :vector)
ON CONFLICT (seq, space_id) DO UPDATE SET vector = excluded.vector;

-- name: drop_vector
-- Drop the vector of an item in one space.
DELETE FROM pattern_embeddings WHERE seq = :seq AND space_id = :space_id;

-- name: delete_vectors
-- Drop all vectors of an item.
DELETE FROM pattern_embeddings WHERE seq = ?;

-- name: without_vector
-- The texts of items that have no vector in a space, by their order of arrival, after a position.
SELECT p.seq, p.pattern_data ->> '$.title', p.pattern_data ->> '$.description', p.pattern_data ->> '$.content'
FROM patterns AS p
WHERE p.seq > :after AND NOT EXISTS (
  SELECT 1 FROM pattern_embeddings AS e
  WHERE e.seq = p.seq AND e.space_id = (SELECT id FROM vector_spaces WHERE model = :model AND dims = :dims)
)
ORDER BY p.seq LIMIT :limit;

-- name: places_of_items
-- Items by their positions (a JSON list): where each stands, and whether it is active.
SELECT p.seq, p.scope_id, p.status = 'active' FROM json_each(?) AS wanted JOIN patterns AS p ON p.seq = wanted.value;

-- name: has_vector_table
-- Whether the vector index of a space is there.
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?;

-- name: index_vector
-- Enter a vector into the index of its space.
INSERT INTO {vectors} (rowid, scope_id, embedding) VALUES (?, ?, {element}(?));

-- name: unindex_vector
-- Take a vector out of the index of its space.
DELETE FROM {vectors} WHERE rowid = ?;

-- name: fill_vector_index
-- Enter the vectors of all active items into the empty index of a space.
INSERT INTO {vectors} (rowid, scope_id, embedding)
SELECT p.seq, p.scope_id, {element}(e.vector) -- sorting them would lose their type
FROM pattern_embeddings AS e JOIN patterns AS p ON p.seq = e.seq
WHERE e.space_id = (SELECT id FROM vector_spaces WHERE model = ? AND dims = ?) AND p.status = 'active';

-- name: vector_slots
-- The size of a space's index and what is live in it.
SELECT (SELECT sum(size) FROM {vectors}_chunks), (SELECT count(*) FROM {vectors}_rowids);

-- name: nearest_vectors
-- The k nearest items of each of some partitions (a JSON list).
SELECT rowid, distance FROM {vectors} WHERE embedding MATCH {element}(:vector) AND k = :k AND scope_id IN (SELECT value FROM json_each(:partitions));

-- name: nearest_among
-- The k nearest of some items (a JSON list), each compared: the index would read the vectors of all.
SELECT e.seq, vec_distance_cosine({element}(e.vector), {element}(:vector)) AS distance
FROM json_each(:among) AS wanted CROSS JOIN pattern_embeddings AS e
  ON e.seq = wanted.value AND e.space_id = (SELECT id FROM vector_spaces WHERE model = :model AND dims = :dims)
ORDER BY distance, e.seq LIMIT :k;

-- name: scan_vectors
-- All vectors of one scope in a space.
SELECT p.seq, e.vector
FROM patterns AS p JOIN pattern_embeddings AS e
  ON e.seq = p.seq AND e.space_id = (SELECT id FROM vector_spaces WHERE model = :model AND dims = :dims)
WHERE p.scope_id = :partition AND p.status = 'active';

-- name: scan_vectors_among
-- The vectors of some items (a JSON list).
SELECT e.seq, e.vector FROM json_each(:among) AS wanted CROSS JOIN pattern_embeddings AS e
  ON e.seq = wanted.value AND e.space_id = (SELECT id FROM vector_spaces WHERE model = :model AND dims = :dims);

-- name: passing
-- What passes filters, each of which gives (scope, position): of each scope a JSON list.
SELECT scope_id, json_group_array(seq) FROM ({filters}) GROUP BY scope_id;

-- name: active_of_domain
-- The active items of some scopes (a JSON list) that are of a domain.
SELECT scope_id, seq FROM patterns
WHERE scope_id IN (SELECT value FROM json_each(:scopes)) AND status = 'active' AND domain = :domain;

-- name: active_of_agent
-- Those that tasks of an agent taught.
SELECT scope_id, seq FROM patterns
WHERE scope_id IN (SELECT value FROM json_each(:scopes)) AND status = 'active' AND agent_id = :agent_id;

-- name: active_with_tags
-- Those that have every tag of some (a JSON list).
SELECT p.scope_id, p.seq FROM (
  SELECT DISTINCT t.seq FROM json_each(:tags) AS wanted CROSS JOIN pattern_tags AS t ON t.tag = wanted.value
) AS few
CROSS JOIN patterns AS p ON p.seq = few.seq
WHERE p.scope_id IN (SELECT value FROM json_each(:scopes)) AND p.status = 'active' AND NOT EXISTS (
  SELECT 1 FROM json_each(:tags) AS wanted
  WHERE NOT EXISTS (SELECT 1 FROM pattern_tags AS t WHERE t.seq = p.seq AND t.tag = wanted.value)
);

-- name: term_counts
-- In how many items each term (a JSON list) stands.
SELECT wanted.key, v.doc FROM json_each(?) AS wanted JOIN pattern_terms AS v ON v.term = wanted.value;

-- name: keyword_matches
-- The best items for a MATCH expression by the negative BM25 with the weights of title, description, content.
SELECT rowid, bm25(pattern_fts, 2.0, 1.2, 1.0) AS score FROM pattern_fts
WHERE pattern_fts MATCH :expression -- the column `rank` sorts all of them, which takes half as long again
ORDER BY score, rowid LIMIT :limit;

-- name: keyword_matches_among
-- The same among some items (a JSON list).
SELECT rowid, bm25(pattern_fts, 2.0, 1.2, 1.0) AS score FROM pattern_fts
WHERE pattern_fts MATCH :expression AND +rowid IN (SELECT value FROM json_each(:among))
ORDER BY score, rowid LIMIT :limit;

-- name: searched
-- What a search looks at: the space of a vector, and of each scope (a JSON list of pairs) its active items and those with a vector there.
SELECT
  v.id, v.model, v.dims, v.quantization, v.stale, 'vec_', s.id, s.active, coalesce(m.active, 0)
FROM (SELECT 1)
LEFT JOIN vector_spaces AS v ON v.model = :model AND v.dims = :dims
LEFT JOIN (
  SELECT each.id, each.active FROM json_each(:scopes) AS wanted
  JOIN scopes AS each ON each.tenant_id = wanted.value ->> 0 AND each.project = wanted.value ->> 1) AS s ON TRUE
LEFT JOIN space_members AS m ON m.space_id = v.id AND m.scope_id = s.id;

-- name: vectors_of_items
-- The vectors that items (a JSON list of positions) have in a space.
SELECT e.seq, e.vector FROM json_each(:seqs) AS wanted
CROSS JOIN pattern_embeddings AS e ON e.seq = wanted.value AND e.space_id = :space_id;

-- name: candidates
-- What scoring needs of items by their positions (a JSON list).
SELECT
  p.seq, t.tokens, e.vector,
  p.id, s.tenant_id, s.project, p.pattern_data, p.confidence, p.usage_count, p.created_at, p.last_used, p.status,
  p.status_reason, p.outcome, p.standing
FROM json_each(:seqs) AS wanted
CROSS JOIN patterns AS p ON p.seq = wanted.value AND p.status = 'active'
JOIN scopes AS s ON s.id = p.scope_id
JOIN pattern_tokens AS t ON t.seq = p.seq
LEFT JOIN pattern_embeddings AS e
  ON e.seq = p.seq AND e.space_id = (SELECT id FROM vector_spaces WHERE model = :model AND dims = :dims);

-- name: links_of
-- Every link from or to items (a JSON list) of some scopes (a list of pairs).
WITH asked AS (
  SELECT s.id FROM json_each(:scopes) AS wanted
  JOIN scopes AS s ON s.tenant_id = wanted.value ->> 0 AND s.project = wanted.value ->> 1
)
SELECT l.src_id, l.dst_id, l.relation, l.weight
FROM pattern_links AS l CROSS JOIN patterns AS p
  ON p.id = l.src_id AND p.scope_id IN (SELECT id FROM asked)
WHERE l.src_id IN (SELECT value FROM json_each(:ids))
UNION
SELECT l.src_id, l.dst_id, l.relation, l.weight
FROM pattern_links AS l CROSS JOIN patterns AS p
  ON p.id = l.dst_id AND p.scope_id IN (SELECT id FROM asked)
WHERE l.dst_id IN (SELECT value FROM json_each(:ids));

-- name: clear_events_of
-- Take the texts out of what happened to a subject.
UPDATE events SET data = '{}' WHERE subject_id = ?;

-- name: pattern_hashes
-- The text of every item with the hash it must have.
SELECT id, pattern_data, content_hash FROM patterns;

-- name: events_of
-- What happened to subjects (a JSON list), or what of some kinds (a JSON list) did, oldest first.
SELECT e.type, e.created_at, e.subject_id, e.data FROM json_each(:subject_ids) AS wanted
CROSS JOIN events AS e ON e.subject_id = wanted.value
CROSS JOIN scopes AS s ON s.id = e.scope_id
WHERE (s.tenant_id, s.project) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:scopes))
  AND (:kinds IS NULL OR e.type IN (SELECT value FROM json_each(:kinds)))
ORDER BY e.seq;

-- name: added
-- The day on which agents and hooks added to a scope last, and how much.
SELECT value FROM meta WHERE key = 'added:' || ?;

-- name: put_added
-- Write how much agents and hooks added to a scope on a day.
INSERT INTO meta (key, value) VALUES ('added:' || :scope_id, :value)
ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- name: entered_wrongly
-- How many items the keyword index holds that it must not, and how many it lacks.
SELECT
  (SELECT count(*) FROM pattern_fts_docsize AS d WHERE NOT EXISTS (
    SELECT 1 FROM patterns AS p WHERE p.seq = d.id AND p.status = 'active')),
  (SELECT count(*) FROM patterns AS p WHERE p.status = 'active' AND NOT EXISTS (
    SELECT 1 FROM pattern_fts_docsize AS d WHERE d.id = p.seq));

-- name: indexed_terms
-- Every term of the keyword index: in how many items it stands, and how often.
SELECT term, doc, cnt FROM pattern_terms;

-- name: wrong_active_counts
-- How many scopes have a wrong number of active items.
SELECT count(*) FROM scopes AS s
WHERE s.active <> (SELECT count(*) FROM patterns AS p WHERE p.scope_id = s.id AND p.status = 'active');

-- name: wrong_member_counts
-- How many scopes have a wrong number of items with a vector in a space.
SELECT count(*) FROM scopes AS s
WHERE coalesce((SELECT m.active FROM space_members AS m WHERE m.space_id = :space_id AND m.scope_id = s.id), 0) <> (
  SELECT count(*) FROM patterns AS p JOIN pattern_embeddings AS e ON e.seq = p.seq
  WHERE p.scope_id = s.id AND p.status = 'active' AND e.space_id = :space_id);

-- name: vectors_to_index
-- The vectors that the index of a space must hold.
SELECT p.seq, e.vector FROM patterns AS p JOIN pattern_embeddings AS e ON e.seq = p.seq
WHERE p.status = 'active' AND e.space_id = (SELECT id FROM vector_spaces WHERE model = ? AND dims = ?);
