-- name: mark_consolidated
-- Write up to which position a scope is consolidated.
UPDATE scopes SET consolidated_seq = greatest(consolidated_seq, ?) WHERE id = ?;

-- name: pattern_as_it_is_in_write
-- What a change must find as it was seen, locked.
SELECT seq, status, status_reason, confidence, updated_at, last_used FROM patterns WHERE id = ? AND scope_id = ?
FOR NO KEY UPDATE;
