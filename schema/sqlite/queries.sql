-- name: find_scope
-- The id of a scope.
SELECT id FROM scopes WHERE tenant_id = ? AND project = ?;

-- name: add_scope
-- Make a scope unless it is there.
INSERT INTO scopes (tenant_id, project) VALUES (?, ?) ON CONFLICT DO NOTHING;

-- name: add_pattern
-- Write a new item behind all that ever were; nothing when its id is taken.
INSERT INTO patterns (
  seq, id, type, pattern_data, confidence, usage_count, created_at, last_used, updated_at, scope_id, status, status_reason,
  outcome, domain, task_id, run_id, content_hash
) VALUES (
  1 + max(
    coalesce((SELECT max(seq) FROM patterns), 0),
    coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'forgotten_position'), 0)
  ),
  :id, 'reasoning_memory', :pattern_data, :confidence, :usage_count, :created_at, :last_used, :updated_at, :scope_id,
  :status, :status_reason, :outcome, :domain, :task_id, :run_id, :content_hash
) ON CONFLICT (id) DO NOTHING;

-- name: update_pattern
-- Write the changed text, status and confidence of an item.
UPDATE patterns SET
  pattern_data = :pattern_data, confidence = :confidence, updated_at = :updated_at, status = :status,
  status_reason = :status_reason, outcome = :outcome, domain = :domain, task_id = :task_id, run_id = :run_id,
  content_hash = :content_hash
WHERE seq = :seq;

-- name: find_pattern
-- Where an item stands, by its id and scope.
SELECT seq, status, pattern_data, confidence FROM patterns WHERE id = ? AND scope_id = ?;

-- name: find_patterns
-- Where items stand, by their ids (a JSON list), with the ids of their scopes (another).
SELECT seq, id, scope_id, status FROM patterns
WHERE id IN (SELECT value FROM json_each(:ids)) AND scope_id IN (SELECT value FROM json_each(:scope_ids));

-- name: get_patterns
-- Items by their ids (a JSON list) within scopes (another), in the order of the ids.
SELECT
  p.id, s.tenant_id, s.project, p.pattern_data, p.confidence, p.usage_count, p.created_at, p.last_used, p.status,
  p.status_reason
FROM json_each(:ids) AS wanted
JOIN patterns AS p ON p.id = wanted.value
JOIN scopes AS s ON s.id = p.scope_id
WHERE p.scope_id IN (SELECT value FROM json_each(:scope_ids))
ORDER BY wanted.key;

-- name: list_patterns
-- Items that a filter lets through, newest first. Empty parameters do not filter. `says` is a function of the store's.
SELECT
  p.id, s.tenant_id, s.project, p.pattern_data, p.confidence, p.usage_count, p.created_at, p.last_used, p.status,
  p.status_reason
FROM patterns AS p JOIN scopes AS s ON s.id = p.scope_id
WHERE p.scope_id IN (SELECT value FROM json_each(:scope_ids))
  AND p.status IN (SELECT value FROM json_each(:statuses))
  AND (:domain IS NULL OR p.domain = :domain)
  AND (:task_id IS NULL OR p.task_id = :task_id)
  AND NOT EXISTS (
    SELECT 1 FROM json_each(:tags) AS wanted
    WHERE NOT EXISTS (SELECT 1 FROM pattern_tags AS t WHERE t.seq = p.seq AND t.tag = wanted.value)
  )
  AND (:text IS NULL OR says(p.pattern_data, :text))
ORDER BY p.created_at DESC, p.seq DESC
LIMIT :limit OFFSET :offset;

-- name: set_status
-- Change the status of an item.
UPDATE patterns SET status = ?, status_reason = ?, updated_at = ? WHERE seq = ?;

-- name: reinforce
-- Raise the confidence of an item, at most to 1.
UPDATE patterns SET confidence = min(1.0, confidence + ?), updated_at = ? WHERE seq = ?;

-- name: delete_pattern
-- Delete an item with its tags, tokens, vectors and links.
DELETE FROM patterns WHERE seq = ?;

-- name: note_forgotten
-- Keep the position of a deleted item from being given again: what was consolidated or aged up to it stays so.
INSERT INTO meta (key, value) VALUES ('forgotten_position', :seq)
ON CONFLICT (key) DO UPDATE SET value = max(CAST(value AS INTEGER), :seq);

-- name: delete_tags
-- Take an item's tags away before new ones are written.
DELETE FROM pattern_tags WHERE seq = ?;

-- name: add_tag
-- Give an item a tag.
INSERT INTO pattern_tags (seq, tag) VALUES (?, ?) ON CONFLICT DO NOTHING;

-- name: put_tokens
-- Write the tokens of an item's fields, packed.
INSERT INTO pattern_tokens (seq, tokens) VALUES (?, ?) ON CONFLICT (seq) DO UPDATE SET tokens = excluded.tokens;

-- name: unpacked_tokens
-- Tokens that are kept as text, as before schema 6.
SELECT seq, tokens FROM pattern_tokens WHERE seq > ? AND typeof(tokens) = 'text' ORDER BY seq LIMIT ?;

