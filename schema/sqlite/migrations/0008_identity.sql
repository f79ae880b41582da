-- Each bank has an id of its own: the user's record of a bank names it, so that no other can take its place.
INSERT INTO meta (key, value) VALUES ('bank', lower(hex(randomblob(16))));
