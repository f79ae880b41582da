CREATE TABLE sources (
  id INTEGER PRIMARY KEY,
  scope_id INTEGER NOT NULL REFERENCES scopes (id),
  kind TEXT NOT NULL,
  location TEXT NOT NULL,
  title TEXT NOT NULL,
  content_hash TEXT NOT NULL,
  indexed_at TEXT NOT NULL,
  UNIQUE (scope_id, kind, location)
);
