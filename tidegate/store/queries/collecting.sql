-- lock: clocks of schedules, in ascending order, with what rules over them
SELECT c.schedule_id, c.rev, c.mode, c.program_id, p.rev, c.next_due
FROM clock c JOIN program p ON p.id = c.program_id
WHERE c.schedule_id = ANY(%(schedules)s) AND c.collects
ORDER BY c.schedule_id FOR NO KEY UPDATE OF c;

-- look: the same without locking anything
SELECT c.schedule_id, c.rev, c.mode, c.program_id, p.rev, c.next_due
FROM clock c JOIN program p ON p.id = c.program_id
WHERE c.schedule_id = ANY(%(schedules)s) AND c.collects
ORDER BY c.schedule_id;

-- revs: the newest revisions of schedules
SELECT schedule_id, rev FROM clock WHERE schedule_id = ANY(%(schedules)s);

-- trees: what these schedules have collected, and what their trees ask about them
SELECT g.schedule_id, g.enabled_at, g.doc, t.last_start, t.last_finish,
       EXISTS (SELECT FROM run_live l WHERE l.schedule_id = g.schedule_id)
FROM progress g JOIN schedule s ON s.id = g.schedule_id LEFT JOIN schedule_stats t ON t.schedule_id = g.schedule_id
WHERE g.schedule_id = ANY(%(schedules)s) AND s.deleted_at IS NULL;

-- places: how far their subscriptions have read, and how far the topics are
SELECT u.schedule_id, u.node, u.key_id, u.base, u.seen, u.seen_rows, u.seen_bytes, u.seen_day, u.need, u.need_rows,
       u.need_bytes, u.again, k.type, k.key, k.match, k.n, k.rows, k.bytes, k.last_at
FROM subscription u JOIN event_key k ON k.id = u.key_id
WHERE u.schedule_id = ANY(%(schedules)s)
ORDER BY u.schedule_id, u.node, u.key_id;

-- deadlines: of these schedules, earliest first
SELECT schedule_id, node, at FROM deadline
WHERE schedule_id = ANY(%(schedules)s) AND at <= %(now)s ORDER BY at, node;

-- crossings: the first arrival of each subscription that has to be looked at singly
SELECT d.i, a.pos
FROM unnest(%(keys)s, %(starts)s, %(ends)s, %(days)s, %(needs)s, %(need_rows)s, %(need_bytes)s, %(dues)s)
     WITH ORDINALITY AS d(key_id, start, stop, day, need, need_rows, need_bytes, due, i)
CROSS JOIN LATERAL (
    SELECT a.pos FROM arrival a
    WHERE a.key_id = d.key_id AND a.n >= d.start AND a.n <= d.stop AND a.day >= d.day
      AND a.day >= %(first_day)s AND a.day <= %(last_day)s
      AND (a.n >= d.need OR a.sum_rows >= d.need_rows OR a.sum_bytes >= d.need_bytes OR a.at >= d.due)
    ORDER BY a.n LIMIT 1
) a;

-- singles: the arrivals of each subscription from a position on
SELECT d.i, a.n, a.pos, a.at, a.rows, a.bytes, a.sum_rows, a.sum_bytes, a.event_day, a.event_pos
FROM unnest(%(keys)s, %(starts)s, %(ends)s, %(days)s, %(positions)s) WITH ORDINALITY AS d(key_id, start, stop, day, pos, i)
CROSS JOIN LATERAL (
    SELECT * FROM arrival a
    WHERE a.key_id = d.key_id AND a.n >= d.start AND a.n <= d.stop AND a.day >= d.day AND a.pos >= d.pos
      AND a.day >= %(first_day)s AND a.day <= %(last_day)s
    ORDER BY a.n
) a
ORDER BY d.i, a.n;

