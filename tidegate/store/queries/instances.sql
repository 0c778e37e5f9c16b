-- now: the database's time
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- fence: lock the writer's own row against its takeover, not against its heartbeat; no row: it was declared dead
SELECT host FROM instance WHERE id = %(id)s AND epoch = %(epoch)s AND ended_at IS NULL FOR KEY SHARE;

-- next_id: the id of an instance about to register
SELECT nextval(pg_get_serial_sequence('instance', 'id'));

-- hold: the session lock that says that this instance lives
SELECT pg_advisory_lock(%(space)s::integer, %(id)s::integer);

-- backend: the session of the server that answers
SELECT pg_backend_pid();

-- neighbour: the next living one in the ring
SELECT id FROM instance WHERE ended_at IS NULL AND id <> %(id)s ORDER BY id < %(id)s, id LIMIT 1;

-- unheld: whether nobody holds the session lock of this instance
SELECT pg_try_advisory_xact_lock_shared(%(space)s::integer, %(id)s::integer);

-- register: an instance appears. (`direct` is for schedulers of earlier releases)
INSERT INTO instance (id, role, name, host, pid, version, up_since, heartbeat, direct)
OVERRIDING SYSTEM VALUE
VALUES (%(id)s, %(role)s, %(name)s, %(host)s, %(pid)s, %(version)s, %(now)s, %(now)s, true)
RETURNING epoch;

-- beat: renew the heartbeat; no row: it was declared dead
UPDATE instance SET heartbeat = greatest(heartbeat, %(now)s)
WHERE id = %(id)s AND epoch = %(epoch)s AND ended_at IS NULL
RETURNING id;

-- alive: everybody who has not ended
SELECT id, role, name, host, pid, epoch, up_since, heartbeat FROM instance WHERE ended_at IS NULL ORDER BY id;

-- oldest: when the oldest scheduler came up that lives for sure, and the one that asks
SELECT min(up_since) FROM instance i
WHERE i.id = %(id)s
   OR ended_at IS NULL AND role IN ('scheduler', 'all') AND heartbeat >= %(now)s - %(patience)s
      AND EXISTS (SELECT FROM pg_locks k
                  WHERE k.locktype = 'advisory' AND k.granted AND k.objsubid = 2 AND k.mode = 'ExclusiveLock'
                    AND k.database = (SELECT oid FROM pg_database WHERE datname = current_database())
                    AND k.classid = %(space)s::integer::oid AND k.objid = i.id::integer::oid);

-- report: what a process counts, in place of what it told before
INSERT INTO instance_meters (instance_id, at, meters) VALUES (%(id)s, %(now)s, %(meters)s::jsonb)
ON CONFLICT (instance_id) DO UPDATE SET at = excluded.at, meters = excluded.meters;

-- reports: what those who have not ended count
SELECT i.id, i.role, i.name, i.host, i.pid, i.epoch, i.up_since, i.heartbeat, m.at, m.meters
FROM instance i JOIN instance_meters m ON m.instance_id = i.id WHERE i.ended_at IS NULL ORDER BY i.id;

-- silent: not ended, and heartbeat too old or session lock gone (unheard, and just after a start, that says nothing)
SELECT id, role, name, host, pid, epoch, up_since, heartbeat
FROM instance i
WHERE ended_at IS NULL
  AND (heartbeat < %(now)s - %(patience)s
       OR (%(heard)s
           AND pg_postmaster_start_time() < clock_timestamp() - %(patience)s * interval '1 microsecond'
           AND NOT EXISTS (SELECT FROM pg_locks k
                           WHERE k.locktype = 'advisory' AND k.granted AND k.objsubid = 2 AND k.mode = 'ExclusiveLock'
                             AND k.database = (SELECT oid FROM pg_database WHERE datname = current_database())
                             AND k.classid = %(space)s::integer::oid AND k.objid = i.id::integer::oid)))
ORDER BY id;

-- free_sleepers: end sessions of ours that wait in the middle of a pipeline for a process that stopped, if one is late
SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a
WHERE EXISTS (SELECT FROM instance WHERE ended_at IS NULL AND heartbeat < %(now)s - %(longest)s)
  AND a.datname = current_database() AND a.usename = current_user AND a.application_name LIKE 'tidegate%%'
  AND a.state = 'active' AND a.wait_event = 'ClientRead'
  AND a.query_start < clock_timestamp() - %(longest)s * interval '1 microsecond';

-- retire: raise the epoch of one that still has the epoch seen, and give up its leases; waits for its fenced writers
WITH seen AS MATERIALIZED (
    SELECT id FROM instance WHERE id = %(id)s AND epoch = %(epoch)s AND ended_at IS NULL FOR UPDATE
), retired AS (
    UPDATE instance i SET epoch = i.epoch + 1, ended_at = %(now)s FROM seen WHERE i.id = seen.id
    RETURNING i.id
), freed AS (
    DELETE FROM lease WHERE instance_id IN (SELECT id FROM retired)
)
SELECT id FROM retired;

-- renew_lease: mine AND unexpired AND same epoch
UPDATE lease SET expires = %(now)s + %(term)s
WHERE duty = %(duty)s AND instance_id = %(id)s AND epoch = %(epoch)s AND expires > %(now)s
RETURNING token;

-- take_lease: one that nobody has, or that expired, under a higher token
INSERT INTO lease AS l (duty, instance_id, epoch, token, expires)
VALUES (%(duty)s, %(id)s, %(epoch)s, nextval('fencing_token'), %(now)s + %(term)s)
ON CONFLICT (duty) DO UPDATE
SET instance_id = excluded.instance_id, epoch = excluded.epoch, token = excluded.token, expires = excluded.expires
WHERE l.expires <= %(now)s
RETURNING token;

-- release_lease: one's own, before its time is over
DELETE FROM lease WHERE duty = %(duty)s AND instance_id = %(id)s AND token = %(token)s;

-- held_lease: whether this very token rules now
SELECT duty FROM lease WHERE token = %(token)s AND instance_id = %(id)s AND expires > %(now)s FOR SHARE;

-- leases: who has which duty
SELECT duty, instance_id, epoch, token, expires FROM lease ORDER BY duty;

-- notify: wake other processes
SELECT pg_notify('tidegate', topic) FROM unnest(%(topics)s) AS topic;
