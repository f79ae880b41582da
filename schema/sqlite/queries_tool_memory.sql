-- name: is_trimmed
-- Whether a call was in the window once and has left it, alone or with its whole session.
SELECT 1 FROM trimmed_tool_calls
WHERE scope_id = :scope_id AND session_id = :session_id AND call_id IN (:call_id, :whole);

-- name: known_calls
-- Give the places, in a list of ids of session and call, of those that are in the window or have left it.
SELECT asked.key FROM json_each(:ids) AS asked
WHERE EXISTS (
  SELECT 1 FROM tool_calls
  WHERE scope_id = :scope_id AND session_id = json_extract(asked.value, '$[0]')
    AND call_id = json_extract(asked.value, '$[1]')
) OR EXISTS (
  SELECT 1 FROM trimmed_tool_calls
  WHERE scope_id = :scope_id AND session_id = json_extract(asked.value, '$[0]')
    AND call_id IN (json_extract(asked.value, '$[1]'), :whole)
);

-- name: add_call
-- Write a call of a tool unless it is there.
INSERT INTO tool_calls (
  scope_id, tool_name, input, output, success, time_cost_s, token_cost, created_at, session_id, task_id, call_id,
  person_id
) VALUES (
  :scope_id, :tool_name, :input, :output, :success, :time_cost_s, :token_cost, :created_at, :session_id, :task_id,
  :call_id, :person_id
) ON CONFLICT DO NOTHING;

-- name: add_call_task
-- Write what a call was for.
INSERT INTO tool_call_tasks (seq, task) VALUES (?, ?);

-- name: count_call
-- Add a new call to the totals of its tool, and give how many the window then holds.
INSERT INTO tool_memories (
  scope_id, tool_name, calls, succeeded, timed, time_cost_us, counted, token_cost, kept, first_at, last_at
) VALUES (
  :scope_id, :tool_name, 1, :success, :timed, :time_cost_us, :counted, :tokens, 1, :created_at, :created_at
)
ON CONFLICT (scope_id, tool_name) DO UPDATE SET
  calls = calls + 1, succeeded = succeeded + excluded.succeeded, timed = timed + excluded.timed,
  time_cost_us = time_cost_us + excluded.time_cost_us, counted = counted + excluded.counted,
  token_cost = token_cost + excluded.token_cost, kept = kept + 1,
  first_at = min(first_at, excluded.first_at), last_at = max(last_at, excluded.last_at)
RETURNING kept;

-- name: oldest_calls
-- Find the oldest calls of a tool.
SELECT seq FROM tool_calls WHERE scope_id = ? AND tool_name = ? ORDER BY created_at, seq LIMIT ?;

-- name: remember_call_id
-- Keep the id of a call that leaves the window, so that it is not counted again.
INSERT OR IGNORE INTO trimmed_tool_calls (scope_id, tool_name, session_id, call_id)
SELECT scope_id, tool_name, session_id, call_id FROM tool_calls WHERE seq = ? AND call_id IS NOT NULL;

-- name: unindex_call
-- Take the words of a call out of the index.
DELETE FROM tool_call_fts WHERE rowid = ?;

-- name: drop_call
-- Delete a call with its evaluation.
DELETE FROM tool_calls WHERE seq = ?;

-- name: tool_of_call
-- Whose tool a call was of.
SELECT scope_id, tool_name FROM tool_calls WHERE seq = ?;

-- name: shrink_window
-- Count calls out of the window of a tool.
UPDATE tool_memories SET kept = kept - ? WHERE scope_id = ? AND tool_name = ?;

-- name: put_tool_schema
-- Keep what a tool says of itself.
UPDATE tool_memories SET tool_schema = ? WHERE scope_id = ? AND tool_name = ?;

-- name: recent_calls
-- Give the newest calls of a tool, newest first.
SELECT
  c.seq, c.tool_name, c.input, c.output, c.success, c.time_cost_s, c.token_cost, c.created_at,
  nullif(c.session_id, '') AS session_id, c.task_id, c.call_id, t.task, e.score, e.summary, e.evaluation, e.method,
  e.model, coalesce(e.summarized, 0) AS summarized
FROM tool_calls AS c
LEFT JOIN tool_call_evaluations AS e ON e.seq = c.seq
LEFT JOIN tool_call_tasks AS t ON t.seq = c.seq
WHERE c.scope_id = ? AND c.tool_name = ? ORDER BY c.created_at DESC, c.seq DESC LIMIT ?;

