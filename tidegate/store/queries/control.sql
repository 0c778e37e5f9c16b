-- ensure_namespace: a namespace, unless it is there
INSERT INTO namespace (name, created_at) VALUES (%(name)s, %(now)s) ON CONFLICT DO NOTHING RETURNING name;

-- put_namespace: a namespace's document; whether it is new
INSERT INTO namespace (name, document, created_at) VALUES (%(name)s, %(document)s::jsonb, %(now)s)
ON CONFLICT (name) DO UPDATE SET document = excluded.document
RETURNING xmax = 0;

-- delete_namespace: a namespace in which nothing lives
DELETE FROM namespace WHERE name = %(name)s RETURNING name;

-- inhabitants: the first of what lives in a namespace, schedules before programs, and how many there are
SELECT kind, name, count(*) OVER ()
FROM (
    SELECT 'schedule' AS kind, name FROM schedule WHERE namespace = %(name)s AND deleted_at IS NULL
    UNION ALL SELECT 'program', name FROM program WHERE namespace = %(name)s AND deleted_at IS NULL
) AS living
ORDER BY kind DESC, name COLLATE "C"
LIMIT %(most)s;

-- namespaces: every namespace
SELECT name, document FROM namespace ORDER BY name;

-- lock_name: serialise what is done to one name, also of something not yet there
SELECT pg_advisory_xact_lock(hashtextextended(%(name)s, 0));

-- application: one application's document
SELECT document FROM application WHERE namespace = %(namespace)s AND name = %(name)s FOR UPDATE;

-- put_application: an application's document
INSERT INTO application (namespace, name, document, updated_at)
VALUES (%(namespace)s, %(name)s, %(document)s::jsonb, %(now)s)
ON CONFLICT (namespace, name)
DO UPDATE SET document = excluded.document, rev = application.rev + 1, updated_at = excluded.updated_at;

-- delete_application: an application goes
DELETE FROM application WHERE namespace = %(namespace)s AND name = %(name)s RETURNING name;

-- applications: every application, of one namespace or all
SELECT namespace, name, document FROM application
WHERE %(namespace)s::text IS NULL OR namespace = %(namespace)s::text ORDER BY namespace, name;

-- put_pool: a pool's slots, launch rate and what it borrows; whether it is new. A new rate begins with a full bucket
INSERT INTO pool AS p (name, slots, rate_max, rate_per, rate_burst, tokens, borrow_from, borrow_max)
VALUES (%(name)s, %(slots)s, %(max)s::bigint, %(per)s::bigint, %(burst)s::bigint, coalesce(%(burst)s::bigint, 0),
        %(borrow_from)s, %(borrow_max)s)
ON CONFLICT (name) DO UPDATE
SET slots = excluded.slots, borrow_from = excluded.borrow_from, borrow_max = excluded.borrow_max,
    rate_max = excluded.rate_max, rate_per = excluded.rate_per,
    rate_burst = excluded.rate_burst,
    tokens = CASE WHEN p.rate_max IS NULL THEN excluded.tokens ELSE least(p.tokens, excluded.tokens) END
RETURNING xmax = 0;

-- delete_pool: a pool goes
DELETE FROM pool WHERE name = %(name)s;

-- pool: one pool's used slots, locked
SELECT used FROM pool WHERE name = %(name)s FOR UPDATE;

-- pools: every pool
SELECT name, slots, used, rate_max, rate_per, rate_burst, borrow_from, borrow_max,
       (SELECT count(*) FROM run_live r WHERE r.borrower = p.name AND r.slot_held),
       (SELECT count(*) FROM run_live r WHERE r.borrower IS NOT NULL AND r.pool = p.name AND r.slot_held)
FROM pool p ORDER BY name;

-- newest_programs: every living program's newest spec
SELECT p.id, p.rev, p.namespace, p.name, r.spec
FROM program p JOIN program_revision r ON r.program_id = p.id AND r.rev = p.rev
WHERE p.deleted_at IS NULL;

-- lock_programs: programs by name, locked in ascending id
SELECT id FROM program
WHERE namespace = %(namespace)s AND name = ANY(%(names)s) AND deleted_at IS NULL
ORDER BY id FOR UPDATE;

