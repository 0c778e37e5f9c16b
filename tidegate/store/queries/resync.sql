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
   OR (c.next_due IS NOT NULL AND (s.deleted_at IS NOT NULL OR (r.mode = 'drop' AND c.cursor_rev = r.rev)))
   OR (c.next_due IS NULL AND s.deleted_at IS NULL AND c.cursor_rev <> r.rev)
   OR (c.next_due IS NULL AND c.after_finish AND NOT EXISTS (SELECT FROM run_live l WHERE l.schedule_id = c.schedule_id)))
ORDER BY c.schedule_id LIMIT 1000;

-- mend_clock: a clock follows its newest revision, is looked at now, or stops
UPDATE clock SET rev = %(rev)s, mode = %(mode)s, next_due = %(next_due)s
WHERE schedule_id = %(schedule)s AND rev = %(old_rev)s AND mode = %(old_mode)s
  AND next_due IS NOT DISTINCT FROM %(old_due)s
RETURNING schedule_id;

-- forgotten: waiting runs that nothing will wake: no instant, and no key or a key with room and nobody awake under it
SELECT l.slot, l.schedule_id, l.ord
FROM run_live l
JOIN clock c ON c.schedule_id = l.schedule_id
LEFT JOIN limit_counter h ON h.key = l.wake_key
LEFT JOIN pool p ON 'pool:' || p.name = l.wake_key
WHERE l.state = 'waiting' AND l.wake_at IS NULL
  AND CASE WHEN l.wake_key IS NULL THEN true
           WHEN l.wake_key LIKE 'pool:%%' THEN coalesce(p.used < p.slots, true)
           ELSE coalesce(h.held, 0)
                < coalesce(CASE left(l.wake_key, 1) WHEN 's' THEN c.limit_schedule ELSE c.limit_program END, 1000000)
      END
  AND NOT EXISTS (SELECT FROM run_live o WHERE o.wake_key = l.wake_key AND o.wake_at IS NOT NULL)
LIMIT 1000;

-- wake_forgotten: judge them again
UPDATE run_live l SET wake_at = %(now)s
FROM unnest(%(slots)s, %(schedules)s, %(ords)s) AS d(slot, schedule_id, ord)
WHERE l.schedule_id = d.schedule_id AND l.slot = d.slot AND l.ord = d.ord AND l.state = 'waiting' AND l.wake_at IS NULL
RETURNING l.slot, l.schedule_id, l.ord;
