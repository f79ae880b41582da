-- The surest active items of a project stand together: a briefing at the start of a session reads five rows and not all.
CREATE INDEX patterns_by_confidence ON patterns (scope_id, confidence, usage_count) WHERE status = 'active';
