-- What calls for a memory, found by equality: a command, a file, an error, a tool, a word. What ended errors is part of it.
CREATE TABLE handles (
  handle TEXT COLLATE "C" NOT NULL,
  seq BIGINT NOT NULL REFERENCES patterns (seq) ON DELETE CASCADE,
  PRIMARY KEY (handle, seq)
);

CREATE INDEX handles_by_memory ON handles (seq);

INSERT INTO handles (handle, seq) SELECT 'error:' || signature, seq FROM ways_out;

-- What else calls for the memories of an older version is read out of them by the next process that opens the bank.
INSERT INTO meta (key, value) SELECT 'handles_due', '1' WHERE EXISTS (SELECT 1 FROM patterns);

DROP VIEW v_memories;

DROP TABLE ways_out;

CREATE VIEW v_memories WITH (security_invoker = true) AS
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

CALL hold_rows('handles', 'EXISTS (SELECT 1 FROM patterns AS p WHERE p.seq = handles.seq)');