-- name: failed_calls
-- Give the newest calls of tools (a JSON list), or of all, that failed, newest first: by an index of their own.
SELECT
  c.seq, c.tool_name, c.input, c.output, c.success, c.time_cost_s, c.token_cost, c.created_at,
  nullif(c.session_id, '') AS session_id, c.task_id, c.call_id, NULL AS score
FROM tool_calls AS c
WHERE c.scope_id = :scope_id AND c.success = 0 AND (:tools IS NULL OR c.tool_name IN (SELECT value FROM json_each(:tools)))
ORDER BY c.created_at DESC, c.seq DESC LIMIT :limit;

-- name: pending_calls
-- Give calls that are to be evaluated, by arrival.
SELECT
  c.seq, c.tool_name, c.input, c.output, c.success, c.time_cost_s, c.token_cost, c.created_at,
  nullif(c.session_id, '') AS session_id, c.task_id, c.call_id, t.task, e.score
FROM tool_calls AS c
LEFT JOIN tool_call_evaluations AS e ON e.seq = c.seq
LEFT JOIN tool_call_tasks AS t ON t.seq = c.seq
WHERE
  c.scope_id = :scope_id AND c.seq > :after AND e.score IS NULL
  AND (e.retry_at IS NULL OR e.retry_at <= :now) AND c.created_at <= :until
  AND (:tools IS NULL OR c.tool_name IN (SELECT value FROM json_each(:tools)))
ORDER BY c.seq LIMIT :limit;

-- name: calls_between
-- Give what stood around calls: the scope's calls of a range, by arrival.
SELECT
  seq, tool_name, input, output, success, time_cost_s, token_cost, created_at, nullif(session_id, '') AS session_id,
  task_id, call_id, NULL AS score
FROM tool_calls WHERE seq > ? AND seq <= ? AND scope_id = ? ORDER BY seq;

-- name: corrections_of
-- Give when a user corrected what was done in some sessions (a JSON list).
SELECT subject_id, created_at FROM events
WHERE subject_id IN (SELECT value FROM json_each(:sessions)) AND scope_id = :scope_id AND type = :type ORDER BY seq;

-- name: put_evaluation
-- Write the evaluation of a call that has none yet.
INSERT INTO tool_call_evaluations (seq, score, summary, evaluation, method, model, terms, created_at)
SELECT :seq, :score, :summary, :evaluation, :method, :model, :terms, :now
WHERE EXISTS (SELECT 1 FROM tool_calls WHERE seq = :seq AND scope_id = :scope_id)
ON CONFLICT (seq) DO UPDATE SET
  score = excluded.score, summary = excluded.summary, evaluation = excluded.evaluation, method = excluded.method,
  model = excluded.model, terms = excluded.terms, retry_at = NULL, created_at = excluded.created_at
WHERE tool_call_evaluations.score IS NULL;

-- name: count_evaluation
-- Add an evaluation to the totals of the tool of a call.
UPDATE tool_memories SET evaluated = evaluated + 1, good = good + :good
WHERE scope_id = :scope_id AND tool_name = (SELECT tool_name FROM tool_calls WHERE seq = :seq);

-- name: put_failed_evaluation
-- Note that an evaluation failed, and when it is tried again.
INSERT INTO tool_call_evaluations (seq, evaluation, attempts, retry_at, created_at)
SELECT :seq, :reason, 1, :first_retry, :now
WHERE EXISTS (SELECT 1 FROM tool_calls WHERE seq = :seq AND scope_id = :scope_id)
ON CONFLICT (seq) DO UPDATE SET
  evaluation = excluded.evaluation, attempts = attempts + 1,
  retry_at = strftime('%Y-%m-%dT%H:%M:%f000Z', :now, '+' || min(86400, :wait_s * (1 << min(attempts, 16))) || ' seconds')
WHERE score IS NULL;

-- name: index_call
-- Enter the words of a call.
INSERT INTO tool_call_fts (rowid, tokens) VALUES (?, ?);

-- name: unindex_gone
-- Take the words of calls that are not there out of the index, which earlier versions left in it for a while.
DELETE FROM tool_call_fts WHERE rowid NOT IN (SELECT seq FROM tool_calls);

