-- drawn: the last position that anybody drew, and which server it is, by when it started
SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END,
       (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint
FROM event_pos_seq;

-- number: a number for this transaction, higher than that of every transaction that has drawn a position by now
SELECT pg_current_xact_id()::text::bigint;

-- oldest: every transaction with a lower number has ended
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint;

-- holder: the oldest transaction of the server that writes
SELECT pid, coalesce(datname, ''), coalesce(application_name, ''), coalesce(state, ''),
       (extract(epoch FROM xact_start) * 1000000)::bigint
FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
ORDER BY age(backend_xid) DESC LIMIT 1;

-- outgoing: the next events of these days, with what is told of the runs they are about (columns as events.rows has them)
SELECT e.day, e.pos, e.at, e.type, e.key, e.time, e.source, e.source_id, e.payload,
       e.slot, e.schedule_id, e.ord, s.namespace, s.name, p.namespace, p.name, r.cause,
       CASE WHEN e.type = 'run.' || r.outcome THEN r.reason END, r.fire_time, r.arguments
FROM (
    SELECT e.*
    FROM unnest(%(days)s) AS d(day)
    CROSS JOIN LATERAL (
        SELECT * FROM event e
        WHERE e.day = d.day AND e.pos > %(after)s AND e.pos <= %(upto)s ORDER BY e.pos LIMIT %(limit)s
    ) AS e
    ORDER BY e.pos LIMIT %(limit)s
) AS e
LEFT JOIN schedule s ON s.id = e.schedule_id
LEFT JOIN run r ON r.slot = e.slot AND r.schedule_id = e.schedule_id AND r.ord = e.ord
LEFT JOIN program p ON p.id = r.program_id
ORDER BY e.pos;

-- relayed: move a sink on from where it was seen, on the server whose log was read, as far as that remembers
UPDATE sink SET day = %(day)s, pos = %(pos)s, delivered = delivered + %(delivered)s, set_aside = set_aside + %(refused)s,
    error = %(error)s,
    error_since = CASE WHEN %(error)s = '' THEN NULL ELSE coalesce(error_since, %(now)s) END,
    moved_at = CASE WHEN pos < %(pos)s THEN %(now)s ELSE moved_at END
WHERE name = %(sink)s AND rev = %(rev)s AND pos = %(seen)s
  AND (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint = %(server)s
  AND %(pos)s <= (SELECT last_value FROM event_pos_seq)
RETURNING name;

-- refuse: what it will never take
INSERT INTO sink_refusal (sink, pos, day, type, key, reason, at)
SELECT %(sink)s, r.pos, r.day, r.type, r.key, r.reason, %(now)s
FROM unnest(%(positions)s, %(days)s, %(types)s, %(keys)s, %(reasons)s) AS r(pos, day, type, key, reason)
ON CONFLICT DO NOTHING;

-- hold: a sink by its name and revision, locked
SELECT name FROM sink WHERE name = %(sink)s AND (%(rev)s::bigint IS NULL OR rev = %(rev)s) FOR UPDATE;

-- ask: what it refused is to be sent again; all of it, or one
UPDATE sink_refusal SET asked = true WHERE sink = %(sink)s AND (%(pos)s::bigint IS NULL OR pos = %(pos)s) RETURNING pos;

-- asked: what is to be sent again
SELECT day, pos FROM sink_refusal WHERE sink = %(sink)s AND asked ORDER BY pos LIMIT %(limit)s;

-- taken_after_all: of what it had refused
WITH gone AS (DELETE FROM sink_refusal WHERE sink = %(sink)s AND pos = ANY (%(positions)s) RETURNING pos)
UPDATE sink SET delivered = delivered + (SELECT count(*) FROM gone), set_aside = set_aside - (SELECT count(*) FROM gone)
WHERE name = %(sink)s;

-- refused_again: with the reason of now
UPDATE sink_refusal s SET asked = false, reason = r.reason, at = %(now)s
FROM unnest(%(positions)s, %(reasons)s) AS r(pos, reason) WHERE s.sink = %(sink)s AND s.pos = r.pos;

-- sinks: all, and how many positions lie behind each
SELECT s.name, s.document, s.rev, s.day, s.pos, s.delivered, s.set_aside, s.error, s.error_since, s.moved_at,
       greatest(0, (SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM event_pos_seq) - s.pos),
       s.set_aside > 0 AND EXISTS (SELECT FROM sink_refusal r WHERE r.sink = s.name AND r.asked)
FROM sink s ORDER BY s.name;

-- refusals: what one refused, newest first
SELECT sink, pos, type, key, reason, at FROM sink_refusal WHERE sink = %(sink)s ORDER BY pos DESC LIMIT %(limit)s;

-- put: declare one, or otherwise; a new one begins at the end of the log
INSERT INTO sink (name, document, day, pos, updated_at)
SELECT %(name)s, %(document)s, %(day)s, CASE WHEN is_called THEN last_value ELSE last_value - 1 END, %(now)s
FROM event_pos_seq
ON CONFLICT (name) DO UPDATE
SET document = excluded.document, rev = sink.rev + 1, updated_at = excluded.updated_at, error = '', error_since = NULL
RETURNING rev;

-- delete: with its place and what it refused
DELETE FROM sink WHERE name = %(name)s RETURNING name;
