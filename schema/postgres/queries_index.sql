-- name: words_of_memories
-- The packed tokens of items (a list of positions).
SELECT seq, tokens FROM pattern_tokens WHERE seq = ANY(:seqs::bigint[]) ORDER BY seq;

-- name: words_of_passages
-- The tokens of passages (a list of positions).
SELECT seq, title, description, content FROM passage_tokens WHERE seq = ANY(:seqs::bigint[]) ORDER BY seq;

-- name: active_memories
-- The active items after a position, with their partitions and packed tokens.
SELECT p.seq, p.scope_id, t.tokens FROM patterns AS p JOIN pattern_tokens AS t ON t.seq = p.seq
WHERE p.seq > :after AND p.status = 'active' ORDER BY p.seq LIMIT :limit;

-- name: active_passages
-- The passages after a position, with their partitions and tokens.
SELECT p.seq, p.partition_id, t.title, t.description, t.content FROM passages AS p
JOIN passage_tokens AS t ON t.seq = p.seq WHERE p.seq > :after ORDER BY p.seq LIMIT :limit;

-- name: vectors_memories
-- The vectors of active items in a space, after a position.
SELECT p.seq, p.scope_id, e.vector FROM patterns AS p
JOIN pattern_embeddings AS e ON e.seq = p.seq AND e.space_id = :space_id
WHERE p.seq > :after AND p.status = 'active' ORDER BY p.seq LIMIT :limit;

-- name: vectors_passages
-- The vectors of passages in a space, after a position.
SELECT p.seq, p.partition_id, e.vector FROM passages AS p JOIN source_spaces AS s ON s.id = :space_id
JOIN passage_embeddings AS e ON e.seq = p.seq AND e.model = s.model AND e.dims = s.dims
WHERE p.seq > :after ORDER BY p.seq LIMIT :limit;

-- name: scope_of_partition
-- The scope of a partition of passages.
SELECT scope_id FROM source_partitions WHERE id = :partition;

-- name: enter_words
-- Enter words of items of a partition (lists, a word beside the item that holds it), and count them.
WITH entered AS (
  INSERT INTO item_words (kind, partition, scope_id, token, seq, weight, length)
  SELECT :kind, :partition, :scope_id, w.token, w.seq, w.weight, w.length
  FROM unnest(:tokens::text[], :seqs::bigint[], :weights::integer[], :lengths::integer[]) AS w(token, seq, weight, length)
  RETURNING token)
INSERT INTO word_counts AS c (kind, partition, scope_id, token, items)
SELECT :kind, :partition, :scope_id, token, count(*) FROM entered GROUP BY token ORDER BY token
ON CONFLICT (kind, partition, token) DO UPDATE SET items = c.items + excluded.items;

-- name: leave_words
-- Take out the words (a list) of an item, and count them.
WITH gone AS (
  DELETE FROM item_words WHERE kind = :kind AND partition = :partition AND seq = :seq AND token = ANY(:tokens::text[])
  RETURNING token)
UPDATE word_counts AS c SET items = c.items - 1
FROM gone WHERE c.kind = :kind AND c.partition = :partition AND c.token = gone.token;

-- name: drop_counts
-- Drop the counts of words (a list) that stand nowhere in a partition.
DELETE FROM word_counts WHERE kind = :kind AND partition = :partition AND token = ANY(:tokens::text[]) AND items <= 0;

-- name: count_words
-- Change the number of words that the items of a partition have.
INSERT INTO indexed_words AS i (kind, partition, scope_id, tokens) VALUES (:kind, :partition, :scope_id, :change)
ON CONFLICT (kind, partition) DO UPDATE SET tokens = i.tokens + excluded.tokens;

-- name: forget_words
-- Drop the words of one kind.
WITH words AS (DELETE FROM item_words WHERE kind = :kind), counts AS (DELETE FROM word_counts WHERE kind = :kind)
DELETE FROM indexed_words WHERE kind = :kind;

-- name: forget_vectors
-- Drop what is searched of a space.
DELETE FROM item_vectors WHERE kind = :kind AND space_id = :space_id;

-- name: enter_vectors
-- Enter the vectors (texts beside positions) of items of a partition.
INSERT INTO item_vectors (kind, space_id, partition, scope_id, seq, embedding)
SELECT :kind, :space_id, :partition, :scope_id, v.seq, v.vector::halfvec
FROM unnest(:seqs::bigint[], :vectors::text[]) AS v(seq, vector);

-- name: leave_vector
-- Take out the vector of an item.
DELETE FROM item_vectors WHERE kind = :kind AND space_id = :space_id AND partition = :partition AND seq = :seq;

-- name: no_time_limit
-- Let this transaction take as long as it takes.
SELECT set_config('statement_timeout', '0', true);
