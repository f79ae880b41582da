-- Vectors are compared themselves: what had codes is indexed again by the next process that has sqlite-vec.
UPDATE vector_spaces SET stale = 1 WHERE 'vec_' || id IN (SELECT space FROM coded_partitions);

UPDATE source_spaces SET stale = 1 WHERE 'source_vec_' || id IN (SELECT space FROM coded_partitions);

DROP TABLE coded_partitions;
