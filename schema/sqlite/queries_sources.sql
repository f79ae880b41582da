-- name: put_partition
-- The partition of a scope and kind, which is made when it is new.
INSERT INTO source_partitions (scope_id, kind) VALUES (?, ?)
ON CONFLICT (scope_id, kind) DO UPDATE SET kind = excluded.kind RETURNING id;

-- name: find_source
-- A source with its partition, by scope, kind and location.
SELECT s.partition_id, s.id FROM source_partitions AS p JOIN sources AS s ON s.partition_id = p.id
WHERE p.scope_id = ? AND p.kind = ? AND s.location = ?;

-- name: put_source
-- Register a source, or note when it was looked at again.
INSERT INTO sources (partition_id, location, indexed_at) VALUES (?, ?, ?)
ON CONFLICT (partition_id, location) DO UPDATE SET indexed_at = excluded.indexed_at RETURNING id;

-- name: list_sources
-- The sources of a scope with the numbers of their groups and passages.
SELECT
  s.id, p.kind, s.location, s.indexed_at,
  (SELECT count(*) FROM source_groups AS g WHERE g.source_id = s.id) AS groups,
  (SELECT count(*) FROM source_groups AS g JOIN passages AS a ON a.group_id = g.id WHERE g.source_id = s.id) AS passages
FROM sources AS s JOIN source_partitions AS p ON p.id = s.partition_id
WHERE p.scope_id = ? ORDER BY p.kind, s.location;

-- name: delete_source
-- Forget a source; what is in it goes with it.
DELETE FROM sources WHERE id = ?;

-- name: groups_of_source
-- The groups of a source with the hashes of what they were made from.
SELECT name, content_hash FROM source_groups WHERE source_id = ?;

-- name: find_group
-- A group by its source and name.
SELECT id FROM source_groups WHERE source_id = ? AND name = ?;

-- name: add_group
-- Register a group.
INSERT INTO source_groups (source_id, name, content_hash, name_tokens, indexed_at) VALUES (?, ?, ?, ?, ?);

-- name: delete_group
-- Delete a group with its passages, their tokens and vectors.
DELETE FROM source_groups WHERE id = ?;

-- name: passages_of_group
-- The positions in the index of a group's passages.
SELECT seq FROM passages WHERE group_id = ?;

-- name: last_passage
-- The last position in the index, 0 in an empty one, and how many come behind it.
SELECT coalesce((SELECT max(seq) FROM passages), 0), ?;

-- name: add_passage
-- Write a passage.
INSERT INTO passages (
  seq, group_id, partition_id, position, title, description, content, path, line, end_line, data
) VALUES (
  :seq, :group_id, :partition_id, :position, :title, :description, :content, :path, :line, :end_line, :data
);

-- name: put_tokens
-- Write the tokens of a passage's fields.
INSERT INTO passage_tokens (seq, title, description, content) VALUES (?, ?, ?, ?);

-- name: index_tokens
-- Enter a passage into the keyword index.
INSERT INTO passage_fts (rowid, title, description, content)
SELECT seq, title, description, content FROM partitioned_tokens WHERE seq = ?;

-- name: unindex_tokens
-- Take a passage out of the keyword index; its tokens must be those it was entered with.
INSERT INTO passage_fts (passage_fts, rowid, title, description, content)
SELECT 'delete', seq, title, description, content FROM partitioned_tokens WHERE seq = ?;

-- name: empty_keyword_index
-- Take everything out of the keyword index.
INSERT INTO passage_fts (passage_fts) VALUES ('delete-all');

-- name: fill_keyword_index
-- Enter every passage into the empty keyword index.
INSERT INTO passage_fts (rowid, title, description, content)
SELECT seq, title, description, content FROM partitioned_tokens;

-- name: optimize_keyword_index
-- Merge the keyword index into one part, so that nothing of deleted passages is left in it.
INSERT INTO passage_fts (passage_fts) VALUES ('optimize');

-- name: count_active
-- Change the number of passages of a partition.
UPDATE source_partitions SET passages = passages + ? WHERE id = ?;

-- name: recount_active
-- Count the passages of every partition again.
UPDATE source_partitions SET passages = (SELECT count(*) FROM passages WHERE partition_id = source_partitions.id);

-- name: find_space
-- The space of a model's vectors of so many dimensions.
SELECT id, model, dims, quantization, stale, 'source_vec_' FROM source_spaces WHERE model = ? AND dims = ?;

-- name: all_spaces
-- Every space.
SELECT id, model, dims, quantization, stale, 'source_vec_' FROM source_spaces ORDER BY id;

-- name: spaces_of_item
-- The spaces in which a passage has a vector, with that vector.
SELECT s.id, s.model, s.dims, s.quantization, s.stale, 'source_vec_', e.vector
FROM passage_embeddings AS e JOIN source_spaces AS s ON s.model = e.model AND s.dims = e.dims WHERE e.seq = ?;

