-- What tells where its words were heard is found without reading every memory: remember looks for the same words there.

CREATE INDEX patterns_by_heard ON patterns (scope_id, status) WHERE pattern_data LIKE '%"heard_in":%';
