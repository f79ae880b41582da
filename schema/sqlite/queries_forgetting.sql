-- name: scopes_of_tenants
-- Every scope of the tenants of some scopes: what a task of one project was given may come from the global scope.
SELECT id FROM scopes
WHERE tenant_id IN (SELECT tenant_id FROM scopes WHERE id IN (SELECT value FROM json_each(:scope_ids)));

-- name: patterns_to_forget
-- The items that exist in the scopes: where they came from and what they say.
SELECT id, scope_id, task_id, pattern_data FROM patterns
WHERE id IN (SELECT value FROM json_each(:ids)) AND scope_id IN (SELECT value FROM json_each(:scope_ids));

-- name: former_texts
-- What an item said before it was edited.
SELECT data FROM events WHERE subject_id = ? AND type = 'reasoning_memory.edited';

-- name: patterns_of_task
-- The items of one task.
SELECT id FROM patterns WHERE task_id = :task_id AND scope_id = :scope_id;

-- name: trajectories_of_task
-- Every version of the trajectory of one task.
SELECT seq, id, query, verdict_json FROM task_trajectories WHERE scope_id = :scope_id AND task_id = :task_id;

-- name: duplicates_of
-- The items that are linked as duplicates of some, either way.
SELECT src_id FROM pattern_links
WHERE relation = 'duplicate_of' AND dst_id IN (SELECT value FROM json_each(:ids))
UNION
SELECT dst_id FROM pattern_links
WHERE relation = 'duplicate_of' AND src_id IN (SELECT value FROM json_each(:ids));

-- name: texts_of_patterns
-- What items say.
SELECT id, pattern_data FROM patterns WHERE scope_id IN (SELECT value FROM json_each(:scope_ids));

-- name: texts_of_trajectories
-- The texts of trajectories, or of one.
SELECT seq, query, trajectory_json, verdict_json FROM task_trajectories
WHERE scope_id IN (SELECT value FROM json_each(:scope_ids)) AND (:key IS NULL OR seq = :key);

-- name: texts_of_events
-- The texts of events, or of one.
SELECT seq, data FROM events
WHERE scope_id IN (SELECT value FROM json_each(:scope_ids)) AND (:key IS NULL OR seq = :key);

-- name: texts_of_sessions
-- The task of sessions of a host, or of one.
SELECT session_id, task FROM host_sessions
WHERE scope_id IN (SELECT value FROM json_each(:scope_ids)) AND (:key IS NULL OR session_id = :key);

-- name: texts_of_jobs
-- The texts of jobs that ended, or of one.
SELECT seq, payload, result, error FROM jobs
WHERE scope_id IN (SELECT value FROM json_each(:scope_ids)) AND status NOT IN ('queued', 'running')
  AND (:key IS NULL OR seq = :key);

-- name: texts_of_runs
-- The texts of scaling runs that ended, or of one.
SELECT run_id, summary FROM matts_runs
WHERE scope_id IN (SELECT value FROM json_each(:scope_ids)) AND status NOT IN ('queued', 'running')
  AND (:key IS NULL OR run_id = :key);

-- name: texts_of_benchmarks
-- The texts of benchmark runs, or of one.
SELECT run_id, settings, results FROM benchmark_runs
WHERE scope_id IN (SELECT value FROM json_each(:scope_ids)) AND (:key IS NULL OR run_id = :key);

-- name: texts_of_calls
-- The texts of tool calls.
SELECT c.seq, c.input, c.output, t.task, e.summary, e.evaluation
FROM tool_calls AS c
LEFT JOIN tool_call_tasks AS t ON t.seq = c.seq
LEFT JOIN tool_call_evaluations AS e ON e.seq = c.seq
WHERE c.scope_id IN (SELECT value FROM json_each(:scope_ids));

