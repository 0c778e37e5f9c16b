-- The lock of `lock` is 0x7469_6465_0000_0010, that of `lock_versions` the one after it.

-- lock: until the commit nobody else starts or settles maintenance, or changes a policy
SELECT pg_advisory_xact_lock(8388346165908733968);

-- off: by whose word, since when and why maintenance does not start by itself
SELECT who, since, reason FROM maintenance_off;

-- switch_off: maintenance does not start by itself; no row when it was so already
INSERT INTO maintenance_off (who, since, reason) VALUES (%(who)s, %(now)s, %(reason)s)
ON CONFLICT DO NOTHING RETURNING since;

-- switch_on: it does
DELETE FROM maintenance_off RETURNING since;

-- put_policy: a policy's next revision
INSERT INTO policy (name, rev, document, author, updated_at)
VALUES (%(name)s, 1, %(document)s::jsonb, %(author)s, %(now)s)
ON CONFLICT (name) DO UPDATE SET rev = policy.rev + 1, document = excluded.document, author = excluded.author,
    updated_at = excluded.updated_at
RETURNING rev;

-- bury_policy: a policy goes; its revision that says so
UPDATE policy SET rev = rev + 1, document = NULL, author = %(author)s, updated_at = %(now)s
WHERE name = %(name)s AND document IS NOT NULL RETURNING rev;

-- add_policy_revision: one more revision
INSERT INTO policy_revision (name, rev, document, author, valid_from)
VALUES (%(name)s, %(rev)s, %(document)s::jsonb, %(author)s, %(now)s);

-- policies: the living ones
SELECT name, rev, document, author, updated_at FROM policy WHERE document IS NOT NULL ORDER BY name;

-- policy_revisions: of one policy, newest first
SELECT rev, document, author, valid_from FROM policy_revision WHERE name = %(name)s ORDER BY rev DESC;

-- lock_versions: until the commit nobody else draws a version of a table, so that they are committed in their order
SELECT pg_advisory_xact_lock(8388346165908733969);

-- lock_tables: rows that are about to be changed, in the order of locks
SELECT name FROM lake_table WHERE name = ANY(%(names)s) ORDER BY name FOR UPDATE;

-- see_tables: where tables were found
INSERT INTO lake_table (name, location, known_at, seen_at)
SELECT d.name, d.location, %(now)s, %(now)s FROM unnest(%(names)s, %(locations)s) AS d(name, location) ORDER BY d.name
ON CONFLICT (name) DO UPDATE SET location = excluded.location, seen_at = excluded.seen_at,
    version = nextval('lake_table_change')
WHERE lake_table.location IS DISTINCT FROM excluded.location;

-- measure: the newest health of tables
UPDATE lake_table t SET assessed = d.location, assessed_at = %(now)s, error = d.error,
    health = coalesce(d.health::jsonb, t.health), score = CASE WHEN d.health IS NULL THEN t.score ELSE d.score END,
    version = nextval('lake_table_change')
FROM unnest(%(names)s, %(locations)s, %(healths)s, %(scores)s, %(errors)s) AS d(name, location, health, score, error)
WHERE t.name = d.name;

-- keep_health: one more line of tables' history
INSERT INTO table_health (name, at, health, score)
SELECT d.name, %(now)s, d.health::jsonb, d.score
FROM unnest(%(names)s, %(healths)s, %(scores)s) AS d(name, health, score)
WHERE d.health IS NOT NULL
ON CONFLICT DO NOTHING;

-- tables: some or all, above a version
SELECT name, version, location, known_at, seen_at, assessed, assessed_at, health, score, error FROM lake_table
WHERE version > %(since)s AND (%(names)s::text[] IS NULL OR name = ANY(%(names)s)) ORDER BY name;

-- changed_tables: the first ones above a version
SELECT name, version, location, known_at, seen_at, assessed, assessed_at, health, score, error FROM lake_table
WHERE version > %(since)s ORDER BY version LIMIT %(limit)s;

