-- Events and what triggers collect from them.
--
-- Each (type, key, match) that some trigger listens to is a topic (event_key) with its totals. Whoever publishes locks
-- the topics, last of all locks and ascending, and gives each event its number there: gapless, in the order of commits.
-- So a subscription's place in a topic is one number. (docs/decisions/0005)
--
-- What triggers have collected (subscription, progress, deadline, owed) belongs to whoever holds the schedule's clock.
-- In which order rows are locked: docs/explanation/locks.md.
-- depends: 0001_spine

ALTER TABLE event
    ADD COLUMN key text,                    -- of published events; of a run's event, the program's, told when it is read
    ADD COLUMN time instant,                -- the publisher's
    ADD COLUMN source text,
    ADD COLUMN source_id text;              -- the publisher's id, unique in `source`

ALTER TABLE clock ADD COLUMN collects boolean NOT NULL DEFAULT false;  -- a tree is collecting for it (progress)

-- What a run was given is closed when it becomes ready; `moved`: what is owed to the schedule was moved with it.
ALTER TABLE run_live
    ADD COLUMN closed boolean NOT NULL DEFAULT false,
    ADD COLUMN moved boolean NOT NULL DEFAULT false;

CREATE TABLE event_key (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    type        text NOT NULL,
    key         text,                       -- NULL: any
    match       jsonb,                      -- what the payload must contain; NULL: anything
    n           bigint NOT NULL DEFAULT 0,
    rows        bigint NOT NULL DEFAULT 0,
    bytes       bigint NOT NULL DEFAULT 0,
    last_at     instant NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX event_key_topic ON event_key (type, key, match) NULLS NOT DISTINCT;
CREATE INDEX event_key_runs ON event_key (type) WHERE type LIKE 'run.%';

-- A topic's log. `pos` orders arrivals over all topics: it is drawn while the topics are locked.
CREATE TABLE arrival (
    day         integer NOT NULL,
    key_id      bigint NOT NULL,
    n           bigint NOT NULL,
    pos         bigint NOT NULL,
    at          instant NOT NULL,           -- never before the one before it
    rows        bigint NOT NULL,
    bytes       bigint NOT NULL,
    sum_rows    bigint NOT NULL,            -- totals of the topic, this one included
    sum_bytes   bigint NOT NULL,
    event_day   integer NOT NULL,
    event_pos   bigint NOT NULL,
    PRIMARY KEY (key_id, n, day)
) PARTITION BY RANGE (day);
CREATE SEQUENCE arrival_order;

-- Topics with news, up to some hundred of one transaction in a row, and schedules that somebody wants looked at.
-- Claimed by deleting.
CREATE TABLE event_inbox (
    pos         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key_ids     bigint[],
    schedule_id bigint
);

CREATE TABLE event_dedup (
    source      text NOT NULL,
    id          text NOT NULL,
    digest      bytea NOT NULL,
    pos         bigint NOT NULL,
    at          instant NOT NULL,
    PRIMARY KEY (source, id)
);
CREATE INDEX event_dedup_at ON event_dedup (at);

-- One leaf listens to one topic. `base`: where its progress began; `seen`: read up to there, with the totals there;
-- `need`: totals of the topic at which the tree is to be looked at; `again`: ranges (from, to] to be read once more.
CREATE TABLE subscription (
    schedule_id bigint NOT NULL,
    node        integer NOT NULL,
    key_id      bigint NOT NULL REFERENCES event_key,
    base        bigint NOT NULL,
    seen        bigint NOT NULL,
    seen_rows   bigint NOT NULL,
    seen_bytes  bigint NOT NULL,
    seen_day    integer NOT NULL,
    need        bigint,
    need_rows   bigint,
    need_bytes  bigint,
    again       jsonb,
    PRIMARY KEY (schedule_id, node, key_id)
) WITH (fillfactor = 70);
CREATE INDEX subscription_need ON subscription (key_id, need);
CREATE INDEX subscription_need_rows ON subscription (key_id, need_rows) WHERE need_rows IS NOT NULL;
CREATE INDEX subscription_need_bytes ON subscription (key_id, need_bytes) WHERE need_bytes IS NOT NULL;

CREATE TABLE progress (
    schedule_id bigint PRIMARY KEY,
    enabled_at  instant NOT NULL,
    elapsed     boolean NOT NULL,           -- the tree counts from the last run: its end is to be told
    doc         text NOT NULL               -- store/codec.py
) WITH (fillfactor = 70);

CREATE TABLE deadline (
    schedule_id bigint NOT NULL,
    node        integer NOT NULL,
    at          instant NOT NULL,
    PRIMARY KEY (schedule_id, node, at)
);
CREATE INDEX deadline_at ON deadline (at, schedule_id);

-- Up to which number of its topic, and which snapshot, a dataset was handed to a started run.
CREATE TABLE owed (
    schedule_id bigint NOT NULL,
    dataset     text NOT NULL,
    n           bigint NOT NULL,
    day         integer NOT NULL,
    snapshot    jsonb,
    PRIMARY KEY (schedule_id, dataset)
);

-- What a schedule could not take. `ranges`: [[node, key_id, from, to], ...]
CREATE TABLE set_aside (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    schedule_id bigint NOT NULL,
    error       text NOT NULL,
    at          instant NOT NULL,
    count       bigint NOT NULL,
    ranges      jsonb NOT NULL,
    replayed_at instant
);
CREATE INDEX set_aside_of ON set_aside (schedule_id, id);

-- ── events of runs find their topics ─────────────────────────────────────────────────────────────────────────────
-- Whatever statement writes them: in its transaction they are kept here, and numbered when it commits.
CREATE TABLE event_told (
    xid         xid8 NOT NULL DEFAULT pg_current_xact_id(),
    id          bigint GENERATED ALWAYS AS IDENTITY,
    key_id      bigint NOT NULL,
    day         integer NOT NULL,
    pos         bigint NOT NULL,
    at          instant NOT NULL,
    PRIMARY KEY (xid, id)
);

CREATE FUNCTION tell_of_runs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM event_key WHERE type LIKE 'run.%') THEN
        INSERT INTO event_told (key_id, day, pos, at)
        SELECT k.id, f.day, f.pos, f.at
        FROM fresh f
        JOIN run r ON r.slot = f.slot AND r.schedule_id = f.schedule_id AND r.ord = f.ord
        JOIN program p ON p.id = r.program_id
        JOIN LATERAL (
            SELECT id, match FROM event_key WHERE type = f.type AND key = p.namespace || '/' || p.name
            UNION ALL
            SELECT id, match FROM event_key WHERE type = f.type AND key IS NULL
        ) k ON k.match IS NULL OR jsonb_build_object(
            'program', p.namespace || '/' || p.name, 'cause', r.cause, 'backfill', r.cause = 'backfill',
            'outcome', substr(f.type, 5), 'reason', r.reason) @> k.match
        WHERE f.schedule_id IS NOT NULL AND f.slot IS NOT NULL
        ORDER BY f.pos, k.id;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER event_tell AFTER INSERT ON event REFERENCING NEW TABLE AS fresh
    FOR EACH STATEMENT EXECUTE FUNCTION tell_of_runs();