-- name: add_space
-- Register a space.
INSERT INTO source_spaces (model, dims, quantization, stale) VALUES (?, ?, ?, ?);

-- name: mark_space
-- Say whether the vector index of a space lacks what was written without sqlite-vec.
UPDATE source_spaces SET stale = ? WHERE id = ?;

-- name: delete_space
-- Forget a space; its vectors and its index are dropped beside.
DELETE FROM source_spaces WHERE id = ?;

-- name: delete_vectors_of_space
-- Drop the vectors of a space.
DELETE FROM passage_embeddings WHERE model = ? AND dims = ?;

-- name: count_members
-- Change the number of passages of a partition that have a vector in a space.
INSERT INTO source_space_members (space_id, partition_id, passages) VALUES (:space_id, :partition, :change)
ON CONFLICT (space_id, partition_id) DO UPDATE SET passages = source_space_members.passages + :change;

-- name: forget_members
-- Drop the counts of a space before they are made again.
DELETE FROM source_space_members WHERE space_id = ?;

-- name: recount_members
-- Count the passages of every partition that have a vector in a space.
INSERT INTO source_space_members (space_id, partition_id, passages)
SELECT s.id, p.partition_id, count(*)
FROM source_spaces AS s
JOIN passage_embeddings AS e ON e.model = s.model AND e.dims = s.dims
JOIN passages AS p ON p.seq = e.seq
WHERE s.id = ? GROUP BY s.id, p.partition_id;

-- name: put_vector
-- Write the vector of a passage in a space.
INSERT INTO passage_embeddings (seq, model, dims, vector, created_at) VALUES (:seq, :model, :dims, :vector, :now)
ON CONFLICT (seq, model) DO UPDATE SET
  dims = excluded.dims, vector = excluded.vector, created_at = excluded.created_at;

-- name: drop_vector
-- Drop the vector of a passage in one space.
DELETE FROM passage_embeddings WHERE seq = :seq AND model = :model AND dims = :dims;

-- name: without_vector
-- Passages that have no vector in a space, by their order of arrival, after a position.
SELECT p.seq, coalesce(p.data ->> '$.speaker', p.title), p.description, p.content FROM passages AS p
WHERE p.seq > :after AND NOT EXISTS (
  SELECT 1 FROM passage_embeddings AS e WHERE e.seq = p.seq AND e.model = :model AND e.dims = :dims
)
ORDER BY p.seq LIMIT :limit;

-- name: places_of_items
-- Passages by their positions (a JSON list): where each stands; all are active.
SELECT p.seq, p.partition_id, 1 FROM json_each(?) AS wanted JOIN passages AS p ON p.seq = wanted.value;

-- name: has_vector_table
-- Whether the vector index of a space is there.
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?;

-- name: index_vector
-- Enter a vector into the index of its space.
INSERT INTO {vectors} (rowid, partition_id, embedding) VALUES (?, ?, {element}(?));

-- name: unindex_vector
-- Take a vector out of the index of its space.
DELETE FROM {vectors} WHERE rowid = ?;

-- name: fill_vector_index
-- Enter the vectors of all passages into the empty index of a space.
INSERT INTO {vectors} (rowid, partition_id, embedding)
SELECT p.seq, p.partition_id, {element}(e.vector) -- sorting them would lose their type
FROM passage_embeddings AS e JOIN passages AS p ON p.seq = e.seq WHERE e.model = ? AND e.dims = ?;

-- name: vector_slots
-- The size of a space's index and what is live in it.
SELECT (SELECT sum(size) FROM {vectors}_chunks), (SELECT count(*) FROM {vectors}_rowids);

-- name: nearest_vectors
-- The k nearest items of each of some partitions (a JSON list).
SELECT rowid, distance FROM {vectors}
WHERE embedding MATCH {element}(:vector) AND k = :k AND partition_id IN (SELECT value FROM json_each(:partitions));

-- name: scan_vectors
-- All vectors of one partition in a space.
SELECT p.seq, e.vector
FROM passages AS p JOIN passage_embeddings AS e ON e.seq = p.seq AND e.model = :model AND e.dims = :dims
WHERE p.partition_id = :partition;

-- name: term_counts
-- In how many passages each term (a JSON list) stands.
SELECT wanted.key, v.doc FROM json_each(?) AS wanted JOIN passage_terms AS v ON v.term = wanted.value;

-- name: keyword_matches
-- The best passages for a MATCH expression by the negative BM25 with the weights of the three fields.
SELECT rowid, bm25(passage_fts, 2.0, 1.2, 1.0) AS score FROM passage_fts
WHERE passage_fts MATCH :expression
ORDER BY score, rowid LIMIT :limit;