-- program_records: living programs by id, newest revision
SELECT p.id, p.rev, p.namespace, p.name, r.spec, p.application, r.document, r.valid_from
FROM program p JOIN program_revision r ON r.program_id = p.id AND r.rev = p.rev
WHERE p.id = ANY(%(ids)s) AND p.deleted_at IS NULL
ORDER BY p.id;

-- program_page: living programs, newest first
SELECT p.id, p.rev, p.namespace, p.name, r.spec, p.application, r.document, r.valid_from
FROM program p JOIN program_revision r ON r.program_id = p.id AND r.rev = p.rev
WHERE p.deleted_at IS NULL AND p.id < %(before)s AND (%(namespace)s::text IS NULL OR p.namespace = %(namespace)s::text)
ORDER BY p.id DESC LIMIT %(limit)s;

-- program_named: one living program
SELECT p.id, p.rev, p.namespace, p.name, r.spec, p.application, r.document, r.valid_from
FROM program p JOIN program_revision r ON r.program_id = p.id AND r.rev = p.rev
WHERE p.namespace = %(namespace)s AND p.name = %(name)s AND p.deleted_at IS NULL;

-- put_program: a program, or its next revision
INSERT INTO program AS p (namespace, name, application, rev) VALUES (%(namespace)s, %(name)s, %(application)s, 1)
ON CONFLICT (namespace, name) WHERE deleted_at IS NULL
DO UPDATE SET rev = p.rev + 1, application = excluded.application
RETURNING id, rev;

-- put_program_revision: what a program says from now on
INSERT INTO program_revision (program_id, rev, document, spec, valid_from, author)
VALUES (%(program)s, %(rev)s, %(document)s::jsonb, %(spec)s, %(now)s, %(author)s);

-- delete_program: a program is gone; its history stays
UPDATE program SET deleted_at = %(now)s WHERE id = %(program)s AND deleted_at IS NULL;

-- schedules_named: living schedules by name, locked in ascending id
SELECT id FROM schedule
WHERE namespace = %(namespace)s AND name = ANY(%(names)s) AND deleted_at IS NULL
ORDER BY id FOR UPDATE;

-- schedules_of: living schedules of an application or a program, locked in ascending id
SELECT id FROM schedule
WHERE namespace = %(namespace)s AND deleted_at IS NULL
  AND (%(application)s::text IS NULL OR application = %(application)s::text)
  AND (%(program)s::bigint IS NULL OR program_id = %(program)s::bigint)
ORDER BY id FOR UPDATE;

-- lock_clocks: clocks, locked in ascending id
SELECT schedule_id FROM clock WHERE schedule_id = ANY(%(ids)s) ORDER BY schedule_id FOR UPDATE;

-- schedule_records: living schedules by id, newest revision
SELECT s.id, s.namespace, s.name, s.application, s.labels, s.owner, s.description, s.created_at,
       r.rev, r.valid_from, r.mode, r.reason, r.document, r.spec,
       p.id, p.rev, p.namespace, p.name, pr.spec, c.cursor, c.cursor_rev, c.next_due, c.last_fire, r.held_expires
FROM schedule s
JOIN clock c ON c.schedule_id = s.id
JOIN revision r ON r.schedule_id = s.id AND r.rev = c.rev
JOIN program p ON p.id = c.program_id
JOIN program_revision pr ON pr.program_id = p.id AND pr.rev = p.rev
WHERE s.id = ANY(%(ids)s) AND s.deleted_at IS NULL
ORDER BY s.id;

-- schedule_ids: living schedules, newest first
SELECT id FROM schedule
WHERE deleted_at IS NULL AND id < %(before)s AND (%(namespace)s::text IS NULL OR namespace = %(namespace)s::text)
ORDER BY id DESC LIMIT %(limit)s;

-- schedule_id: one living schedule
SELECT id FROM schedule WHERE namespace = %(namespace)s AND name = %(name)s AND deleted_at IS NULL;

-- revisions_from: a schedule's revisions from one on, ascending
SELECT schedule_id, rev, valid_from, mode, spec, held_expires FROM revision
WHERE schedule_id = %(schedule)s AND rev >= %(rev)s ORDER BY rev;

-- history: every revision of a schedule, newest first
SELECT schedule_id, rev, valid_from, mode, spec, held_expires, document, author, reason FROM revision
WHERE schedule_id = %(schedule)s ORDER BY rev DESC;

