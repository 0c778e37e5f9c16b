-- claim_waiting: waiting runs to be judged, in order, claimed, with the newest revisions of schedule and program
WITH claimed AS MATERIALIZED (
    SELECT slot, schedule_id, ord, priority, created_at, expires_at, attempts, array_to_string(held, E'\x1f') AS held,
           given, wake_at, wake_key, pool, cause, closed, fire_time, previous_fire, caused_by, arguments
    FROM run_live
    WHERE wake_at > %(floor)s AND wake_at <= %(now)s
    ORDER BY wake_at, slot, schedule_id, ord
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
SELECT w.*, c.rev, c.program_id, p.rev, s.deleted_at IS NOT NULL,
       c.collects AND NOT w.closed OR c.after_finish
FROM claimed w
JOIN clock c ON c.schedule_id = w.schedule_id
JOIN program p ON p.id = c.program_id
JOIN schedule s ON s.id = w.schedule_id
ORDER BY w.wake_at, w.slot, w.schedule_id, w.ord;

-- next_wake: the earliest instant above the floor at which a waiting run is to be judged
SELECT wake_at FROM run_live WHERE wake_at > %(floor)s ORDER BY wake_at, slot, schedule_id, ord LIMIT 1;

-- lock_counters: make and lock counters in ascending order (a conflict locks the row even where nothing is updated)
INSERT INTO limit_counter (key) SELECT key FROM unnest(%(keys)s) AS key ORDER BY key
ON CONFLICT (key) DO UPDATE SET held = excluded.held WHERE false;

-- counters: what is held
SELECT key, held FROM limit_counter WHERE key = ANY(%(keys)s);

-- lock_pools: pools with their free slots, locked in ascending order
SELECT name, slots - used FROM pool WHERE name = ANY(%(names)s) ORDER BY name FOR NO KEY UPDATE;

-- admit: runs become ready, pinned, with what they took
WITH d AS MATERIALIZED (
    SELECT * FROM unnest(%(slots)s, %(schedules)s, %(ords)s, %(revs)s, %(programs)s, %(program_revs)s, %(kinds)s,
                         %(pools)s, %(takes)s, %(arguments)s)
                  AS d(slot, schedule_id, ord, rev, program_id, program_rev, kind, pool, take, arguments)
), admitted AS (
    UPDATE run_live l
    SET state = 'ready', ready = true, rev = coalesce(d.rev, l.rev), program_id = d.program_id, program_rev = d.program_rev,
        kind = d.kind, pool = d.pool, wake_at = NULL, wake_key = NULL, expires_at = NULL, waiting_for = NULL,
        held = l.held || string_to_array(d.take, E'\x1f'), slot_held = true, ready_at = %(now)s,
        arguments = d.arguments::jsonb
    FROM d
    WHERE l.schedule_id = d.schedule_id AND l.slot = d.slot AND l.ord = d.ord AND l.state = 'waiting'
    RETURNING l.slot, l.schedule_id, l.ord
)
INSERT INTO event (day, at, type, schedule_id, slot, ord)
SELECT %(day)s, %(now)s, 'run.ready', schedule_id, slot, ord FROM admitted;

-- hold: runs go on waiting, for an instant or a key
UPDATE run_live l
SET wake_at = least(d.until, CASE WHEN l.expires_at > %(now)s THEN l.expires_at END), wake_key = d.wake_key,
    waiting_for = d.waiting_for::jsonb
FROM unnest(%(slots)s, %(schedules)s, %(ords)s, %(untils)s, %(keys)s, %(waiting_for)s)
     AS d(slot, schedule_id, ord, until, wake_key, waiting_for)
WHERE l.schedule_id = d.schedule_id AND l.slot = d.slot AND l.ord = d.ord AND l.state = 'waiting';

-- take: add to counters
INSERT INTO limit_counter AS c (key, held)
SELECT * FROM unnest(%(keys)s, %(counts)s) AS d(key, n) ORDER BY d.key
ON CONFLICT (key) DO UPDATE SET held = c.held + excluded.held;

-- release: take from counters
WITH d AS MATERIALIZED (
    SELECT c.key, d.n FROM unnest(%(keys)s, %(counts)s) AS d(key, n) JOIN limit_counter c ON c.key = d.key
    ORDER BY c.key FOR NO KEY UPDATE OF c
)
UPDATE limit_counter c SET held = greatest(c.held - d.n, 0) FROM d WHERE c.key = d.key;

-- use: take (or, below zero, give back) slots of pools
WITH d AS MATERIALIZED (
    SELECT p.name, d.n FROM unnest(%(names)s, %(counts)s) AS d(name, n) JOIN pool p ON p.name = d.name
    ORDER BY p.name FOR NO KEY UPDATE OF p
)
UPDATE pool p SET used = greatest(p.used + d.n, 0) FROM d WHERE p.name = d.name;

-- wake_counters: per counter with something left, the first runs that wait for it, as many as the first one's limit lets
WITH found AS MATERIALIZED (
    SELECT w.slot, w.schedule_id, w.ord
    FROM unnest(%(keys)s) AS k(key)
    LEFT JOIN limit_counter h ON h.key = k.key
    CROSS JOIN LATERAL (
        SELECT coalesce(CASE left(k.key, 1) WHEN 's' THEN c.limit_schedule ELSE c.limit_program END, 1000000)
               - coalesce(h.held, 0) AS n
        FROM run_live w JOIN clock c ON c.schedule_id = w.schedule_id
        WHERE w.wake_key = k.key
          AND coalesce(CASE left(k.key, 1) WHEN 's' THEN c.limit_schedule ELSE c.limit_program END, 1000000)
              > coalesce(h.held, 0)
        ORDER BY w.priority DESC, w.slot, w.schedule_id, w.ord
        LIMIT 1
    ) first
    CROSS JOIN LATERAL (
        SELECT w.slot, w.schedule_id, w.ord, w.wake_at
        FROM run_live w JOIN clock c ON c.schedule_id = w.schedule_id
        WHERE w.wake_key = k.key
          AND coalesce(CASE left(k.key, 1) WHEN 's' THEN c.limit_schedule ELSE c.limit_program END, 1000000)
              > coalesce(h.held, 0)
        ORDER BY w.priority DESC, w.slot, w.schedule_id, w.ord
        LIMIT first.n
        FOR UPDATE OF w SKIP LOCKED
    ) w
    WHERE w.wake_at IS NULL OR w.wake_at > %(now)s
)
UPDATE run_live l SET wake_at = %(now)s FROM found f
WHERE l.schedule_id = f.schedule_id AND l.slot = f.slot AND l.ord = f.ord
RETURNING l.wake_key;

-- overlooked: keys with room under which somebody waits and nobody was woken, since somebody else had the run locked
SELECT k.key
FROM unnest(%(keys)s) AS k(key)
LEFT JOIN limit_counter h ON h.key = k.key
LEFT JOIN pool p ON 'pool:' || p.name = k.key
WHERE NOT EXISTS (SELECT FROM run_live l WHERE l.wake_key = k.key AND l.wake_at <= %(now)s)
  AND EXISTS (
    SELECT FROM run_live l JOIN clock c ON c.schedule_id = l.schedule_id
    WHERE l.wake_key = k.key
      AND CASE WHEN p.name IS NOT NULL THEN p.used < p.slots
               ELSE coalesce(h.held, 0)
                    < coalesce(CASE left(k.key, 1) WHEN 's' THEN c.limit_schedule ELSE c.limit_program END, 1000000)
          END
  );

-- wake_overlooked: the first who waits for a key, however long somebody has it locked
UPDATE run_live l SET wake_at = %(now)s
FROM (
    SELECT slot, schedule_id, ord FROM run_live WHERE wake_key = %(key)s
    ORDER BY priority DESC, slot, schedule_id, ord LIMIT 1 FOR UPDATE
) f
WHERE l.schedule_id = f.schedule_id AND l.slot = f.slot AND l.ord = f.ord AND l.state = 'waiting'
  AND (l.wake_at IS NULL OR l.wake_at > %(now)s);

-- wake_pools: per pool with free slots, the first runs that wait for it, no more than there are slots
WITH found AS MATERIALIZED (
    SELECT w.slot, w.schedule_id, w.ord
    FROM unnest(%(names)s) AS k(name)
    JOIN pool p ON p.name = k.name AND p.used < p.slots
    CROSS JOIN LATERAL (
        SELECT slot, schedule_id, ord, wake_at FROM run_live w
        WHERE w.wake_key = 'pool:' || p.name
        ORDER BY priority DESC, slot, schedule_id, ord
        LIMIT p.slots - p.used
        FOR UPDATE SKIP LOCKED
    ) w
    WHERE w.wake_at IS NULL OR w.wake_at > %(now)s
)
UPDATE run_live l SET wake_at = %(now)s FROM found f
WHERE l.schedule_id = f.schedule_id AND l.slot = f.slot AND l.ord = f.ord
RETURNING l.wake_key;