-- ends: the instants at which stretches of topics begin and end, and the totals there
SELECT d.i, f.at, l.at, l.sum_rows, l.sum_bytes
FROM unnest(%(keys)s, %(firsts)s, %(lasts)s, %(days)s) WITH ORDINALITY AS d(key_id, first, last, day, i)
LEFT JOIN LATERAL (
    SELECT a.at FROM arrival a WHERE a.key_id = d.key_id AND a.n = d.first AND a.day >= d.day
      AND a.day >= %(first_day)s AND a.day <= %(last_day)s LIMIT 1
) f ON true
LEFT JOIN LATERAL (
    SELECT a.at, a.sum_rows, a.sum_bytes FROM arrival a
    WHERE a.key_id = d.key_id AND a.n = d.last AND a.day >= d.day
      AND a.day >= %(first_day)s AND a.day <= %(last_day)s LIMIT 1
) l ON true;

-- claim_inbox: take entries of the inbox; the schedules that have something to look at. Of many the rest is put back, by
-- name, so that each is found only once. (Lookups are lateral: joined, a plan without statistics walks over all topics.
-- Only new data has rows and bytes: other topics are not even looked up by them.)
WITH claimed AS MATERIALIZED (
    DELETE FROM event_inbox WHERE pos = ANY (ARRAY(
        SELECT pos FROM event_inbox ORDER BY pos LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    ))
    RETURNING key_ids, schedule_id
), news AS MATERIALIZED (
    SELECT k.*
    FROM (SELECT DISTINCT unnest(key_ids) AS key_id FROM claimed) AS c
    CROSS JOIN LATERAL (SELECT id, type, n, rows, bytes FROM event_key WHERE id = c.key_id LIMIT 1) AS k
), reached AS MATERIALIZED (
    SELECT schedule_id FROM claimed WHERE schedule_id IS NOT NULL
    UNION
    SELECT u.schedule_id FROM news k
    CROSS JOIN LATERAL (
        SELECT schedule_id FROM subscription WHERE key_id = k.id AND need <= k.n
        UNION ALL
        SELECT schedule_id FROM subscription
        WHERE k.type = 'dataset.updated' AND key_id = k.id AND need_rows <= k.rows
        UNION ALL
        SELECT schedule_id FROM subscription
        WHERE k.type = 'dataset.updated' AND key_id = k.id AND need_bytes <= k.bytes
    ) AS u
), taken AS MATERIALIZED (
    SELECT schedule_id FROM reached LIMIT %(most)s
), back AS (
    INSERT INTO event_inbox (schedule_id)
    SELECT schedule_id FROM reached WHERE schedule_id NOT IN (SELECT schedule_id FROM taken)
)
SELECT schedule_id FROM taken ORDER BY schedule_id;

-- claim_deadlines: schedules of which a deadline has come, earliest first, their clocks claimed
SELECT c.schedule_id
FROM (
    SELECT schedule_id, min(at) AS at
    FROM (SELECT schedule_id, at FROM deadline WHERE at <= %(now)s ORDER BY at, schedule_id LIMIT %(limit)s) AS d
    GROUP BY schedule_id
) AS d
JOIN clock c ON c.schedule_id = d.schedule_id
ORDER BY d.at, c.schedule_id
FOR NO KEY UPDATE OF c SKIP LOCKED;

-- next_deadline: the earliest of all
SELECT at FROM deadline ORDER BY at, schedule_id LIMIT 1;

-- inbox_waits: whether there is anything in the inbox
SELECT 1 FROM event_inbox LIMIT 1;

-- write_places: how far subscriptions have read, and when they want to be looked at
UPDATE subscription u
SET base = d.base, seen = d.seen, seen_rows = d.seen_rows, seen_bytes = d.seen_bytes, seen_day = d.seen_day,
    need = d.need, need_rows = d.need_rows, need_bytes = d.need_bytes, again = NULL
FROM unnest(%(schedules)s, %(nodes)s, %(keys)s, %(bases)s, %(seens)s, %(seen_rows)s, %(seen_bytes)s, %(days)s,
            %(needs)s, %(need_rows)s, %(need_bytes)s)
     AS d(schedule_id, node, key_id, base, seen, seen_rows, seen_bytes, seen_day, need, need_rows, need_bytes)
