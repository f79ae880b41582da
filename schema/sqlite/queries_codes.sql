-- name: is_coded
-- Whether the vectors of a partition in a space have codes.
SELECT 1 FROM coded_partitions WHERE space = ? AND partition = ?;

-- name: coded_of_space
-- The partitions that have codes in a space.
SELECT partition FROM coded_partitions WHERE space = ?;

-- name: add_coded
-- Note that the vectors of a partition in a space have codes.
INSERT INTO coded_partitions (space, partition) VALUES (?, ?) ON CONFLICT DO NOTHING;

-- name: forget_coded
-- Note that a space has no codes.
DELETE FROM coded_partitions WHERE space = ?;

-- name: index_code
-- Enter the code of a vector.
INSERT INTO {codes} (rowid, part, bucket, embedding) VALUES (?, ?, ?, vec_bit(?));

-- name: unindex_code
-- Take the code of a vector out.
DELETE FROM {codes} WHERE rowid = ?;

-- name: all_codes
-- Every code of a space with where it stands.
SELECT rowid, part, bucket, embedding FROM {codes};

-- name: drop_codes
-- Drop the codes of a space.
DROP TABLE {codes};

-- name: code_slots
-- The size of a space's codes and what is live in it.
SELECT (SELECT sum(size) FROM {codes}_chunks), (SELECT count(*) FROM {codes}_rowids);
