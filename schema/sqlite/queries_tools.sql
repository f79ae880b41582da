-- name: find_tool_memory
-- What is known of a tool in a scope.
SELECT calls, succeeded, timed, time_cost_s, counted, token_cost, summarized_seq, summary, updated_at
FROM tool_memories WHERE scope_id = ? AND tool_name = ?;
