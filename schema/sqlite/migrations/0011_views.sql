-- What people ask of a bank, for any client of SQLite; docs/SQL.md describes each column.
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
  (SELECT count(*) FROM ways_out AS w WHERE w.seq = p.seq) AS errors_ended,
  p.task_id, p.run_id, p.created_at, p.last_used, p.updated_at
FROM patterns AS p JOIN scopes AS s ON s.id = p.scope_id
WHERE p.type = 'reasoning_memory';

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
