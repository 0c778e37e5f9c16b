-- claim_due: clocks that are due, earliest first, claimed
WITH due AS MATERIALIZED (
    SELECT schedule_id, program_id, rev, cursor_rev, cursor, next_due, last_fire, gap_to, gap_left
    FROM clock
    WHERE next_due > %(floor)s AND next_due <= %(now)s
    ORDER BY next_due, schedule_id
    LIMIT %(limit)s
    FOR NO KEY UPDATE SKIP LOCKED
)
SELECT due.*, p.rev FROM due JOIN program p ON p.id = due.program_id ORDER BY next_due, schedule_id;

-- next_due: the earliest due instant above the floor
SELECT next_due FROM clock WHERE next_due > %(floor)s ORDER BY next_due, schedule_id LIMIT 1;

-- advance: where clocks stand after a pass
UPDATE clock c
SET cursor = d.cursor, cursor_rev = d.cursor_rev, next_due = d.next_due, last_fire = d.last_fire,
    gap_to = d.gap_to, gap_left = d.gap_left
FROM unnest(%(schedules)s, %(cursors)s, %(cursor_revs)s, %(next_dues)s, %(last_fires)s, %(gap_tos)s, %(gap_lefts)s)
     AS d(schedule_id, cursor, cursor_rev, next_due, last_fire, gap_to, gap_left)
WHERE c.schedule_id = d.schedule_id;

-- record_fires: runs for fires, with live rows and events; those on record already are left alone
WITH d AS MATERIALIZED (
    SELECT * FROM unnest(%(slots)s, %(schedules)s, %(revs)s, %(programs)s, %(previous)s, %(priorities)s, %(expires)s,
                         %(kinds)s, %(pools)s, %(deadlines)s, %(deadline_bases)s)
                  AS d(slot, schedule_id, rev, program_id, previous_fire, priority, expires_at, kind, pool,
                       deadline_at, deadline_base)
), made AS (
    INSERT INTO run (slot, schedule_id, ord, rev, program_id, fire_time, previous_fire, cause, priority, created_at)
    SELECT slot, schedule_id, 0, rev, program_id, slot, previous_fire, 'fire', priority, %(now)s FROM d
    ON CONFLICT DO NOTHING
    RETURNING slot, schedule_id
), alive AS (
    INSERT INTO run_live (slot, schedule_id, ord, state, rev, program_id, kind, pool, fire_time, previous_fire, cause,
                          priority, created_at, wake_at, expires_at, deadline_at, deadline_base)
    SELECT d.slot, d.schedule_id, 0, 'waiting', d.rev, d.program_id, d.kind, d.pool, d.slot, d.previous_fire, 'fire',
           d.priority, %(now)s, %(now)s, d.expires_at, d.deadline_at, d.deadline_base
    FROM made JOIN d ON d.slot = made.slot AND d.schedule_id = made.schedule_id
)
INSERT INTO event (day, at, type, schedule_id, slot, ord)
SELECT %(day)s, %(now)s, 'run.waiting', schedule_id, slot, 0 FROM made;

-- record_stretches: stretches of fires that do not run, with an event each; those on record already are left alone
WITH made AS (
    INSERT INTO fire_range (schedule_id, from_fire, to_fire, rev, n, outcome, reason, decided_at)
    SELECT d.*, %(now)s FROM unnest(%(schedules)s, %(froms)s, %(tos)s, %(revs)s, %(counts)s, %(outcomes)s, %(reasons)s) AS d
    ON CONFLICT DO NOTHING
    RETURNING *
)
INSERT INTO event (day, at, type, schedule_id, slot, ord, payload)
SELECT %(day)s, %(now)s, 'run.' || outcome, schedule_id, from_fire, 0,
       jsonb_build_object('from', from_fire, 'to', to_fire, 'count', n, 'reason', reason)
FROM made ORDER BY schedule_id, from_fire;

-- lock_after_finish: clocks that a run's end sets, locked in ascending order
SELECT schedule_id, rev, cursor FROM clock
WHERE schedule_id = ANY(%(schedules)s) AND after_finish
ORDER BY schedule_id FOR NO KEY UPDATE;

-- set_after_finish: the next fire of after_finish clocks that have none and no run left
UPDATE clock c SET next_due = d.at
FROM unnest(%(schedules)s, %(ats)s) AS d(schedule_id, at)
WHERE c.schedule_id = d.schedule_id AND c.after_finish AND c.next_due IS NULL
  AND NOT EXISTS (SELECT FROM run_live l WHERE l.schedule_id = d.schedule_id)
RETURNING c.schedule_id;

-- revisions: what these schedules said in these revisions, and what they are called
SELECT r.schedule_id, r.rev, r.valid_from, r.mode, r.spec, r.held_expires, s.namespace, s.name
FROM unnest(%(schedules)s, %(revs)s) AS d(schedule_id, rev)
JOIN revision r ON r.schedule_id = d.schedule_id AND r.rev = d.rev
JOIN schedule s ON s.id = d.schedule_id;

-- names: what these schedules are called
SELECT id, namespace, name FROM schedule WHERE id = ANY(%(schedules)s);

-- programs: what these programs said in these revisions
SELECT r.program_id, r.rev, p.namespace, p.name, r.spec
FROM unnest(%(programs)s, %(revs)s) AS d(program_id, rev)
JOIN program_revision r ON r.program_id = d.program_id AND r.rev = d.rev
JOIN program p ON p.id = r.program_id;
