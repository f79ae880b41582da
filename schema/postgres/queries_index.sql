-- name: words_of_memories
-- The packed tokens of items (a list of positions).
SELECT seq, tokens FROM pattern_tokens WHERE seq = ANY(:seqs::bigint[]) ORDER BY seq;

-- name: words_of_passages
-- The tokens of passages (a list of positions).
SELECT seq, title, description, content FROM passage_tokens WHERE seq = ANY(:seqs::bigint[]) ORDER BY seq;

-- name: active_memories
-- The active items by partition and position: their packed tokens.
SELECT p.seq, p.scope_id, p.scope_id, t.tokens FROM patterns AS p JOIN pattern_tokens AS t ON t.seq = p.seq
WHERE p.status = 'active' ORDER BY p.scope_id, p.seq;

-- name: active_passages
-- The passages by partition and position: their tokens.
SELECT p.seq, p.partition_id, r.scope_id, t.title, t.description, t.content
FROM passages AS p JOIN source_partitions AS r ON r.id = p.partition_id JOIN passage_tokens AS t ON t.seq = p.seq
ORDER BY p.partition_id, p.seq;

-- name: vectors_of_memories
-- The vectors of active items in a space, after a position.
SELECT p.seq, p.scope_id, e.vector FROM patterns AS p
JOIN pattern_embeddings AS e ON e.seq = p.seq AND e.space_id = :space_id
WHERE p.seq > :after AND p.status = 'active' ORDER BY p.seq LIMIT :limit;

-- name: vectors_of_passages
-- The vectors of passages in a space, after a position.
SELECT p.seq, p.partition_id, e.vector FROM passages AS p JOIN source_spaces AS s ON s.id = :space_id
JOIN passage_embeddings AS e ON e.seq = p.seq AND e.model = s.model AND e.dims = s.dims
WHERE p.seq > :after ORDER BY p.seq LIMIT :limit;

-- name: scope_of_partition
-- The scope of a partition of passages.
SELECT scope_id FROM source_partitions WHERE id = :partition;

-- name: add_recent
-- Note the words of an item that came or went, and count them; give how many rows were there before.
WITH added AS (
  INSERT INTO recent_words (kind, partition, scope_id, seq, sign, length, words, weights)
  VALUES (:kind, :partition, :scope_id, :seq, :sign, :length, :words, :weights)
  ON CONFLICT DO NOTHING),
counted AS (
  INSERT INTO indexed_words AS i (kind, partition, scope_id, tokens)
  VALUES (:kind, :partition, :scope_id, :sign::bigint * :length)
  ON CONFLICT (kind, partition) DO UPDATE SET tokens = i.tokens + excluded.tokens)
SELECT count(*) FROM recent_words WHERE kind = :kind AND partition = :partition;

-- name: drop_recent
-- Take the words of an item away that are in no posting yet.
DELETE FROM recent_words WHERE kind = :kind AND partition = :partition AND seq = :seq AND sign = 1;

-- name: count_words
-- Change the number of words that the items of a partition have.
INSERT INTO indexed_words AS i (kind, partition, scope_id, tokens) VALUES (:kind, :partition, :scope_id, :tokens)
ON CONFLICT (kind, partition) DO UPDATE SET tokens = i.tokens + excluded.tokens;

-- name: try_lock
-- Whether this transaction is the one that enters postings of a partition.
SELECT pg_try_advisory_xact_lock(1398230349 + :kind, hashint8(:partition));

-- name: lock
-- Wait until this transaction is the one that enters postings of a partition.
SELECT pg_advisory_xact_lock(1398230349 + :kind, hashint8(:partition));

-- name: take_recent
-- Take the words that came or went out of where they were noted, but those that another transaction is taking away.
DELETE FROM recent_words AS r USING (
  SELECT seq, sign FROM recent_words WHERE kind = :kind AND partition = :partition FOR UPDATE SKIP LOCKED) AS free
WHERE r.kind = :kind AND r.partition = :partition AND r.seq = free.seq AND r.sign = free.sign
RETURNING r.seq, r.sign, r.length, r.words, r.weights;

-- name: remove_entries
-- Take items (positions beside the words that they held) out of the postings.
WITH gone AS MATERIALIZED (
  SELECT token, array_agg(seq) AS seqs FROM unnest(:words::text[], :seqs::bigint[]) AS w(token, seq) GROUP BY token)
UPDATE postings AS p SET
  documents = CASE p.block WHEN 0 THEN p.documents - cardinality(g.seqs) ELSE 0 END,
  entries = ARRAY(SELECT e FROM unnest(p.entries) WITH ORDINALITY AS each(e, place) WHERE e >> 24 <> ALL(g.seqs) ORDER BY place)
FROM gone AS g
WHERE p.kind = :kind AND p.partition = :partition AND p.token = g.token
  AND (p.block = 0 OR EXISTS (SELECT 1 FROM unnest(p.entries) AS e WHERE e >> 24 = ANY(g.seqs)));

-- name: drop_empty
-- Drop blocks in which nothing is left, of words that items held that went.
DELETE FROM postings WHERE kind = :kind AND partition = :partition AND token = ANY(:words::text[])
  AND cardinality(entries) = 0 AND (block > 0 OR documents <= 0);

