-- name: memory_partitions
-- A part of a search: its space, and of scopes (two lists) what is counted there.
WITH space AS MATERIALIZED (
  SELECT id FROM vector_spaces WHERE model = :model AND dims = :dims),
part AS MATERIALIZED (
  SELECT s.id, w.place, s.active AS items, i.tokens::double precision AS tokens, coalesce(m.active, 0) AS embedded
  FROM unnest(:tenants::text[], :projects::text[]) WITH ORDINALITY AS w(tenant_id, project, place)
  JOIN scopes AS s ON s.tenant_id = w.tenant_id AND s.project = w.project AND s.active > 0
  LEFT JOIN indexed_words AS i ON i.kind = 1 AND i.partition = s.id
  LEFT JOIN space_members AS m ON m.space_id = (SELECT id FROM space) AND m.scope_id = s.id)

-- name: passage_partitions
-- The same for passages, of scopes (two lists) and kinds (a list).
WITH space AS MATERIALIZED (
  SELECT id FROM source_spaces WHERE model = :model AND dims = :dims),
part AS MATERIALIZED (
  SELECT r.id, w.place, r.passages AS items, i.tokens::double precision AS tokens, coalesce(m.passages, 0) AS embedded
  FROM unnest(:tenants::text[], :projects::text[]) WITH ORDINALITY AS w(tenant_id, project, place)
  JOIN scopes AS s ON s.tenant_id = w.tenant_id AND s.project = w.project
  JOIN source_partitions AS r ON r.scope_id = s.id AND r.kind = ANY(:kinds::text[]) AND r.passages > 0
  LEFT JOIN indexed_words AS i ON i.kind = 2 AND i.partition = r.id
  LEFT JOIN source_space_members AS m ON m.space_id = (SELECT id FROM space) AND m.partition_id = r.id)

-- name: passing
-- A part of a search: the items that pass filters.
passing AS MATERIALIZED (
  SELECT p.seq FROM part JOIN patterns AS p ON p.scope_id = part.id AND p.status = 'active'
  WHERE :narrowed = 1
    AND (:domain::text IS NULL OR p.domain = :domain) AND (:agent_id::text IS NULL OR p.agent_id = :agent_id)
    AND NOT EXISTS (
      SELECT 1 FROM unnest(:tags::text[]) AS wanted(tag)
      WHERE NOT EXISTS (SELECT 1 FROM pattern_tags AS t WHERE t.seq = p.seq AND t.tag = wanted.tag)))

-- name: keywords
-- A part of a search: in how many items words (a list) stand, the rarest of them, and the best items for those by BM25
-- as FTS5 has it: idf · weight · 2.2 / (weight + 1.2 · (0.25 + 0.75 · length / mean length)), above and below the line
-- times five, as weights are kept. In plain numbers: a `numeric` takes ten times as long.
word AS MATERIALIZED (SELECT token, place FROM unnest(:tokens::text[]) WITH ORDINALITY AS w(token, place)),
counted AS MATERIALIZED (
  SELECT part.id AS partition, word.token, word.place, c.items AS n
  FROM part CROSS JOIN word JOIN word_counts AS c ON c.kind = :kind AND c.partition = part.id AND c.token = word.token
  WHERE c.items > 0),
ordered AS (
  SELECT partition, token, n, row_number() OVER by_count AS number, sum(n) OVER by_count AS total FROM counted
  WINDOW by_count AS (PARTITION BY partition ORDER BY n, place ROWS UNBOUNDED PRECEDING)),
asked AS MATERIALIZED (
  SELECT o.partition, o.token, 4.5::double precision * part.items / part.tokens AS stretch,
    2.2::double precision * greatest(ln((part.items - o.n + 0.5) / (o.n + 0.5)), 1e-6) AS worth
  FROM ordered AS o JOIN part ON part.id = o.partition AND o.n <= part.items
  WHERE o.number = 1
    OR (o.number <= :most_tokens AND o.total <= CASE WHEN o.number <= :sure_tokens THEN :sure_postings ELSE :postings END)),