-- name: searched
-- What a search looks at: the space of a vector, and of each partition of some scopes (a JSON list of pairs) and kinds (a JSON list) its passages and those with a vector there.
SELECT
  v.id, v.model, v.dims, v.quantization, v.stale, 'source_vec_', r.id, r.passages, coalesce(m.passages, 0)
FROM (SELECT 1)
LEFT JOIN source_spaces AS v ON v.model = :model AND v.dims = :dims
LEFT JOIN (
  SELECT each.id, each.passages FROM json_each(:scopes) AS wanted
  JOIN scopes AS s ON s.tenant_id = wanted.value ->> 0 AND s.project = wanted.value ->> 1
  JOIN source_partitions AS each ON each.scope_id = s.id
  WHERE each.kind IN (SELECT value FROM json_each(:kinds))) AS r ON TRUE
LEFT JOIN source_space_members AS m ON m.space_id = v.id AND m.partition_id = r.id;

-- name: candidates
-- What scoring needs of passages by their positions (a JSON list), with their vectors in a space.
SELECT p.seq, r.kind, p.group_id, p.position, t.title, t.description, t.content, g.name_tokens, e.vector
FROM json_each(:seqs) AS wanted
CROSS JOIN passages AS p ON p.seq = wanted.value
JOIN source_groups AS g ON g.id = p.group_id
JOIN source_partitions AS r ON r.id = p.partition_id
JOIN passage_tokens AS t ON t.seq = p.seq
LEFT JOIN passage_embeddings AS e ON e.seq = p.seq AND e.model = :model AND e.dims = :dims;

-- name: neighbours
-- The positions in the index of the passages beside others (a JSON list) in their groups, as far as distances (a JSON object by kind) say.
SELECT DISTINCT n.seq
FROM json_each(:seqs) AS wanted
CROSS JOIN passages AS p ON p.seq = wanted.value
JOIN source_partitions AS r ON r.id = p.partition_id
JOIN json_each(:distances) AS near ON near.key = r.kind
JOIN passages AS n ON n.group_id = p.group_id
  AND n.position BETWEEN p.position - near.value AND p.position + near.value AND n.seq <> p.seq;

-- name: passages
-- Passages by their positions (a JSON list) within scopes (another), in the order of the positions.
SELECT
  p.seq, r.kind, g.name AS "group", p.position, p.title, p.description, p.content, p.path, p.line, p.end_line, p.data,
  s.location, c.project, NULLIF(b.title, p.title) AS before_title, b.content AS before,
  NULLIF(a.title, p.title) AS after_title, a.content AS after
FROM json_each(:seqs) AS wanted
CROSS JOIN passages AS p ON p.seq = wanted.value
LEFT JOIN passages AS b ON b.group_id = p.group_id AND b.position = p.position - 1
LEFT JOIN passages AS a ON a.group_id = p.group_id AND a.position = p.position + 1
JOIN source_groups AS g ON g.id = p.group_id
JOIN sources AS s ON s.id = g.source_id
JOIN source_partitions AS r ON r.id = s.partition_id
JOIN scopes AS c ON c.id = r.scope_id
WHERE r.scope_id IN (SELECT value FROM json_each(:scope_ids))
ORDER BY wanted.key;

-- name: entered_wrongly
-- How many passages the keyword index holds that it must not, and how many it lacks.
SELECT
  (SELECT count(*) FROM passage_fts_docsize AS d WHERE NOT EXISTS (SELECT 1 FROM passage_tokens AS t WHERE t.seq = d.id)),
  (SELECT count(*) FROM passage_tokens AS t WHERE NOT EXISTS (SELECT 1 FROM passage_fts_docsize AS d WHERE d.id = t.seq));

-- name: indexed_terms
-- Every term of the keyword index of passages: in how many it stands, and how often.
SELECT term, doc, cnt FROM passage_terms;

-- name: wrong_active_counts
-- How many partitions have a wrong number of passages.
SELECT count(*) FROM source_partitions AS s
WHERE s.passages <> (SELECT count(*) FROM passages AS p WHERE p.partition_id = s.id);

-- name: wrong_member_counts
-- How many partitions have a wrong number of passages with a vector in a space.
SELECT count(*) FROM source_partitions AS s
WHERE coalesce((
  SELECT m.passages FROM source_space_members AS m WHERE m.space_id = :space_id AND m.partition_id = s.id), 0) <> (
  SELECT count(*) FROM passages AS p JOIN passage_embeddings AS e ON e.seq = p.seq
  WHERE p.partition_id = s.id AND e.model = :model AND e.dims = :dims);

-- name: vectors_to_index
-- The vectors that the index of a space of passages must hold.
SELECT p.seq, e.vector FROM passages AS p JOIN passage_embeddings AS e ON e.seq = p.seq
WHERE e.model = ? AND e.dims = ?;