-- name: count_active
-- Change the number of active items of a scope.
UPDATE scopes SET active = active + ? WHERE id = ?;

-- name: index_tokens
-- Enter an item into the keyword index. `scoped` is a function of the store's.
INSERT INTO pattern_fts (rowid, title, description, content)
SELECT t.seq, scoped(t.tokens, 0, p.scope_id), scoped(t.tokens, 1, p.scope_id), scoped(t.tokens, 2, p.scope_id)
FROM pattern_tokens AS t JOIN patterns AS p ON p.seq = t.seq WHERE t.seq = ?;

-- name: unindex_tokens
-- Take an item out of the keyword index; its tokens must be those it was entered with.
INSERT INTO pattern_fts (pattern_fts, rowid, title, description, content)
SELECT 'delete', t.seq, scoped(t.tokens, 0, p.scope_id), scoped(t.tokens, 1, p.scope_id), scoped(t.tokens, 2, p.scope_id)
FROM pattern_tokens AS t JOIN patterns AS p ON p.seq = t.seq WHERE t.seq = ?;

-- name: empty_keyword_index
-- Take everything out of the keyword index.
INSERT INTO pattern_fts (pattern_fts) VALUES ('delete-all');

-- name: fill_keyword_index
-- Enter every active item into the empty keyword index.
INSERT INTO pattern_fts (rowid, title, description, content)
SELECT t.seq, scoped(t.tokens, 0, p.scope_id), scoped(t.tokens, 1, p.scope_id), scoped(t.tokens, 2, p.scope_id)
FROM pattern_tokens AS t JOIN patterns AS p ON p.seq = t.seq WHERE p.status = 'active';

-- name: optimize_keyword_index
-- Merge the keyword index into one part, so that nothing of deleted items is left in it.
INSERT INTO pattern_fts (pattern_fts) VALUES ('optimize');

-- name: recount_active
-- Count the active items of every scope anew.
UPDATE scopes SET active = (SELECT count(*) FROM patterns WHERE scope_id = scopes.id AND status = 'active');

-- name: find_space
-- The space of a model's vectors of so many dimensions.
SELECT id, model, dims, quantization, stale, 'vec_' FROM vector_spaces WHERE model = ? AND dims = ?;

-- name: all_spaces
-- Every space.
SELECT id, model, dims, quantization, stale, 'vec_' FROM vector_spaces ORDER BY id;

-- name: spaces_of_item
-- The spaces in which an item has a vector, with that vector.
SELECT s.id, s.model, s.dims, s.quantization, s.stale, 'vec_', e.vector
FROM pattern_embeddings AS e JOIN vector_spaces AS s ON s.id = e.space_id WHERE e.seq = ?;

-- name: add_space
-- Register a space.
INSERT INTO vector_spaces (model, dims, quantization, stale) VALUES (?, ?, ?, ?);

-- name: mark_space
-- Say whether the vector index of a space lacks what was written without sqlite-vec.
UPDATE vector_spaces SET stale = ? WHERE id = ?;

-- name: delete_space
-- Forget a space; its vectors and its index are dropped beside.
DELETE FROM vector_spaces WHERE id = ?;

-- name: delete_vectors_of_space
-- Drop the vectors of a space.
DELETE FROM pattern_embeddings WHERE space_id = (SELECT id FROM vector_spaces WHERE model = ? AND dims = ?);

-- name: count_members
-- Change the number of active items of a scope that have a vector in a space.
INSERT INTO space_members (space_id, scope_id, active) VALUES (:space_id, :partition, :change)
ON CONFLICT DO UPDATE SET active = active + :change;

-- name: members
-- How many active items of a scope have a vector in a space.
SELECT active FROM space_members WHERE space_id = ? AND scope_id = ?;

-- name: all_members
-- How many active items of every scope have a vector in a space.
SELECT scope_id, active FROM space_members WHERE space_id = ?;

-- name: forget_members
-- Drop the counts of a space before they are made anew.
DELETE FROM space_members WHERE space_id = ?;

-- name: recount_members
-- Count the active items of every scope that have a vector in a space.
INSERT INTO space_members (space_id, scope_id, active)
SELECT s.id, p.scope_id, count(*)
FROM vector_spaces AS s
JOIN pattern_embeddings AS e ON e.space_id = s.id
JOIN patterns AS p ON p.seq = e.seq AND p.status = 'active'
WHERE s.id = ? GROUP BY s.id, p.scope_id;

-- name: put_vector
-- Write the vector of an item in a space.
INSERT INTO pattern_embeddings (seq, space_id, vector) VALUES (:seq, :space_id, :vector)
ON CONFLICT (seq, space_id) DO UPDATE SET vector = excluded.vector;

-- name: drop_vector
-- Drop the vector of an item in one space.
DELETE FROM pattern_embeddings WHERE seq = :seq AND space_id = :space_id;

-- name: delete_vectors
-- Drop all vectors of an item.
DELETE FROM pattern_embeddings WHERE seq = ?;

