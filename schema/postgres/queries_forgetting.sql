-- name: scopes_of_tenants
-- Every scope of the tenants of some scopes: what a task of one project was given may come from the global scope.
SELECT id FROM scopes
WHERE tenant_id IN (SELECT tenant_id FROM scopes WHERE id IN (SELECT value::bigint FROM json_each(:scope_ids)));

-- name: clear_jobs_of_task
-- Take the task's words, and what came of them, out of the jobs of a task that ended.
UPDATE jobs SET payload = json_remove(payload, '$.task'), result = NULL, error = NULL
WHERE scope_id = :scope_id AND status NOT IN ('queued', 'running')
  AND (json_extract(payload, '$.task_id') = :task_id OR json_extract(payload, '$.run_id') IN (
    SELECT run_id FROM matts_runs WHERE scope_id = :scope_id AND task_id = :task_id
  ));

-- name: clear_verdicts_of_task
-- Take the reasons out of what says how a task was judged before.
UPDATE events SET data = jsonb_set(jsonb_set(plain_json(data)::jsonb, '{from,reasons}', '[]', false), '{to,reasons}', '[]', false)::text
WHERE subject_id = :task_id AND scope_id = :scope_id AND type = :type;

-- name: clear_queries_of_task
-- Take the queries out of what was retrieved for a task.
UPDATE events SET data = json_remove(data, '$.query')
WHERE json_extract(data, '$.task_id') = :task_id AND scope_id IN (SELECT value::bigint FROM json_each(:scope_ids));
