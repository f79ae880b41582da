-- name: add_group
-- Register a group.
INSERT INTO source_groups (source_id, name, content_hash, name_tokens, indexed_at) VALUES (?, ?, ?, ?, ?) RETURNING id;

-- name: last_passage
-- The position behind which so many are free for this writer alone, and how many.
SELECT draw_positions(wanted.count), wanted.count FROM (SELECT ?::bigint AS count) AS wanted;

-- name: count_members
-- Change the number of passages of a partition that have a vector in a space, and give what it is now.
INSERT INTO source_space_members AS m (space_id, partition_id, passages) VALUES (:space_id, :partition, :change)
ON CONFLICT (space_id, partition_id) DO UPDATE SET passages = m.passages + excluded.passages
RETURNING passages;

-- name: neighbours
-- The passages beside others are found with them: a search asks once.
SELECT seq FROM passages WHERE :seqs <> :distances AND false;

-- name: optimize_keyword_index
-- What left the index is taken out of it beside: nothing needs to be merged.
SELECT 1 WHERE false;
