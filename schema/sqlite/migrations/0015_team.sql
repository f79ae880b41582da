-- What people propose to a team, what came of it, the evidence of all; and what a person's bank keeps of what others share.
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
