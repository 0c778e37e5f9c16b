-- claim_ids: of the publishers' ids those that were not used before
INSERT INTO event_dedup (source, id, digest, pos, at)
SELECT source, id, decode(digest, 'hex'), 0, %(now)s
FROM unnest(%(sources)s, %(ids)s, %(digests)s) AS d(source, id, digest) ORDER BY source, id
ON CONFLICT DO NOTHING
RETURNING source, id;

-- known_ids: what the used ones were used for
SELECT k.source, k.id, encode(k.digest, 'hex'), k.pos
FROM unnest(%(sources)s, %(ids)s) AS d(source, id) JOIN event_dedup k ON k.source = d.source AND k.id = d.id;

-- place_ids: where the events of new ids lie
UPDATE event_dedup k SET pos = d.pos FROM unnest(%(sources)s, %(ids)s, %(positions)s) AS d(source, id, pos)
WHERE k.source = d.source AND k.id = d.id;

-- topics: what listens to events of these types and keys, and by type to those of any key
SELECT d.i, k.id, k.match IS NOT NULL
FROM unnest(%(types)s, %(keys)s) WITH ORDINALITY AS d(type, key, i)
JOIN event_key k ON k.type = d.type AND k.key = d.key
UNION ALL
SELECT -d.i, k.id, k.match IS NOT NULL
FROM unnest(%(any)s) WITH ORDINALITY AS d(type, i)
JOIN event_key k ON k.type = d.type AND k.key IS NULL;

-- matching: which of these topics' events have a payload that contains what the topic asks for
SELECT d.i
FROM unnest(%(ids)s, %(payloads)s) WITH ORDINALITY AS d(id, payload, i)
JOIN event_key k ON k.id = d.id AND d.payload::jsonb @> k.match;

-- lock_topics: their totals, locked in ascending order until the commit
SELECT id, n, rows, bytes, last_at FROM event_key WHERE id = ANY(%(ids)s) ORDER BY id FOR NO KEY UPDATE;

-- append: published events into the log, in order; straight into the partition, where nobody has to look whether they
-- are events of runs
INSERT INTO {event} (day, pos, at, type, key, time, source, source_id, payload) OVERRIDING SYSTEM VALUE
SELECT %(day)s, nextval('event_pos_seq'), %(now)s, e.type, e.key, e.time, e.source, e.source_id, e.payload::jsonb
FROM unnest(%(types)s, %(keys)s, %(times)s, %(sources)s, %(ids)s, %(payloads)s)
     AS e(type, key, time, source, source_id, payload)
RETURNING pos;

-- orders: places in the order of arrivals, for somebody who holds the topics
SELECT nextval('arrival_order') FROM generate_series(1, %(count)s);

-- arrive: events into the logs of their topics
INSERT INTO arrival (day, key_id, n, pos, at, rows, bytes, sum_rows, sum_bytes, event_day, event_pos)
SELECT a.at / 86400000000, a.key_id, a.n, a.pos, a.at, a.rows, a.bytes, a.sum_rows, a.sum_bytes, %(day)s, a.event_pos
FROM unnest(%(keys)s, %(numbers)s, %(orders)s, %(ats)s, %(rows)s, %(bytes)s, %(sum_rows)s, %(sum_bytes)s, %(positions)s)
     AS a(key_id, n, pos, at, rows, bytes, sum_rows, sum_bytes, event_pos);

-- total: topics with what has come
UPDATE event_key k SET n = d.n, rows = d.rows, bytes = d.bytes, last_at = d.last_at
FROM unnest(%(ids)s, %(numbers)s, %(rows)s, %(bytes)s, %(ats)s) AS d(id, n, rows, bytes, last_at)
WHERE k.id = d.id;

-- notice: topics with news, for the matcher
INSERT INTO event_inbox (key_ids)
SELECT array_agg(id) FROM unnest(%(ids)s) WITH ORDINALITY AS d(id, i) GROUP BY (i - 1) / %(together)s;

-- page: events, newest first
SELECT e.day, e.pos FROM event e
WHERE (e.day, e.pos) < (%(day)s, %(pos)s) AND (%(since)s::bigint IS NULL OR (e.at >= %(since)s AND e.day >= %(since)s / 86400000000))
  AND (%(type)s::text IS NULL OR e.type = %(type)s)
ORDER BY e.day DESC, e.pos DESC LIMIT %(limit)s;

-- page_of_key: events of one key, newest first; those of runs have the key of their program
SELECT e.day, e.pos FROM event e
LEFT JOIN run r ON r.slot = e.slot AND r.schedule_id = e.schedule_id AND r.ord = e.ord
LEFT JOIN program p ON p.id = r.program_id
WHERE (e.day, e.pos) < (%(day)s, %(pos)s) AND (%(since)s::bigint IS NULL OR (e.at >= %(since)s AND e.day >= %(since)s / 86400000000))
  AND (%(type)s::text IS NULL OR e.type = %(type)s)
  AND CASE WHEN e.key IS NULL THEN p.namespace || '/' || p.name ELSE e.key END = %(key)s
ORDER BY e.day DESC, e.pos DESC LIMIT %(limit)s;

-- rows: these events, with what is told of the runs they are about: of these only what never changes, like the reason
-- of an end
SELECT e.day, e.pos, e.at, e.type, e.key, e.time, e.source, e.source_id, e.payload,
       e.slot, e.schedule_id, e.ord, s.namespace, s.name, p.namespace, p.name, r.cause,
       CASE WHEN e.type = 'run.' || r.outcome THEN r.reason END, r.fire_time, r.arguments
FROM unnest(%(days)s, %(positions)s) AS d(day, pos)
JOIN event e ON e.day = d.day AND e.pos = d.pos AND e.day >= %(first_day)s AND e.day <= %(last_day)s
LEFT JOIN schedule s ON s.id = e.schedule_id
LEFT JOIN run r ON r.slot = e.slot AND r.schedule_id = e.schedule_id AND r.ord = e.ord
LEFT JOIN program p ON p.id = r.program_id;

-- subscribers: leaves that an event of a type and key reaches
SELECT DISTINCT s.namespace, s.name, u.node
FROM event_key k JOIN subscription u ON u.key_id = k.id JOIN schedule s ON s.id = u.schedule_id
WHERE k.type = %(type)s AND (k.key = %(key)s OR k.key IS NULL)
  AND (k.match IS NULL OR %(payload)s::jsonb IS NULL OR %(payload)s::jsonb @> k.match)
ORDER BY 1, 2, 3;

-- partly: schedules whose tree has collected something
SELECT DISTINCT u.schedule_id
FROM subscription u JOIN event_key k ON k.id = u.key_id JOIN schedule s ON s.id = u.schedule_id
WHERE u.schedule_id > %(after)s AND k.n > u.base AND (%(namespace)s::text IS NULL OR s.namespace = %(namespace)s)
ORDER BY u.schedule_id LIMIT %(limit)s;

-- set_asides: what schedules could not take, newest first
SELECT a.id, a.schedule_id, s.namespace, s.name, a.error, a.at, a.count
FROM set_aside a JOIN schedule s ON s.id = a.schedule_id
WHERE a.id < %(before)s AND a.replayed_at IS NULL AND (%(namespace)s::text IS NULL OR s.namespace = %(namespace)s)
ORDER BY a.id DESC LIMIT %(limit)s;

-- forget_ids: publishers' ids past retention
DELETE FROM event_dedup
WHERE ctid = ANY (ARRAY(SELECT ctid FROM event_dedup WHERE at < %(before)s LIMIT %(most)s)) AND at < %(before)s;