hit AS MATERIALIZED (
  SELECT a.partition, i.seq, sum(a.worth * i.weight / (i.weight + 1.5 + i.length * a.stretch)) AS score
  FROM asked AS a JOIN item_words AS i ON i.kind = :kind AND i.partition = a.partition AND i.token = a.token
  WHERE {i.passes} GROUP BY a.partition, i.seq),
keyword AS MATERIALIZED (
  SELECT ranked.seq, ranked.number FROM (
    SELECT seq, row_number() OVER (PARTITION BY partition ORDER BY score DESC, seq) AS number FROM hit) AS ranked
  WHERE ranked.number <= :pool)

-- name: everything
-- What may be found of one where nothing is filtered.
true

-- name: is_passing
-- What may be found of one where items are filtered.
{seq} IN (SELECT seq FROM passing)

-- name: vectors
-- A part of a search: the nearest of each partition, every vector compared.
near AS MATERIALIZED (
  SELECT n.seq, part.id AS partition FROM part CROSS JOIN LATERAL (
    SELECT v.seq FROM item_vectors AS v
    WHERE v.kind = :kind AND v.space_id = (SELECT id FROM space) AND v.partition = part.id AND {v.passes}
    ORDER BY v.embedding <=> :vector::halfvec, v.seq LIMIT :near) AS n)

-- name: found
-- A part of a search: what either leg found, and what a search says beside.
found AS MATERIALIZED (
  SELECT seq, max(partition) AS partition, max(number) AS number
  FROM (SELECT seq, partition, NULL::bigint AS number FROM near UNION ALL SELECT seq, NULL, number FROM keyword) AS each
  GROUP BY seq),
looked AS (
  SELECT (SELECT json_agg(json_build_array(id, items, embedded) ORDER BY place, id) FROM part)::text AS partitions,
    (SELECT json_agg(json_build_array(partition, token, n)) FROM counted)::text AS counts)

-- name: memories_found
-- The end of a search of memories: each row begins with what the search says, the counts in the first one alone.
SELECT looked.partitions, CASE WHEN row_number() OVER () = 1 THEN looked.counts END, f.*
FROM looked LEFT JOIN (
  SELECT f.partition, f.number, p.seq, t.tokens, e.vector,
    p.id, s.tenant_id, s.project, p.pattern_data, p.confidence, p.usage_count, p.created_at, p.last_used, p.status,
    p.status_reason, p.outcome, p.standing
  FROM found AS f JOIN patterns AS p ON p.seq = f.seq AND p.status = 'active'
  JOIN scopes AS s ON s.id = p.scope_id
  JOIN pattern_tokens AS t ON t.seq = p.seq
  LEFT JOIN pattern_embeddings AS e ON e.seq = p.seq AND e.space_id = (SELECT id FROM space)) AS f ON true;

-- name: passages_found
-- The end of a search of passages, with the neighbours (distances by kind, two lists) of what was found.
SELECT looked.partitions, CASE WHEN row_number() OVER () = 1 THEN looked.counts END, f.*
FROM looked LEFT JOIN (
  SELECT w.partition, w.number, p.seq, r.kind, p.group_id, p.position, t.title, t.description, t.content, g.name_tokens,
    e.vector, w.is_neighbour
  FROM (
    SELECT seq, partition, number, false AS is_neighbour FROM found
    UNION ALL (
      SELECT n.seq, NULL::bigint, NULL::bigint, true FROM found AS f JOIN passages AS p ON p.seq = f.seq
      JOIN source_partitions AS r ON r.id = p.partition_id
      JOIN unnest(:near_kinds::text[], :distances::bigint[]) AS beside(kind, far) ON beside.kind = r.kind
      JOIN passages AS n ON n.group_id = p.group_id AND n.position BETWEEN p.position - beside.far AND p.position + beside.far
      EXCEPT SELECT seq, NULL::bigint, NULL::bigint, true FROM found)) AS w
  JOIN passages AS p ON p.seq = w.seq
  JOIN source_groups AS g ON g.id = p.group_id
  JOIN source_partitions AS r ON r.id = p.partition_id
  JOIN passage_tokens AS t ON t.seq = p.seq
  LEFT JOIN passage_embeddings AS e ON e.seq = p.seq AND e.model = :model AND e.dims = :dims) AS f ON true;