WHERE u.schedule_id = d.schedule_id AND u.node = d.node AND u.key_id = d.key_id;

-- write_progress: what trees have collected
UPDATE progress g SET doc = d.doc FROM unnest(%(schedules)s, %(docs)s) AS d(schedule_id, doc)
WHERE g.schedule_id = d.schedule_id;

-- clear_deadlines: of schedules whose clocks are held
DELETE FROM deadline WHERE schedule_id = ANY(%(schedules)s);

-- write_deadlines: instants at which silence alone changes the answer
INSERT INTO deadline (schedule_id, node, at) SELECT * FROM unnest(%(schedules)s, %(nodes)s, %(ats)s)
ON CONFLICT DO NOTHING;

-- put_off: deadlines of a schedule that cannot be evaluated
WITH due AS (
    DELETE FROM deadline WHERE schedule_id = %(schedule)s AND at < %(until)s RETURNING node
)
INSERT INTO deadline (schedule_id, node, at) SELECT DISTINCT %(schedule)s, node, %(until)s FROM due ON CONFLICT DO NOTHING;

-- survivors: of each schedule the oldest waiting run that further fires join, locked
SELECT w.slot, w.schedule_id, w.ord
FROM unnest(%(schedules)s) AS d(schedule_id)
CROSS JOIN LATERAL (
    SELECT slot, schedule_id, ord FROM run_live
    WHERE schedule_id = d.schedule_id AND state = 'waiting' AND attempts = 0 AND cause IN ('fire', 'evidence')
    ORDER BY created_at, slot, ord LIMIT 1 FOR UPDATE
) w
ORDER BY w.schedule_id;

-- evidence: what these runs have as theirs
SELECT r.slot, r.schedule_id, r.ord, r.evidence, r.outcome, r.merged_into
FROM unnest(%(slots)s, %(schedules)s, %(ords)s) AS d(slot, schedule_id, ord)
JOIN run r ON r.slot = d.slot AND r.schedule_id = d.schedule_id AND r.ord = d.ord
             AND r.slot >= %(oldest)s AND r.slot <= %(newest)s;

-- write_evidence: what these runs have as theirs by now
UPDATE run r SET evidence = d.evidence::jsonb, fire_time = coalesce(r.fire_time, d.fire_time),
                 priority = greatest(r.priority, d.priority)
FROM unnest(%(slots)s, %(schedules)s, %(ords)s, %(evidences)s, %(fire_times)s, %(priorities)s)
     AS d(slot, schedule_id, ord, evidence, fire_time, priority)
WHERE r.slot = d.slot AND r.schedule_id = d.schedule_id AND r.ord = d.ord
  AND r.slot >= %(oldest)s AND r.slot <= %(newest)s;

-- raise_priorities: of live runs that others joined
UPDATE run_live l SET priority = greatest(l.priority, d.priority)
FROM unnest(%(slots)s, %(schedules)s, %(ords)s, %(priorities)s) AS d(slot, schedule_id, ord, priority)
WHERE l.schedule_id = d.schedule_id AND l.slot = d.slot AND l.ord = d.ord AND l.priority < d.priority;

-- take_numbers: numbers for runs that are no clock fires; the last one of each schedule
UPDATE clock c SET gen = gen + d.n FROM unnest(%(schedules)s, %(counts)s) AS d(schedule_id, n)
WHERE c.schedule_id = d.schedule_id RETURNING c.schedule_id, c.gen;

