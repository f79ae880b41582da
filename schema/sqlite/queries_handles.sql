-- name: put_handle
-- Note what calls for an item.
INSERT OR IGNORE INTO handles (handle, seq) VALUES (?, ?);

-- name: drop_handles
-- Forget what calls for an item, but for the errors that it was seen to end.
DELETE FROM handles WHERE seq = ? AND handle NOT LIKE 'error:%';

-- name: called_for
-- The active items of some scopes (a JSON list) that some handles (a JSON list, each with for how many at least) call for, the user's word and the project's own before others.
WITH called AS (
  SELECT h.handle, p.seq, CAST(asked.value ->> 1 AS REAL) AS least
  FROM json_each(:handles) AS asked
  JOIN handles AS h ON h.handle = asked.value ->> 0
  JOIN patterns AS p ON p.seq = h.seq AND p.status = 'active' AND p.standing >= 0
  JOIN scopes AS s ON s.id = p.scope_id
  WHERE (s.tenant_id, s.project) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:scopes))
), named AS (
  SELECT handle FROM called GROUP BY handle, least HAVING count(*) >= least
)
SELECT p.id FROM patterns AS p JOIN scopes AS s ON s.id = p.scope_id
WHERE p.seq IN (SELECT seq FROM called WHERE handle IN (SELECT handle FROM named))
ORDER BY p.standing DESC, s.project = :project DESC, p.confidence DESC, p.usage_count DESC, p.seq DESC
LIMIT :limit;

-- name: handles_due
-- Whether an older version wrote items whose handles nobody read out of them yet.
SELECT EXISTS (SELECT 1 FROM meta WHERE key = 'handles_due');

-- name: handles_done
-- Note that they are read out.
DELETE FROM meta WHERE key = 'handles_due';

-- name: items_after
-- Items after a position, with their places.
SELECT
  p.seq, p.id, s.tenant_id, s.project, p.pattern_data, p.confidence, p.usage_count, p.created_at, p.last_used, p.status,
  p.status_reason, p.outcome
FROM patterns AS p JOIN scopes AS s ON s.id = p.scope_id WHERE p.seq > ? ORDER BY p.seq LIMIT ?;
