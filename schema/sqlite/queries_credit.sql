-- name: injections_of
-- What a task was given, what was kept from it, and what rested, oldest first.
SELECT type, data, created_at FROM events
WHERE subject_id = :task_id AND scope_id = :scope_id AND type IN (:injected, :withheld, :rested) ORDER BY seq;

-- name: outcome_of
-- The outcome of a task: the newest one holds.
SELECT data FROM events WHERE subject_id = :task_id AND scope_id = :scope_id AND type = :type ORDER BY seq DESC LIMIT 1;

-- name: outcomes
-- The outcome of every task of a scope whose figure is kept still.
SELECT e.data FROM events AS e
WHERE e.seq IN (SELECT max(seq) FROM events WHERE scope_id = :scope_id AND type = :type GROUP BY subject_id)
  AND EXISTS (SELECT 1 FROM performance_metrics AS f WHERE f.seq = CAST(e.data ->> '$.figure' AS BIGINT))
ORDER BY e.seq;

-- name: confidence_of
-- How sure an item is.
SELECT confidence FROM patterns WHERE seq = ?;

-- name: add_figure
-- Write a figure and return where it stands.
INSERT INTO performance_metrics (scope_id, metric, value, data, created_at) VALUES (?, ?, ?, ?, ?) RETURNING seq;

-- name: delete_figure
-- Take back a figure that a later one replaces.
DELETE FROM performance_metrics WHERE seq = ? AND scope_id = ? AND metric = ?;

-- name: delete_figures
-- Take back all figures of one kind.
DELETE FROM performance_metrics WHERE scope_id = ? AND metric = ?;

-- name: figures
-- All figures of one kind, oldest first.
SELECT data, created_at FROM performance_metrics WHERE scope_id = ? AND metric = ? ORDER BY created_at, seq;

-- name: items_by_day
-- How many items of a scope were made on each day (UTC).
SELECT substr(created_at, 1, 10), count(*) FROM patterns WHERE scope_id = ? GROUP BY 1 ORDER BY 1;