-- add_schedule: a schedule under a name that nobody living has
INSERT INTO schedule (namespace, name, application, labels, owner, description, program_id, created_at)
VALUES (%(namespace)s, %(name)s, %(application)s, %(labels)s::jsonb, %(owner)s, %(description)s, %(program)s, %(now)s)
ON CONFLICT (namespace, name) WHERE deleted_at IS NULL DO NOTHING
RETURNING id;

-- add_clock: a new schedule's clock, and its empty statistics
WITH stats AS (INSERT INTO schedule_stats (schedule_id) VALUES (%(schedule)s))
INSERT INTO clock (schedule_id, program_id, rev, cursor_rev, mode, cursor, next_due, after_finish)
VALUES (%(schedule)s, %(program)s, 1, %(cursor_rev)s, %(mode)s, %(cursor)s, %(next_due)s, %(after_finish)s::boolean);

-- add_revision: what a schedule says, and whether it works, from an instant on
INSERT INTO revision (schedule_id, rev, valid_from, mode, reason, document, spec, tzdata, author, held_expires)
VALUES (%(schedule)s, %(rev)s, %(valid_from)s, %(mode)s, %(reason)s, %(document)s::jsonb, %(spec)s, %(tzdata)s,
        %(author)s, %(held_expires)s::boolean);

-- set_clock: where a schedule's clock stands after a new revision; its number, and how the last one had it rest
WITH named AS (
    UPDATE schedule SET program_id = %(program)s WHERE id = %(schedule)s AND program_id <> %(program)s
)
UPDATE clock c
SET rev = c.rev + 1, program_id = %(program)s, mode = %(mode)s, cursor = %(cursor)s, cursor_rev = %(cursor_rev)s,
    next_due = %(next_due)s, after_finish = %(after_finish)s::boolean
FROM revision r
WHERE c.schedule_id = %(schedule)s AND r.schedule_id = c.schedule_id AND r.rev = c.rev
RETURNING c.rev, r.mode, r.held_expires, r.valid_from;

-- describe: what is said about a schedule
UPDATE schedule
SET application = %(application)s, labels = %(labels)s::jsonb, owner = %(owner)s, description = %(description)s
WHERE id = %(schedule)s;

-- remove: a schedule is deleted and its clock stops
WITH gone AS (UPDATE schedule SET deleted_at = %(now)s WHERE id = %(schedule)s AND deleted_at IS NULL)
UPDATE clock SET next_due = NULL, after_finish = false WHERE schedule_id = %(schedule)s;

-- stats: statistics of schedules, with the attempts that are under way
SELECT s.schedule_id, greatest(s.last_start, (SELECT max(a.started_at) FROM attempt_open a
                               WHERE a.schedule_id = s.schedule_id)),
       s.last_finish, s.last_success, s.last_run_success, s.total_runs, s.total_successes, s.total_failures,
       s.total_crashes, s.total_timeouts, s.total_duration, s.consecutive_failures, s.consecutive_crashes
FROM schedule_stats s WHERE s.schedule_id = ANY(%(schedules)s);

-- record_change: a line of the audit log
INSERT INTO change (at, who, action, kind, namespace, name, before, after)
VALUES (%(now)s, %(who)s, %(action)s, %(kind)s, %(namespace)s, %(name)s, %(before)s::jsonb, %(after)s::jsonb);

-- changes: the audit log, newest first
SELECT who, action, kind, namespace, name, before, after, at, id FROM change
WHERE id < %(before)s AND (%(namespace)s::text IS NULL OR namespace = %(namespace)s::text)
ORDER BY id DESC LIMIT %(limit)s;

-- remembered: the answer to a request with this key
SELECT request, status, answer FROM idempotency WHERE key = %(key)s;

-- remember: the answer to a request with this key, unless there is one
INSERT INTO idempotency AS i (key, request, status, answer, at)
VALUES (%(key)s, %(request)s, %(status)s, %(answer)s::jsonb, %(now)s)
ON CONFLICT (key) DO UPDATE SET status = excluded.status, answer = excluded.answer
WHERE i.status = 0 AND i.request = excluded.request;

-- claim_key: a request with this key is carried out by this transaction; no row when the key is used already
INSERT INTO idempotency (key, request, status, answer, at)
VALUES (%(key)s, %(request)s, 0, %(notes)s::jsonb, %(now)s) ON CONFLICT DO NOTHING
RETURNING key;
