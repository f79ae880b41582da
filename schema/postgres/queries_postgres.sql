-- name: health
-- The version of the schema, of the server and of pgvector, the size, and whether the role is held by row-level security.
SELECT
  (SELECT max(version) FROM schema_migrations), current_setting('server_version'),
  (SELECT extversion FROM pg_extension WHERE extname = 'vector'),
  (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class AS c
   WHERE c.relnamespace = 'swarm_memory'::regnamespace AND c.relkind IN ('r', 'm')),
  (SELECT (r.rolsuper OR r.rolbypassrls)::int FROM pg_roles AS r WHERE r.rolname = current_user), current_user;
