CREATE TABLE meta (
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE scopes (
  id INTEGER PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  project TEXT NOT NULL,
  active INTEGER NOT NULL DEFAULT 0,
  consolidated_seq INTEGER NOT NULL DEFAULT 0,
  UNIQUE (tenant_id, project)
);

CREATE TABLE patterns (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  type TEXT NOT NULL,
  pattern_data TEXT NOT NULL,
  confidence REAL NOT NULL,
  usage_count INTEGER NOT NULL DEFAULT 0,
  created_at TEXT NOT NULL,
  last_used TEXT,
  updated_at TEXT NOT NULL,
  scope_id INTEGER NOT NULL REFERENCES scopes (id),
  status TEXT NOT NULL,
  status_reason TEXT,
  outcome TEXT NOT NULL,
  domain TEXT,
  task_id TEXT,
  run_id TEXT,
  content_hash TEXT NOT NULL
, standing INTEGER NOT NULL DEFAULT 0, agent_id TEXT, person_id TEXT);

CREATE INDEX patterns_by_scope ON patterns (scope_id, status, created_at);

CREATE INDEX patterns_by_task ON patterns (task_id, scope_id);

CREATE INDEX patterns_by_run ON patterns (run_id);

CREATE TABLE pattern_tags (
  seq INTEGER NOT NULL REFERENCES patterns (seq) ON DELETE CASCADE,
  tag TEXT NOT NULL,
  PRIMARY KEY (seq, tag)
) WITHOUT ROWID;

CREATE TABLE vector_spaces (
  id INTEGER PRIMARY KEY,
  model TEXT NOT NULL,
  dims INTEGER NOT NULL,
  quantization TEXT NOT NULL,
  stale INTEGER NOT NULL DEFAULT 0,
  UNIQUE (model, dims)
);

CREATE TABLE space_members (
  space_id INTEGER NOT NULL REFERENCES vector_spaces (id) ON DELETE CASCADE,
  scope_id INTEGER NOT NULL REFERENCES scopes (id),
  active INTEGER NOT NULL,
  PRIMARY KEY (space_id, scope_id)
) WITHOUT ROWID;

CREATE TABLE pattern_links (
  src_id TEXT NOT NULL REFERENCES patterns (id) ON DELETE CASCADE,
  dst_id TEXT NOT NULL REFERENCES patterns (id) ON DELETE CASCADE,
  relation TEXT NOT NULL,
  weight REAL NOT NULL DEFAULT 1.0,
  created_at TEXT NOT NULL,
  PRIMARY KEY (src_id, dst_id, relation)
);

CREATE INDEX pattern_links_by_target ON pattern_links (dst_id);

CREATE TABLE task_trajectories (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  task_id TEXT NOT NULL,
  scope_id INTEGER NOT NULL REFERENCES scopes (id),
  agent_id TEXT,
  query TEXT NOT NULL,
  trajectory_json TEXT NOT NULL,
  content_digest TEXT NOT NULL,
  started_at TEXT,
  ended_at TEXT,
  judge_label TEXT,
  judge_conf REAL,
  verdict_json TEXT,
  run_id TEXT,
  matts_run_id TEXT,
  created_at TEXT NOT NULL,
  content_hash TEXT NOT NULL
, source TEXT, session_id TEXT, failures INTEGER, person_id TEXT);

CREATE INDEX task_trajectories_by_task ON task_trajectories (scope_id, task_id, content_digest);

CREATE TABLE matts_runs (
  run_id TEXT PRIMARY KEY,
  scope_id INTEGER NOT NULL REFERENCES scopes (id),
  task_id TEXT NOT NULL,
  mode TEXT NOT NULL,
  k INTEGER NOT NULL,
  status TEXT NOT NULL DEFAULT 'completed',
  summary TEXT,
  created_at TEXT NOT NULL
);

CREATE TABLE events (
  seq INTEGER PRIMARY KEY,
  scope_id INTEGER NOT NULL REFERENCES scopes (id),
  type TEXT NOT NULL,
  subject_id TEXT,
  data TEXT NOT NULL,
  created_at TEXT NOT NULL
, person_id TEXT);

CREATE INDEX events_by_subject ON events (subject_id);

CREATE INDEX events_by_type ON events (scope_id, type);

CREATE TABLE performance_metrics (
  seq INTEGER PRIMARY KEY,
  scope_id INTEGER NOT NULL REFERENCES scopes (id),
  metric TEXT NOT NULL,
  value REAL NOT NULL,
  data TEXT NOT NULL,
  created_at TEXT NOT NULL
);

CREATE INDEX performance_metrics_by_metric ON performance_metrics (scope_id, metric, created_at);

CREATE TABLE tool_calls (
  seq INTEGER PRIMARY KEY,
  scope_id INTEGER NOT NULL REFERENCES scopes (id),
  tool_name TEXT NOT NULL,
  input TEXT NOT NULL,
  output TEXT NOT NULL,
  success INTEGER NOT NULL,
  time_cost_s REAL,
  token_cost INTEGER,
  created_at TEXT NOT NULL,
  session_id TEXT NOT NULL DEFAULT '',
  task_id TEXT,
  call_id TEXT
, person_id TEXT);

CREATE INDEX tool_calls_by_tool ON tool_calls (scope_id, tool_name, created_at);

CREATE UNIQUE INDEX tool_calls_by_call ON tool_calls (scope_id, session_id, call_id) WHERE call_id IS NOT NULL;

CREATE TABLE host_sessions (
  session_id TEXT NOT NULL,
  scope_id INTEGER NOT NULL REFERENCES scopes (id),
  transcript_path TEXT,
  task_id TEXT,
  task TEXT NOT NULL,
  task_number INTEGER NOT NULL,
  updated_at TEXT NOT NULL,
  PRIMARY KEY (scope_id, session_id)
) WITHOUT ROWID;

CREATE TABLE jobs (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  scope_id INTEGER NOT NULL REFERENCES scopes (id),
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  payload TEXT NOT NULL,
  status TEXT NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  run_after TEXT NOT NULL,
  created_at TEXT NOT NULL,
  started_at TEXT,
  heartbeat_at TEXT,
  ended_at TEXT,
  worker TEXT,
  result TEXT,
  error TEXT
, person_id TEXT);

CREATE UNIQUE INDEX jobs_queued ON jobs (scope_id, kind, key) WHERE status = 'queued';

CREATE INDEX jobs_by_status ON jobs (status, run_after);

CREATE VIRTUAL TABLE pattern_fts USING fts5 (title, description, content, content = '', tokenize = 'ascii');

CREATE VIRTUAL TABLE pattern_terms USING fts5vocab (pattern_fts, row);

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

CREATE VIRTUAL TABLE tool_call_fts USING fts5 (tokens, tokenize = 'ascii');

CREATE VIRTUAL TABLE tool_call_terms USING fts5vocab (tool_call_fts, row);

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

CREATE TABLE pattern_embeddings (
  seq INTEGER NOT NULL REFERENCES patterns (seq) ON DELETE CASCADE,
  space_id INTEGER NOT NULL REFERENCES vector_spaces (id) ON DELETE CASCADE,
  vector BLOB NOT NULL,
  UNIQUE (seq, space_id)
);

CREATE TABLE pattern_tokens (
  seq INTEGER PRIMARY KEY REFERENCES patterns (seq) ON DELETE CASCADE,
  tokens BLOB NOT NULL
);

CREATE INDEX patterns_by_standing ON patterns (scope_id, standing, confidence, usage_count) WHERE status = 'active';

CREATE VIEW v_tasks AS
SELECT
  d.task_id, s.tenant_id, s.project, t.query, d.trajectories,
  t.judge_label AS verdict, t.judge_conf AS verdict_confidence, json_extract(t.verdict_json, '$.judge') AS judge,
  json_extract(f.data, '$.label') AS outcome,
  json_extract(f.data, '$.arm') AS arm,
  json_extract(f.data, '$.randomised') AS randomised,
  json_extract(f.data, '$.injected') AS injected,
  json_extract(f.data, '$.used') AS used,
  json_extract(f.data, '$.figures.steps') AS steps,
  json_extract(f.data, '$.figures.tokens') AS tokens,
  json_extract(f.data, '$.figures.cost_usd') AS cost_usd,
  json_extract(f.data, '$.figures.duration_s') AS duration_s,
  t.agent_id, t.matts_run_id, t.started_at, coalesce(t.ended_at, f.created_at) AS ended_at,
  coalesce(t.created_at, f.created_at) AS recorded_at
FROM (
  SELECT scope_id, task_id, count(trajectory) AS trajectories, max(trajectory) AS trajectory, max(figure) AS figure
  FROM (
    SELECT scope_id, task_id, seq AS trajectory, NULL AS figure FROM task_trajectories
    UNION ALL
    SELECT scope_id, json_extract(data, '$.task_id'), NULL, seq FROM performance_metrics
    WHERE scope_id IN (SELECT id FROM scopes) AND metric = 'task_outcome'
  )
  GROUP BY scope_id, task_id
) AS d
JOIN scopes AS s ON s.id = d.scope_id
LEFT JOIN task_trajectories AS t ON t.seq = d.trajectory
LEFT JOIN performance_metrics AS f ON f.seq = d.figure;

CREATE VIEW v_tool_calls AS
SELECT
  c.seq, s.tenant_id, s.project, c.tool_name, c.input, c.output, c.success, c.time_cost_s, c.token_cost,
  e.score, e.evaluation, e.method AS evaluated_by, k.task, c.task_id, c.session_id, c.call_id, c.created_at
FROM tool_calls AS c
JOIN scopes AS s ON s.id = c.scope_id
LEFT JOIN tool_call_tasks AS k ON k.seq = c.seq
LEFT JOIN tool_call_evaluations AS e ON e.seq = c.seq;

CREATE VIEW v_lift AS
SELECT
  tenant_id, project, CASE held_out WHEN 1 THEN 'hold_out' ELSE 'observed' END AS basis,
  sum(memory) AS tasks_with, sum(1 - memory) AS tasks_without,
  sum(memory AND decided) AS decided_with, sum(NOT memory AND decided) AS decided_without,
  avg(CASE WHEN memory AND decided THEN outcome = 'Success' END) AS success_rate_with,
  avg(CASE WHEN NOT memory AND decided THEN outcome = 'Success' END) AS success_rate_without,
  avg(CASE WHEN memory AND decided THEN outcome = 'Success' END)
    - avg(CASE WHEN NOT memory AND decided THEN outcome = 'Success' END) AS lift,
  avg(CASE WHEN memory THEN steps END) AS steps_with, avg(CASE WHEN NOT memory THEN steps END) AS steps_without,
  avg(CASE WHEN memory THEN tokens END) AS tokens_with, avg(CASE WHEN NOT memory THEN tokens END) AS tokens_without
FROM (
  SELECT
    *, arm = 'memory' AS memory, outcome IN ('Success', 'Failure') AS decided,
    max(arm = 'held_out') OVER (PARTITION BY tenant_id, project) AS held_out
  FROM v_tasks WHERE arm IS NOT NULL
)
WHERE CASE WHEN held_out THEN arm = 'held_out' OR (memory AND randomised) ELSE arm IN ('memory', 'nothing_fitted') END
GROUP BY tenant_id, project;

CREATE INDEX patterns_by_domain ON patterns (scope_id, domain) WHERE status = 'active' AND domain IS NOT NULL;

CREATE INDEX patterns_by_agent ON patterns (scope_id, agent_id) WHERE status = 'active' AND agent_id IS NOT NULL;

CREATE INDEX task_trajectories_by_time
ON task_trajectories (scope_id, coalesce(ended_at, created_at), judge_label, source, task_id);

CREATE INDEX tool_calls_failed ON tool_calls (scope_id, created_at) WHERE success = 0;

CREATE TABLE people (
  id TEXT PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  name TEXT NOT NULL,
  role TEXT NOT NULL,
  token_hash TEXT UNIQUE,
  issuer TEXT,
  subject TEXT,
  created_at TEXT NOT NULL,
  revoked_at TEXT,
  UNIQUE (tenant_id, name),
  UNIQUE (tenant_id, issuer, subject)
) WITHOUT ROWID;

CREATE TABLE audit (
  seq INTEGER PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  at TEXT NOT NULL,
  person_id TEXT,
  action TEXT NOT NULL,
  subject_id TEXT,
  data TEXT NOT NULL
);

CREATE INDEX audit_by_tenant ON audit (tenant_id, seq);

CREATE TABLE proposals (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  scope_id INTEGER NOT NULL REFERENCES scopes (id),
  person_id TEXT NOT NULL,
  origin_id TEXT NOT NULL,
  bank TEXT NOT NULL,
  item TEXT NOT NULL,
  word TEXT NOT NULL,
  held TEXT,
  same_as TEXT,
  status TEXT NOT NULL,
  memory_id TEXT,
  decided_by TEXT,
  decided_at TEXT,
  decision TEXT NOT NULL DEFAULT '',
  created_at TEXT NOT NULL,
  UNIQUE (scope_id, person_id, origin_id)
);

CREATE INDEX proposals_by_status ON proposals (scope_id, status, seq);

CREATE INDEX proposals_by_memory ON proposals (memory_id);

CREATE TABLE shared_memories (
  memory_id TEXT PRIMARY KEY,
  scope_id INTEGER NOT NULL REFERENCES scopes (id),
  revision INTEGER NOT NULL,
  state TEXT NOT NULL,
  worked INTEGER NOT NULL DEFAULT 0,
  tried INTEGER NOT NULL DEFAULT 0,
  told INTEGER NOT NULL DEFAULT 0,
  people INTEGER NOT NULL DEFAULT 0,
  proposed_by TEXT NOT NULL DEFAULT '[]',
  accepted_by TEXT,
  accepted_at TEXT NOT NULL,
  worked_before INTEGER NOT NULL DEFAULT 0,
  tried_before INTEGER NOT NULL DEFAULT 0
);

CREATE INDEX shared_memories_by_revision ON shared_memories (scope_id, revision);

CREATE TABLE evidence (
  memory_id TEXT NOT NULL,
  person_id TEXT NOT NULL,
  bank TEXT NOT NULL,
  scope_id INTEGER NOT NULL REFERENCES scopes (id),
  worked INTEGER NOT NULL,
  tried INTEGER NOT NULL,
  told INTEGER NOT NULL,
  updated_at TEXT NOT NULL,
  PRIMARY KEY (memory_id, person_id, bank)
);

CREATE TABLE team_revisions (
  scope_id INTEGER PRIMARY KEY REFERENCES scopes (id),
  stamp TEXT NOT NULL,
  revision INTEGER NOT NULL
);

CREATE TABLE team_caches (
  scope_id INTEGER NOT NULL REFERENCES scopes (id),
  project TEXT NOT NULL,
  url TEXT NOT NULL,
  stamp TEXT NOT NULL DEFAULT '',
  cursor INTEGER NOT NULL DEFAULT 0,
  checked_at TEXT,
  failures INTEGER NOT NULL DEFAULT 0,
  fault TEXT,
  PRIMARY KEY (scope_id, project)
);

CREATE TABLE sent_proposals (
  memory_id TEXT NOT NULL,
  url TEXT NOT NULL,
  scope_id INTEGER NOT NULL REFERENCES scopes (id),
  content_hash TEXT NOT NULL,
  proposal TEXT NOT NULL,
  sent_at TEXT NOT NULL,
  PRIMARY KEY (memory_id, url)
);

CREATE INDEX patterns_by_heard ON patterns (scope_id, status) WHERE pattern_data LIKE '%"heard_in":%';

CREATE INDEX pattern_tags_by_tag ON pattern_tags (tag);

CREATE TABLE handles (
  handle TEXT NOT NULL,
  seq INTEGER NOT NULL REFERENCES patterns (seq) ON DELETE CASCADE,
  PRIMARY KEY (handle, seq)
) WITHOUT ROWID;

CREATE INDEX handles_by_memory ON handles (seq);

CREATE VIEW v_memories AS
SELECT
  p.id, s.tenant_id, s.project, p.status, p.status_reason,
  CASE p.outcome WHEN 'Failure' THEN 'guardrail' ELSE 'strategy' END AS kind,
  json_extract(p.pattern_data, '$.title') AS title,
  json_extract(p.pattern_data, '$.description') AS description,
  json_extract(p.pattern_data, '$.content') AS content,
  json_extract(p.pattern_data, '$.tags') AS tags,
  p.domain, p.confidence, p.usage_count,
  CASE p.standing WHEN 1 THEN 'said by the user' WHEN -1 THEN 'suspect wording' END AS standing,
  coalesce(json_extract(p.pattern_data, '$.source.distiller'), 'extractive') AS distiller,
  json_extract(p.pattern_data, '$.source.judge') AS judge,
  json_extract(p.pattern_data, '$.source.imported_from') AS imported_from,
  (SELECT count(*) FROM handles AS h WHERE h.seq = p.seq AND h.handle LIKE 'error:%') AS errors_ended,
  p.task_id, p.run_id, p.created_at, p.last_used, p.updated_at
FROM patterns AS p JOIN scopes AS s ON s.id = p.scope_id
WHERE p.type = 'reasoning_memory';
