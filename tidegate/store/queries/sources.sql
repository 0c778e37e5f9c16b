-- took: move a source on from the version that was seen, by the holder of its lease
UPDATE source SET version = version + 1, received = received + %(received)s, missed = missed + %(missed)s,
    error = %(error)s,
    error_since = CASE WHEN %(error)s = '' THEN NULL ELSE coalesce(error_since, %(now)s) END,
    moved_at = CASE WHEN %(received)s > 0 THEN %(now)s ELSE moved_at END
WHERE name = %(source)s AND version = %(version)s
  AND EXISTS (SELECT FROM lease l WHERE l.duty = 'source ' || %(source)s AND l.token = %(token)s
              AND l.instance_id = %(instance)s AND l.expires > %(now)s)
RETURNING version;

-- place: where its partitions are read on; their source is locked
INSERT INTO source_place (source, topic, part, generation, next, tail)
SELECT %(source)s, p.topic, p.part, p.generation, p.next, p.tail
FROM unnest(%(topics)s, %(parts)s, %(generations)s, %(nexts)s, %(tails)s) AS p(topic, part, generation, next, tail)
ORDER BY p.topic, p.part
ON CONFLICT (source, topic, part) DO UPDATE
SET generation = excluded.generation, next = excluded.next, tail = excluded.tail;

-- misfit: what was no event
INSERT INTO source_misfit (source, topic, part, at_offset, reason, at)
SELECT %(source)s, m.topic, m.part, m.at_offset, m.reason, %(now)s
FROM unnest(%(topics)s, %(parts)s, %(offsets)s, %(reasons)s) WITH ORDINALITY AS m(topic, part, at_offset, reason, n)
ORDER BY m.n;

-- count_misfits: of a source that is locked
UPDATE source SET set_aside = set_aside + %(refused)s WHERE name = %(source)s;

-- forget_misfits: all but the latest
DELETE FROM source_misfit
WHERE source = %(source)s
  AND id <= (SELECT id FROM source_misfit WHERE source = %(source)s ORDER BY id DESC OFFSET %(kept)s LIMIT 1);

-- sources: all, with their places
SELECT s.name, s.document, s.version, s.received, s.set_aside, s.missed, s.error, s.error_since, s.moved_at,
       (SELECT jsonb_agg(jsonb_build_array(p.topic, p.part, p.generation, p.next, p.tail) ORDER BY p.topic, p.part)
        FROM source_place p WHERE p.source = s.name)
FROM source s ORDER BY s.name;

-- misfits: what one set aside, newest first
SELECT topic, part, at_offset, reason, at FROM source_misfit WHERE source = %(source)s ORDER BY id DESC LIMIT %(limit)s;

-- put: declare one, or otherwise
INSERT INTO source (name, document, version, updated_at) VALUES (%(name)s, %(document)s, %(now)s, %(now)s)
ON CONFLICT (name) DO UPDATE
SET document = excluded.document, version = source.version + 1, updated_at = excluded.updated_at,
    error = '', error_since = NULL
RETURNING xmax = 0;

-- keep_topics: places in other topics are forgotten
DELETE FROM source_place WHERE source = %(source)s AND topic <> ALL (%(topics)s);

-- delete: with its places
DELETE FROM source WHERE name = %(name)s RETURNING name;
