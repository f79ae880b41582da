-- What the user said stands before all else, what is of suspect wording behind it: a briefing reads five rows of an index.
ALTER TABLE patterns ADD COLUMN standing INTEGER NOT NULL DEFAULT 0;

DROP INDEX patterns_by_confidence;

CREATE INDEX patterns_by_standing ON patterns (scope_id, standing, confidence, usage_count) WHERE status = 'active';
