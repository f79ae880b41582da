-- name: added
-- The day on which agents and hooks added to a scope last, and how much.
SELECT value FROM meta WHERE key = 'added:' || ?;

-- name: put_added
-- Write how much agents and hooks added to a scope on a day.
INSERT INTO meta (key, value) VALUES ('added:' || :scope_id, :value)
ON CONFLICT (key) DO UPDATE SET value = excluded.value;