-- add_runs: runs made by evidence
WITH d AS MATERIALIZED (
    SELECT * FROM unnest(%(schedules)s, %(ords)s, %(revs)s, %(programs)s, %(fire_times)s, %(priorities)s, %(expires)s,
                         %(kinds)s, %(pools)s, %(evidences)s, %(deadlines)s, %(deadline_bases)s)
                  AS d(schedule_id, ord, rev, program_id, fire_time, priority, expires_at, kind, pool, evidence,
                       deadline_at, deadline_base)
), made AS (
    INSERT INTO run (slot, schedule_id, ord, rev, program_id, fire_time, cause, priority, created_at, evidence)
    SELECT %(now)s, schedule_id, ord, rev, program_id, fire_time, 'evidence', priority, %(now)s, evidence::jsonb FROM d
), alive AS (
    INSERT INTO run_live (slot, schedule_id, ord, state, rev, program_id, kind, pool, fire_time, cause, priority,
                          created_at, wake_at, expires_at, deadline_at, deadline_base)
    SELECT %(now)s, schedule_id, ord, 'waiting', rev, program_id, kind, pool, fire_time, 'evidence', priority, %(now)s,
           %(now)s, expires_at, deadline_at, deadline_base
    FROM d
)
INSERT INTO event (day, at, type, schedule_id, slot, ord)
SELECT %(day)s, %(now)s, 'run.waiting', schedule_id, %(now)s, ord FROM d;

-- waiting: runs of these schedules that wait and never had an attempt, locked
SELECT l.slot, l.schedule_id, l.ord, l.cause, l.created_at
FROM run_live l
WHERE l.schedule_id = ANY(%(schedules)s) AND l.state = 'waiting' AND l.attempts = 0
ORDER BY l.schedule_id, l.slot, l.ord
FOR UPDATE;

-- too_many: schedules of which more runs wait than may
SELECT d.schedule_id
FROM unnest(%(schedules)s, %(most)s) AS d(schedule_id, most)
WHERE (SELECT count(*) FROM (
    SELECT FROM run_live l WHERE l.schedule_id = d.schedule_id AND l.state = 'waiting' AND l.attempts = 0
    LIMIT d.most + 1) AS l) > d.most
ORDER BY d.schedule_id;

-- merged: fires that join an older waiting run: each has a row that never lives
WITH made AS (
    INSERT INTO run (slot, schedule_id, ord, rev, program_id, fire_time, previous_fire, cause, priority, created_at,
                     finished_at, outcome, reason, merged_into)
    SELECT slot, schedule_id, 0, rev, program_id, slot, previous_fire, 'fire', priority, %(now)s, %(now)s, 'merged',
           reason, merged_into
    FROM unnest(%(slots)s, %(schedules)s, %(revs)s, %(programs)s, %(previous)s, %(priorities)s, %(reasons)s, %(intos)s)
         AS d(slot, schedule_id, rev, program_id, previous_fire, priority, reason, merged_into)
    ON CONFLICT DO NOTHING
    RETURNING slot, schedule_id
)
INSERT INTO event (day, at, type, schedule_id, slot, ord)
SELECT %(day)s, %(now)s, 'run.merged', schedule_id, slot, 0 FROM made;

-- tell_ends: schedules whose trees count from the end of a run are looked at
INSERT INTO event_inbox (schedule_id)
SELECT schedule_id FROM progress WHERE schedule_id = ANY(%(schedules)s) AND elapsed;

-- give_back: input that a run had and no program saw is owed again, unless somebody took more since
UPDATE owed o SET n = d.from_n, snapshot = d.snapshot::jsonb
FROM unnest(%(schedules)s, %(datasets)s, %(from_ns)s, %(to_ns)s, %(snapshots)s)
     AS d(schedule_id, dataset, from_n, to_n, snapshot)
WHERE o.schedule_id = d.schedule_id AND o.dataset = d.dataset AND o.n = d.to_n AND d.from_n < d.to_n;

-- given: what these runs were given
SELECT r.slot, r.schedule_id, r.ord, r.inputs, r.evidence
FROM unnest(%(slots)s, %(schedules)s, %(ords)s) AS d(slot, schedule_id, ord)
JOIN run r ON r.slot = d.slot AND r.schedule_id = d.schedule_id AND r.ord = d.ord;

-- owed: where the next input of schedules begins
SELECT schedule_id, dataset, n, day, snapshot FROM owed WHERE schedule_id = ANY(%(schedules)s);

