CREATE TABLE tool_call_evaluations (
  seq INTEGER PRIMARY KEY REFERENCES tool_calls (seq) ON DELETE CASCADE,
  score REAL NOT NULL,
  summary TEXT NOT NULL,
  evaluation TEXT NOT NULL,
  method TEXT NOT NULL,
  created_at TEXT NOT NULL
);

CREATE TABLE tool_memories (
  scope_id INTEGER NOT NULL REFERENCES scopes (id),
  tool_name TEXT NOT NULL,
  calls INTEGER NOT NULL DEFAULT 0,
  succeeded INTEGER NOT NULL DEFAULT 0,
  timed INTEGER NOT NULL DEFAULT 0,
  time_cost_s REAL NOT NULL DEFAULT 0,
  counted INTEGER NOT NULL DEFAULT 0,
  token_cost INTEGER NOT NULL DEFAULT 0,
  summarized_seq INTEGER NOT NULL DEFAULT 0,
  summary TEXT,
  updated_at TEXT NOT NULL,
  PRIMARY KEY (scope_id, tool_name)
) WITHOUT ROWID;