-- name: without_vector
-- Items that have no vector in a space, by their order of arrival, after a position.
SELECT p.seq, p.id, p.pattern_data FROM patterns AS p
WHERE p.seq > :after AND NOT EXISTS (
  SELECT 1 FROM pattern_embeddings AS e
  WHERE e.seq = p.seq AND e.space_id = (SELECT id FROM vector_spaces WHERE model = :model AND dims = :dims)
)
ORDER BY p.seq LIMIT :limit;

-- name: unembedded
-- Items of a scope that have no vector in any space, by their order of arrival, after a position.
SELECT p.seq, p.id, p.pattern_data FROM patterns AS p
WHERE p.scope_id = :scope_id AND p.seq > :after
  AND NOT EXISTS (SELECT 1 FROM pattern_embeddings AS e WHERE e.seq = p.seq)
ORDER BY p.seq LIMIT :limit;

-- name: unembedded_of
-- Those of some items (a JSON list of ids) that have no vector in any space.
SELECT p.id FROM patterns AS p
WHERE p.id IN (SELECT value FROM json_each(?))
  AND NOT EXISTS (SELECT 1 FROM pattern_embeddings AS e WHERE e.seq = p.seq);

-- name: has_vector_table
-- Whether the vector index of a space is there.
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?;

-- name: index_vector
-- Enter a vector into the index of its space.
INSERT INTO {vectors} (rowid, scope_id, embedding) VALUES (?, ?, {element}(?));

-- name: unindex_vector
-- Take a vector out of the index of its space.
DELETE FROM {vectors} WHERE rowid = ?;

-- name: fill_vector_index
-- Enter the vectors of all active items, but those that have codes, into the empty index of a space.
INSERT INTO {vectors} (rowid, scope_id, embedding)
SELECT p.seq, p.scope_id, {element}(e.vector) -- sorting them would lose their type
FROM pattern_embeddings AS e JOIN patterns AS p ON p.seq = e.seq
WHERE e.space_id = (SELECT id FROM vector_spaces WHERE model = ? AND dims = ?) AND p.status = 'active'
  AND p.scope_id NOT IN (SELECT partition FROM coded_partitions WHERE space = '{vectors}');

-- name: drop_vector_index
-- Drop the index of a space.
DROP TABLE {vectors};

-- name: vector_slots
-- The size of a space's index and what is live in it.
SELECT (SELECT sum(size) FROM {vectors}_chunks), (SELECT count(*) FROM {vectors}_rowids);

-- name: nearest_vectors
-- The k nearest items of one scope.
SELECT rowid, distance FROM {vectors} WHERE embedding MATCH {element}(:vector) AND k = :k AND scope_id = :partition;

-- name: nearest_by_codes
-- The nearest vectors among those with the nearest codes of one scope.
SELECT near.rowid, vec_distance_cosine({element}(e.vector), {element}(:vector)) AS distance
FROM (
  SELECT rowid FROM {codes} WHERE embedding MATCH vec_bit(:code) AND k = :each AND part = :partition
    AND bucket IN ({buckets})
) AS near
JOIN pattern_embeddings AS e
  ON e.seq = near.rowid AND e.space_id = (SELECT id FROM vector_spaces WHERE model = :model AND dims = :dims)
ORDER BY distance, near.rowid LIMIT :k;

-- name: nearest_by_codes_among
-- The same among those that a filter lets through.
SELECT near.rowid, vec_distance_cosine({element}(e.vector), {element}(:vector)) AS distance
FROM (
  SELECT rowid FROM {codes} WHERE embedding MATCH vec_bit(:code) AND k = :each AND part = :partition
    AND bucket IN ({buckets}) AND rowid IN (
      SELECT p.seq FROM patterns AS p
      WHERE p.scope_id = :partition AND p.status = 'active'
        AND (:domain IS NULL OR p.domain = :domain)
        AND (:exclude_task IS NULL OR p.task_id IS NOT :exclude_task)
        AND NOT EXISTS (
          SELECT 1 FROM json_each(:tags) AS wanted
          WHERE NOT EXISTS (SELECT 1 FROM pattern_tags AS t WHERE t.seq = p.seq AND t.tag = wanted.value)
        )
    )
) AS near
JOIN pattern_embeddings AS e
  ON e.seq = near.rowid AND e.space_id = (SELECT id FROM vector_spaces WHERE model = :model AND dims = :dims)
ORDER BY distance, near.rowid LIMIT :k;

-- name: nearest_vectors_among
-- The k nearest items of one scope among those that a filter lets through.
SELECT rowid, distance FROM {vectors}
WHERE embedding MATCH {element}(:vector) AND k = :k AND scope_id = :scope_id AND rowid IN (
  SELECT p.seq FROM patterns AS p
  WHERE p.scope_id = :scope_id AND p.status = 'active'
    AND (:domain IS NULL OR p.domain = :domain)
    AND (:exclude_task IS NULL OR p.task_id IS NOT :exclude_task)
    AND NOT EXISTS (
      SELECT 1 FROM json_each(:tags) AS wanted
      WHERE NOT EXISTS (SELECT 1 FROM pattern_tags AS t WHERE t.seq = p.seq AND t.tag = wanted.value)
    )
);