-- move_owed: where it begins from now on
INSERT INTO owed (schedule_id, dataset, n, day, snapshot)
SELECT schedule_id, dataset, n, day, snapshot::jsonb
FROM unnest(%(schedules)s, %(datasets)s, %(ns)s, %(days)s, %(snapshots)s) AS d(schedule_id, dataset, n, day, snapshot)
ON CONFLICT (schedule_id, dataset) DO UPDATE SET n = excluded.n, day = excluded.day, snapshot = excluded.snapshot;

-- firsts: of each stretch of a topic the first arrivals, in order
SELECT d.i, a.n, a.pos, a.at, a.rows, a.bytes, a.sum_rows, a.sum_bytes, a.event_day, a.event_pos
FROM unnest(%(keys)s, %(lows)s, %(highs)s, %(days)s) WITH ORDINALITY AS d(key_id, low, high, day, i)
CROSS JOIN LATERAL (
    SELECT * FROM arrival a WHERE a.key_id = d.key_id AND a.n > d.low AND a.n <= d.high AND a.day >= d.day
      AND a.day >= %(first_day)s
    ORDER BY a.n LIMIT %(limit)s
) a
ORDER BY d.i, a.n;

-- lasts: of each stretch of a topic the last arrivals, in order
SELECT d.i, a.n, a.pos, a.at, a.rows, a.bytes, a.sum_rows, a.sum_bytes, a.event_day, a.event_pos
FROM unnest(%(keys)s, %(lows)s, %(highs)s, %(days)s) WITH ORDINALITY AS d(key_id, low, high, day, i)
CROSS JOIN LATERAL (
    SELECT * FROM arrival a WHERE a.key_id = d.key_id AND a.n > d.low AND a.n <= d.high AND a.day >= d.day
      AND a.day >= %(first_day)s
    ORDER BY a.n DESC LIMIT %(limit)s
) a
ORDER BY d.i, a.n;

-- pin: the input of runs is closed
UPDATE run r SET evidence = d.evidence::jsonb, inputs = d.inputs::jsonb
FROM unnest(%(slots)s, %(schedules)s, %(ords)s, %(evidences)s, %(inputs)s)
     AS d(slot, schedule_id, ord, evidence, inputs)
WHERE r.slot = d.slot AND r.schedule_id = d.schedule_id AND r.ord = d.ord
  AND r.slot >= %(oldest)s AND r.slot <= %(newest)s;

-- close: the input of these live runs is closed; of some, what is owed was moved with it
UPDATE run_live l SET closed = true, moved = d.moved
FROM unnest(%(slots)s, %(schedules)s, %(ords)s, %(moved)s) AS d(slot, schedule_id, ord, moved)
WHERE l.schedule_id = d.schedule_id AND l.slot = d.slot AND l.ord = d.ord;

-- make_topics: topics that somebody begins to listen to
INSERT INTO event_key (type, key, match)
SELECT type, key, match::jsonb FROM unnest(%(types)s, %(keys)s, %(matches)s) AS d(type, key, match)
ORDER BY type, key, match
ON CONFLICT (type, key, match) DO NOTHING;

-- find_topics: their ids and totals
SELECT d.i, k.id, k.n, k.rows, k.bytes
FROM unnest(%(types)s, %(keys)s, %(matches)s) WITH ORDINALITY AS d(type, key, match, i)
JOIN event_key k ON k.type = d.type AND k.key IS NOT DISTINCT FROM d.key AND k.match IS NOT DISTINCT FROM d.match::jsonb
ORDER BY d.i;

-- unsubscribe: a schedule listens to nothing
DELETE FROM subscription WHERE schedule_id = %(schedule)s;

-- forget_progress: a schedule has collected nothing
DELETE FROM progress WHERE schedule_id = %(schedule)s;

-- forget_owed: the next input begins at the present
DELETE FROM owed WHERE schedule_id = %(schedule)s;

-- subscribe: leaves listen from the present end of their topics on
INSERT INTO subscription (schedule_id, node, key_id, base, seen, seen_rows, seen_bytes, seen_day, need, need_rows, need_bytes)
SELECT %(schedule)s, node, key_id, n, n, total_rows, total_bytes, %(day)s, need, need_rows, need_bytes
FROM unnest(%(nodes)s, %(keys)s, %(ns)s, %(total_rows)s, %(total_bytes)s, %(needs)s, %(need_rows)s, %(need_bytes)s)
     AS d(node, key_id, n, total_rows, total_bytes, need, need_rows, need_bytes);