-- name: summaries_of_tools
-- What is said of tools.
SELECT scope_id, tool_name, summary FROM tool_memories
WHERE scope_id IN (SELECT value FROM json_each(:scope_ids)) AND summary IS NOT NULL;

-- name: blank_trajectory
-- Take the text out of a trajectory; that it was learned from stays known.
UPDATE task_trajectories
SET query = :query, trajectory_json = :trajectory_json, verdict_json = :verdict_json, content_hash = :content_hash
WHERE seq = :key;

-- name: trajectory_id
-- The id of a trajectory.
SELECT id FROM task_trajectories WHERE seq = ?;

-- name: put_event
-- Write the texts of an event.
UPDATE events SET data = :data WHERE seq = :key;

-- name: put_session
-- Write the task of a session of a host.
UPDATE host_sessions SET task = :task
WHERE session_id = :key AND scope_id IN (SELECT value FROM json_each(:scope_ids));

-- name: clear_query
-- Take the query out of an event.
UPDATE events SET data = json_remove(data, '$.query') WHERE seq = ?;

-- name: put_job
-- Write the texts of a job.
UPDATE jobs SET payload = :payload, result = :result, error = :error WHERE seq = :key;

-- name: put_run
-- Write the texts of a scaling run.
UPDATE matts_runs SET summary = :summary WHERE run_id = :key;

-- name: put_benchmark
-- Write the texts of a benchmark run.
UPDATE benchmark_runs SET settings = :settings, results = :results WHERE run_id = :key;

-- name: runs_of_task
-- The scaling runs of one task that ended.
SELECT run_id, summary FROM matts_runs
WHERE scope_id = :scope_id AND task_id = :task_id AND status NOT IN ('queued', 'running');

-- name: clear_jobs_of_task
-- Take the task's words, and what came of them, out of the jobs of a task that ended.
UPDATE jobs SET payload = json_remove(payload, '$.task'), result = NULL, error = NULL
WHERE scope_id = :scope_id AND status NOT IN ('queued', 'running') AND json_valid(payload)
  AND (json_extract(payload, '$.task_id') = :task_id OR json_extract(payload, '$.run_id') IN (
    SELECT run_id FROM matts_runs WHERE scope_id = :scope_id AND task_id = :task_id
  ));

-- name: clear_verdicts_of_task
-- Take the reasons out of what says how a task was judged before.
UPDATE events SET data = json_replace(data, '$.from.reasons', json('[]'), '$.to.reasons', json('[]'))
WHERE subject_id = :task_id AND scope_id = :scope_id AND type = :type;

-- name: clear_session_of_task
-- Take the task's words out of the session that is at it.
UPDATE host_sessions SET task = :query WHERE scope_id = :scope_id AND task_id = :task_id;

-- name: clear_queries_of_task
-- Take the queries out of what was retrieved for a task.
UPDATE events SET data = json_remove(data, '$.query')
WHERE json_valid(data) AND json_extract(data, '$.task_id') = :task_id
  AND scope_id IN (SELECT value FROM json_each(:scope_ids));

-- name: calls_of_task
-- The tool calls of one task.
SELECT seq FROM tool_calls WHERE scope_id = :scope_id AND task_id = :task_id;

-- name: clear_summary
-- Take away what is said of a tool; it is summarized again from the calls that are left.
UPDATE tool_memories SET summary = NULL, summarized_at = NULL WHERE scope_id = ? AND tool_name = ?;

-- name: summarize_again
-- Note that no summary has seen the calls of a tool.
UPDATE tool_call_evaluations SET summarized = 0
WHERE seq IN (SELECT seq FROM tool_calls WHERE scope_id = ? AND tool_name = ?);

-- name: holds_any
-- Whether a bank holds any of some memories or trajectories.
SELECT 1 FROM patterns WHERE id IN (SELECT value FROM json_each(:ids))
UNION ALL
SELECT 1 FROM task_trajectories WHERE id IN (SELECT value FROM json_each(:ids))
LIMIT 1;
