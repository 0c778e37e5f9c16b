-- counter_end: the last key of the next so many counters; none: fewer are left
SELECT key FROM limit_counter WHERE key > %(after)s::text ORDER BY key OFFSET %(many)s LIMIT 1;

-- counter_drift: counters of a stretch that differ from what live runs hold; one statement sees one state of the world
SELECT coalesce(c.key, h.key), coalesce(c.held, 0), coalesce(h.n, 0)
FROM (SELECT key, held FROM limit_counter WHERE key > %(after)s::text AND (key <= %(upto)s::text OR %(upto)s::text IS NULL)) c
FULL JOIN (SELECT key, count(*) AS n FROM run_live, unnest(held) AS key
           WHERE key > %(after)s::text AND (key <= %(upto)s::text OR %(upto)s::text IS NULL) GROUP BY key) h ON h.key = c.key
WHERE coalesce(c.held, 0) <> coalesce(h.n, 0)
ORDER BY 1 LIMIT 1000;

-- mend_counter: a counter, counted anew under its lock
UPDATE limit_counter SET held = (SELECT count(*) FROM run_live WHERE %(key)s = ANY(held))
WHERE key = %(key)s RETURNING held;

-- pool_drift: pools that differ from the slots that live runs hold
SELECT p.name, p.used, coalesce(h.n, 0)
FROM pool p LEFT JOIN (SELECT pool, count(*) AS n FROM run_live WHERE slot_held GROUP BY pool) h ON h.pool = p.name
WHERE p.used <> coalesce(h.n, 0)
ORDER BY 1;

-- lock_pool: one pool's row, locked
SELECT name FROM pool WHERE name = %(name)s FOR UPDATE;

-- lock_counter: one counter's row, locked
SELECT key FROM limit_counter WHERE key = %(key)s FOR UPDATE;

-- mend_pool: a pool's used slots, counted anew under its lock
UPDATE pool SET used = (SELECT count(*) FROM run_live WHERE pool = %(name)s AND slot_held)
WHERE name = %(name)s RETURNING used;

-- clock_end: the last of the next so many clocks; none: fewer are left
SELECT schedule_id FROM clock WHERE schedule_id > %(after)s ORDER BY schedule_id OFFSET %(many)s LIMIT 1;

-- clock_drift: clocks of a stretch that differ from the newest revision, or go on, or stand, though they should not
SELECT c.schedule_id, s.namespace || '/' || s.name, c.rev, c.mode, c.next_due, c.cursor_rev, r.rev, r.mode,
       s.deleted_at IS NOT NULL, c.after_finish
FROM clock c
JOIN schedule s ON s.id = c.schedule_id
JOIN LATERAL (SELECT rev, mode FROM revision r WHERE r.schedule_id = c.schedule_id ORDER BY rev DESC LIMIT 1) r ON true
WHERE c.schedule_id > %(after)s AND c.schedule_id <= %(upto)s AND (
   c.rev <> r.rev OR c.mode <> r.mode
   OR (c.next_due IS NOT NULL AND (s.deleted_at IS NOT NULL OR (r.mode IN ('drop', 'keep') AND c.cursor_rev = r.rev)))
   OR (c.next_due IS NULL AND s.deleted_at IS NULL AND c.cursor_rev <> r.rev)
   OR (c.next_due IS NULL AND c.after_finish AND NOT EXISTS (SELECT FROM run_live l WHERE l.schedule_id = c.schedule_id)))
ORDER BY c.schedule_id LIMIT 1000;

-- mend_clock: a clock follows its newest revision, is looked at now, or stops
UPDATE clock SET rev = %(rev)s, mode = %(mode)s, next_due = %(next_due)s
WHERE schedule_id = %(schedule)s AND rev = %(old_rev)s AND mode = %(old_mode)s
  AND next_due IS NOT DISTINCT FROM %(old_due)s
RETURNING schedule_id;

-- forgotten: waiting runs that nothing will wake: no instant, and in no queue; or in one that could move on, with nobody
-- awake in it and no instant of its own. Who waits for a reading is woken by the next.
WITH queue AS MATERIALIZED (
    SELECT wake_key AS key, wake_limit FROM run_live WHERE wake_key IS NOT NULL
    GROUP BY wake_key, wake_limit HAVING coalesce(min(wake_at), %(now)s + 1) > %(now)s
), stuck AS MATERIALIZED (
    SELECT q.key, q.wake_limit
    FROM queue q
    LEFT JOIN queue_wake w ON w.key = q.key
    LEFT JOIN limit_counter h ON q.wake_limit > 0 AND h.key = q.key
    LEFT JOIN pool_room p ON 'pool:' || p.name = q.key
    LEFT JOIN calendar k ON 'calendar:' || k.name = q.key
    LEFT JOIN clock c ON c.schedule_id = CASE WHEN q.key LIKE 'resume:%%' THEN substr(q.key, 8)::bigint END
    WHERE w.at IS NULL
      AND CASE WHEN q.wake_limit > 0 THEN coalesce(h.held, 0) < q.wake_limit
               WHEN q.key LIKE 'pool:%%' THEN coalesce(p.room > 0, true)
               WHEN q.key LIKE 'load:%%' THEN false
               WHEN q.key LIKE 'calendar:%%' THEN k.name IS NOT NULL
               WHEN q.key = 'freeze' THEN NOT EXISTS (SELECT FROM frozen)
               WHEN q.key LIKE 'resume:%%' THEN c.mode NOT IN ('backlog', 'hold')
               ELSE true END
)
SELECT l.slot, l.schedule_id, l.ord FROM stuck q JOIN run_live l ON l.wake_key = q.key AND l.wake_limit = q.wake_limit
UNION ALL
SELECT slot, schedule_id, ord FROM run_live WHERE state = 'waiting' AND wake_at IS NULL AND wake_key IS NULL
LIMIT 1000;

-- wake_forgotten: judge them again
UPDATE run_live l SET wake_at = %(now)s
FROM unnest(%(slots)s, %(schedules)s, %(ords)s) AS d(slot, schedule_id, ord)
WHERE l.schedule_id = d.schedule_id AND l.slot = d.slot AND l.ord = d.ord AND l.state = 'waiting'
  AND (l.wake_at IS NULL OR l.wake_at > %(now)s)
RETURNING l.slot, l.schedule_id, l.ord;
