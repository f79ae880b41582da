-- People of a team: who may come in over HTTP, what they may do, and who wrote each row. NULL is the bank's own user.
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

ALTER TABLE patterns ADD COLUMN person_id TEXT;

ALTER TABLE task_trajectories ADD COLUMN person_id TEXT;

ALTER TABLE tool_calls ADD COLUMN person_id TEXT;

ALTER TABLE events ADD COLUMN person_id TEXT;

ALTER TABLE jobs ADD COLUMN person_id TEXT;