-- name: scan_vectors
-- All vectors of one scope in a space that a filter lets through.
SELECT p.seq, e.vector
FROM patterns AS p JOIN pattern_embeddings AS e
  ON e.seq = p.seq AND e.space_id = (SELECT id FROM vector_spaces WHERE model = :model AND dims = :dims)
WHERE p.scope_id = :partition AND p.status = 'active'
  AND (:domain IS NULL OR p.domain = :domain)
  AND (:exclude_task IS NULL OR p.task_id IS NOT :exclude_task)
  AND NOT EXISTS (
    SELECT 1 FROM json_each(:tags) AS wanted
    WHERE NOT EXISTS (SELECT 1 FROM pattern_tags AS t WHERE t.seq = p.seq AND t.tag = wanted.value)
  );

-- name: term_counts
-- In how many items each term (a JSON list) stands.
SELECT wanted.key, v.doc FROM json_each(?) AS wanted JOIN pattern_terms AS v ON v.term = wanted.value;

-- name: first_matches
-- The first items for a MATCH expression in the order of the index.
SELECT rowid FROM pattern_fts WHERE pattern_fts MATCH :expression ORDER BY rowid LIMIT :limit;

-- name: last_matches
-- The last items for a MATCH expression, the last first.
SELECT rowid FROM pattern_fts WHERE pattern_fts MATCH :expression ORDER BY rowid DESC LIMIT :limit;

-- name: keyword_matches
-- The best items for a MATCH expression; the rank is the negative BM25 with the weights of title, description, content.
SELECT rowid, rank FROM pattern_fts
WHERE pattern_fts MATCH :expression AND rank MATCH 'bm25(2.0, 1.2, 1.0)'
ORDER BY rank LIMIT :limit;

-- name: keyword_matches_among
-- The best items for a MATCH expression among those that a filter lets through.
SELECT f.rowid, bm25(pattern_fts, 2.0, 1.2, 1.0) AS score
FROM pattern_fts AS f JOIN patterns AS p ON p.seq = f.rowid
WHERE pattern_fts MATCH :expression
  AND (:domain IS NULL OR p.domain = :domain)
  AND (:exclude_task IS NULL OR p.task_id IS NOT :exclude_task)
  AND NOT EXISTS (
    SELECT 1 FROM json_each(:tags) AS wanted
    WHERE NOT EXISTS (SELECT 1 FROM pattern_tags AS t WHERE t.seq = p.seq AND t.tag = wanted.value)
  )
ORDER BY score LIMIT :limit;

-- name: active_of_task
-- How many active items of a scope came from a task.
SELECT seq FROM patterns WHERE task_id = ? AND scope_id = ? AND status = 'active';

-- name: active_in_scope
-- How many active items a scope has.
SELECT active FROM scopes WHERE id = ?;

-- name: candidates
-- What scoring needs of items by their positions (a JSON list); those from :first_unknown on get their distance here.
SELECT
  p.seq, p.id, p.scope_id, p.confidence, p.created_at, t.tokens, e.vector,
  CASE WHEN wanted.key >= :first_unknown AND e.vector IS NOT NULL
    THEN vec_distance_cosine({element}(e.vector), {element}(:vector)) END
FROM json_each(:seqs) AS wanted
CROSS JOIN patterns AS p ON p.seq = wanted.value AND p.status = 'active'
JOIN pattern_tokens AS t ON t.seq = p.seq
LEFT JOIN pattern_embeddings AS e
  ON e.seq = p.seq AND e.space_id = (SELECT id FROM vector_spaces WHERE model = :model AND dims = :dims);

-- name: candidates_without_distance
-- The same without sqlite-vec.
SELECT
  p.seq, p.id, p.scope_id, p.confidence, p.created_at, t.tokens, e.vector, NULL
FROM json_each(:seqs) AS wanted
CROSS JOIN patterns AS p ON p.seq = wanted.value AND p.status = 'active'
JOIN pattern_tokens AS t ON t.seq = p.seq
LEFT JOIN pattern_embeddings AS e
  ON e.seq = p.seq AND e.space_id = (SELECT id FROM vector_spaces WHERE model = :model AND dims = :dims);

-- name: ids_of_patterns
-- The ids of items by their positions (a JSON list).
SELECT p.seq, p.id FROM json_each(?) AS wanted CROSS JOIN patterns AS p ON p.seq = wanted.value;

-- name: use_pattern
-- Count a use of an item.
UPDATE patterns SET usage_count = usage_count + 1, last_used = max(coalesce(last_used, ''), :at)
WHERE id = :id AND scope_id IN (SELECT id FROM scopes WHERE tenant_id = :tenant_id);

-- name: add_event
-- Write a line of the audit trail.
INSERT INTO events (scope_id, type, subject_id, data, created_at) VALUES (?, ?, ?, ?, ?);

