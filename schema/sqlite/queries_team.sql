-- name: find_proposal_of
-- The proposal of a person's memory.
SELECT id, status, item FROM proposals WHERE scope_id = :scope_id AND person_id = :person_id AND origin_id = :origin_id;

-- name: add_proposal
-- Write a new proposal.
INSERT INTO proposals (
  id, scope_id, person_id, origin_id, bank, item, word, held, same_as, status, memory_id, decision, created_at
) VALUES (
  :id, :scope_id, :person_id, :origin_id, :bank, :item, :word, :held, :same_as, :status, :memory_id, :decision, :created_at);

-- name: replace_proposal
-- Put other words in the place of a proposal's former ones; it waits again.
UPDATE proposals SET
  item = :item, word = :word, held = :held, same_as = :same_as, bank = :bank, status = :status,
  memory_id = coalesce(:memory_id, memory_id), decision = :decision, decided_by = NULL, decided_at = NULL
WHERE id = :id;

-- name: count_waiting_of
-- How many proposals of a person wait in a tenant.
SELECT count(*) FROM proposals AS r JOIN scopes AS s ON s.id = r.scope_id
WHERE s.tenant_id = :tenant_id AND r.person_id = :person_id AND r.status = 'waiting';

-- name: count_waiting
-- How many proposals wait in a tenant, each with those that say the same.
SELECT count(*) FROM proposals AS r JOIN scopes AS s ON s.id = r.scope_id
WHERE s.tenant_id = :tenant_id AND r.status = 'waiting' AND r.same_as IS NULL;

-- name: proposals
-- Proposals of a tenant that a filter lets through, oldest first. Empty parameters do not filter.
SELECT
  r.id, s.project, r.person_id, w.name AS person, r.item, r.word, r.held, r.same_as, r.status, r.memory_id, r.decided_by,
  r.decided_at, r.decision, r.created_at
FROM proposals AS r
JOIN scopes AS s ON s.id = r.scope_id
LEFT JOIN people AS w ON w.id = r.person_id
WHERE s.tenant_id = :tenant_id AND r.status IN (SELECT value FROM json_each(:statuses))
  AND (:id IS NULL OR r.id = :id OR r.same_as = :id) AND (:person_id IS NULL OR r.person_id = :person_id)
  AND (:project IS NULL OR s.project = :project)
  AND (:leading = 0 OR r.same_as IS NULL) AND (:newest = 0 OR r.decided_at IS NOT NULL)
ORDER BY CASE WHEN :newest = 1 THEN r.decided_at END DESC, CASE WHEN :newest = 1 THEN -r.seq ELSE r.seq END LIMIT :limit OFFSET :offset;

-- name: rule_proposal
-- Decide about a proposal that is still as it was seen.
UPDATE proposals SET
  status = :status, decided_by = :decided_by, decided_at = :decided_at, decision = :decision, memory_id = coalesce(:memory_id, memory_id)
WHERE id = :id AND status = :former;

-- name: rule_proposals_alike
-- The same about those that it stands for.
UPDATE proposals SET
  status = :status, decided_by = :decided_by, decided_at = :decided_at, decision = :decision, memory_id = coalesce(:memory_id, memory_id)
WHERE same_as = :id AND status = :former;

-- name: accepted_for
-- What was accepted and became a shared memory.
SELECT r.person_id, w.name, r.bank, r.item, r.origin_id FROM proposals AS r
LEFT JOIN people AS w ON w.id = r.person_id
WHERE r.memory_id = :memory_id AND r.status = 'accepted' ORDER BY r.seq;

-- name: add_revision
-- Begin the count of a scope's changes.
INSERT INTO team_revisions (scope_id, stamp, revision) VALUES (:scope_id, :stamp, 0) ON CONFLICT (scope_id) DO NOTHING;

-- name: next_revision
-- Count a change; whoever changes the same scope meanwhile waits until this one is committed.
UPDATE team_revisions SET revision = revision + 1 WHERE scope_id = :scope_id RETURNING revision;

-- name: find_revision
-- How far the changes of a scope were counted.
SELECT stamp, revision FROM team_revisions WHERE scope_id = :scope_id;

-- name: put_shared
-- Share a memory as it stands, or say again who proposed and accepted it.
INSERT INTO shared_memories (memory_id, scope_id, revision, state, proposed_by, accepted_by, accepted_at)
VALUES (
  :memory_id, :scope_id, :revision,
  (SELECT status || ':' || coalesce(content_hash, '') FROM patterns WHERE id = :memory_id),
  :proposed_by, :accepted_by, :accepted_at)
