-- run: one run as people see it
SELECT r.slot, r.schedule_id, r.ord, s.namespace, s.name, coalesce(l.rev, r.rev), p.name,
       coalesce(r.outcome, l.state, 'waiting'), r.reason, r.fire_time, NULL::bigint, r.previous_fire, 1::bigint, r.cause,
       r.caused_by, r.given, coalesce(r.arguments, l.arguments), r.priority, r.created_at,
       coalesce(r.ready_at, l.ready_at), coalesce(r.started_at, l.started_at), r.finished_at, l.expires_at, l.wake_at,
       l.wake_key, l.waiting_for, r.merged_into, coalesce(r.stop, l.stop), r.evidence, r.inputs,
       CASE l.state WHEN 'waiting' THEN l.backoff_until END, l.restart_at
FROM unnest(%(slots)s, %(schedules)s, %(ords)s) AS d(slot, schedule_id, ord)
JOIN run r ON r.slot = d.slot AND r.schedule_id = d.schedule_id AND r.ord = d.ord
JOIN schedule s ON s.id = r.schedule_id
LEFT JOIN run_live l ON l.schedule_id = r.schedule_id AND l.slot = r.slot AND l.ord = r.ord
JOIN program p ON p.id = coalesce(l.program_id, r.program_id);

-- stretch: one stretch as people see it
SELECT f.from_fire, f.schedule_id, 0::bigint, s.namespace, s.name, f.rev, p.name, f.outcome, f.reason, f.from_fire,
       f.to_fire, NULL::bigint, f.n, 'fire', '', NULL::jsonb, NULL::jsonb, 50::bigint, f.decided_at, NULL::bigint,
       NULL::bigint, f.decided_at, NULL::bigint, NULL::bigint, NULL::text, NULL::jsonb, NULL::text, NULL::text, NULL::jsonb, NULL::jsonb, NULL::bigint, NULL::bigint
FROM unnest(%(slots)s, %(schedules)s) AS d(from_fire, schedule_id)
JOIN fire_range f ON f.schedule_id = d.schedule_id AND f.from_fire = d.from_fire
JOIN schedule s ON s.id = f.schedule_id
JOIN clock c ON c.schedule_id = f.schedule_id
JOIN program p ON p.id = c.program_id;

-- attempts: every attempt of these runs, in order
SELECT a.slot, a.schedule_id, a.ord, a.number, a.outcome, a.backend, a.backend_id, a.fence, a.host, a.created_at,
       a.started_at, a.finished_at, a.error
FROM unnest(%(slots)s, %(schedules)s, %(ords)s) AS d(slot, schedule_id, ord)
JOIN attempt a ON a.slot = d.slot AND a.schedule_id = d.schedule_id AND a.ord = d.ord
UNION ALL
SELECT a.slot, a.schedule_id, a.ord, a.number, NULL, a.backend, a.backend_id, a.fence, a.host, a.created_at,
       a.started_at, NULL, NULL
FROM unnest(%(slots)s, %(schedules)s, %(ords)s) AS d(slot, schedule_id, ord)
JOIN attempt_open a ON a.slot = d.slot AND a.schedule_id = d.schedule_id AND a.ord = d.ord
ORDER BY 1, 2, 3, 4;

-- page: runs of all schedules, newest first
SELECT r.slot, r.schedule_id, r.ord FROM run r
WHERE (r.slot, r.schedule_id, r.ord) < (%(slot)s, %(schedule)s, %(ord)s) AND r.slot >= %(since)s
ORDER BY r.slot DESC, r.schedule_id DESC, r.ord DESC LIMIT %(limit)s;

-- page_where: runs of a namespace, a schedule's name or some states, newest first
SELECT r.slot, r.schedule_id, r.ord
FROM run r
JOIN schedule s ON s.id = r.schedule_id
LEFT JOIN run_live l ON r.outcome IS NULL AND l.schedule_id = r.schedule_id AND l.slot = r.slot AND l.ord = r.ord
WHERE (r.slot, r.schedule_id, r.ord) < (%(slot)s, %(schedule)s, %(ord)s) AND r.slot >= %(since)s
  AND (%(namespace)s::text IS NULL OR s.namespace = %(namespace)s::text)
  AND (%(name)s::text IS NULL OR s.name = %(name)s::text)
  AND (cardinality(%(states)s) = 0 OR coalesce(r.outcome, l.state) = ANY(%(states)s))
ORDER BY r.slot DESC, r.schedule_id DESC, r.ord DESC LIMIT %(limit)s;

-- page_of: runs of schedules, newest first
SELECT r.slot, r.schedule_id, r.ord
FROM unnest(%(ids)s) AS d(id)
CROSS JOIN LATERAL (
    SELECT r.slot, r.schedule_id, r.ord
    FROM run r
    LEFT JOIN run_live l ON r.outcome IS NULL AND l.schedule_id = r.schedule_id AND l.slot = r.slot AND l.ord = r.ord
    WHERE r.schedule_id = d.id
      AND (r.slot, r.schedule_id, r.ord) < (%(slot)s, %(schedule)s, %(ord)s) AND r.slot >= %(since)s
      AND (cardinality(%(states)s) = 0 OR coalesce(r.outcome, l.state) = ANY(%(states)s))
    ORDER BY r.slot DESC, r.ord DESC LIMIT %(limit)s
) r
ORDER BY r.slot DESC, r.schedule_id DESC, r.ord DESC LIMIT %(limit)s;