CREATE FUNCTION number_told() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    mine xid8 := pg_current_xact_id();
BEGIN
    -- the first row of a transaction numbers all of them
    IF NOT EXISTS (SELECT FROM event_told WHERE xid = mine) THEN
        RETURN NULL;
    END IF;
    PERFORM FROM event_key WHERE id IN (SELECT key_id FROM event_told WHERE xid = mine) ORDER BY id FOR NO KEY UPDATE;
    WITH told AS MATERIALIZED (
        DELETE FROM event_told WHERE xid = mine RETURNING id, key_id, day, pos, at
    ), orders AS MATERIALIZED (
        SELECT pos, nextval('arrival_order') AS place FROM (SELECT DISTINCT pos FROM told ORDER BY pos) AS d
    ), placed AS MATERIALIZED (
        SELECT t.key_id, t.day, t.pos, o.place, greatest(t.at, k.last_at) AS at, k.rows, k.bytes,
               k.n + row_number() OVER (PARTITION BY t.key_id ORDER BY o.place) AS n
        FROM told t JOIN orders o ON o.pos = t.pos JOIN event_key k ON k.id = t.key_id
    ), arrived AS (
        INSERT INTO arrival (day, key_id, n, pos, at, rows, bytes, sum_rows, sum_bytes, event_day, event_pos)
        SELECT at / 86400000000, key_id, n, place, at, 0, 0, rows, bytes, day, pos FROM placed
    ), totals AS (
        UPDATE event_key k SET n = p.n, last_at = p.at
        FROM (SELECT key_id, max(n) AS n, max(at) AS at FROM placed GROUP BY key_id) AS p
        WHERE k.id = p.key_id
    )
    INSERT INTO event_inbox (key_ids) SELECT array_agg(DISTINCT key_id) FROM placed;
    PERFORM pg_notify('tidegate', 'events');
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER event_number AFTER INSERT ON event_told DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION number_told();

DROP VIEW tidegate_events;
CREATE VIEW tidegate_events AS
    SELECT as_time(e.at) AS at, e.type, e.key, s.namespace, s.name AS schedule, e.payload, as_time(e.time) AS time,
           e.source, e.source_id, e.slot, e.schedule_id, e.ord, e.pos
    FROM event e LEFT JOIN schedule s ON s.id = e.schedule_id;
