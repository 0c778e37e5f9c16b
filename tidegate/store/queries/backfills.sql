-- claim: backfills whose turn it is, and those of which a run has ended, claimed
SELECT b.id, b.schedule_id, b.rev, b.state, b.start_at, b.end_at, b.keys, b.walk, b.reprocess, b.concurrency, b.cursor,
       b.considered, b.passed, b.succeeded, b.failed, b.cancelled
FROM backfill b
WHERE b.id IN (
    SELECT id FROM backfill WHERE wake_at <= %(now)s
    UNION
    SELECT i.backfill_id FROM backfill_item i
    WHERE i.slot IS NOT NULL
      AND NOT EXISTS (SELECT FROM run_live l WHERE l.schedule_id = i.schedule_id AND l.slot = i.slot AND l.ord = i.ord)
)
ORDER BY b.wake_at NULLS FIRST, b.id
LIMIT %(limit)s
FOR NO KEY UPDATE SKIP LOCKED;

-- heads: the clocks of schedules, locked in ascending order, with what new runs need
SELECT c.schedule_id, c.gen, c.rev, c.program_id, p.rev, s.deleted_at IS NOT NULL
FROM clock c JOIN program p ON p.id = c.program_id JOIN schedule s ON s.id = c.schedule_id
WHERE c.schedule_id = ANY(%(schedules)s)
ORDER BY c.schedule_id FOR NO KEY UPDATE OF c;

-- items: what backfills have in hand, and where their runs stand
SELECT i.backfill_id, i.fire_time, i.slot, i.schedule_id, i.ord,
       CASE WHEN i.slot IS NOT NULL THEN coalesce(l.state, r.outcome, 'cancelled') END
FROM backfill_item i
LEFT JOIN run_live l ON l.schedule_id = i.schedule_id AND l.slot = i.slot AND l.ord = i.ord
LEFT JOIN run r ON r.slot = i.slot AND r.schedule_id = i.schedule_id AND r.ord = i.ord
WHERE i.backfill_id = ANY(%(ids)s)
ORDER BY i.backfill_id, i.fire_time LIMIT %(limit)s;

-- standings: the states of all runs for fire times of schedules, in stretches of instants
SELECT d.schedule_id, f.fire_time, f.state
FROM unnest(%(schedules)s, %(firsts)s, %(lasts)s) AS d(schedule_id, first, last)
CROSS JOIN LATERAL (
    SELECT r.slot AS fire_time, coalesce(r.outcome, l.state, 'waiting') AS state
    FROM run r
    LEFT JOIN run_live l ON r.outcome IS NULL AND l.schedule_id = r.schedule_id AND l.slot = r.slot AND l.ord = r.ord
    WHERE r.schedule_id = d.schedule_id AND r.slot BETWEEN d.first AND d.last AND r.cause = 'fire'
    UNION ALL
    SELECT r.fire_time, coalesce(r.outcome, l.state, 'waiting')
    FROM run r
    LEFT JOIN run_live l ON r.outcome IS NULL AND l.schedule_id = r.schedule_id AND l.slot = r.slot AND l.ord = r.ord
    WHERE r.schedule_id = d.schedule_id AND r.fire_time BETWEEN d.first AND d.last AND r.cause IN ('backfill', 'rerun')
      AND NOT (r.cause = 'backfill' AND r.outcome IS NOT NULL AND r.started_at IS NULL)
    UNION ALL
    SELECT i.fire_time, 'waiting' FROM backfill_item i
    WHERE i.schedule_id = d.schedule_id AND i.fire_time BETWEEN d.first AND d.last
) f;

-- make: runs of backfills, with live rows, items and events
WITH d AS MATERIALIZED (
    SELECT * FROM unnest(%(schedules)s, %(ords)s, %(fires)s, %(previous)s, %(ids)s, %(bys)s, %(revs)s, %(programs)s,
                         %(kinds)s, %(pools)s)
                  AS d(schedule_id, ord, fire_time, previous_fire, backfill_id, caused_by, rev, program_id, kind, pool)
), counted AS (
    UPDATE clock c SET gen = g.gen
    FROM (SELECT schedule_id, max(ord) AS gen FROM d GROUP BY schedule_id) g
    WHERE c.schedule_id = g.schedule_id
), made AS (
    INSERT INTO run (slot, schedule_id, ord, rev, program_id, fire_time, previous_fire, cause, caused_by, priority,
                     created_at)
    SELECT %(now)s, schedule_id, ord, rev, program_id, fire_time, previous_fire, 'backfill', caused_by, %(priority)s,
           %(now)s
    FROM d
), alive AS (
    INSERT INTO run_live (slot, schedule_id, ord, state, rev, program_id, kind, pool, fire_time, previous_fire, cause,
                          caused_by, priority, created_at, wake_at)
    SELECT %(now)s, schedule_id, ord, 'waiting', rev, program_id, kind, pool, fire_time, previous_fire, 'backfill',
           caused_by, %(priority)s, %(now)s, %(now)s
    FROM d
), item AS (
    INSERT INTO backfill_item AS i (schedule_id, fire_time, backfill_id, slot, ord)
    SELECT schedule_id, fire_time, backfill_id, %(now)s, ord FROM d
    ON CONFLICT (schedule_id, fire_time) DO UPDATE SET slot = excluded.slot, ord = excluded.ord
)
INSERT INTO event (day, at, type, schedule_id, slot, ord)
SELECT %(day)s, %(now)s, 'run.waiting', schedule_id, %(now)s, ord FROM d;

