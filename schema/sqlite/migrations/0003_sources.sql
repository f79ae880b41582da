CREATE TABLE source_partitions (
  id INTEGER PRIMARY KEY,
  scope_id INTEGER NOT NULL REFERENCES scopes (id),
  kind TEXT NOT NULL,
  passages INTEGER NOT NULL DEFAULT 0,
  UNIQUE (scope_id, kind)
);

CREATE TABLE sources (
  id INTEGER PRIMARY KEY,
  partition_id INTEGER NOT NULL REFERENCES source_partitions (id),
  location TEXT NOT NULL,
  indexed_at TEXT NOT NULL,
  UNIQUE (partition_id, location)
);

CREATE TABLE source_groups (
  id INTEGER PRIMARY KEY,
  source_id INTEGER NOT NULL REFERENCES sources (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  content_hash TEXT NOT NULL,
  name_tokens TEXT NOT NULL,
  indexed_at TEXT NOT NULL,
  UNIQUE (source_id, name)
);

CREATE TABLE passages (
  seq INTEGER PRIMARY KEY,
  group_id INTEGER NOT NULL REFERENCES source_groups (id) ON DELETE CASCADE,
  partition_id INTEGER NOT NULL REFERENCES source_partitions (id),
  position INTEGER NOT NULL,
  title TEXT NOT NULL,
  description TEXT NOT NULL,
  content TEXT NOT NULL,
  path TEXT,
  line INTEGER,
  end_line INTEGER,
  data TEXT NOT NULL,
  UNIQUE (group_id, position)
);

CREATE TABLE passage_tokens (
  seq INTEGER PRIMARY KEY REFERENCES passages (seq) ON DELETE CASCADE,
  title TEXT NOT NULL,
  description TEXT NOT NULL,
  content TEXT NOT NULL
);

CREATE TABLE source_spaces (
  id INTEGER PRIMARY KEY,
  model TEXT NOT NULL,
  dims INTEGER NOT NULL,
  quantization TEXT NOT NULL,
  stale INTEGER NOT NULL DEFAULT 0,
  UNIQUE (model, dims)
);

CREATE TABLE source_space_members (
  space_id INTEGER NOT NULL REFERENCES source_spaces (id) ON DELETE CASCADE,
  partition_id INTEGER NOT NULL REFERENCES source_partitions (id),
  passages INTEGER NOT NULL,
  PRIMARY KEY (space_id, partition_id)
) WITHOUT ROWID;

CREATE TABLE passage_embeddings (
  seq INTEGER NOT NULL REFERENCES passages (seq) ON DELETE CASCADE,
  model TEXT NOT NULL,
  dims INTEGER NOT NULL,
  vector BLOB NOT NULL,
  created_at TEXT NOT NULL,
  PRIMARY KEY (seq, model)
);

CREATE INDEX passage_embeddings_by_space ON passage_embeddings (model, dims);

CREATE INDEX passages_by_partition ON passages (partition_id);

CREATE VIRTUAL TABLE passage_fts USING fts5 (title, description, content, content = '', tokenize = 'ascii');

CREATE VIRTUAL TABLE passage_terms USING fts5vocab (passage_fts, row);

CREATE VIEW partitioned_tokens AS
SELECT
  t.seq AS seq,
  CASE t.title WHEN '' THEN '' ELSE 's' || p.partition_id || 'x' || replace(t.title, ' ', ' s' || p.partition_id || 'x') END AS title,
  CASE t.description WHEN '' THEN '' ELSE 's' || p.partition_id || 'x' || replace(t.description, ' ', ' s' || p.partition_id || 'x') END AS description,
  CASE t.content WHEN '' THEN '' ELSE 's' || p.partition_id || 'x' || replace(t.content, ' ', ' s' || p.partition_id || 'x') END AS content
FROM passage_tokens AS t JOIN passages AS p ON p.seq = t.seq;
