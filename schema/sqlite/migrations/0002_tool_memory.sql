CREATE TABLE tool_call_tasks (
  seq INTEGER PRIMARY KEY REFERENCES tool_calls (seq) ON DELETE CASCADE,
  task TEXT NOT NULL
);

CREATE TABLE tool_call_evaluations (
  seq INTEGER PRIMARY KEY REFERENCES tool_calls (seq) ON DELETE CASCADE,
  score REAL,
  summary TEXT NOT NULL DEFAULT '',
  evaluation TEXT NOT NULL DEFAULT '',
  method TEXT,
  model TEXT,
  attempts INTEGER NOT NULL DEFAULT 0,
  retry_at TEXT,
  summarized INTEGER NOT NULL DEFAULT 0,
  terms INTEGER NOT NULL DEFAULT 0,
  created_at TEXT NOT NULL
);

CREATE TABLE trimmed_tool_calls (
  scope_id INTEGER NOT NULL REFERENCES scopes (id),
  tool_name TEXT NOT NULL,
  session_id TEXT NOT NULL,
  call_id TEXT NOT NULL,
  PRIMARY KEY (scope_id, session_id, call_id)
) WITHOUT ROWID;

CREATE TABLE tool_calls_to_unindex (
  seq INTEGER PRIMARY KEY
);

CREATE TABLE tool_memories (
  scope_id INTEGER NOT NULL REFERENCES scopes (id),
  tool_name TEXT NOT NULL,
  calls INTEGER NOT NULL DEFAULT 0,
  succeeded INTEGER NOT NULL DEFAULT 0,
  timed INTEGER NOT NULL DEFAULT 0,
  time_cost_us INTEGER NOT NULL DEFAULT 0,
  counted INTEGER NOT NULL DEFAULT 0,
  token_cost INTEGER NOT NULL DEFAULT 0,
  kept INTEGER NOT NULL DEFAULT 0,
  evaluated INTEGER NOT NULL DEFAULT 0,
  good INTEGER NOT NULL DEFAULT 0,
  first_at TEXT NOT NULL,
  last_at TEXT NOT NULL,
  tool_schema TEXT,
  summary TEXT,
  summarized_at TEXT,
  warned_at TEXT,
  PRIMARY KEY (scope_id, tool_name)
) WITHOUT ROWID;

INSERT INTO tool_memories (
  scope_id, tool_name, calls, succeeded, timed, time_cost_us, counted, token_cost, kept, first_at, last_at
)
SELECT
  scope_id, tool_name, count(*), sum(success), count(time_cost_s), coalesce(sum(CAST(round(time_cost_s * 1e6) AS INTEGER)), 0),
  count(token_cost), coalesce(sum(token_cost), 0), count(*), min(created_at), max(created_at)
FROM tool_calls GROUP BY scope_id, tool_name;

CREATE VIRTUAL TABLE tool_call_fts USING fts5 (tokens, tokenize = 'ascii');

CREATE VIRTUAL TABLE tool_call_terms USING fts5vocab (tool_call_fts, row);