-- name: events_of
-- What happened to a subject, oldest first.
SELECT e.type, e.created_at, e.subject_id, e.data FROM events AS e
WHERE e.subject_id = :subject_id AND e.scope_id IN (SELECT value FROM json_each(:scope_ids)) ORDER BY e.seq;

-- name: events_of_kinds
-- What of some kinds (a JSON list) happened to subjects (a JSON list), oldest first.
SELECT e.type, e.created_at, e.subject_id, e.data FROM json_each(:subject_ids) AS wanted
CROSS JOIN events AS e ON e.subject_id = wanted.value
WHERE e.scope_id IN (SELECT value FROM json_each(:scope_ids)) AND e.type IN (SELECT value FROM json_each(:kinds))
ORDER BY e.seq;

-- name: clear_events_of
-- Take the texts out of what happened to a subject.
UPDATE events SET data = '{}' WHERE subject_id = ?;

-- name: add_metric
-- Write a figure.
INSERT INTO performance_metrics (scope_id, metric, value, data, created_at) VALUES (?, ?, ?, ?, ?);

-- name: add_trajectory
-- Write a trajectory, or its newer verdict.
INSERT INTO task_trajectories (
  id, task_id, scope_id, agent_id, query, trajectory_json, content_digest, started_at, ended_at, judge_label,
  judge_conf, verdict_json, run_id, created_at, content_hash
) VALUES (
  :id, :task_id, :scope_id, :agent_id, :query, :trajectory_json, :content_digest, :started_at, :ended_at,
  :judge_label, :judge_conf, :verdict_json, :run_id, :created_at, :content_hash
) ON CONFLICT (id) DO UPDATE SET
  judge_label = excluded.judge_label, judge_conf = excluded.judge_conf, verdict_json = excluded.verdict_json,
  run_id = coalesce(excluded.run_id, run_id)
WHERE scope_id = excluded.scope_id AND content_digest = excluded.content_digest;

-- name: learned_before
-- The run that learned from exactly this trajectory.
SELECT id, run_id, verdict_json FROM task_trajectories
WHERE scope_id = ? AND task_id = ? AND content_digest = ? AND run_id IS NOT NULL ORDER BY seq DESC LIMIT 1;

-- name: ids_of_run
-- The items that a run made in a scope.
SELECT id FROM patterns WHERE run_id = ? AND scope_id = ? ORDER BY seq;

-- name: earlier_of_task
-- Items that earlier runs of a task gave and that are still in use.
SELECT p.seq, p.id, p.scope_id, p.status FROM patterns AS p
WHERE p.task_id = :task_id AND p.scope_id = :scope_id AND p.status <> 'archived' AND p.run_id IN (
  SELECT run_id FROM task_trajectories
  WHERE scope_id = :scope_id AND task_id = :task_id AND run_id IS NOT NULL AND run_id <> :run_id
);

-- name: get_trajectory
-- A trajectory by its own id, or the newest of a task.
SELECT trajectory_json, verdict_json FROM task_trajectories
WHERE scope_id = :scope_id AND (id = :id OR task_id = :id) ORDER BY id = :id DESC, seq DESC LIMIT 1;

-- name: queued_job
-- The queued job that a new one replaces.
SELECT id FROM jobs WHERE scope_id = ? AND kind = ? AND key = ? AND status = 'queued';

-- name: replace_job
-- Give a queued job the payload and the time of a later one.
UPDATE jobs SET payload = ?, run_after = ?, attempts = 0, error = NULL WHERE id = ?;

-- name: add_job
-- Queue a job.
INSERT INTO jobs (id, scope_id, kind, key, payload, status, attempts, run_after, created_at)
VALUES (?, ?, ?, ?, ?, 'queued', 0, ?, ?);

-- name: release_jobs
-- Bring queued jobs forward whose key starts so.
UPDATE jobs SET run_after = :run_after
WHERE scope_id = :scope_id AND status = 'queued' AND substr(key, 1, length(:prefix)) = :prefix
  AND run_after > :run_after;

-- name: claim_job
-- Take the oldest due job, or one whose worker was not heard of since :lapsed, or only :ahead of a clock set back.
UPDATE jobs SET
  status = 'running', worker = :worker, started_at = :now, heartbeat_at = :now, attempts = attempts + 1
WHERE seq = (
  SELECT seq FROM jobs
  WHERE kind IN (SELECT value FROM json_each(:kinds))
    AND (
      (status = 'queued' AND run_after <= :now)
      OR (status = 'running' AND (heartbeat_at <= :lapsed OR heartbeat_at > :ahead))
    )
  ORDER BY run_after, seq LIMIT 1
)
RETURNING id;

-- name: is_job_due
-- Whether there is a job to take.
SELECT 1 FROM jobs
WHERE kind IN (SELECT value FROM json_each(:kinds))
  AND (
      (status = 'queued' AND run_after <= :now)
      OR (status = 'running' AND (heartbeat_at <= :lapsed OR heartbeat_at > :ahead))
    )
LIMIT 1;

-- name: heartbeat
-- Renew a worker's lease.
UPDATE jobs SET heartbeat_at = ? WHERE id = ? AND worker = ? AND status = 'running';

