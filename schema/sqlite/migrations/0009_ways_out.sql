-- Which errors a memory was seen to end, by a digest of what stays the same when an error comes again.
CREATE TABLE ways_out (
  signature TEXT NOT NULL,
  seq INTEGER NOT NULL REFERENCES patterns (seq) ON DELETE CASCADE,
  PRIMARY KEY (signature, seq)
) WITHOUT ROWID;

CREATE INDEX ways_out_by_memory ON ways_out (seq);
