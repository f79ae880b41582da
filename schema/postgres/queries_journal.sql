-- name: use_patterns
-- Count a use of each of some items (a JSON list of ids) of a tenant.
UPDATE patterns SET usage_count = usage_count + 1, last_used = greatest(coalesce(last_used, ''), :at)
WHERE id IN (SELECT value FROM json_each(:ids)) AND scope_id IN (SELECT id FROM scopes WHERE tenant_id = :tenant_id);

-- name: chat_days
-- What calls to chat models took in any scope since a moment, by day (UTC), the newest first.
SELECT
  substr(created_at, 1, 10) AS day, count(*) AS calls, CAST(sum(value) AS BIGINT) AS tokens,
  sum(json_extract(data, '$.cost_usd')::double precision) AS cost_usd,
  count(*) FILTER (WHERE data ->> '$.outcome' IN ('answered', 'invalid')) AS answers,
  count(*) FILTER (WHERE data ->> '$.outcome' = 'invalid') AS unusable
FROM performance_metrics
WHERE scope_id IN (SELECT id FROM scopes) AND metric = ? AND created_at >= ?
GROUP BY day ORDER BY day DESC;
