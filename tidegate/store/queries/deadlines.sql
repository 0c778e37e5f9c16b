-- claim: live runs whose deadlines are to be looked at, earliest first, claimed, with what their schedule says now
WITH claimed AS MATERIALIZED (
    SELECT slot, schedule_id, ord, deadline_base, deadline_told, started_at
    FROM run_live WHERE deadline_at <= %(now)s ORDER BY deadline_at LIMIT %(limit)s
    FOR NO KEY UPDATE SKIP LOCKED
)
SELECT d.slot, d.schedule_id, d.ord, d.deadline_base, d.deadline_told, d.started_at, c.rev, s.namespace, s.name,
       CASE WHEN t.total_successes > 0
            THEN t.total_duration / (t.total_successes + t.total_failures + t.total_crashes + t.total_timeouts) END
FROM claimed d
JOIN clock c ON c.schedule_id = d.schedule_id
JOIN schedule s ON s.id = d.schedule_id
LEFT JOIN schedule_stats t ON t.schedule_id = d.schedule_id
ORDER BY d.schedule_id, d.slot, d.ord;

-- tell: what was told of runs, and when they are to be looked at again
UPDATE run_live l SET deadline_at = d.next, deadline_told = d.told
FROM unnest(%(slots)s, %(schedules)s, %(ords)s, %(nexts)s, %(tolds)s) AS d(slot, schedule_id, ord, next, told)
WHERE l.schedule_id = d.schedule_id AND l.slot = d.slot AND l.ord = d.ord;

-- next: when the next live run is to be looked at
SELECT deadline_at FROM run_live WHERE deadline_at IS NOT NULL ORDER BY deadline_at LIMIT 1;
