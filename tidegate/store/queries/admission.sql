-- claim_waiting: waiting runs to be judged, first those woken first, claimed, with the newest revisions
WITH claimed AS MATERIALIZED (
    SELECT slot, schedule_id, ord, priority, created_at, expires_at, attempts, array_to_string(held, E'\x1f') AS held,
           given, wake_at, wake_key, wake_limit, cause, closed, fire_time, previous_fire, caused_by, arguments, rank,
           backoff_until, restart_at
    FROM run_live
    WHERE wake_at > %(floor)s AND wake_at <= %(now)s
    ORDER BY wake_at, rank, slot, schedule_id, ord
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
SELECT w.*, c.rev, c.program_id, p.rev, s.deleted_at IS NOT NULL,
       c.collects AND NOT w.closed OR c.after_finish
FROM claimed w
JOIN clock c ON c.schedule_id = w.schedule_id
JOIN program p ON p.id = c.program_id
JOIN schedule s ON s.id = w.schedule_id;

-- due_queues: queues whose instant has come, earliest first
SELECT key, turn FROM queue_wake WHERE at <= %(now)s ORDER BY at, key LIMIT %(limit)s;

-- claim_heads: of each queue the first that nobody has woken, so many at most, claimed as by claim_waiting
WITH claimed AS MATERIALIZED (
    SELECT w.*
    FROM unnest(%(keys)s, %(counts)s) AS d(key, n)
    CROSS JOIN LATERAL (
        SELECT slot, schedule_id, ord, priority, created_at, expires_at, attempts,
               array_to_string(held, E'\x1f') AS held, given, wake_at, wake_key, wake_limit, cause, closed, fire_time,
               previous_fire, caused_by, arguments, rank, backoff_until, restart_at
        FROM run_live
        WHERE wake_key = d.key AND wake_limit = 0 AND (wake_at IS NULL OR wake_at > %(now)s)
        ORDER BY rank, slot, schedule_id, ord
        LIMIT d.n
        FOR UPDATE SKIP LOCKED
    ) w
)
SELECT w.*, c.rev, c.program_id, p.rev, s.deleted_at IS NOT NULL,
       c.collects AND NOT w.closed OR c.after_finish
FROM claimed w
JOIN clock c ON c.schedule_id = w.schedule_id
JOIN program p ON p.id = c.program_id
JOIN schedule s ON s.id = w.schedule_id;

-- next_wake: the earliest instant above the floor at which a waiting run, and at which a queue, is to be looked at
SELECT (SELECT wake_at FROM run_live WHERE wake_at > %(floor)s ORDER BY wake_at, rank, slot, schedule_id, ord LIMIT 1),
       (SELECT at FROM queue_wake WHERE at IS NOT NULL ORDER BY at, key LIMIT 1);

-- put_instants: when queues are to be looked at. Who knows a queue's last turn says what holds from now on (NULL:
-- nothing); else the earlier one holds
INSERT INTO queue_wake AS q (key, at, turn)
SELECT d.key, d.at, coalesce(d.turn, nextval('queue_turn'))
FROM unnest(%(keys)s, %(ats)s, %(turns)s) AS d(key, at, turn) ORDER BY d.key
ON CONFLICT (key) DO UPDATE
SET at = CASE WHEN q.turn = excluded.turn THEN excluded.at ELSE least(q.at, excluded.at) END,
    turn = nextval('queue_turn');

-- queues_between: queues in which somebody waits, by name
WITH RECURSIVE k(key) AS (
    (SELECT wake_key FROM run_live WHERE wake_key >= %(low)s AND wake_key < %(high)s ORDER BY wake_key LIMIT 1)
    UNION ALL
    SELECT (SELECT w.wake_key FROM run_live w WHERE w.wake_key > k.key AND w.wake_key < %(high)s
            ORDER BY w.wake_key LIMIT 1)
    FROM k WHERE k.key IS NOT NULL
)
SELECT key FROM k WHERE key IS NOT NULL;