-- begin_progress: a tree begins to collect
INSERT INTO progress (schedule_id, enabled_at, elapsed, doc)
VALUES (%(schedule)s, %(now)s, %(elapsed)s, %(doc)s)
ON CONFLICT (schedule_id) DO UPDATE SET enabled_at = excluded.enabled_at, elapsed = excluded.elapsed, doc = excluded.doc;

-- mark_collecting: whether a schedule has a tree that collects now
UPDATE clock SET collects = %(collects)s WHERE schedule_id = %(schedule)s AND collects <> %(collects)s;

-- like: a run with the closed input and evidence of another
WITH given AS (
    UPDATE run r SET evidence = o.evidence, inputs = o.inputs
    FROM run o
    WHERE o.slot = %(old_slot)s AND o.schedule_id = %(old_schedule)s AND o.ord = %(old_ord)s
      AND r.slot = %(slot)s AND r.schedule_id = %(schedule)s AND r.ord = %(ord)s
    RETURNING o.inputs IS NOT NULL AS closed
)
UPDATE run_live l SET closed = given.closed FROM given
WHERE l.schedule_id = %(schedule)s AND l.slot = %(slot)s AND l.ord = %(ord)s;

-- lock_trees: of these schedules, those whose clocks are free, claimed
SELECT schedule_id FROM clock WHERE schedule_id = ANY(%(schedules)s) ORDER BY schedule_id FOR NO KEY UPDATE SKIP LOCKED;

-- newest: what a schedule says now
SELECT r.spec, c.mode, s.deleted_at IS NOT NULL,
       EXISTS (SELECT FROM run_live l WHERE l.schedule_id = c.schedule_id)
FROM clock c JOIN revision r ON r.schedule_id = c.schedule_id AND r.rev = c.rev JOIN schedule s ON s.id = c.schedule_id
WHERE c.schedule_id = %(schedule)s FOR NO KEY UPDATE OF c;

-- set_aside: what a schedule could not take
INSERT INTO set_aside (schedule_id, error, at, count, ranges)
SELECT %(schedule)s, %(error)s, %(now)s, %(count)s, %(ranges)s::jsonb
WHERE %(count)s > 0 OR NOT EXISTS (
    SELECT FROM set_aside WHERE schedule_id = %(schedule)s AND error = %(error)s AND replayed_at IS NULL);

-- count_ranges: arrivals in stretches of topics, each event once
SELECT count(DISTINCT a.pos)
FROM unnest(%(keys)s, %(lows)s, %(highs)s) AS d(key_id, low, high)
CROSS JOIN LATERAL (
    SELECT pos FROM arrival WHERE key_id = d.key_id AND n > d.low AND n <= d.high OFFSET 0
) AS a;

-- pass_by: subscriptions of a schedule move past what has come
UPDATE subscription u SET base = k.n, seen = k.n, seen_rows = k.rows, seen_bytes = k.bytes, seen_day = %(day)s,
                          need = k.n + 1, need_rows = NULL, need_bytes = NULL, again = NULL
FROM event_key k WHERE k.id = u.key_id AND u.schedule_id = %(schedule)s;

-- take_set_aside: what is to be replayed; once
UPDATE set_aside SET replayed_at = %(now)s WHERE id = %(id)s AND replayed_at IS NULL RETURNING schedule_id, ranges;

-- read_again: ranges of a subscription that are to be read once more
UPDATE subscription SET again = coalesce(again, '[]'::jsonb) || %(ranges)s::jsonb
WHERE schedule_id = %(schedule)s AND node = %(node)s AND key_id = %(key)s;

-- look_at: a schedule for the matcher, whatever came for it
INSERT INTO event_inbox (schedule_id) VALUES (%(schedule)s);
