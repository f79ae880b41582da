-- What only the search needs, made from the plain tables: words with the items that hold them, and vectors.

-- In which items a word stands. `kind` is 1 for memories, 2 for passages, 3 for calls of tools; `partition` is the scope,
-- or of passages the source_partition. An entry is an item's position, then in 10 bits five times the sum of the weights
-- of the fields at each place of the word, then in 14 bits how many words the item has. Block 0 takes what is new until it is full, and
-- counts the items of all blocks; the others are never appended to.
CREATE TABLE postings (
  partition BIGINT NOT NULL,
  scope_id BIGINT NOT NULL,
  block INTEGER NOT NULL,
  documents INTEGER NOT NULL,
  kind SMALLINT NOT NULL,
  token TEXT COLLATE "C" NOT NULL,
  entries BIGINT[] NOT NULL,
  PRIMARY KEY (kind, partition, token, block)
) WITH (fillfactor = 80);

-- The words of items that came (sign 1) or went (sign -1) and are in no posting yet: a writer adds a row here, where no
-- other writer waits for it, and every so often one of them enters all into the postings.
CREATE TABLE recent_words (
  partition BIGINT NOT NULL,
  scope_id BIGINT NOT NULL,
  seq BIGINT NOT NULL,
  length INTEGER NOT NULL,
  kind SMALLINT NOT NULL,
  sign SMALLINT NOT NULL,
  words TEXT[] COLLATE "C" NOT NULL,
  weights SMALLINT[] NOT NULL,
  PRIMARY KEY (kind, partition, seq, sign)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- How many words the items of a partition have that are searched.
CREATE TABLE indexed_words (
  partition BIGINT NOT NULL,
  scope_id BIGINT NOT NULL,
  tokens BIGINT NOT NULL,
  kind SMALLINT NOT NULL,
  PRIMARY KEY (kind, partition)
) WITH (fillfactor = 50);

-- The vectors of what is searched. Where a partition is large, `index_vectors` gives it an index of its own, so that no
-- search has to look past the vectors of others.
CREATE TABLE item_vectors (
  space_id BIGINT NOT NULL,
  partition BIGINT NOT NULL,
  seq BIGINT NOT NULL,
  scope_id BIGINT NOT NULL,
  kind SMALLINT NOT NULL,
  embedding halfvec NOT NULL,
  PRIMARY KEY (kind, space_id, partition, seq)
) WITH (toast_tuple_target = 8160);

-- For roles that may make no index themselves, of what they are admitted to. Who owns the bank makes it without holding
-- up those who write vectors.
CREATE FUNCTION index_vectors(of_kind INTEGER, of_space BIGINT, of_partition BIGINT) RETURNS VOID
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp SET maintenance_work_mem = '512MB' AS $$
DECLARE
  numbers BIGINT;
BEGIN
  SELECT v.dims INTO numbers FROM swarm_memory.admissions AS a
  JOIN swarm_memory.scopes AS s
    ON (a.tenant_id IS NULL OR a.tenant_id = s.tenant_id) AND (a.project IS NULL OR a.project = s.project)
  JOIN (
    SELECT 1 AS kind, id, dims FROM swarm_memory.vector_spaces
    UNION ALL SELECT 2, id, dims FROM swarm_memory.source_spaces
  ) AS v ON v.kind = of_kind AND v.id = of_space
  WHERE a.role = session_user AND s.id = CASE of_kind WHEN 1 THEN of_partition ELSE (
    SELECT p.scope_id FROM swarm_memory.source_partitions AS p WHERE p.id = of_partition) END
  LIMIT 1;
  IF numbers IS NULL THEN
    RAISE insufficient_privilege USING MESSAGE = 'this role is not admitted to the vectors that it would index';
  END IF;
  EXECUTE format(
    'CREATE INDEX IF NOT EXISTS hnsw_%s_%s_%s ON swarm_memory.item_vectors '
    'USING hnsw ((embedding::halfvec(%s)) halfvec_cosine_ops) WITH (m = 24, ef_construction = 64) '
    'WHERE kind = %s AND space_id = %s AND partition = %s',
    of_kind, of_space, of_partition, numbers, of_kind, of_space, of_partition);
  ANALYZE swarm_memory.item_vectors;
END
$$;

-- Positions of new passages, one after the other: the position behind which they begin.
CREATE FUNCTION draw_positions(wanted BIGINT) RETURNS BIGINT LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
  first BIGINT;
BEGIN
  PERFORM pg_advisory_lock(1398230349, 0); -- let go at once: a sequence is in no transaction
  SELECT min(nextval('passages_seq_seq')) INTO first FROM generate_series(1, wanted);
  PERFORM pg_advisory_unlock(1398230349, 0);
  RETURN coalesce(first - 1, 0);
END
$$;
