-- What processes of the version before did for one run: its statements as they stood when 0010_tables was the newest
-- migration (`bench/upgrade.py` and tests/store/test_upgrade.py run them while the schema is upgraded). They do not
-- change with the version: they are that of before.

-- fence: lock the writer's own row against its takeover, not against its heartbeat; no row: it was declared dead
SELECT host FROM instance WHERE id = %(id)s AND epoch = %(epoch)s AND ended_at IS NULL FOR KEY SHARE;

-- next_id: the id of an instance about to register
SELECT nextval(pg_get_serial_sequence('instance', 'id'));

-- register: an instance appears
INSERT INTO instance (id, role, name, host, pid, version, up_since, heartbeat, direct)
OVERRIDING SYSTEM VALUE
VALUES (%(id)s, %(role)s, %(name)s, %(host)s, %(pid)s, %(version)s, %(now)s, %(now)s, %(direct)s)
RETURNING epoch;

-- beat: renew the heartbeat; no row: it was declared dead
UPDATE instance SET heartbeat = greatest(heartbeat, %(now)s)
WHERE id = %(id)s AND epoch = %(epoch)s AND ended_at IS NULL
RETURNING id;

-- add: a run that is no clock fire
WITH made AS (
    INSERT INTO run (slot, schedule_id, ord, rev, program_id, fire_time, previous_fire, cause, caused_by, priority,
                     created_at, given)
    VALUES (%(now)s, %(schedule)s, %(ord)s, %(rev)s, %(program)s, %(fire_time)s, %(previous_fire)s, %(cause)s,
            %(caused_by)s, %(priority)s, %(now)s, %(given)s::jsonb)
    RETURNING *
), alive AS (
    INSERT INTO run_live (slot, schedule_id, ord, state, rev, program_id, kind, pool, fire_time, previous_fire, cause,
                          caused_by, priority, created_at, wake_at, expires_at, given)
    SELECT slot, schedule_id, ord, 'waiting', rev, program_id, %(kind)s, %(pool)s, fire_time, previous_fire, cause,
           caused_by, priority, created_at, created_at, %(expires_at)s::bigint, given
    FROM made
)
INSERT INTO event (day, at, type, schedule_id, slot, ord)
SELECT %(day)s, %(now)s, 'run.waiting', schedule_id, slot, ord FROM made;

