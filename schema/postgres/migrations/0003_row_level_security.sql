-- Who sees which rows. A role sees the scopes that it is admitted to, and with each table's rows those of its scopes; an
-- owner is held by this too, and was admitted to everything when the bank was made. Only superusers are not held.

-- NULL: every tenant; every project. Who owns the bank writes it, by `swarm-memory team database-role`.
CREATE TABLE admissions (
  role TEXT COLLATE "C" NOT NULL,
  tenant_id TEXT COLLATE "C",
  project TEXT COLLATE "C",
  UNIQUE NULLS NOT DISTINCT (role, tenant_id, project)
);

INSERT INTO admissions (role) VALUES (current_user);

ALTER TABLE admissions ENABLE ROW LEVEL SECURITY;

CREATE POLICY own ON admissions USING (role = current_user);

-- Hold the rows of a table by a condition on them: for reading, for changing, and for what is written.
CREATE PROCEDURE hold_rows(held REGCLASS, condition TEXT) LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', held);
  EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', held);
  EXECUTE format('CREATE POLICY admitted ON %s USING (%s)', held, condition);
END
$$;

CALL hold_rows('scopes', $$EXISTS (
  SELECT 1 FROM admissions AS a WHERE a.role = current_user
    AND (a.tenant_id IS NULL OR a.tenant_id = scopes.tenant_id) AND (a.project IS NULL OR a.project = scopes.project))$$);

-- Every table that names a scope: who does not see the scope does not see the row.
DO $do$
DECLARE
  found RECORD;
BEGIN
  FOR found IN SELECT c.oid::regclass AS name FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
    WHERE c.relnamespace = 'swarm_memory'::regnamespace AND c.relkind = 'r' AND a.attname = 'scope_id' AND NOT a.attisdropped
  LOOP
    CALL hold_rows(found.name, format('EXISTS (SELECT 1 FROM scopes AS s WHERE s.id = %s.scope_id)', found.name));
  END LOOP;
END
$do$;

CALL hold_rows('pattern_tags', 'EXISTS (SELECT 1 FROM patterns AS p WHERE p.seq = pattern_tags.seq)');

CALL hold_rows('pattern_tokens', 'EXISTS (SELECT 1 FROM patterns AS p WHERE p.seq = pattern_tokens.seq)');

CALL hold_rows('pattern_embeddings', 'EXISTS (SELECT 1 FROM patterns AS p WHERE p.seq = pattern_embeddings.seq)');

CALL hold_rows('ways_out', 'EXISTS (SELECT 1 FROM patterns AS p WHERE p.seq = ways_out.seq)');

CALL hold_rows('pattern_links', 'EXISTS (SELECT 1 FROM patterns AS p WHERE p.id = src_id)
  AND EXISTS (SELECT 1 FROM patterns AS p WHERE p.id = dst_id)');

CALL hold_rows('tool_call_tasks', 'EXISTS (SELECT 1 FROM tool_calls AS c WHERE c.seq = tool_call_tasks.seq)');

CALL hold_rows('tool_call_evaluations', 'EXISTS (SELECT 1 FROM tool_calls AS c WHERE c.seq = tool_call_evaluations.seq)');

CALL hold_rows('sources', 'EXISTS (SELECT 1 FROM source_partitions AS s WHERE s.id = partition_id)');

CALL hold_rows('passages', 'EXISTS (SELECT 1 FROM source_partitions AS s WHERE s.id = partition_id)');

CALL hold_rows('source_space_members', 'EXISTS (SELECT 1 FROM source_partitions AS s WHERE s.id = partition_id)');

CALL hold_rows('source_groups', 'EXISTS (SELECT 1 FROM sources AS s WHERE s.id = source_id)');

CALL hold_rows('passage_tokens', 'EXISTS (SELECT 1 FROM passages AS p WHERE p.seq = passage_tokens.seq)');

CALL hold_rows('passage_embeddings', 'EXISTS (SELECT 1 FROM passages AS p WHERE p.seq = passage_embeddings.seq)');

-- What is known of a scope beside its tables: the key ends with the scope's number.
CALL hold_rows('meta', $$strpos(key, ':') = 0
  OR EXISTS (SELECT 1 FROM scopes AS s WHERE s.id::text = split_part(key, ':', 2))$$);

-- People, and what was done to them, are of a tenant.
CALL hold_rows('people', $$EXISTS (
  SELECT 1 FROM admissions AS a WHERE a.role = current_user AND coalesce(a.tenant_id, people.tenant_id) = people.tenant_id)$$);

CALL hold_rows('audit', $$EXISTS (
  SELECT 1 FROM admissions AS a WHERE a.role = current_user AND coalesce(a.tenant_id, audit.tenant_id) = audit.tenant_id)$$);

-- The spaces of vectors are everybody's, and say no more than the names of embedders. With one go the vectors of all:
-- who does not own the bank deletes none.
ALTER TABLE vector_spaces ENABLE ROW LEVEL SECURITY;

CREATE POLICY read ON vector_spaces FOR SELECT USING (true);

CREATE POLICY add ON vector_spaces FOR INSERT WITH CHECK (true);

ALTER TABLE source_spaces ENABLE ROW LEVEL SECURITY;

CREATE POLICY read ON source_spaces FOR SELECT USING (true);

CREATE POLICY add ON source_spaces FOR INSERT WITH CHECK (true);
