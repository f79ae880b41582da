-- A search within a domain, or of what one agent's tasks taught, looks at nothing else.
ALTER TABLE patterns ADD COLUMN agent_id TEXT;

UPDATE patterns SET agent_id = pattern_data ->> '$.source.agent_id'
WHERE instr(pattern_data, '"agent_id"') AND json_valid(pattern_data);

CREATE INDEX patterns_by_domain ON patterns (scope_id, domain) WHERE status = 'active' AND domain IS NOT NULL;

CREATE INDEX patterns_by_agent ON patterns (scope_id, agent_id) WHERE status = 'active' AND agent_id IS NOT NULL;