-- lock_counters: make and lock counters in ascending order (a conflict locks the row even where nothing is updated)
INSERT INTO limit_counter (key) SELECT key FROM unnest(%(keys)s) AS key ORDER BY key
ON CONFLICT (key) DO UPDATE SET held = excluded.held WHERE false;

-- counters: what is held, and how long starts are kept
SELECT key, held, keeps FROM limit_counter WHERE key = ANY(%(keys)s);

-- lock_pools: pools, and those of which they may borrow, as `pools_named` tells them, locked in ascending order
SELECT name, slots - used, slots,
       (SELECT rank FROM run_live w
        WHERE w.wake_key = 'pool:' || p.name AND w.wake_limit = 0 AND (w.wake_at IS NULL OR w.wake_at > %(now)s)
        ORDER BY rank, slot, schedule_id, ord LIMIT 1)
FROM pool p
WHERE name = ANY(%(names)s) OR name IN (SELECT borrow_from FROM pool WHERE name = ANY(%(names)s))
ORDER BY name FOR NO KEY UPDATE;

-- loans: what pools may borrow, of which other, and how many at most (%(most)s are counted) wait in that one's queue. To
-- be asked when both are locked
SELECT l.name, l.lender, l.left_over,
       (SELECT count(*) FROM (SELECT FROM run_live w WHERE w.wake_key = 'pool:' || l.lender LIMIT %(most)s) q)
FROM loan l WHERE l.name = ANY(%(names)s);

-- lock_lenders: those of these pools of which others borrow, and %(also)s, locked in ascending order
SELECT name FROM pool p
WHERE name = ANY(%(also)s)
   OR name = ANY(%(names)s) AND EXISTS (SELECT FROM pool b WHERE b.borrow_from = p.name)
ORDER BY name FOR NO KEY UPDATE;

-- admit: runs become ready, pinned, with what they took
WITH d AS MATERIALIZED (
    SELECT * FROM unnest(%(slots)s, %(schedules)s, %(ords)s, %(revs)s, %(programs)s, %(program_revs)s, %(kinds)s,
                         %(pools)s, %(borrowers)s, %(takes)s, %(arguments)s, %(window_ends)s)
                  AS d(slot, schedule_id, ord, rev, program_id, program_rev, kind, pool, borrower, take, arguments,
                       window_ends)
), admitted AS (
    UPDATE run_live l
    SET state = 'ready', ready = true, rev = coalesce(d.rev, l.rev), program_id = d.program_id, program_rev = d.program_rev,
        kind = d.kind, pool = d.pool, borrower = d.borrower, wake_at = NULL, wake_key = NULL, expires_at = NULL, waiting_for = NULL,
        held = l.held || string_to_array(d.take, E'\x1f'), slot_held = true, ready_at = %(now)s,
        arguments = d.arguments::jsonb, window_ends = d.window_ends
    FROM d
    WHERE l.schedule_id = d.schedule_id AND l.slot = d.slot AND l.ord = d.ord AND l.state = 'waiting'
    RETURNING l.slot, l.schedule_id, l.ord
)
INSERT INTO event (day, at, type, schedule_id, slot, ord)
SELECT %(day)s, %(now)s, 'run.ready', schedule_id, slot, ord FROM admitted;

-- hold: runs go on waiting, for an instant of their own or in a queue
UPDATE run_live l
SET wake_at = least(d.until, CASE WHEN l.expires_at > %(now)s THEN l.expires_at END), wake_key = d.wake_key,
    wake_limit = d.wake_limit, waiting_for = d.waiting_for::jsonb, restart_at = coalesce(l.restart_at, d.restart_at)
FROM unnest(%(slots)s, %(schedules)s, %(ords)s, %(untils)s, %(keys)s, %(limits)s, %(waiting_for)s, %(restarts)s)
     AS d(slot, schedule_id, ord, until, wake_key, wake_limit, waiting_for, restart_at)
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