-- name: held_job
-- The job that a worker holds.
SELECT scope_id, kind, key FROM jobs WHERE id = ? AND worker = ? AND status = 'running';

-- name: end_job
-- End a job, or put it back.
UPDATE jobs SET
  status = :status, result = :result, error = :error, ended_at = :ended_at, worker = :worker,
  run_after = coalesce(:run_after, run_after), attempts = attempts - :uncounted
WHERE id = :id;

-- name: get_job
-- One job.
SELECT
  j.id, s.tenant_id, s.project, j.kind, j.key, j.payload, j.status, j.attempts, j.run_after, j.created_at,
  j.started_at, j.ended_at, j.worker, j.result, j.error
FROM jobs AS j JOIN scopes AS s ON s.id = j.scope_id WHERE j.id = ?;

-- name: list_jobs
-- Jobs of a scope by status, newest first.
SELECT
  j.id, s.tenant_id, s.project, j.kind, j.key, j.payload, j.status, j.attempts, j.run_after, j.created_at,
  j.started_at, j.ended_at, j.worker, j.result, j.error
FROM jobs AS j JOIN scopes AS s ON s.id = j.scope_id
WHERE j.scope_id = :scope_id AND j.status IN (SELECT value FROM json_each(:statuses))
ORDER BY j.seq DESC LIMIT :limit;

-- name: next_due
-- When the next queued job is due, and when a worker of the running ones was heard of longest ago.
SELECT min(run_after) FILTER (WHERE status = 'queued'), min(heartbeat_at) FILTER (WHERE status = 'running')
FROM jobs WHERE status IN ('queued', 'running') AND kind IN (SELECT value FROM json_each(?));

-- name: get_session
-- A session of the host.
SELECT session_id, transcript_path, task_id, task, task_number, updated_at FROM host_sessions
WHERE scope_id = ? AND session_id = ?;

-- name: put_session
-- Write how a session of the host stands.
INSERT INTO host_sessions (session_id, scope_id, transcript_path, task_id, task, task_number, updated_at)
VALUES (:session_id, :scope_id, :transcript_path, :task_id, :task, :task_number, :updated_at)
ON CONFLICT (scope_id, session_id) DO UPDATE SET
  transcript_path = excluded.transcript_path, task_id = excluded.task_id, task = excluded.task,
  task_number = excluded.task_number, updated_at = excluded.updated_at;

-- name: count_patterns
-- Items of a scope by status.
SELECT status, count(*) FROM patterns WHERE scope_id = ? GROUP BY status;

-- name: count_outcomes
-- Active items of a scope by outcome.
SELECT outcome, count(*) FROM patterns NOT INDEXED WHERE scope_id = ? AND status = 'active' GROUP BY outcome;

-- name: describe_patterns
-- The oldest and newest active item of a scope, the mean confidence, and what is new since the last consolidation.
SELECT
  (SELECT min(created_at) FROM patterns WHERE scope_id = :scope_id AND status = 'active'),
  (SELECT max(created_at) FROM patterns WHERE scope_id = :scope_id AND status = 'active'),
  (SELECT avg(confidence) FROM patterns WHERE scope_id = :scope_id AND status = 'active'),
  (SELECT count(*) FROM patterns NOT INDEXED
   WHERE seq > (SELECT consolidated_seq FROM scopes WHERE id = :scope_id) AND scope_id = :scope_id AND status = 'active');

-- name: pending_upkeep
-- How many active items of a scope are new since its last consolidation, up to :most, and how many lack a model's vector.
SELECT
  (SELECT count(*) FROM (
    SELECT 1 FROM patterns AS p NOT INDEXED
    WHERE p.seq > s.consolidated_seq AND p.scope_id = s.id AND p.status = 'active' LIMIT :most)),
  s.active - coalesce((
    SELECT sum(m.active) FROM space_members AS m JOIN vector_spaces AS v ON v.id = m.space_id
    WHERE m.scope_id = s.id AND v.model = :model), 0)
FROM scopes AS s WHERE s.id = :scope_id;

-- name: count_trajectories
-- Trajectories of a scope by verdict.
SELECT coalesce(judge_label, ''), count(*) FROM task_trajectories WHERE scope_id = ? GROUP BY judge_label;

-- name: events_of_kind
-- The newest events of a type in a scope, newest first.
SELECT type, created_at, subject_id, data FROM events WHERE scope_id = ? AND type = ? ORDER BY seq DESC LIMIT ?;

-- name: chat_spending
-- How many calls to chat models there were since a moment in any scope, their tokens, and the cost that is known.
SELECT count(*), coalesce(sum(value), 0), sum(json_extract(data, '$.cost_usd')) FROM performance_metrics
WHERE scope_id IN (SELECT id FROM scopes) AND metric = ? AND created_at >= ?;

-- name: count_events
-- Events of a type in a scope.
SELECT count(*) FROM events WHERE scope_id = ? AND type = ?;

-- name: count_jobs
-- Jobs of a scope by status.
SELECT status, count(*) FROM jobs WHERE scope_id = ? GROUP BY status;

