CREATE TABLE benchmark_runs (
  run_id TEXT PRIMARY KEY,
  scope_id INTEGER NOT NULL REFERENCES scopes (id),
  suite TEXT NOT NULL,
  status TEXT NOT NULL,
  settings TEXT NOT NULL,
  results TEXT,
  created_at TEXT NOT NULL,
  ended_at TEXT
) WITHOUT ROWID;