-- wake_counters: per counter, under each limit that leaves room the first runs that wait, as many as it lets
WITH RECURSIVE bounds AS (
    SELECT k.key, coalesce(h.held, 0) AS held,
           (SELECT w.wake_limit FROM run_live w WHERE w.wake_key = k.key AND w.wake_limit > coalesce(h.held, 0)
            ORDER BY w.wake_limit LIMIT 1) AS bound
    FROM unnest(%(keys)s) AS k(key) LEFT JOIN limit_counter h ON h.key = k.key
    UNION ALL
    SELECT b.key, b.held,
           (SELECT w.wake_limit FROM run_live w WHERE w.wake_key = b.key AND w.wake_limit > b.bound
            ORDER BY w.wake_limit LIMIT 1)
    FROM bounds b WHERE b.bound IS NOT NULL
), found AS MATERIALIZED (
    SELECT w.slot, w.schedule_id, w.ord
    FROM bounds b
    CROSS JOIN LATERAL (
        SELECT slot, schedule_id, ord, wake_at FROM run_live
        WHERE wake_key = b.key AND wake_limit = b.bound
        ORDER BY rank, slot, schedule_id, ord
        LIMIT b.bound - b.held
        FOR UPDATE SKIP LOCKED
    ) w
    WHERE b.bound IS NOT NULL AND (w.wake_at IS NULL OR w.wake_at > %(now)s)
)
UPDATE run_live l SET wake_at = %(now)s FROM found f
WHERE l.schedule_id = f.schedule_id AND l.slot = f.slot AND l.ord = f.ord
RETURNING l.wake_key;

-- overlooked: keys with room under which somebody waits and nobody was woken, since somebody else had the run locked
SELECT k.key
FROM (SELECT unnest(%(keys)s)
      UNION SELECT 'pool:' || name FROM pool WHERE 'pool:' || borrow_from = ANY(%(keys)s)) AS k(key)
LEFT JOIN limit_counter h ON h.key = k.key
LEFT JOIN pool_room p ON 'pool:' || p.name = k.key
WHERE NOT EXISTS (SELECT FROM run_live l WHERE l.wake_key = k.key AND l.wake_at <= %(now)s)
  AND CASE WHEN p.name IS NOT NULL
           THEN p.room > 0 AND EXISTS (SELECT FROM run_live l WHERE l.wake_key = k.key)
           ELSE EXISTS (SELECT FROM run_live l WHERE l.wake_key = k.key AND l.wake_limit > coalesce(h.held, 0))
      END;

-- wake_overlooked: the first who waits for a key and may go, however long somebody has it locked
UPDATE run_live l SET wake_at = %(now)s
FROM (
    SELECT slot, schedule_id, ord FROM run_live
    WHERE wake_key = %(key)s
      AND (wake_limit = 0 OR wake_limit > coalesce((SELECT held FROM limit_counter WHERE key = %(key)s), 0))
    ORDER BY rank, slot, schedule_id, ord LIMIT 1 FOR UPDATE
) f
WHERE l.schedule_id = f.schedule_id AND l.slot = f.slot AND l.ord = f.ord AND l.state = 'waiting'
  AND (l.wake_at IS NULL OR l.wake_at > %(now)s);

-- wake_pools: per pool with room, and per pool that borrows of these, the first runs that wait for it, no more than may go
WITH found AS MATERIALIZED (
    SELECT w.slot, w.schedule_id, w.ord
    FROM pool_room p
    CROSS JOIN LATERAL (
        SELECT slot, schedule_id, ord, wake_at FROM run_live w
        WHERE w.wake_key = 'pool:' || p.name AND w.wake_limit = 0
        ORDER BY rank, slot, schedule_id, ord
        LIMIT p.room
        FOR UPDATE SKIP LOCKED
    ) w
    WHERE p.room > 0 AND (p.name = ANY(%(names)s) OR p.name IN (SELECT name FROM pool WHERE borrow_from = ANY(%(names)s)))
      AND (w.wake_at IS NULL OR w.wake_at > %(now)s)
)
UPDATE run_live l SET wake_at = %(now)s FROM found f
WHERE l.schedule_id = f.schedule_id AND l.slot = f.slot AND l.ord = f.ord
RETURNING l.wake_key;
