-- name: trajectory_hashes
-- The text of every trajectory with the hash it must have.
SELECT id, trajectory_json, content_hash FROM task_trajectories;

-- name: entered_wrongly
-- How many items the keyword index holds that it must not, and how many it lacks.
SELECT
  (SELECT count(*) FROM pattern_fts_docsize AS d WHERE NOT EXISTS (
    SELECT 1 FROM patterns AS p WHERE p.seq = d.id AND p.status = 'active')),
  (SELECT count(*) FROM patterns AS p WHERE p.status = 'active' AND NOT EXISTS (
    SELECT 1 FROM pattern_fts_docsize AS d WHERE d.id = p.seq));

-- name: without_tokens
-- Items whose tokens are not there, with their text.
SELECT p.seq, p.pattern_data FROM patterns AS p
WHERE NOT EXISTS (SELECT 1 FROM pattern_tokens AS t WHERE t.seq = p.seq);

-- name: active_tokens
-- The tokens of every active item, packed, with its scope.
SELECT t.tokens, p.scope_id FROM pattern_tokens AS t JOIN patterns AS p ON p.seq = t.seq WHERE p.status = 'active';

-- name: all_tokens
-- The tokens of every item, packed.
SELECT seq, tokens FROM pattern_tokens;

-- name: drop_tokens
-- Delete tokens that cannot be read; they are made anew.
DELETE FROM pattern_tokens WHERE seq = ?;

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
-- The vectors that the index of a space must hold; those that have codes are not in it.
SELECT p.seq, e.vector FROM patterns AS p JOIN pattern_embeddings AS e ON e.seq = p.seq
WHERE p.status = 'active' AND e.space_id = (SELECT id FROM vector_spaces WHERE model = ? AND dims = ?)
  AND p.scope_id NOT IN (SELECT partition FROM coded_partitions WHERE space = '{vectors}');

-- name: passages_entered_wrongly
-- How many passages the keyword index holds that it must not, and how many it lacks.
SELECT
  (SELECT count(*) FROM passage_fts_docsize AS d WHERE NOT EXISTS (SELECT 1 FROM passage_tokens AS t WHERE t.seq = d.id)),
  (SELECT count(*) FROM passage_tokens AS t WHERE NOT EXISTS (SELECT 1 FROM passage_fts_docsize AS d WHERE d.id = t.seq));

-- name: tokens_of_passages
-- The tokens of every passage as the index has them.
SELECT title || ' ' || description || ' ' || content FROM partitioned_tokens;

-- name: terms_of_passages
-- Every term of the keyword index of passages: in how many it stands, and how often.
SELECT term, doc, cnt FROM passage_terms;

-- name: wrong_passage_counts
-- How many partitions have a wrong number of passages.
SELECT count(*) FROM source_partitions AS s
WHERE s.passages <> (SELECT count(*) FROM passages AS p WHERE p.partition_id = s.id);

-- name: wrong_counts_of_passage_vectors
-- How many partitions have a wrong number of passages with a vector in a space.
SELECT count(*) FROM source_partitions AS s
WHERE coalesce((
  SELECT m.passages FROM source_space_members AS m WHERE m.space_id = :space_id AND m.partition_id = s.id), 0) <> (
  SELECT count(*) FROM passages AS p JOIN passage_embeddings AS e ON e.seq = p.seq
  WHERE p.partition_id = s.id AND e.model = :model AND e.dims = :dims);

-- name: passage_vectors_to_index
-- The vectors that the index of a space of passages must hold; those that have codes are not in it.
SELECT p.seq, e.vector FROM passages AS p JOIN passage_embeddings AS e ON e.seq = p.seq
WHERE e.model = ? AND e.dims = ?
  AND p.partition_id NOT IN (SELECT partition FROM coded_partitions WHERE space = '{vectors}');

-- name: vectors_of_wrong_size
-- How many vectors of a space have another number of bytes than their dimensions need.
SELECT count(*) FROM pattern_embeddings
WHERE space_id = (SELECT id FROM vector_spaces WHERE model = ? AND dims = ?) AND length(vector) <> ?;

-- name: drop_vectors_of_wrong_size
-- Delete them; `reembed` makes them anew.
DELETE FROM pattern_embeddings
WHERE space_id = (SELECT id FROM vector_spaces WHERE model = ? AND dims = ?) AND length(vector) <> ?;

-- name: drop_vector
-- Delete a vector of which nobody can tell whether it is right; `reembed` makes it anew.
DELETE FROM pattern_embeddings
WHERE seq = ? AND space_id = (SELECT id FROM vector_spaces WHERE model = ? AND dims = ?);

-- name: indexed_vectors
-- The vectors that the index of a space holds.
SELECT rowid, embedding FROM {vectors};

-- name: pattern_text
-- The text of a memory with its hash.
SELECT pattern_data, content_hash FROM patterns WHERE id = ?;

-- name: trajectory_text
-- The text of a trajectory with its hash.
SELECT trajectory_json, content_hash FROM task_trajectories WHERE id = ?;

-- name: put_pattern_text
-- Put back the text of a memory.
UPDATE patterns SET pattern_data = ?, content_hash = ? WHERE id = ?;

-- name: put_trajectory_text
-- Put back the text of a trajectory.
UPDATE task_trajectories SET trajectory_json = ?, content_hash = ? WHERE id = ?;

-- name: place_of_pattern
-- Where a memory stands: position, id, scope, status.
SELECT seq, id, scope_id, status FROM patterns WHERE id = ?;

-- name: delete_trajectory
-- Delete a trajectory that cannot be read.
DELETE FROM task_trajectories WHERE id = ?;

-- name: lost_scopes
-- Scopes that memories name and that are not there.
SELECT DISTINCT p.scope_id FROM patterns AS p WHERE NOT EXISTS (SELECT 1 FROM scopes AS s WHERE s.id = p.scope_id);

-- name: make_lost_scope
-- Make such a scope again, by the name that a backup has, or one that tells of it.
INSERT INTO scopes (id, tenant_id, project) VALUES (?, ?, ?);
