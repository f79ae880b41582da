-- name: known_calls
-- Give the places, in a list of ids of session and call, of those that are in the window or have left it.
SELECT asked.key FROM json_each(:ids) AS asked
WHERE EXISTS (
  SELECT 1 FROM tool_calls
  WHERE scope_id = :scope_id AND session_id = asked.value ->> 0 AND call_id = asked.value ->> 1
) OR EXISTS (
  SELECT 1 FROM trimmed_tool_calls
  WHERE scope_id = :scope_id AND session_id = asked.value ->> 0 AND call_id IN (asked.value ->> 1, :whole)
);

-- name: add_call
-- Write a call of a tool unless it is there.
INSERT INTO tool_calls (
  scope_id, tool_name, input, output, success, time_cost_s, token_cost, created_at, session_id, task_id, call_id,
  person_id
) VALUES (
  :scope_id, :tool_name, :input, :output, :success, :time_cost_s, :token_cost, :created_at, :session_id, :task_id,
  :call_id, :person_id
) ON CONFLICT DO NOTHING RETURNING seq;

-- name: count_call
-- Add a new call to the totals of its tool, and give how many the window then holds.
INSERT INTO tool_memories AS m (
  scope_id, tool_name, calls, succeeded, timed, time_cost_us, counted, token_cost, kept, first_at, last_at
) VALUES (
  :scope_id, :tool_name, 1, :success, :timed, :time_cost_us, :counted, :tokens, 1, :created_at, :created_at
)
ON CONFLICT (scope_id, tool_name) DO UPDATE SET
  calls = m.calls + 1, succeeded = m.succeeded + excluded.succeeded, timed = m.timed + excluded.timed,
  time_cost_us = m.time_cost_us + excluded.time_cost_us, counted = m.counted + excluded.counted,
  token_cost = m.token_cost + excluded.token_cost, kept = m.kept + 1,
  first_at = least(m.first_at, excluded.first_at), last_at = greatest(m.last_at, excluded.last_at)
RETURNING kept;

-- name: put_failed_evaluation
-- Note that an evaluation failed, and when it is tried again.
INSERT INTO tool_call_evaluations AS e (seq, evaluation, attempts, retry_at, created_at)
SELECT :seq, :reason, 1, :first_retry, :now
WHERE EXISTS (SELECT 1 FROM tool_calls WHERE seq = :seq AND scope_id = :scope_id)
ON CONFLICT (seq) DO UPDATE SET
  evaluation = excluded.evaluation, attempts = e.attempts + 1,
  retry_at = to_char(
    :now::timestamptz AT TIME ZONE 'UTC'
      + make_interval(secs => least(86400, :wait_s * (1 << least(e.attempts, 16)::integer))::double precision),
    'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
WHERE e.score IS NULL;

-- name: unindex_call
-- The words of a call go with it: nothing is to be done.
DELETE FROM tool_call_words WHERE seq = ? AND false;

-- name: index_call
-- Enter the words of a call.
INSERT INTO tool_call_words (seq, scope_id, tokens)
SELECT c.seq, c.scope_id, new.tokens FROM (SELECT ?::bigint AS seq, ? AS tokens) AS new JOIN tool_calls AS c ON c.seq = new.seq
ON CONFLICT (seq) DO UPDATE SET tokens = excluded.tokens;

-- name: unindex_gone
-- The words of a call go with it: none are left.
DELETE FROM tool_call_words WHERE false;

-- name: optimize_tool_index
-- PostgreSQL cleans its index by itself.
SELECT 1 WHERE false;

-- name: term_frequency
-- Give in how many calls a word stands.
SELECT count(*) FROM tool_call_words WHERE string_to_array(tokens, ' ') @> ARRAY[?]::text[];

-- name: similar_calls
-- Give evaluated calls that share words with a query, those with the most and the rarest first.
WITH words AS MATERIALIZED (
  SELECT word FROM unnest(string_to_array(replace(:expression, '"', ''), ' OR ')) AS word
), matching AS MATERIALIZED (
  SELECT f.seq, f.tokens, string_to_array(f.tokens, ' ') AS held FROM tool_call_words AS f
  WHERE f.scope_id = :scope_id
    AND string_to_array(f.tokens, ' ') && string_to_array(replace(:expression, '"', ''), ' OR ')
), weighed AS (
  SELECT w.word, ln(1 + (SELECT count(*) FROM matching) / (1.0 + count(*))) AS weight
  FROM words AS w JOIN matching AS m ON w.word = ANY (m.held) GROUP BY w.word
)
SELECT c.tool_name, e.score, f.tokens
FROM (
  SELECT m.seq, m.tokens FROM matching AS m JOIN weighed AS w ON w.word = ANY (m.held)
  GROUP BY m.seq, m.tokens, m.held
  ORDER BY sum(w.weight) / (1 + cardinality(m.held) / 64.0) DESC, m.seq LIMIT :limit
) AS f
JOIN tool_calls AS c ON c.seq = f.seq
JOIN tool_call_evaluations AS e ON e.seq = f.seq
WHERE e.score IS NOT NULL AND c.scope_id = :scope_id;

-- name: evaluated_calls
-- Give the evaluated calls of tools, or of all.
SELECT c.tool_name, e.score, f.tokens
FROM tool_calls AS c
JOIN tool_call_evaluations AS e ON e.seq = c.seq
JOIN tool_call_words AS f ON f.seq = c.seq
WHERE
  c.scope_id = :scope_id AND e.score IS NOT NULL
  AND (:tools IS NULL OR c.tool_name IN (SELECT value FROM json_each(:tools)));
