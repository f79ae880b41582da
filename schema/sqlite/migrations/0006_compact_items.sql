ALTER TABLE pattern_embeddings RENAME TO former_embeddings;

CREATE TABLE pattern_embeddings (
  seq INTEGER NOT NULL REFERENCES patterns (seq) ON DELETE CASCADE,
  space_id INTEGER NOT NULL REFERENCES vector_spaces (id) ON DELETE CASCADE,
  vector BLOB NOT NULL,
  UNIQUE (seq, space_id)
);

INSERT INTO pattern_embeddings (seq, space_id, vector)
SELECT p.seq, s.id, e.vector
FROM patterns AS p
JOIN former_embeddings AS e ON e.id = p.id
JOIN vector_spaces AS s ON s.model = e.model AND s.dims = e.dims
ORDER BY p.seq, s.id;

DROP TABLE former_embeddings;

UPDATE vector_spaces SET stale = 1 WHERE 'vec_' || id IN (SELECT space FROM coded_partitions);

UPDATE source_spaces SET stale = 1 WHERE 'source_vec_' || id IN (SELECT space FROM coded_partitions);

DROP VIEW scoped_tokens;

ALTER TABLE pattern_tokens RENAME TO former_tokens;

CREATE TABLE pattern_tokens (
  seq INTEGER PRIMARY KEY REFERENCES patterns (seq) ON DELETE CASCADE,
  tokens BLOB NOT NULL
);

INSERT INTO pattern_tokens (seq, tokens)
SELECT seq, title || char(10) || description || char(10) || content FROM former_tokens;

DROP TABLE former_tokens;
