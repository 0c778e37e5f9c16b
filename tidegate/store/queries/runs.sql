-- lock: live rows of these runs, in ascending order
SELECT l.slot, l.schedule_id, l.ord, l.state
FROM unnest(%(slots)s, %(schedules)s, %(ords)s) AS d(slot, schedule_id, ord)
JOIN run_live l ON l.schedule_id = d.schedule_id AND l.slot = d.slot AND l.ord = d.ord
ORDER BY l.schedule_id, l.slot, l.ord
FOR UPDATE OF l;

-- finish: end live runs of one day that have no attempt in flight; what they held
WITH d AS MATERIALIZED (
    SELECT * FROM unnest(%(slots)s, %(schedules)s, %(ords)s, %(outcomes)s, %(reasons)s)
                  AS d(slot, schedule_id, ord, outcome, reason)
), gone AS (
    DELETE FROM run_live l USING d
    WHERE l.schedule_id = d.schedule_id AND l.slot = d.slot AND l.ord = d.ord AND l.state IN ('waiting', 'ready')
    RETURNING l.*, d.outcome, d.reason
), ledger AS (
    UPDATE {run} r
    SET outcome = g.outcome, reason = g.reason, finished_at = %(now)s, rev = g.rev, program_rev = g.program_rev,
        ready_at = g.ready_at, started_at = g.started_at, arguments = g.arguments, stop = g.stop
    FROM gone g
    WHERE r.slot = g.slot AND r.schedule_id = g.schedule_id AND r.ord = g.ord
), told AS (
    INSERT INTO event (day, at, type, schedule_id, slot, ord)
    SELECT %(day)s, %(now)s, 'run.' || outcome, schedule_id, slot, ord FROM gone
)
SELECT slot, schedule_id, ord, array_to_string(held, E'\x1f'), CASE WHEN slot_held THEN pool END, wake_key,
       started_at IS NOT NULL, moved
FROM gone;

-- waiting_of: the runs of a schedule that have no attempt in flight, locked in ascending order
SELECT slot, schedule_id, ord, state FROM run_live
WHERE schedule_id = %(schedule)s AND state IN ('waiting', 'ready')
ORDER BY schedule_id, slot, ord
FOR UPDATE;

-- wake_schedule: judge a schedule's held runs again, since what it says has changed; what a suspension held since
-- `since` may wait for as much longer. Those in its own queue (`resume`) are told by that; between attempts, when
-- nothing holds it, a run is left alone. Who is judging one of them by the old revision comes first. One that waits for
-- a slot is out of turn (-1).
WITH w AS MATERIALIZED (
    SELECT slot, schedule_id, ord FROM run_live
    WHERE schedule_id = %(schedule)s AND state = 'waiting'
      AND (wake_key IS DISTINCT FROM %(resume)s OR %(since)s::bigint IS NOT NULL AND expires_at IS NOT NULL)
    ORDER BY schedule_id, slot, ord FOR UPDATE
)
UPDATE run_live l
SET wake_at = CASE WHEN l.wake_key = %(resume)s OR l.wake_key IS NULL AND l.waiting_for IS NULL THEN l.wake_at
                   ELSE least(l.wake_at, %(now)s) END,
    wake_limit = CASE WHEN l.wake_key LIKE 'pool:%%' AND (l.wake_at IS NULL OR l.wake_at > %(now)s) THEN -1
                      ELSE l.wake_limit END,
    expires_at = CASE WHEN %(since)s::bigint IS NOT NULL AND l.attempts = 0 AND l.cause <> 'manual'
                      THEN l.expires_at + greatest(%(now)s - greatest(l.created_at, %(since)s::bigint), 0)
                      ELSE l.expires_at END
FROM w
WHERE l.schedule_id = w.schedule_id AND l.slot = w.slot AND l.ord = w.ord
RETURNING l.slot;

-- next_ord: the number of a run that is no clock fire, with what the run needs of its schedule
UPDATE clock c SET gen = gen + 1
FROM program p, program_revision pr, revision r
WHERE c.schedule_id = %(schedule)s AND p.id = c.program_id AND pr.program_id = p.id AND pr.rev = p.rev
  AND r.schedule_id = c.schedule_id AND r.rev = c.rev
RETURNING c.gen, c.rev, c.program_id, p.rev, p.namespace, p.name, pr.spec, r.schedule_id, r.rev, r.valid_from, r.mode,
          r.spec, r.held_expires;

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

-- lock_one: where one run stands, locked; its end if it has ended
SELECT l.state FROM run_live l
WHERE l.schedule_id = %(schedule)s AND l.slot = %(slot)s AND l.ord = %(ord)s
FOR UPDATE;

-- outcome: how one run ended
SELECT outcome FROM run WHERE slot = %(slot)s AND schedule_id = %(schedule)s AND ord = %(ord)s;

-- stop_one: ask the attempt in flight to stop
WITH asked AS (
    UPDATE run_live SET state = 'stopping', stop = 'cancel', stop_by = %(by)s, stop_at = %(now)s
    WHERE schedule_id = %(schedule)s AND slot = %(slot)s AND ord = %(ord)s AND stop IS DISTINCT FROM 'cancel'
    RETURNING schedule_id, slot, ord
)
INSERT INTO event (day, at, type, schedule_id, slot, ord, payload)
SELECT %(day)s, %(now)s, 'run.stopping', schedule_id, slot, ord, '{"reason": "cancel"}'::jsonb FROM asked;