-- close: fire times that are no longer in hand
DELETE FROM backfill_item i USING unnest(%(schedules)s, %(fires)s) AS d(schedule_id, fire_time)
WHERE i.schedule_id = d.schedule_id AND i.fire_time = d.fire_time;

-- release: fire times that are to be run again
UPDATE backfill_item i SET slot = NULL, ord = NULL
FROM unnest(%(schedules)s, %(fires)s) AS d(schedule_id, fire_time)
WHERE i.schedule_id = d.schedule_id AND i.fire_time = d.fire_time;

-- advance: where backfills stand after a pass
UPDATE backfill b
SET state = d.state, reason = coalesce(d.reason, b.reason), cursor = d.cursor, considered = d.considered,
    passed = d.passed, succeeded = d.succeeded, failed = d.failed, cancelled = d.cancelled, wake_at = d.wake_at,
    finished_at = CASE WHEN d.over THEN %(now)s ELSE b.finished_at END
FROM unnest(%(ids)s, %(states)s, %(reasons)s, %(cursors)s, %(considered)s, %(passed)s, %(succeeded)s, %(failed)s,
            %(cancelled)s, %(wakes)s, %(overs)s)
     AS d(id, state, reason, cursor, considered, passed, succeeded, failed, cancelled, wake_at, over)
WHERE b.id = d.id;

-- live: whether any backfill is not over
SELECT EXISTS (SELECT FROM backfill WHERE finished_at IS NULL);

-- add: a backfill
INSERT INTO backfill (schedule_id, rev, state, asked_by, start_at, end_at, keys, walk, reprocess, concurrency, total,
                      cursor, wake_at, created_at)
VALUES (%(schedule)s, %(rev)s, 'running', %(by)s, %(start)s, %(end)s, %(keys)s, %(walk)s, %(reprocess)s,
        %(concurrency)s, %(total)s, %(cursor)s, %(now)s, %(now)s)
RETURNING id;

-- lock: one backfill, locked
SELECT id FROM backfill WHERE id = %(id)s FOR NO KEY UPDATE;

-- records: backfills as people see them
SELECT b.id, b.schedule_id, s.namespace, s.name, b.rev, b.start_at, b.end_at, b.keys, b.walk, b.reprocess,
       b.concurrency, b.state, b.reason, b.asked_by, b.total, b.cursor, b.considered, b.passed, b.succeeded, b.failed,
       b.cancelled, b.created_at, b.finished_at, b.paused_at, b.paused_for
FROM backfill b JOIN schedule s ON s.id = b.schedule_id
WHERE b.id = ANY(%(ids)s)
ORDER BY b.id DESC;

-- page: backfills, newest first
SELECT b.id FROM backfill b JOIN schedule s ON s.id = b.schedule_id
WHERE b.id < %(before)s AND (%(namespace)s::text IS NULL OR s.namespace = %(namespace)s::text)
  AND (%(schedule)s::text IS NULL OR s.name = %(schedule)s::text)
  AND (cardinality(%(states)s) = 0 OR b.state = ANY(%(states)s))
ORDER BY b.id DESC LIMIT %(limit)s;

-- set: a backfill's state; what is cancelled is over when nothing of it lives
WITH unmade AS (
    DELETE FROM backfill_item WHERE backfill_id = %(id)s AND slot IS NULL AND %(state)s = 'cancelled'
    RETURNING 1
)
UPDATE backfill b
SET state = %(state)s, reason = %(reason)s, wake_at = CASE WHEN %(state)s = 'running' THEN %(now)s::bigint END,
    cancelled = b.cancelled + (SELECT count(*) FROM unmade),
    finished_at = CASE WHEN %(state)s = 'cancelled'
                        AND NOT EXISTS (SELECT FROM backfill_item WHERE backfill_id = %(id)s AND slot IS NOT NULL)
                       THEN %(now)s::bigint END,
    paused_at = CASE WHEN %(state)s = 'paused' THEN %(now)s::bigint END,
    paused_for = b.paused_for + coalesce(%(now)s - b.paused_at, 0)
WHERE b.id = %(id)s;

-- forget: backfills that were over before an instant
DELETE FROM backfill
WHERE ctid = ANY (ARRAY(SELECT ctid FROM backfill WHERE finished_at < %(before)s LIMIT %(most)s))
  AND finished_at < %(before)s;