-- page_live: runs in states of live runs, newest first
SELECT l.slot, l.schedule_id, l.ord
FROM run_live l JOIN schedule s ON s.id = l.schedule_id
WHERE (l.slot, l.schedule_id, l.ord) < (%(slot)s, %(schedule)s, %(ord)s) AND l.slot >= %(since)s
  AND l.state = ANY(%(states)s)
  AND (%(namespace)s::text IS NULL OR s.namespace = %(namespace)s::text)
  AND (%(name)s::text IS NULL OR s.name = %(name)s::text)
ORDER BY l.slot DESC, l.schedule_id DESC, l.ord DESC LIMIT %(limit)s;

-- page_live_of: the same of schedules
SELECT r.slot, r.schedule_id, r.ord
FROM unnest(%(ids)s) AS d(id)
CROSS JOIN LATERAL (
    SELECT l.slot, l.schedule_id, l.ord
    FROM run_live l
    WHERE l.schedule_id = d.id AND (l.slot, l.schedule_id, l.ord) < (%(slot)s, %(schedule)s, %(ord)s)
      AND l.slot >= %(since)s AND l.state = ANY(%(states)s)
    ORDER BY l.slot DESC, l.ord DESC LIMIT %(limit)s
) r
ORDER BY r.slot DESC, r.schedule_id DESC, r.ord DESC LIMIT %(limit)s;

-- page_stretches: stretches, newest first
SELECT f.to_fire, f.schedule_id, f.from_fire
FROM fire_range f JOIN schedule s ON s.id = f.schedule_id
WHERE (f.to_fire, f.schedule_id, -1) < (%(slot)s, %(schedule)s, %(ord)s) AND f.to_fire >= %(since)s
  AND (%(namespace)s::text IS NULL OR s.namespace = %(namespace)s::text)
  AND (%(name)s::text IS NULL OR s.name = %(name)s::text)
  AND (cardinality(%(states)s) = 0 OR f.outcome = ANY(%(states)s))
ORDER BY f.to_fire DESC, f.schedule_id DESC LIMIT %(limit)s;

-- ids_named: schedules of that name, deleted ones too
SELECT id FROM schedule WHERE name = %(name)s AND (%(namespace)s::text IS NULL OR namespace = %(namespace)s::text);

-- live_counts: live runs by namespace and state
SELECT s.namespace, l.state, count(*) FROM run_live l JOIN schedule s ON s.id = l.schedule_id GROUP BY 1, 2;

-- queue: waiting runs in the order in which they will be looked at
SELECT l.rank, l.slot, l.schedule_id, l.ord
FROM run_live l JOIN schedule s ON s.id = l.schedule_id
WHERE (l.wake_at IS NOT NULL OR l.wake_key IS NOT NULL)
  AND (%(namespace)s::text IS NULL OR s.namespace = %(namespace)s::text)
  AND (l.rank, l.slot, l.schedule_id, l.ord) > (%(rank)s, %(slot)s, %(schedule)s, %(ord)s)
ORDER BY l.rank, l.slot, l.schedule_id, l.ord LIMIT %(limit)s;

-- ahead: how many wait in a queue before a run
SELECT count(*) FROM run_live
WHERE wake_key = %(key)s AND (rank, slot, schedule_id, ord) < (%(rank)s, %(slot)s, %(schedule)s, %(ord)s);

-- holders: live runs that hold a counter
SELECT slot, schedule_id, ord FROM run_live WHERE %(counter)s = ANY(held) ORDER BY slot, schedule_id, ord LIMIT %(limit)s;

-- books: schedules, deleted ones too, by ascending id
SELECT s.id, s.namespace, s.name, s.created_at, s.deleted_at, c.cursor
FROM schedule s JOIN clock c ON c.schedule_id = s.id
WHERE s.id > %(after)s AND (%(namespace)s::text IS NULL OR s.namespace = %(namespace)s::text)
ORDER BY s.id LIMIT %(limit)s;

-- book_revisions: every revision of these schedules, ascending
SELECT schedule_id, rev, valid_from, mode, spec, held_expires FROM revision WHERE schedule_id = ANY(%(ids)s) ORDER BY schedule_id, rev;

-- book_fires: clock fires of these schedules in a span
SELECT r.schedule_id, r.slot, r.slot, 1::bigint, coalesce(r.outcome, l.state, 'waiting')
FROM unnest(%(ids)s) AS d(id)
JOIN run r ON r.schedule_id = d.id AND r.slot BETWEEN %(since)s AND %(until)s AND r.cause = 'fire'
LEFT JOIN run_live l ON r.outcome IS NULL AND l.schedule_id = r.schedule_id AND l.slot = r.slot AND l.ord = r.ord
UNION ALL
SELECT f.schedule_id, f.from_fire, f.to_fire, f.n, f.outcome
FROM unnest(%(ids)s) AS d(id)
JOIN fire_range f ON f.schedule_id = d.id AND f.to_fire >= %(since)s AND f.from_fire <= %(until)s
ORDER BY 1, 2, 4;