-- name: optimize_tool_index
-- Merge the index of words into one part, so that nothing of deleted calls is left in it.
INSERT INTO tool_call_fts (tool_call_fts) VALUES ('optimize');

-- name: term_frequency
-- Give in how many calls a word stands.
SELECT doc FROM tool_call_terms WHERE term = ?;

-- name: similar_calls
-- Give evaluated calls that share words with a query, the best match first.
SELECT c.tool_name, e.score, f.tokens
FROM (SELECT rowid, tokens FROM tool_call_fts WHERE tool_call_fts MATCH :expression ORDER BY rank LIMIT :limit) AS f
CROSS JOIN tool_calls AS c ON c.seq = f.rowid
CROSS JOIN tool_call_evaluations AS e ON e.seq = f.rowid
WHERE e.score IS NOT NULL AND c.scope_id = :scope_id;

-- name: evaluated_calls
-- Give the evaluated calls of tools, or of all.
SELECT c.tool_name, e.score, f.tokens
FROM tool_calls AS c
CROSS JOIN tool_call_evaluations AS e ON e.seq = c.seq
CROSS JOIN tool_call_fts AS f ON f.rowid = c.seq
WHERE
  c.scope_id = :scope_id AND e.score IS NOT NULL
  AND (:tools IS NULL OR c.tool_name IN (SELECT value FROM json_each(:tools)));

-- name: sessions_of_tools
-- Count the sessions in which some tools (a JSON list) have evaluated calls; one without a session is its own.
SELECT c.tool_name, count(DISTINCT coalesce(nullif(c.session_id, ''), 'call ' || c.seq))
FROM tool_calls AS c JOIN tool_call_evaluations AS e ON e.seq = c.seq
WHERE c.scope_id = :scope_id AND e.score IS NOT NULL AND c.tool_name IN (SELECT value FROM json_each(:tools))
GROUP BY c.tool_name;

-- name: count_kept
-- Count the calls that the windows of a scope hold.
SELECT coalesce(sum(kept), 0) FROM tool_memories WHERE scope_id = ?;

-- name: tool_memories
-- Give what is known of tools, or of all, by name.
SELECT
  tool_name, calls, succeeded, timed, time_cost_us, counted, token_cost, kept, evaluated, good,
  nullif(first_at, '') AS first_at, nullif(last_at, '') AS last_at, summary, summarized_at, tool_schema
FROM tool_memories
WHERE scope_id = :scope_id AND (:tools IS NULL OR tool_name IN (SELECT value FROM json_each(:tools)))
ORDER BY tool_name;

-- name: count_new_calls
-- Count the evaluated calls of a tool that no summary has seen, among its newest.
SELECT count(*) FROM (
  SELECT seq FROM tool_calls WHERE scope_id = ? AND tool_name = ? ORDER BY created_at DESC, seq DESC LIMIT ?
) AS c JOIN tool_call_evaluations AS e ON e.seq = c.seq WHERE e.score IS NOT NULL AND e.summarized = 0;

-- name: put_summary
-- Write the summary of a tool.
UPDATE tool_memories SET summary = ?, summarized_at = ? WHERE scope_id = ? AND tool_name = ?;

-- name: mark_summarized
-- Note that a summary has seen calls.
UPDATE tool_call_evaluations SET summarized = 1 WHERE seq IN (SELECT value FROM json_each(?)) AND score IS NOT NULL;

-- name: calls_of_tool
-- Give the positions of the calls of a tool.
SELECT seq FROM tool_calls WHERE scope_id = ? AND tool_name = ?;

-- name: drop_trimmed
-- Forget the ids of calls of a tool that have left the window.
DELETE FROM trimmed_tool_calls WHERE scope_id = ? AND tool_name = ?;

-- name: drop_tool
-- Forget the totals and the summary of a tool.
DELETE FROM tool_memories WHERE scope_id = ? AND tool_name = ?;

-- name: count_tool_memory
-- Count tools, calls and evaluations of a scope.
SELECT
  count(*), coalesce(sum(calls), 0), coalesce(sum(kept), 0),
  (SELECT count(*) FROM tool_calls AS c LEFT JOIN tool_call_evaluations AS e ON e.seq = c.seq
   WHERE c.scope_id = :scope_id AND e.score IS NULL),
  count(summarized_at)
FROM tool_memories WHERE scope_id = :scope_id;
