-- A row for each word of an item takes the place of blocks of postings, and vectors are compared one by one.

-- The words of what is searched. `kind` is 1 for memories, 2 for passages; `partition` is the scope, or of passages the
-- source_partition; `weight` is five times the sum of the weights of the fields at each place of the word, `length` how
-- many words the item has.
CREATE TABLE item_words (
  partition BIGINT NOT NULL,
  scope_id BIGINT NOT NULL,
  seq BIGINT NOT NULL,
  weight INTEGER NOT NULL,
  length INTEGER NOT NULL,
  kind SMALLINT NOT NULL,
  token TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (kind, partition, token, seq)
);

INSERT INTO item_words (kind, partition, scope_id, token, seq, weight, length)
SELECT p.kind, p.partition, p.scope_id, p.token, e >> 24, e >> 14 & 1023, e & 16383
FROM postings AS p CROSS JOIN LATERAL unnest(p.entries) AS e
WHERE NOT EXISTS (
  SELECT 1 FROM recent_words AS r
  WHERE r.kind = p.kind AND r.partition = p.partition AND r.seq = e >> 24 AND r.sign < 0)
ON CONFLICT DO NOTHING;

INSERT INTO item_words (kind, partition, scope_id, token, seq, weight, length)
SELECT r.kind, r.partition, r.scope_id, w.token, r.seq, w.weight, r.length
FROM recent_words AS r CROSS JOIN LATERAL unnest(r.words, r.weights) AS w(token, weight) WHERE r.sign > 0
ON CONFLICT DO NOTHING;

-- In how many items of a partition a word stands.
CREATE TABLE word_counts (
  partition BIGINT NOT NULL,
  scope_id BIGINT NOT NULL,
  items INTEGER NOT NULL,
  kind SMALLINT NOT NULL,
  token TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (kind, partition, token)
) WITH (fillfactor = 80);

INSERT INTO word_counts (kind, partition, scope_id, token, items)
SELECT kind, partition, scope_id, token, count(*) FROM item_words GROUP BY kind, partition, scope_id, token;

CALL hold_rows('word_counts', 'EXISTS (SELECT 1 FROM scopes AS s WHERE s.id = word_counts.scope_id)');

CALL hold_rows('item_words', 'EXISTS (SELECT 1 FROM scopes AS s WHERE s.id = item_words.scope_id)');

DROP TABLE postings, recent_words;

DO $$
DECLARE
  found RECORD;
BEGIN
  FOR found IN SELECT i.indexrelid::regclass AS name FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
    WHERE i.indrelid = 'item_vectors'::regclass AND starts_with(c.relname, 'hnsw_')
  LOOP
    EXECUTE format('DROP INDEX %s', found.name);
  END LOOP;
END
$$;

DROP FUNCTION index_vectors(INTEGER, BIGINT, BIGINT);

DROP TRIGGER jobs_wake ON jobs;

DROP FUNCTION wake_workers();