ON CONFLICT (memory_id) DO UPDATE SET
  revision = excluded.revision, state = excluded.state, proposed_by = excluded.proposed_by,
  accepted_by = coalesce(shared_memories.accepted_by, excluded.accepted_by);

-- name: out_of_step
-- Shared memories of a scope that are no longer as they were given out.
SELECT h.memory_id, h.state, coalesce(p.status, 'forgotten') || ':' || coalesce(p.content_hash, '') AS now
FROM shared_memories AS h LEFT JOIN patterns AS p ON p.id = h.memory_id AND p.scope_id = h.scope_id
WHERE h.scope_id = :scope_id AND h.state <> coalesce(p.status, 'forgotten') || ':' || coalesce(p.content_hash, '');

-- name: put_state
-- Have a shared memory be given out again.
UPDATE shared_memories SET revision = :revision, state = :state WHERE memory_id = :memory_id;

-- name: changed
-- Shared memories of a scope that changed after a revision, in the order of the changes.
SELECT memory_id, revision, state FROM shared_memories
WHERE scope_id = :scope_id AND revision > :after ORDER BY revision LIMIT :limit;

-- name: shared_scope
-- In which scope of a tenant a memory is shared.
SELECT h.scope_id FROM shared_memories AS h JOIN scopes AS s ON s.id = h.scope_id
WHERE h.memory_id = :memory_id AND s.tenant_id = :tenant_id;

-- name: find_evidence
-- What a person's bank counted before.
SELECT worked, tried, told FROM evidence
WHERE memory_id = :memory_id AND person_id = :person_id AND bank = :bank;

-- name: put_evidence
-- Write what a person's bank counted, in the place of what it did before.
INSERT INTO evidence (memory_id, person_id, bank, scope_id, worked, tried, told, updated_at)
VALUES (:memory_id, :person_id, :bank, :scope_id, :worked, :tried, :told, :at)
ON CONFLICT (memory_id, person_id, bank) DO UPDATE SET
  worked = excluded.worked, tried = excluded.tried, told = excluded.told, updated_at = excluded.updated_at;

-- name: count_evidence
-- Sum up what all counted of a shared memory.
UPDATE shared_memories SET
  worked = (SELECT coalesce(sum(worked), 0) FROM evidence WHERE memory_id = :memory_id),
  tried = (SELECT coalesce(sum(tried), 0) FROM evidence WHERE memory_id = :memory_id),
  told = (SELECT coalesce(sum(told), 0) FROM evidence WHERE memory_id = :memory_id),
  people = (SELECT count(DISTINCT person_id) FROM evidence WHERE memory_id = :memory_id AND tried > 0),
  revision = :revision
WHERE memory_id = :memory_id;

-- name: vouch
-- Have what was counted so far not speak against a shared memory any more.
UPDATE shared_memories SET worked_before = worked, tried_before = tried WHERE memory_id = :memory_id;

-- name: counted
-- Those of shared memories (a JSON list of ids) that are active, with what was counted since a person vouched for them.
SELECT
  s.project, h.memory_id, CASE WHEN h.worked > h.worked_before THEN h.worked - h.worked_before ELSE 0 END AS worked,
  CASE WHEN h.tried > h.tried_before THEN h.tried - h.tried_before ELSE 0 END AS tried, h.told AS shown, h.people
FROM shared_memories AS h
JOIN scopes AS s ON s.id = h.scope_id
JOIN patterns AS p ON p.id = h.memory_id AND p.scope_id = h.scope_id AND p.status = 'active'
WHERE h.memory_id IN (SELECT value FROM json_each(:ids)) AND s.tenant_id = :tenant_id;

-- name: sharing
-- What is known of shared memories (a JSON list of ids) beside their words.
SELECT memory_id, worked, tried, told AS shown, people, proposed_by, accepted_by, accepted_at FROM shared_memories
WHERE memory_id IN (SELECT value FROM json_each(:ids));

-- name: bank_id
-- The id of the bank.
SELECT value FROM meta WHERE key = 'bank';

-- name: caches
-- What a project reads of what a team shares.
SELECT project, url, stamp, cursor, checked_at, failures, fault FROM team_caches
WHERE scope_id = :scope_id ORDER BY project DESC;

-- name: keep_cache
-- Have a project read what a team shares under a name; from the beginning where it was another server's.
INSERT INTO team_caches (scope_id, project, url) VALUES (:scope_id, :project, :url)
ON CONFLICT (scope_id, project) DO UPDATE SET
  url = excluded.url, stamp = '', cursor = 0, checked_at = NULL, failures = 0, fault = NULL
WHERE team_caches.url <> excluded.url;

-- name: drop_cache
-- Have a project read a team's name no more.
DELETE FROM team_caches WHERE scope_id = :scope_id AND project = :project;

