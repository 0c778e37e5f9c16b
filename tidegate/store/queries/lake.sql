-- watched: the tables of a catalog that somebody waits for or that are declared, with their cursors
SELECT w.dataset, w.watch, c.version, c.pointer, c.table_uuid, c.snapshot, c.sequence, c.error
FROM (SELECT name AS dataset, watch FROM dataset
      WHERE kind = 'iceberg' AND starts_with(name, %(prefix)s)
      UNION ALL
      SELECT DISTINCT k.key, NULL::bigint FROM event_key k
      WHERE k.type IN ('dataset.updated', 'dataset.gap') AND starts_with(k.key, %(prefix)s)
        AND EXISTS (SELECT FROM subscription s WHERE s.key_id = k.id)
        AND NOT EXISTS (SELECT FROM dataset d WHERE d.name = k.key)) AS w
LEFT JOIN dataset_cursor c USING (dataset)
ORDER BY w.dataset;

-- move: cursors that still stand where they were seen; those are returned
UPDATE dataset_cursor c
SET version = c.version + 1, pointer = m.pointer, table_uuid = m.table_uuid, snapshot = m.snapshot,
    sequence = m.sequence, error = m.error, moved_at = %(now)s
FROM (SELECT c.dataset, m.pointer, m.table_uuid, m.snapshot, m.sequence, m.error
      FROM unnest(%(datasets)s, %(versions)s, %(pointers)s, %(uuids)s, %(snapshots)s, %(sequences)s, %(errors)s)
           AS m(dataset, version, pointer, table_uuid, snapshot, sequence, error)
      JOIN dataset_cursor c ON c.dataset = m.dataset AND c.version = m.version
      ORDER BY c.dataset FOR UPDATE OF c) AS m
WHERE c.dataset = m.dataset
RETURNING c.dataset;

-- begin: cursors of datasets that had none; those that still had none are returned
INSERT INTO dataset_cursor (dataset, pointer, table_uuid, snapshot, sequence, error, moved_at)
SELECT m.dataset, m.pointer, m.table_uuid, m.snapshot, m.sequence, m.error, %(now)s
FROM unnest(%(datasets)s, %(pointers)s, %(uuids)s, %(snapshots)s, %(sequences)s, %(errors)s)
     AS m(dataset, pointer, table_uuid, snapshot, sequence, error)
ORDER BY m.dataset
ON CONFLICT (dataset) DO NOTHING
RETURNING dataset;

-- forget_unwatched: cursors of datasets that nobody waits for
DELETE FROM dataset_cursor c
WHERE NOT EXISTS (SELECT FROM dataset d WHERE d.name = c.dataset AND d.kind = 'iceberg')
  AND NOT EXISTS (SELECT FROM event_key k JOIN subscription s ON s.key_id = k.id
                  WHERE k.key = c.dataset AND k.type IN ('dataset.updated', 'dataset.gap'))
RETURNING c.dataset;

-- catalog_silent: a catalog does not answer; since when stays
INSERT INTO catalog_fault (catalog, error, since) VALUES (%(catalog)s, %(error)s, %(now)s)
ON CONFLICT (catalog) DO UPDATE SET error = excluded.error;

-- catalog_answers: it does
DELETE FROM catalog_fault WHERE catalog = %(catalog)s;

-- catalog_faults: those that do not answer
SELECT catalog, error, since FROM catalog_fault ORDER BY catalog;

-- put_dataset: declare one, or otherwise
INSERT INTO dataset (name, kind, watch, document, updated_at)
VALUES (%(name)s, %(kind)s, %(watch)s, %(document)s, %(now)s)
ON CONFLICT (name) DO UPDATE
SET kind = excluded.kind, watch = excluded.watch, document = excluded.document, updated_at = excluded.updated_at;

-- delete_dataset: take a declaration back
DELETE FROM dataset WHERE name = %(name)s RETURNING name;

-- datasets: what is known of each, of some names or of all
SELECT coalesce(d.name, c.dataset), coalesce(d.kind, 'iceberg'), d.watch, d.document, c.pointer, c.snapshot,
       c.dataset IS NOT NULL AND c.pointer IS NULL, coalesce(c.error, ''), c.moved_at
FROM dataset d
FULL JOIN dataset_cursor c ON c.dataset = d.name
WHERE %(names)s::text[] IS NULL OR coalesce(d.name, c.dataset) = ANY (%(names)s)
ORDER BY 1;