-- name: count_embedded
-- Active items of a scope by the model that has their vector.
SELECT s.model, sum(m.active) FROM space_members AS m JOIN vector_spaces AS s ON s.id = m.space_id
WHERE m.scope_id = ? AND m.active > 0 GROUP BY s.model;

-- name: briefing
-- The surest active items of a project and of its tenant's global scope, the project's first.
WITH surest AS (
  SELECT * FROM (
    SELECT seq, 0 AS shared FROM patterns
    WHERE scope_id = (SELECT id FROM scopes WHERE tenant_id = :tenant_id AND project = :project) AND status = 'active'
    ORDER BY confidence DESC, usage_count DESC, seq DESC LIMIT :limit)
  UNION ALL
  SELECT * FROM (
    SELECT seq, 1 AS shared FROM patterns
    WHERE status = 'active' AND scope_id = (
      SELECT id FROM scopes WHERE tenant_id = :tenant_id AND project = :global AND :project <> :global)
    ORDER BY confidence DESC, usage_count DESC, seq DESC LIMIT :limit)
)
SELECT p.id, p.pattern_data ->> '$.title', p.pattern_data ->> '$.content'
FROM surest JOIN patterns AS p ON p.seq = surest.seq
ORDER BY surest.shared, p.confidence DESC, p.usage_count DESC, p.seq DESC LIMIT :limit;

-- name: pattern_hashes
-- The text of every item with the hash it must have.
SELECT id, pattern_data, content_hash FROM patterns;

-- name: patterns_by_id
-- Items by their ids (a JSON list), of every scope.
SELECT seq, id, scope_id, status FROM patterns WHERE id IN (SELECT value FROM json_each(?));

-- name: injections_of
-- What a task was given or what was kept from it, oldest first.
SELECT type, data, created_at FROM events
WHERE subject_id = :task_id AND scope_id = :scope_id AND type IN (:injected, :withheld) ORDER BY seq;

-- name: outcome_of
-- The outcome of a task: the newest one holds.
SELECT data FROM events WHERE subject_id = :task_id AND scope_id = :scope_id AND type = :type ORDER BY seq DESC LIMIT 1;

-- name: confidence_of
-- How sure an item is.
SELECT confidence FROM patterns WHERE seq = ?;

-- name: set_confidence
-- Change how sure an item is.
UPDATE patterns SET confidence = ?, updated_at = ? WHERE seq = ?;

-- name: add_figure
-- Write a figure and return where it stands.
INSERT INTO performance_metrics (scope_id, metric, value, data, created_at) VALUES (?, ?, ?, ?, ?) RETURNING seq;

-- name: delete_figure
-- Take back a figure that a later one replaces.
DELETE FROM performance_metrics WHERE seq = ? AND scope_id = ? AND metric = ?;

-- name: figures
-- All figures of one kind, oldest first.
SELECT value, data, created_at FROM performance_metrics WHERE scope_id = ? AND metric = ? ORDER BY created_at, seq;

-- name: item_times
-- When each item of a scope was made.
SELECT created_at FROM patterns WHERE scope_id = ? ORDER BY created_at;

-- name: upkeep_state
-- How far a scope was consolidated, its newest position, how many active items it has, and its aging (JSON).
SELECT
  s.consolidated_seq, coalesce((SELECT max(seq) FROM patterns WHERE scope_id = s.id), 0), s.active,
  (SELECT value FROM meta WHERE key = 'aging:' || s.id)
FROM scopes AS s WHERE s.id = ?;

-- name: upkeep_items
-- What upkeep needs of active items after a position; the sign keeps SQLite from sorting them for each page.
SELECT
  p.seq, p.id, p.confidence, p.usage_count, p.created_at, p.last_used, p.status_reason, p.updated_at, e.vector
FROM patterns AS p
LEFT JOIN pattern_embeddings AS e
  ON e.seq = p.seq AND e.space_id = (SELECT id FROM vector_spaces WHERE model = :model AND dims = :dims)
WHERE p.seq > :after AND +p.scope_id = :scope_id AND +p.status = 'active'
ORDER BY p.seq LIMIT :limit;

-- name: upkeep_items_of
-- The same of items by their ids (a JSON list).
SELECT
  p.seq, p.id, p.confidence, p.usage_count, p.created_at, p.last_used, p.status_reason, p.updated_at, e.vector
FROM json_each(:ids) AS wanted
CROSS JOIN patterns AS p ON p.id = wanted.value
LEFT JOIN pattern_embeddings AS e
  ON e.seq = p.seq AND e.space_id = (SELECT id FROM vector_spaces WHERE model = :model AND dims = :dims)
WHERE p.scope_id = :scope_id AND p.status = 'active';

-- name: pattern_as_it_is
-- What a change must find as it was seen.
SELECT seq, status, status_reason, confidence, updated_at, last_used FROM patterns WHERE id = ? AND scope_id = ?;

-- name: set_confidence
-- Write the confidence of an item.
UPDATE patterns SET confidence = ?, updated_at = ? WHERE seq = ?;

