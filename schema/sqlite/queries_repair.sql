-- name: trajectory_hashes
-- The text of every trajectory with the hash it must have.
SELECT id, trajectory_json, content_hash FROM task_trajectories;

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
-- Delete tokens that cannot be read; they are made again.
DELETE FROM pattern_tokens WHERE seq = ?;

-- name: tokens_of_passages
-- The tokens of every passage as the index has them.
SELECT title || ' ' || description || ' ' || content FROM partitioned_tokens;

-- name: vectors_of_wrong_size
-- How many vectors of a space have another number of bytes than their dimensions need.
SELECT count(*) FROM pattern_embeddings
WHERE space_id = (SELECT id FROM vector_spaces WHERE model = ? AND dims = ?) AND length(vector) <> ?;

-- name: drop_vectors_of_wrong_size
-- Delete them; `reembed` makes them again.
DELETE FROM pattern_embeddings
WHERE space_id = (SELECT id FROM vector_spaces WHERE model = ? AND dims = ?) AND length(vector) <> ?;

-- name: drop_vector
-- Delete a vector of which nobody knows whether it is right; `reembed` makes it again.
DELETE FROM pattern_embeddings
WHERE seq = ? AND space_id = (SELECT id FROM vector_spaces WHERE model = ? AND dims = ?);

-- name: indexed_vectors
-- The vectors that the index of a space holds.
SELECT rowid, embedding FROM {vectors};

-- name: delete_pattern
-- Delete a memory whose text is not what was written.
DELETE FROM patterns WHERE id = ?;

-- name: delete_trajectory
-- Delete a trajectory whose text is not what was written.
DELETE FROM task_trajectories WHERE id = ?;
