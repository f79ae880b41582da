CREATE TABLE coded_partitions (
  space TEXT NOT NULL,
  partition INTEGER NOT NULL,
  PRIMARY KEY (space, partition)
) WITHOUT ROWID;