-- name: links_of
-- Every link from or to items (a JSON list) of a scope.
SELECT l.src_id, l.dst_id, l.relation, l.weight
FROM pattern_links AS l JOIN patterns AS p ON p.id = l.src_id AND p.scope_id = :scope_id
WHERE l.src_id IN (SELECT value FROM json_each(:ids))
UNION
SELECT l.src_id, l.dst_id, l.relation, l.weight
FROM pattern_links AS l JOIN patterns AS p ON p.id = l.dst_id AND p.scope_id = :scope_id
WHERE l.dst_id IN (SELECT value FROM json_each(:ids));

-- name: add_link
-- Link two items of a scope unless they are linked so already, or one of them is gone.
INSERT INTO pattern_links (src_id, dst_id, relation, weight, created_at)
SELECT s.id, d.id, :relation, :weight, :at FROM patterns AS s JOIN patterns AS d ON d.id = :dst_id
WHERE s.id = :src_id AND s.scope_id = :scope_id AND d.scope_id = :scope_id
ON CONFLICT DO NOTHING;

-- name: delete_link
-- Take a link away.
DELETE FROM pattern_links WHERE src_id = ? AND dst_id = ? AND relation = ?;

-- name: get_aging
-- The aging of a scope (JSON).
SELECT value FROM meta WHERE key = 'aging:' || ?;

-- name: put_aging
-- Write the aging of a scope.
INSERT INTO meta (key, value) VALUES ('aging:' || ?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- name: delete_aging
-- Forget the aging of a scope: it was never aged.
DELETE FROM meta WHERE key = 'aging:' || ?;

-- name: mark_consolidated
-- Write up to which position a scope is consolidated.
UPDATE scopes SET consolidated_seq = max(consolidated_seq, ?) WHERE id = ?;

-- name: events_of_run
-- What a run wrote in a scope, the latest first.
SELECT seq, type, data FROM events WHERE subject_id = ? AND scope_id = ? ORDER BY seq DESC;

-- name: add_matts_run
-- Write a MaTTS run unless its id is taken.
INSERT INTO matts_runs (run_id, scope_id, task_id, mode, k, status, summary, created_at)
VALUES (:run_id, :scope_id, :task_id, :mode, :k, 'queued', :summary, :created_at) ON CONFLICT (run_id) DO NOTHING;

-- name: start_matts_run
-- Set a run that has not ended, or that failed, running.
UPDATE matts_runs SET status = 'running' WHERE run_id = ? AND scope_id = ? AND status IN ('queued', 'running', 'failed');

-- name: get_matts_run
-- A run of a scope.
SELECT run_id, task_id, mode, k, status, summary, created_at FROM matts_runs WHERE run_id = ? AND scope_id = ?;

-- name: list_matts_runs
-- Runs of a scope by status, newest first.
SELECT run_id, task_id, mode, k, status, summary, created_at FROM matts_runs
WHERE scope_id = :scope_id AND status IN (SELECT value FROM json_each(:statuses))
ORDER BY created_at DESC, run_id DESC LIMIT :limit;

-- name: update_matts_run
-- Write how a run stands.
UPDATE matts_runs SET status = :status, summary = :summary WHERE run_id = :run_id AND scope_id = :scope_id;

-- name: cancel_matts_run
-- Cancel a run that has not ended.
UPDATE matts_runs SET status = 'cancelled' WHERE run_id = ? AND scope_id = ? AND status IN ('queued', 'running');

-- name: reopen_matts_run
-- Queue a run that was cancelled once more.
UPDATE matts_runs SET status = 'queued' WHERE run_id = ? AND scope_id = ? AND status = 'cancelled';

-- name: link_rollout
-- Link a trajectory to its run.
UPDATE task_trajectories SET matts_run_id = ? WHERE id = ? AND scope_id = ?;

-- name: report_job
-- Note how far a running job is.
UPDATE jobs SET result = ? WHERE id = ? AND worker = ? AND status = 'running';

-- name: get_job_of
-- One job of a scope.
SELECT
  j.id, s.tenant_id, s.project, j.kind, j.key, j.payload, j.status, j.attempts, j.run_after, j.created_at,
  j.started_at, j.ended_at, j.worker, j.result, j.error
FROM jobs AS j JOIN scopes AS s ON s.id = j.scope_id WHERE j.id = ? AND j.scope_id = ?;

-- name: find_job
-- The latest job of a scope, kind and key.
SELECT
  j.id, s.tenant_id, s.project, j.kind, j.key, j.payload, j.status, j.attempts, j.run_after, j.created_at,
  j.started_at, j.ended_at, j.worker, j.result, j.error
FROM jobs AS j JOIN scopes AS s ON s.id = j.scope_id WHERE j.scope_id = ? AND j.kind = ? AND j.key = ?
ORDER BY j.seq DESC LIMIT 1;

-- name: cancel_job
-- Cancel a job that has not ended.
UPDATE jobs SET status = 'cancelled', ended_at = ?, error = 'cancelled' WHERE id = ? AND scope_id = ?
  AND status IN ('queued', 'running');