-- name: add_entries
-- Enter items (entries beside the words that they hold); give the words whose newest block is full.
WITH added AS (
  INSERT INTO postings AS p (kind, partition, scope_id, token, block, documents, entries)
  SELECT :kind, :partition, :scope_id, w.token, 0, count(*), array_agg(w.entry ORDER BY w.entry)
  FROM unnest(:words::text[], :entries::bigint[]) AS w(token, entry) GROUP BY w.token
  ON CONFLICT (kind, partition, token, block) DO UPDATE SET
    documents = p.documents + excluded.documents, entries = p.entries || excluded.entries
  RETURNING p.token, cardinality(p.entries) AS entries)
SELECT token FROM added WHERE entries >= :full;

-- name: put_blocks
-- Write blocks (words, numbers, counts, entries as texts) where there were none.
INSERT INTO postings (kind, partition, scope_id, token, block, documents, entries)
SELECT :kind, :partition, :scope_id, b.token, b.block, b.documents, b.entries::bigint[]
FROM unnest(:words::text[], :blocks::integer[], :documents::integer[], :entries::text[]) AS b(token, block, documents, entries);

-- name: close_blocks
-- Copy the newest blocks of some words behind the others.
INSERT INTO postings (kind, partition, scope_id, token, block, documents, entries)
SELECT p.kind, p.partition, p.scope_id, p.token, 1 + (
  SELECT max(o.block) FROM postings AS o WHERE (o.kind, o.partition, o.token) = (p.kind, p.partition, p.token)), 0, p.entries
FROM postings AS p WHERE p.kind = :kind AND p.partition = :partition AND p.token = ANY(:words::text[]) AND p.block = 0;

-- name: empty_blocks
-- Empty what was copied so.
UPDATE postings SET entries = '{}'
WHERE kind = :kind AND partition = :partition AND token = ANY(:words::text[]) AND block = 0;

-- name: partitions_to_enter
-- The partitions in which items went whose words are still in postings.
SELECT DISTINCT partition, scope_id FROM recent_words WHERE kind = :kind AND sign < 0 ORDER BY partition;

-- name: forget_words
-- Drop the words of one kind.
WITH postings_gone AS (DELETE FROM postings WHERE kind = :kind), recent_gone AS (DELETE FROM recent_words WHERE kind = :kind)
DELETE FROM indexed_words WHERE kind = :kind;

-- name: forget_vectors
-- Drop what is searched of a space.
DELETE FROM item_vectors WHERE kind = :kind AND space_id = :space_id;

-- name: indexes_of_space
-- The indexes of the partitions of a space, where this role may drop them.
SELECT c.relname FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
WHERE i.indrelid = to_regclass('item_vectors') AND pg_has_role(c.relowner, 'usage')
  AND starts_with(c.relname, format('hnsw_%s_%s_', :kind, :space_id));

-- name: enter_vectors
-- Enter the vectors (texts beside positions) of items of a partition.
INSERT INTO item_vectors (kind, space_id, partition, scope_id, seq, embedding)
SELECT :kind, :space_id, :partition, :scope_id, v.seq, v.vector::halfvec
FROM unnest(:seqs::bigint[], :vectors::text[]) AS v(seq, vector);

-- name: leave_vector
-- Take out the vector of an item.
DELETE FROM item_vectors WHERE kind = :kind AND space_id = :space_id AND partition = :partition AND seq = :seq;

-- name: unindexed_memories
-- The spaces and partitions with so many vectors that they need an index of their own, and have none that is whole;
-- dimensions, and how many vectors.
SELECT m.space_id, m.scope_id, s.dims, m.active FROM space_members AS m JOIN vector_spaces AS s ON s.id = m.space_id
WHERE m.active >= :large AND s.dims <= :longest AND NOT EXISTS (
  SELECT 1 FROM pg_index AS i
  WHERE i.indexrelid = to_regclass(format('hnsw_1_%s_%s', m.space_id, m.scope_id)) AND i.indisvalid)
ORDER BY m.space_id, m.scope_id;

-- name: unindexed_passages
-- The same of passages.
SELECT m.space_id, m.partition_id, s.dims, m.passages FROM source_space_members AS m JOIN source_spaces AS s ON s.id = m.space_id
WHERE m.passages >= :large AND s.dims <= :longest AND NOT EXISTS (
  SELECT 1 FROM pg_index AS i
  WHERE i.indexrelid = to_regclass(format('hnsw_2_%s_%s', m.space_id, m.partition_id)) AND i.indisvalid)
ORDER BY m.space_id, m.partition_id;

-- name: try_indexing
-- Whether this connection is the one that gives partitions their indexes.
SELECT pg_try_advisory_lock(1398230349, 3);

-- name: end_indexing
-- Let others do so.
SELECT pg_advisory_unlock(1398230349, 3);

-- name: may_index
-- Whether this role owns the vectors, so that it may make an index of them.
SELECT pg_has_role(c.relowner, 'usage') FROM pg_class AS c WHERE c.oid = to_regclass('item_vectors');

-- name: index_vectors
-- Give a partition an index of its own, with the rights of who owns the bank.
SELECT index_vectors(:kind, :space_id, :partition);

-- name: limit_time
-- Let statements of this connection take so many milliseconds; 0: as long as they take. Give what it was.
SELECT current_setting('statement_timeout'), set_config('statement_timeout', :limit, false);

-- name: no_time_limit
-- Let this transaction take as long as it takes.
SELECT set_config('statement_timeout', '0', true);
