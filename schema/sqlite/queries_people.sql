-- name: add_person
-- Write a new person; nothing where the name is taken.
INSERT INTO people (id, tenant_id, name, role, token_hash, created_at)
VALUES (:id, :tenant_id, :name, :role, :token_hash, :created_at) ON CONFLICT DO NOTHING;

-- name: find_person
-- Who has an id, a token or a name: NULL is nobody's.
SELECT id, tenant_id, name, role, created_at, revoked_at, token_hash IS NOT NULL AS has_token FROM people
WHERE tenant_id = :tenant_id AND (id = :id OR name = :name OR (token_hash = :token_hash AND revoked_at IS NULL));

-- name: list_people
-- All people of a tenant, by name.
SELECT id, tenant_id, name, role, created_at, revoked_at, token_hash IS NOT NULL AS has_token FROM people
WHERE tenant_id = ? ORDER BY name;

-- name: set_role
-- Let a person do more, or less.
UPDATE people SET role = ? WHERE id = ?;

-- name: set_token
-- Give a person another token; whoever was revoked may come in again.
UPDATE people SET token_hash = ?, revoked_at = NULL WHERE id = ?;

-- name: revoke_person
-- Let a person in no more.
UPDATE people SET token_hash = NULL, revoked_at = coalesce(revoked_at, ?) WHERE id = ?;

-- name: add_audit
-- Write a line of the audit trail.
INSERT INTO audit (tenant_id, at, person_id, action, subject_id, data)
VALUES (:tenant_id, :at, :person_id, :action, :subject_id, :data);

-- name: audit
-- The newest lines of the audit trail: what was done to people, and what people did to memories.
SELECT t.at, t.action, t.person_id, p.name, t.subject_id, o.name, t.data
FROM (
  SELECT at, action, person_id, subject_id, data, tenant_id FROM audit WHERE tenant_id = :tenant_id
  UNION ALL
  SELECT e.created_at, e.type, e.person_id, e.subject_id, e.data, s.tenant_id
  FROM events AS e JOIN scopes AS s ON s.id = e.scope_id
  WHERE s.tenant_id = :tenant_id AND (
    e.type IN (SELECT value FROM json_each(:kinds))
    OR (e.person_id IS NOT NULL AND e.type IN (SELECT value FROM json_each(:kinds_of_people)))
  )
) AS t
LEFT JOIN people AS p ON p.id = t.person_id
LEFT JOIN people AS o ON o.id = t.subject_id
ORDER BY t.at DESC LIMIT :limit;

-- name: scopes_of_tenant
-- Every scope of a tenant.
SELECT tenant_id, project FROM scopes WHERE tenant_id = ?;

-- name: contributed_ids
-- Memories that a person brought; what was accepted of proposals was brought by those who proposed it.
SELECT m.id FROM patterns AS m JOIN scopes AS s ON s.id = m.scope_id
WHERE s.tenant_id = :tenant_id AND (
  (m.person_id = :person_id AND NOT EXISTS (SELECT 1 FROM proposals AS r WHERE r.memory_id = m.id))
  OR (EXISTS (SELECT 1 FROM proposals AS r WHERE r.memory_id = m.id AND r.person_id = :person_id)
    AND NOT EXISTS (SELECT 1 FROM proposals AS r WHERE r.memory_id = m.id AND r.person_id <> :person_id)))
ORDER BY m.seq LIMIT :limit;

-- name: tasks_of_person
-- Tasks whose record a person brought, and that were not forgotten yet.
SELECT DISTINCT scope_id, task_id FROM task_trajectories WHERE person_id = ? AND query <> ?;

-- name: calls_of_person
-- Tool calls that a person logged.
SELECT seq FROM tool_calls WHERE person_id = ?;

-- name: retrievals_of_person
-- Events that hold what a person asked.
SELECT seq FROM events WHERE person_id = ? AND type = ?;

-- name: verdicts_of_person
-- Tasks on which a person gave a verdict.
SELECT DISTINCT scope_id, subject_id FROM events WHERE person_id = ? AND type = ?;

-- name: drop_work_of_person
-- Delete jobs that were queued for a person.
DELETE FROM jobs WHERE person_id = ?;

-- name: part_from_alike
-- Have what was like a person's proposals stand for itself.
UPDATE proposals SET same_as = NULL WHERE same_as IN (SELECT id FROM proposals WHERE person_id = ?);

-- name: drop_proposals_of_person
-- Delete what a person proposed.
DELETE FROM proposals WHERE person_id = ?;

-- name: unname_rulings
-- Take the name of whoever decided about proposals out of them.
UPDATE proposals SET decided_by = :instead WHERE decided_by = :name
  AND scope_id IN (SELECT id FROM scopes WHERE tenant_id = :tenant_id);

-- name: counted_by_person
-- Shared memories to whose evidence a person added.
SELECT DISTINCT memory_id FROM evidence WHERE person_id = ?;

-- name: drop_evidence_of_person
-- Delete what a person added to the evidence.
DELETE FROM evidence WHERE person_id = ?;

-- name: shared_of_tenant
-- The memories that a team shares, and whom they name.
SELECT h.memory_id, h.scope_id, h.proposed_by, h.accepted_by FROM shared_memories AS h
JOIN scopes AS s ON s.id = h.scope_id WHERE s.tenant_id = ?;

-- name: name_shared
-- Say again whom a shared memory names.
UPDATE shared_memories SET proposed_by = :proposed_by, accepted_by = :accepted_by WHERE memory_id = :memory_id;

-- name: events_of_team
-- Events of proposals in a tenant.
SELECT e.seq, e.data FROM events AS e JOIN scopes AS s ON s.id = e.scope_id
WHERE s.tenant_id = ? AND e.type IN ('team.proposed', 'team.ruled');

-- name: drop_person
-- Delete a person; of what they did the trail then names nobody.
DELETE FROM people WHERE id = ?;

-- name: holds_people
-- Whether a bank knows any of some people (a JSON list of ids).
SELECT 1 FROM people WHERE id IN (SELECT value FROM json_each(?)) LIMIT 1;

-- name: authors
-- Who brought memories (a JSON list of ids) of scopes (a JSON list of pairs).
SELECT m.id, p.name FROM patterns AS m
JOIN scopes AS s ON s.id = m.scope_id
JOIN people AS p ON p.id = m.person_id
WHERE m.id IN (SELECT value FROM json_each(:ids))
  AND EXISTS (
    SELECT 1 FROM json_each(:scopes) AS w WHERE w.value ->> 0 = s.tenant_id AND w.value ->> 1 = s.project);