-- claim_waiting: waiting runs to be judged, first those woken first, claimed, with the newest revisions
WITH claimed AS MATERIALIZED (
    SELECT slot, schedule_id, ord, priority, created_at, expires_at, attempts, array_to_string(held, E'\x1f') AS held,
           given, wake_at, wake_key, pool, cause, closed, fire_time, previous_fire, caused_by, arguments, rank
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

-- lock_counters: make and lock counters in ascending order (a conflict locks the row even where nothing is updated)
INSERT INTO limit_counter (key) SELECT key FROM unnest(%(keys)s) AS key ORDER BY key
ON CONFLICT (key) DO UPDATE SET held = excluded.held WHERE false;

-- lock_pools: pools, and those of which they may borrow, as `pools_named` tells them, locked in ascending order
SELECT name, slots - used, slots,
       (SELECT rank FROM run_live w
        WHERE w.wake_key = 'pool:' || p.name AND w.wake_limit = 0 AND (w.wake_at IS NULL OR w.wake_at > %(now)s)
        ORDER BY rank, slot, schedule_id, ord LIMIT 1)
FROM pool p
WHERE name = ANY(%(names)s) OR name IN (SELECT borrow_from FROM pool WHERE name = ANY(%(names)s))
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

-- start_ready: ready runs of pools without a launch rate become possible crashes of this instance
WITH picked AS MATERIALIZED (
    SELECT schedule_id, slot, ord FROM run_live
    WHERE ready AND kind = ANY(%(kinds)s)
      AND pool <> ALL (ARRAY(SELECT name FROM pool WHERE rate_max IS NOT NULL))
    ORDER BY rank, slot, schedule_id, ord
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
), started AS (
    UPDATE run_live l SET state = 'starting', ready = false, attempts = l.attempts + 1
    FROM picked p
    WHERE l.schedule_id = p.schedule_id AND l.slot = p.slot AND l.ord = p.ord
    RETURNING l.*, nextval('fencing_token') AS fence
), opened AS (
    INSERT INTO attempt_open (slot, schedule_id, ord, number, instance_id, epoch, host, fence, backend, created_at)
    SELECT slot, schedule_id, ord, attempts, %(instance)s, %(epoch)s, %(host)s, fence, kind, %(now)s FROM started
), counted AS (  -- a first attempt is what `rate` and `min_interval` call a start
    UPDATE start_log g SET at = %(now)s FROM started s
    WHERE s.attempts = 1 AND g.schedule_id = s.schedule_id AND g.slot = s.slot AND g.ord = s.ord AND g.at IS NULL
)
SELECT slot, schedule_id, ord, attempts, fence, rev, program_id, program_rev, arguments, cause, caused_by, fire_time,
       previous_fire, window_ends
FROM started ORDER BY rank, slot, schedule_id, ord;

-- started: the backend has them
WITH locked AS MATERIALIZED (
    SELECT l.schedule_id, l.slot, l.ord, d.number, d.backend_id, l.started_at IS NULL AS begins
    FROM unnest(%(slots)s, %(schedules)s, %(ords)s, %(numbers)s, %(backend_ids)s)
         AS d(slot, schedule_id, ord, number, backend_id)
    JOIN run_live l ON l.schedule_id = d.schedule_id AND l.slot = d.slot AND l.ord = d.ord
    WHERE l.attempts = d.number AND l.state IN ('starting', 'running', 'stopping')
    ORDER BY l.schedule_id, l.slot, l.ord
    FOR UPDATE OF l
), has AS (
    UPDATE attempt_open a SET started_at = coalesce(a.started_at, %(now)s), backend_id = d.backend_id
    FROM locked d
    WHERE a.schedule_id = d.schedule_id AND a.slot = d.slot AND a.ord = d.ord AND a.number = d.number
), runs AS (
    UPDATE run_live l
    SET state = CASE l.state WHEN 'starting' THEN 'running' ELSE l.state END,
        started_at = coalesce(l.started_at, %(now)s)
    FROM locked d
    WHERE l.schedule_id = d.schedule_id AND l.slot = d.slot AND l.ord = d.ord
)
INSERT INTO event (day, at, type, schedule_id, slot, ord)
SELECT %(day)s, %(now)s, 'run.started', schedule_id, slot, ord FROM locked WHERE begins;

-- ended: close attempts that are open, of runs of one day; finish the runs or send them back to waiting
WITH d AS MATERIALIZED (
    SELECT d.*, l.stop, l.stop_by, l.started_at AS run_started_at
    FROM unnest(%(slots)s, %(schedules)s, %(ords)s, %(numbers)s, %(outcomes)s, %(errors)s, %(finished)s, %(ran)s,
                %(ends)s, %(reasons)s, %(retries)s, %(failures)s, %(lost)s)
         AS d(slot, schedule_id, ord, number, outcome, error, finished_at, ran, run_end, reason, retry_at, failures, lost)
    JOIN run_live l ON l.schedule_id = d.schedule_id AND l.slot = d.slot AND l.ord = d.ord
    WHERE l.attempts = d.number AND l.state IN ('starting', 'running', 'stopping')
    ORDER BY l.schedule_id, l.slot, l.ord
    FOR UPDATE OF l
), closed AS (
    DELETE FROM attempt_open a USING d
    WHERE a.schedule_id = d.schedule_id AND a.slot = d.slot AND a.ord = d.ord AND a.number = d.number
    RETURNING a.*, d.outcome, d.error, d.ran, d.retry_at, d.failures, d.lost,
              greatest(d.finished_at, a.started_at, a.created_at) AS finished_at,
              coalesce(d.run_end, CASE d.stop WHEN 'cancel' THEN 'cancelled' END) AS run_end,
              CASE WHEN d.run_end IS NULL THEN %(now)s
                   ELSE greatest(d.finished_at, a.started_at, a.created_at) END AS run_finished_at,
              coalesce(d.reason, 'cancelled by ' || d.stop_by) AS reason,
              coalesce(d.run_started_at, a.started_at, CASE WHEN d.ran THEN a.created_at END) AS run_started_at,
              d.run_started_at IS NULL AND a.started_at IS NULL AND d.ran AS begins
), kept AS (
    INSERT INTO attempt (slot, schedule_id, ord, number, instance_id, host, fence, backend, backend_id, created_at,
                         started_at, finished_at, outcome, error)
    SELECT slot, schedule_id, ord, number, instance_id, host, fence, backend, backend_id, created_at, started_at,
           finished_at, outcome, error::jsonb
    FROM closed
), finished AS (
    DELETE FROM run_live l USING closed c
    WHERE l.schedule_id = c.schedule_id AND l.slot = c.slot AND l.ord = c.ord AND c.run_end IS NOT NULL
    RETURNING l.*, c.run_end, c.reason, c.finished_at, c.run_finished_at, c.number, c.created_at AS launched_at,
              c.started_at AS attempt_started_at, c.run_started_at
), retried AS (
    UPDATE run_live l
    SET state = 'waiting', wake_at = c.retry_at, failures = l.failures + c.failures, lost = l.lost + c.lost,
        slot_held = false, expires_at = NULL, stop = NULL, stop_by = '', stop_at = NULL, started_at = c.run_started_at
    FROM closed c
    WHERE l.schedule_id = c.schedule_id AND l.slot = c.slot AND l.ord = c.ord AND c.run_end IS NULL
    RETURNING l.slot, l.schedule_id, l.ord, l.pool, c.number, c.created_at AS launched_at,
              c.started_at AS attempt_started_at, c.finished_at
), ledger AS (
    UPDATE {run} r
    SET outcome = f.run_end, reason = f.reason, finished_at = f.run_finished_at, rev = f.rev,
        program_rev = f.program_rev, ready_at = f.ready_at, arguments = f.arguments, stop = f.stop,
        started_at = f.run_started_at
    FROM finished f
    WHERE r.slot = f.slot AND r.schedule_id = f.schedule_id AND r.ord = f.ord
), told AS (
    INSERT INTO event (day, at, type, schedule_id, slot, ord)
    SELECT %(day)s, %(now)s, 'run.started', schedule_id, slot, ord FROM closed WHERE begins
    UNION ALL
    SELECT %(day)s, %(now)s, 'run.' || run_end, schedule_id, slot, ord FROM finished
)
SELECT slot, schedule_id, ord, number, coalesce(attempt_started_at, launched_at), finished_at, pool,
       array_to_string(held, E'\x1f'), true, run_started_at IS NOT NULL
FROM finished
UNION ALL
SELECT slot, schedule_id, ord, number, coalesce(attempt_started_at, launched_at), finished_at, pool, '', false, false
FROM retried;

-- add_stats: what attempts and runs that ended add to their schedules' statistics
WITH d AS MATERIALIZED (
    SELECT d.*
    FROM unnest(%(schedules)s, %(last_starts)s, %(last_finishes)s, %(last_successes)s, %(last_run_successes)s,
                %(runs)s, %(successes)s, %(failures)s, %(crashes)s, %(timeouts)s, %(durations)s, %(failing)s,
                %(crashing)s, %(broken)s)
         AS d(schedule_id, last_start, last_finish, last_success, last_run_success, runs, successes, failures, crashes,
              timeouts, duration, failing, crashing, broken)
    JOIN schedule_stats s ON s.schedule_id = d.schedule_id
    ORDER BY s.schedule_id FOR NO KEY UPDATE OF s
)
UPDATE schedule_stats s
SET last_start = greatest(s.last_start, d.last_start), last_finish = greatest(s.last_finish, d.last_finish),
    last_success = greatest(s.last_success, d.last_success),
    last_run_success = coalesce(d.last_run_success::boolean, s.last_run_success),
    total_runs = s.total_runs + d.runs, total_successes = s.total_successes + d.successes,
    total_failures = s.total_failures + d.failures, total_crashes = s.total_crashes + d.crashes,
    total_timeouts = s.total_timeouts + d.timeouts, total_duration = s.total_duration + d.duration,
    consecutive_failures = d.failing + CASE WHEN d.broken THEN 0 ELSE s.consecutive_failures END,
    consecutive_crashes = d.crashing + CASE WHEN d.broken THEN 0 ELSE s.consecutive_crashes END
FROM d WHERE s.schedule_id = d.schedule_id;

-- run: one run as people see it
SELECT r.slot, r.schedule_id, r.ord, s.namespace, s.name, coalesce(l.rev, r.rev), p.name,
       coalesce(r.outcome, l.state, 'waiting'), r.reason, r.fire_time, NULL::bigint, r.previous_fire, 1::bigint, r.cause,
       r.caused_by, r.given, coalesce(r.arguments, l.arguments), r.priority, r.created_at,
       coalesce(r.ready_at, l.ready_at), coalesce(r.started_at, l.started_at), r.finished_at, l.expires_at, l.wake_at,
       l.wake_key, l.waiting_for, r.merged_into, coalesce(r.stop, l.stop), r.evidence, r.inputs
FROM unnest(%(slots)s, %(schedules)s, %(ords)s) AS d(slot, schedule_id, ord)
JOIN run r ON r.slot = d.slot AND r.schedule_id = d.schedule_id AND r.ord = d.ord
JOIN schedule s ON s.id = r.schedule_id
LEFT JOIN run_live l ON l.schedule_id = r.schedule_id AND l.slot = r.slot AND l.ord = r.ord
JOIN program p ON p.id = coalesce(l.program_id, r.program_id);
