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

-- rated_waiting: pools with a launch rate for which ready runs of these kinds exist
SELECT p.name, p.rate_max, p.rate_per, p.rate_burst, p.tokens, p.refilled_at
FROM pool p
WHERE p.rate_max IS NOT NULL
  AND EXISTS (SELECT FROM run_live l WHERE l.ready AND l.pool = p.name AND l.kind = ANY(%(kinds)s))
ORDER BY p.name;

-- lock_rates: the same for these pools, locked in ascending order
SELECT name, rate_max, rate_per, rate_burst, tokens, refilled_at
FROM pool WHERE name = ANY(%(names)s) AND rate_max IS NOT NULL ORDER BY name FOR NO KEY UPDATE;

-- pay: what is left of launch rates
UPDATE pool p SET tokens = d.tokens, refilled_at = %(now)s
FROM unnest(%(names)s, %(tokens)s) AS d(name, tokens) WHERE p.name = d.name;

-- start_rated: as start_ready, for pools with a launch rate, at most so many of each
WITH picked AS MATERIALIZED (
    SELECT w.schedule_id, w.slot, w.ord
    FROM unnest(%(names)s, %(counts)s) AS d(name, n)
    CROSS JOIN LATERAL (
        SELECT schedule_id, slot, ord FROM run_live
        WHERE ready AND pool = d.name AND kind = ANY(%(kinds)s)
        ORDER BY rank, slot, schedule_id, ord
        LIMIT d.n
        FOR UPDATE SKIP LOCKED
    ) w
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
       previous_fire, window_ends, pool
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

-- stopping: ask attempts to stop; one that was asked already keeps its reason
WITH asked AS (
    UPDATE run_live l SET state = 'stopping', stop = d.why, stop_at = %(now)s
    FROM unnest(%(slots)s, %(schedules)s, %(ords)s, %(numbers)s, %(whys)s) AS d(slot, schedule_id, ord, number, why)
    WHERE l.schedule_id = d.schedule_id AND l.slot = d.slot AND l.ord = d.ord AND l.attempts = d.number
      AND l.state IN ('starting', 'running') AND l.stop IS NULL
    RETURNING l.schedule_id, l.slot, l.ord, l.stop
)
INSERT INTO event (day, at, type, schedule_id, slot, ord, payload)
SELECT %(day)s, %(now)s, 'run.stopping', schedule_id, slot, ord, jsonb_build_object('reason', stop) FROM asked;

-- ended: close attempts that are open, of runs of one day; finish the runs or send them back to waiting
WITH d AS MATERIALIZED (
    SELECT d.*, l.stop, l.stop_by, l.started_at AS run_started_at
    FROM unnest(%(slots)s, %(schedules)s, %(ords)s, %(numbers)s, %(outcomes)s, %(errors)s, %(finished)s, %(ran)s,
                %(ends)s, %(reasons)s, %(retries)s, %(failures)s, %(lost)s, %(crashes)s)
         AS d(slot, schedule_id, ord, number, outcome, error, finished_at, ran, run_end, reason, retry_at, failures, lost,
              crashed)
    JOIN run_live l ON l.schedule_id = d.schedule_id AND l.slot = d.slot AND l.ord = d.ord
    WHERE l.attempts = d.number AND l.state IN ('starting', 'running', 'stopping')
    ORDER BY l.schedule_id, l.slot, l.ord
    FOR UPDATE OF l
), closed AS (
    DELETE FROM attempt_open a USING d
    WHERE a.schedule_id = d.schedule_id AND a.slot = d.slot AND a.ord = d.ord AND a.number = d.number
    RETURNING a.*, d.outcome, d.error, d.ran, d.retry_at, d.failures, d.lost, d.crashed,
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
    SELECT slot, schedule_id, ord, number, instance_id, host, fence, backend, backend_id, created_at,
           coalesce(started_at, CASE WHEN ran THEN created_at END), finished_at, outcome, error::jsonb
    FROM closed
), finished AS (
    DELETE FROM run_live l USING closed c
    WHERE l.schedule_id = c.schedule_id AND l.slot = c.slot AND l.ord = c.ord AND c.run_end IS NOT NULL
    RETURNING l.*, c.run_end, c.reason, c.finished_at, c.run_finished_at, c.number, c.created_at AS launched_at,
              c.started_at AS attempt_started_at, c.run_started_at
), retried AS (
    UPDATE run_live l
    SET state = 'waiting', failures = l.failures + c.failures, lost = l.lost + c.lost, restart_at = NULL,
        wake_at = CASE WHEN c.crashed THEN %(now)s ELSE c.retry_at END,  -- a scheduler says at once when it goes on
        backoff_until = CASE WHEN c.crashed THEN c.retry_at END,
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

-- open: those of the named attempts that are open
SELECT l.slot, l.schedule_id, l.ord, a.number, a.fence, l.rev, l.program_id, l.program_rev, l.arguments, l.cause,
       l.caused_by, l.fire_time, l.previous_fire, l.window_ends, l.state, l.failures, l.lost, l.stop, l.stop_at, a.created_at,
       a.started_at, a.instance_id
FROM unnest(%(slots)s, %(schedules)s, %(ords)s, %(numbers)s) AS d(slot, schedule_id, ord, number)
JOIN attempt_open a ON a.schedule_id = d.schedule_id AND a.slot = d.slot AND a.ord = d.ord AND a.number = d.number
JOIN run_live l ON l.schedule_id = d.schedule_id AND l.slot = d.slot AND l.ord = d.ord;

-- stop_requests: an instance's open attempts that somebody asked to stop
SELECT l.slot, l.schedule_id, l.ord, a.number, a.fence, l.rev, l.program_id, l.program_rev, l.arguments, l.cause,
       l.caused_by, l.fire_time, l.previous_fire, l.window_ends, l.state, l.failures, l.lost, l.stop, l.stop_at, a.created_at,
       a.started_at, a.instance_id
FROM attempt_open a
JOIN run_live l ON l.schedule_id = a.schedule_id AND l.slot = a.slot AND l.ord = a.ord
WHERE a.instance_id = %(instance)s AND a.epoch = %(epoch)s AND l.stop IS NOT NULL;

-- held: an instance's open attempts that were made before an instant
SELECT slot, schedule_id, ord, number FROM attempt_open
WHERE instance_id = %(instance)s AND epoch = %(epoch)s AND created_at < %(before)s
ORDER BY schedule_id, slot, ord;

-- orphans: open attempts of this host whose instance has ended or moved on, claimed
SELECT l.slot, l.schedule_id, l.ord
FROM attempt_open a
JOIN instance i ON i.id = a.instance_id
JOIN run_live l ON l.schedule_id = a.schedule_id AND l.slot = a.slot AND l.ord = a.ord
WHERE a.host = %(host)s AND a.backend = ANY(%(kinds)s) AND (i.ended_at IS NOT NULL OR i.epoch <> a.epoch)
ORDER BY l.schedule_id, l.slot, l.ord
LIMIT %(limit)s
FOR UPDATE OF l SKIP LOCKED;

-- adopt: make open attempts this instance's own
UPDATE attempt_open a SET instance_id = %(instance)s, epoch = %(epoch)s
FROM run_live l, unnest(%(slots)s, %(schedules)s, %(ords)s) AS d(slot, schedule_id, ord)
WHERE a.schedule_id = d.schedule_id AND a.slot = d.slot AND a.ord = d.ord
  AND l.schedule_id = d.schedule_id AND l.slot = d.slot AND l.ord = d.ord
RETURNING l.slot, l.schedule_id, l.ord, a.number, a.fence, l.rev, l.program_id, l.program_rev, l.arguments, l.cause,
          l.caused_by, l.fire_time, l.previous_fire, l.window_ends, l.state, l.failures, l.lost, l.stop, l.stop_at, a.created_at,
          a.started_at, a.instance_id;

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

-- count_runs: runs that ended between attempts
UPDATE schedule_stats s SET total_runs = s.total_runs + d.n
FROM unnest(%(schedules)s, %(counts)s) AS d(schedule_id, n) WHERE s.schedule_id = d.schedule_id;

-- ask_pause: these schedules are to pause
INSERT INTO pausing (schedule_id, at, reason)
SELECT DISTINCT ON (d.schedule_id) d.schedule_id, %(now)s, d.reason FROM unnest(%(schedules)s, %(reasons)s) AS d(schedule_id, reason)
ORDER BY d.schedule_id
ON CONFLICT DO NOTHING;

-- asked_to_pause: schedules that are to pause
SELECT p.schedule_id, s.namespace, s.name, p.reason FROM pausing p JOIN schedule s ON s.id = p.schedule_id
ORDER BY p.schedule_id;

-- settle_pause: that was seen to
DELETE FROM pausing WHERE schedule_id = %(schedule)s;

-- clear_streak: failures in a row are counted anew
UPDATE schedule_stats SET consecutive_failures = 0, consecutive_crashes = 0 WHERE schedule_id = %(schedule)s;