-- name: readers_of_cache
-- How many projects of a tenant read what a team shares under a name.
SELECT count(*) FROM team_caches AS c JOIN scopes AS s ON s.id = c.scope_id
WHERE s.tenant_id = :tenant_id AND c.project = :project;

-- name: put_cursor
-- Note how far the changes were taken in.
UPDATE team_caches SET stamp = :stamp, cursor = :cursor WHERE scope_id = :scope_id AND project = :project;

-- name: note_answer
-- Note that the server answered.
UPDATE team_caches SET checked_at = :at, failures = 0, fault = NULL WHERE scope_id = :scope_id;

-- name: note_fault
-- Note that the server did not answer, and why.
UPDATE team_caches SET failures = failures + 1, fault = :fault WHERE scope_id = :scope_id;

-- name: scope_of_memory
-- In which scope a memory lies, and where.
SELECT scope_id, seq, status FROM patterns WHERE id = :memory_id;

-- name: put_cached
-- Note what the server says of a shared memory beside its words.
INSERT INTO shared_memories (
  memory_id, scope_id, revision, state, worked, tried, told, people, proposed_by, accepted_by, accepted_at
) VALUES (
  :memory_id, :scope_id, 0, '', :worked, :tried, :told, :people, :proposed_by, :accepted_by, :accepted_at)
ON CONFLICT (memory_id) DO UPDATE SET
  worked = excluded.worked, tried = excluded.tried, told = excluded.told, people = excluded.people,
  proposed_by = excluded.proposed_by, accepted_by = excluded.accepted_by, accepted_at = excluded.accepted_at;

-- name: drop_shared
-- Forget that a memory was shared.
DELETE FROM shared_memories WHERE memory_id = :memory_id;

-- name: ids_of_scope
-- The ids of all memories of a scope.
SELECT id FROM patterns WHERE scope_id = :scope_id;

-- name: drop_fixes
-- Forget which errors a memory ended.
DELETE FROM handles
WHERE seq = (SELECT seq FROM patterns WHERE id = :memory_id) AND handle LIKE 'error:%';

-- name: link_same
-- Note that an own memory says the same as a shared one.
INSERT INTO pattern_links (src_id, dst_id, relation, weight, created_at)
SELECT a.id, b.id, 'duplicate_of', 1.0, :at FROM patterns AS a JOIN patterns AS b ON b.id = :shared_id
WHERE a.id = :own_id ON CONFLICT DO NOTHING;

-- name: says_the_same
-- Which memories were linked as saying the same as one.
SELECT src_id FROM pattern_links WHERE dst_id = :memory_id AND relation = 'duplicate_of';

-- name: uses_of
-- How often memories (a JSON list of ids) were shown.
SELECT usage_count FROM patterns WHERE id IN (SELECT value FROM json_each(:ids));

-- name: outcomes_of
-- What tasks showed of a memory, in events of some types (a JSON list).
SELECT type, data FROM events
WHERE subject_id = :memory_id AND type IN (SELECT value FROM json_each(:kinds)) ORDER BY seq;

-- name: signatures
-- The digests of the errors that a memory ended.
SELECT substr(w.handle, 7) FROM handles AS w JOIN patterns AS p ON p.seq = w.seq
WHERE p.id = :memory_id AND w.handle LIKE 'error:%' ORDER BY w.handle;

-- name: put_sent
-- Note a memory that was proposed, and what became of it.
INSERT INTO sent_proposals (memory_id, url, scope_id, content_hash, proposal, sent_at)
VALUES (:memory_id, :url, :scope_id, :content_hash, :proposal, :at)
ON CONFLICT (memory_id, url) DO UPDATE SET content_hash = excluded.content_hash, proposal = excluded.proposal;

-- name: sent
-- What was proposed from a project to a server.
SELECT memory_id, content_hash, proposal FROM sent_proposals WHERE scope_id = :scope_id AND url = :url
ORDER BY sent_at, memory_id;

-- name: forget_proposals
-- Delete what was proposed and became a memory that is forgotten.
DELETE FROM proposals WHERE memory_id = :memory_id;

-- name: forget_evidence
-- The same of what was counted of it.
DELETE FROM evidence WHERE memory_id = :memory_id;

-- name: forget_names
-- The same of who proposed and accepted it.
UPDATE shared_memories SET proposed_by = '[]', accepted_by = NULL WHERE memory_id = :memory_id;

-- name: forget_sent
-- Delete what is known of one's own proposal of a memory.
DELETE FROM sent_proposals WHERE memory_id = :memory_id;

-- name: restamp
-- Name the counts of changes again: who followed them reads all of it again.
UPDATE team_revisions SET stamp = :stamp;
