-- name: find_source
-- A source by its scope, kind and location.
SELECT id, title, content_hash, indexed_at FROM sources WHERE scope_id = ? AND kind = ? AND location = ?;
