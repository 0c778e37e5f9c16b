-- The lock of `share` and `change` is 0x7469_6465_0000_0003; the ones before it are migrate.py's and partitions.py's.

-- share: until the commit nobody freezes, lifts the freeze or changes a calendar
SELECT pg_advisory_xact_lock_shared(8388346165908733955);

-- change: until the commit nobody reads the freeze or a calendar in order to admit
SELECT pg_advisory_xact_lock(8388346165908733955);

-- frozen: by whose word, since when and why nothing may start
SELECT who, since, reason FROM frozen;

-- freeze: nothing may start; no row when it was so already
INSERT INTO frozen (who, since, reason) VALUES (%(who)s, %(now)s, %(reason)s) ON CONFLICT DO NOTHING RETURNING since;

-- unfreeze: things may start again
DELETE FROM frozen RETURNING since;

-- put_calendar: a calendar; whether it is new
INSERT INTO calendar (name, document, spec) VALUES (%(name)s, %(document)s::jsonb, %(spec)s)
ON CONFLICT (name) DO UPDATE SET document = excluded.document, spec = excluded.spec
RETURNING xmax = 0;

-- delete_calendar: a calendar goes
DELETE FROM calendar WHERE name = %(name)s RETURNING name;

-- calendars: every calendar
SELECT name, spec, document FROM calendar ORDER BY name;

-- calendars_named: some of them
SELECT name, spec FROM calendar WHERE name = ANY(%(names)s);

-- gauges: the last readings of resources
SELECT resource, value, at, error, stale_at FROM gauge WHERE resource = ANY(%(resources)s);

-- put_gauge: a reading
INSERT INTO gauge (resource, value, at, error, stale_at)
VALUES (%(resource)s, %(value)s, %(at)s, %(error)s, %(stale_at)s)
ON CONFLICT (resource) DO UPDATE
SET value = excluded.value, at = excluded.at, error = excluded.error, stale_at = excluded.stale_at;

-- pools_named: some pools with their free slots, all of them, and the rank of the first who sleeps in their queues
SELECT name, slots - used, slots,
       (SELECT rank FROM run_live w
        WHERE w.wake_key = 'pool:' || p.name AND w.wake_limit = 0 AND (w.wake_at IS NULL OR w.wake_at > %(now)s)
        ORDER BY rank, slot, schedule_id, ord LIMIT 1)
FROM pool p WHERE name = ANY(%(names)s) OR name IN (SELECT borrow_from FROM pool WHERE name = ANY(%(names)s));

-- keep: starts under a counter are kept that long from now on
UPDATE limit_counter SET keeps = %(back)s WHERE key = %(key)s AND (keeps IS NULL OR keeps < %(back)s);

-- recall: what is on record of starts of schedules' runs, of one program or any
INSERT INTO start_log (key, at, slot, schedule_id, ord)
SELECT %(key)s, r.started_at, r.slot, r.schedule_id, r.ord
FROM unnest(%(schedules)s) AS d(id)
JOIN run r ON r.schedule_id = d.id
WHERE r.started_at > %(since)s AND r.slot > %(since)s::bigint - 2592000000000
  AND (%(program)s::bigint IS NULL OR r.program_id = %(program)s::bigint)
UNION ALL
SELECT %(key)s, CASE WHEN l.attempts > 0 THEN coalesce(a.created_at, l.started_at, %(now)s) END, l.slot, l.schedule_id,
       l.ord
FROM unnest(%(schedules)s) AS d(id)
JOIN run_live l ON l.schedule_id = d.id AND %(key)s = ANY(l.held)
LEFT JOIN attempt_open a ON a.schedule_id = l.schedule_id AND a.slot = l.slot AND a.ord = l.ord AND a.number = 1
ON CONFLICT DO NOTHING;

-- recall_group: the same of a group, of what is alive
INSERT INTO start_log (key, at, slot, schedule_id, ord)
SELECT %(key)s, CASE WHEN l.attempts > 0 THEN coalesce(a.created_at, l.started_at, %(now)s) END, l.slot, l.schedule_id,
       l.ord
FROM run_live l
LEFT JOIN attempt_open a ON a.schedule_id = l.schedule_id AND a.slot = l.slot AND a.ord = l.ord AND a.number = 1
WHERE %(key)s = ANY(l.held)
ON CONFLICT DO NOTHING;

-- schedules_of: living schedules of a program
SELECT id FROM schedule WHERE program_id = %(program)s AND deleted_at IS NULL;

-- starts: of each counter how many runs are about to start, and its newest starts, newest first. One that began in the
-- very moment in which starts came to be kept has no instant here: it is not about to start any more
SELECT d.key, (SELECT count(*) FROM start_log s
               JOIN run_live l ON l.schedule_id = s.schedule_id AND l.slot = s.slot AND l.ord = s.ord AND l.attempts = 0
               WHERE s.key = d.key AND s.at IS NULL),
       ARRAY(SELECT s.at::bigint FROM start_log s WHERE s.key = d.key AND s.at > %(now)s::bigint - d.back
             ORDER BY s.at DESC LIMIT d.many)
FROM unnest(%(keys)s, %(manys)s, %(backs)s) AS d(key, many, back);

-- expect_starts: runs are about to start
INSERT INTO start_log (key, slot, schedule_id, ord)
SELECT * FROM unnest(%(keys)s, %(slots)s, %(schedules)s, %(ords)s) ON CONFLICT DO NOTHING;

-- never_started: these runs ended without having started; under which counters that was counted
DELETE FROM start_log g USING unnest(%(slots)s, %(schedules)s, %(ords)s) AS d(slot, schedule_id, ord)
WHERE g.schedule_id = d.schedule_id AND g.slot = d.slot AND g.ord = d.ord
RETURNING g.key;
