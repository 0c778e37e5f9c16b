-- What is past retention, at most so many rows at a time (`store.retention`). The condition outside of the list is for a
-- row that was changed meanwhile.

-- forget_answers: answers to Idempotency-Keys are kept for a day
DELETE FROM idempotency
WHERE ctid = ANY (ARRAY(SELECT ctid FROM idempotency WHERE at < %(before)s LIMIT %(most)s)) AND at < %(before)s;

-- forget_instances: those that ended long ago and left nothing open
DELETE FROM instance
WHERE ctid = ANY (ARRAY(
    SELECT i.ctid FROM instance i
    WHERE i.ended_at < %(before)s AND NOT EXISTS (SELECT FROM attempt_open a WHERE a.instance_id = i.id)
    LIMIT %(most)s)) AND ended_at < %(before)s;

-- forget_stretches: stretches of missed fires wholly past retention
DELETE FROM fire_range
WHERE ctid = ANY (ARRAY(SELECT ctid FROM fire_range WHERE to_fire < %(before)s LIMIT %(most)s))
  AND to_fire < %(before)s;

-- forget_maintenance: what was started on days before, as far back as all of it is settled
DELETE FROM maintenance WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM maintenance WHERE at < least(%(before)s::bigint,
        (SELECT min(at) / 86400000000 * 86400000000 FROM maintenance WHERE settled_at IS NULL))
    LIMIT %(most)s));

-- forget_health: what was measured on days before
DELETE FROM table_health
WHERE ctid = ANY (ARRAY(SELECT ctid FROM table_health WHERE at < %(before)s LIMIT %(most)s)) AND at < %(before)s;

-- forget_starts: starts that nobody reads any more
DELETE FROM start_log WHERE ctid = ANY (ARRAY(
    SELECT g.ctid FROM start_log g JOIN limit_counter c ON g.key = c.key
    WHERE c.keeps IS NOT NULL AND g.at < %(now)s::bigint - c.keeps LIMIT %(most)s));