-- table_names: of those that are in their catalogs
SELECT name FROM lake_table WHERE location IS NOT NULL ORDER BY name;

-- versions: of some tables
SELECT name, version FROM lake_table WHERE name = ANY(%(names)s);

-- table_history: what was measured of a table, newest first
SELECT at, health, score FROM table_health
WHERE name = %(name)s AND at < %(before)s ORDER BY at DESC LIMIT %(limit)s;

-- reserve: maintenance under way
INSERT INTO maintenance (slot, schedule_id, ord, name, operation, policy, policy_rev, manual, at, reserved, bytes)
VALUES (%(slot)s, %(schedule)s, %(ord)s, %(name)s, %(operation)s, %(policy)s, %(policy_rev)s, %(manual)s, %(now)s,
        %(bytes)s, %(bytes)s);

-- settle: it ended; no row when it was settled before
UPDATE maintenance SET outcome = %(outcome)s, bytes = %(bytes)s, result = %(result)s::jsonb, settled_at = %(now)s
WHERE schedule_id = %(schedule)s AND slot = %(slot)s AND ord = %(ord)s AND settled_at IS NULL RETURNING slot, name;

-- outdate: tables are to be measured anew
UPDATE lake_table SET assessed = NULL, version = nextval('lake_table_change') WHERE name = ANY(%(names)s);

-- put_care: what became of operations on tables so far; the maintenance lock is held, so versions commit in order
INSERT INTO table_care (name, operation, history, version)
SELECT d.name, d.operation, d.history::jsonb, nextval('table_care_change')
FROM unnest(%(names)s, %(operations)s, %(histories)s) AS d(name, operation, history) ORDER BY d.name, d.operation
ON CONFLICT (name, operation) DO UPDATE SET history = excluded.history, version = excluded.version;

-- changed_care: the first ones behind a place
SELECT version, name, operation, history FROM table_care
WHERE (version, name, operation) > (%(version)s, %(name)s, %(operation)s)
ORDER BY version, name, operation LIMIT %(limit)s;

-- care: of some tables or all
SELECT name, operation, history FROM table_care
WHERE %(names)s::text[] IS NULL OR name = ANY(%(names)s) ORDER BY name, operation;

-- open_care: maintenance that is not settled, and how its run stands
SELECT m.slot, m.schedule_id, m.ord, m.name, m.operation, m.policy, m.policy_rev, m.manual, m.reserved, m.at,
       coalesce(r.outcome, l.state, 'cancelled'), coalesce(r.reason, ''), coalesce(r.started_at, l.started_at),
       r.finished_at,
       (SELECT a.error FROM attempt a WHERE a.slot = m.slot AND a.schedule_id = m.schedule_id AND a.ord = m.ord
        ORDER BY a.number DESC LIMIT 1)
FROM maintenance m
LEFT JOIN run r ON r.slot = m.slot AND r.schedule_id = m.schedule_id AND r.ord = m.ord
LEFT JOIN run_live l ON l.schedule_id = m.schedule_id AND l.slot = m.slot AND l.ord = m.ord
WHERE m.settled_at IS NULL ORDER BY m.at, m.slot, m.schedule_id, m.ord;

-- spent: what was started from then on, or is open, for some policies
SELECT policy, at, name, bytes, settled_at IS NULL FROM maintenance
WHERE at >= %(since)s AND policy = ANY(%(policies)s)
UNION ALL
SELECT policy, at, name, bytes, true FROM maintenance
WHERE at < %(since)s AND settled_at IS NULL AND policy = ANY(%(policies)s)
ORDER BY 2, 3;

-- care_of: maintenance of a table, newest first
SELECT slot, schedule_id, ord, name, operation, policy, policy_rev, manual, reserved, at, bytes, outcome, settled_at,
       result
FROM maintenance
WHERE name = %(name)s AND (at, slot, schedule_id, ord) < (%(at)s, %(slot)s, %(schedule)s, %(ord)s)
ORDER BY at DESC, slot DESC, schedule_id DESC, ord DESC LIMIT %(limit)s;
