-- forget_answers: answers to Idempotency-Keys are kept for a day
DELETE FROM idempotency WHERE at < %(before)s;

-- forget_instances: those that ended long ago and left nothing open
DELETE FROM instance i WHERE i.ended_at < %(before)s
  AND NOT EXISTS (SELECT FROM attempt_open a WHERE a.instance_id = i.id);

-- forget_stretches: stretches of missed fires wholly past retention
DELETE FROM fire_range WHERE to_fire < %(before)s;

-- forget_maintenance: what was started on days before, as far back as all of it is settled
DELETE FROM maintenance WHERE at < least(%(before)s::bigint,
    (SELECT min(at) / 86400000000 * 86400000000 FROM maintenance WHERE settled_at IS NULL));

-- forget_health: what was measured on days before
DELETE FROM table_health WHERE at < %(before)s;

-- forget_starts: starts that nobody reads any more
DELETE FROM start_log g USING limit_counter c
WHERE c.keeps IS NOT NULL AND g.key = c.key AND g.at < %(now)s::bigint - c.keeps;
