CREATE DOMAIN public.duration AS bigint;
CREATE DOMAIN public.instant AS bigint;
CREATE FUNCTION public.as_time(public.instant) RETURNS timestamp with time zone
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $_$SELECT timestamptz 'epoch' + $1 * interval '1 microsecond'$_$;
CREATE FUNCTION public.number_told() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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
CREATE FUNCTION public.tell_of_runs() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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
CREATE TABLE public.application (
    namespace text NOT NULL,
    name text NOT NULL,
    document jsonb NOT NULL,
    rev integer DEFAULT 1 NOT NULL,
    updated_at public.instant NOT NULL
);
CREATE TABLE public.arrival (
    day integer NOT NULL,
    key_id bigint NOT NULL,
    n bigint NOT NULL,
    pos bigint NOT NULL,
    at public.instant NOT NULL,
    rows bigint NOT NULL,
    bytes bigint NOT NULL,
    sum_rows bigint NOT NULL,
    sum_bytes bigint NOT NULL,
    event_day integer NOT NULL,
    event_pos bigint NOT NULL
)
PARTITION BY RANGE (day);
CREATE SEQUENCE public.arrival_order
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE public.attempt (
    slot bigint NOT NULL,
    schedule_id bigint NOT NULL,
    ord bigint NOT NULL,
    number integer NOT NULL,
    instance_id bigint NOT NULL,
    host text NOT NULL,
    fence bigint NOT NULL,
    backend text NOT NULL,
    backend_id text,
    created_at public.instant NOT NULL,
    started_at public.instant,
    finished_at public.instant NOT NULL,
    outcome text NOT NULL,
    error jsonb,
    CONSTRAINT attempt_outcome_check CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'failed'::text, 'timed_out'::text, 'cancelled'::text, 'crashed'::text, 'lost'::text, 'refused'::text])))
)
PARTITION BY RANGE (slot);
CREATE TABLE public.attempt_open (
    slot bigint NOT NULL,
    schedule_id bigint NOT NULL,
    ord bigint NOT NULL,
    number integer NOT NULL,
    instance_id bigint NOT NULL,
    epoch bigint NOT NULL,
    host text NOT NULL,
    fence bigint NOT NULL,
    backend text NOT NULL,
    backend_id text,
    created_at public.instant NOT NULL,
    started_at public.instant
)
WITH (fillfactor='70');
CREATE TABLE public.backfill (
    id bigint NOT NULL,
    schedule_id bigint NOT NULL,
    rev integer NOT NULL,
    state text NOT NULL,
    reason text DEFAULT ''::text NOT NULL,
    asked_by text NOT NULL,
    start_at public.instant NOT NULL,
    end_at public.instant NOT NULL,
    keys bigint[],
    walk text NOT NULL,
    reprocess text NOT NULL,
    concurrency integer NOT NULL,
    total bigint NOT NULL,
    cursor public.instant NOT NULL,
    considered bigint DEFAULT 0 NOT NULL,
    passed bigint DEFAULT 0 NOT NULL,
    succeeded bigint DEFAULT 0 NOT NULL,
    failed bigint DEFAULT 0 NOT NULL,
    cancelled bigint DEFAULT 0 NOT NULL,
    wake_at public.instant,
    created_at public.instant NOT NULL,
    finished_at public.instant,
    CONSTRAINT backfill_concurrency_check CHECK ((concurrency >= 1)),
    CONSTRAINT backfill_reprocess_check CHECK ((reprocess = ANY (ARRAY['none'::text, 'failed'::text, 'all'::text]))),
    CONSTRAINT backfill_state_check CHECK ((state = ANY (ARRAY['running'::text, 'paused'::text, 'finished'::text, 'cancelled'::text]))),
    CONSTRAINT backfill_walk_check CHECK ((walk = ANY (ARRAY['oldest'::text, 'newest'::text])))
)
WITH (fillfactor='70');
ALTER TABLE public.backfill ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.backfill_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.backfill_item (
    schedule_id bigint NOT NULL,
    fire_time public.instant NOT NULL,
    backfill_id bigint NOT NULL,
    slot bigint,
    ord bigint,
    CONSTRAINT backfill_item_check CHECK (((slot IS NULL) = (ord IS NULL)))
);
CREATE TABLE public.calendar (
    name text NOT NULL,
    document jsonb NOT NULL,
    spec text NOT NULL
);
CREATE TABLE public.catalog_fault (
    catalog text NOT NULL,
    error text NOT NULL,
    since public.instant NOT NULL
);
CREATE TABLE public.change (
    id bigint NOT NULL,
    at public.instant NOT NULL,
    who text NOT NULL,
    action text NOT NULL,
    kind text NOT NULL,
    namespace text DEFAULT ''::text NOT NULL,
    name text NOT NULL,
    before jsonb,
    after jsonb
);
ALTER TABLE public.change ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.change_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.clock (
    schedule_id bigint NOT NULL,
    program_id bigint NOT NULL,
    rev integer NOT NULL,
    cursor_rev integer NOT NULL,
    mode text NOT NULL,
    gen bigint DEFAULT 0 NOT NULL,
    cursor public.instant NOT NULL,
    next_due public.instant,
    last_fire public.instant,
    gap_to public.instant,
    gap_left integer,
    after_finish boolean DEFAULT false NOT NULL,
    collects boolean DEFAULT false NOT NULL
);
CREATE TABLE public.dataset (
    name text NOT NULL,
    kind text NOT NULL,
    watch public.duration,
    document jsonb NOT NULL,
    updated_at public.instant NOT NULL,
    CONSTRAINT dataset_kind_check CHECK ((kind = ANY (ARRAY['iceberg'::text, 'stream'::text, 'files'::text]))),
    CONSTRAINT dataset_watch_check CHECK (((watch)::bigint > 0))
);
CREATE TABLE public.dataset_cursor (
    dataset text NOT NULL,
    version bigint DEFAULT 1 NOT NULL,
    pointer text,
    table_uuid text,
    snapshot bigint,
    sequence bigint DEFAULT 0 NOT NULL,
    error text DEFAULT ''::text NOT NULL,
    moved_at public.instant NOT NULL
)
WITH (fillfactor='80');
CREATE TABLE public.deadline (
    schedule_id bigint NOT NULL,
    node integer NOT NULL,
    at public.instant NOT NULL
);
CREATE TABLE public.event (
    day integer NOT NULL,
    pos bigint NOT NULL,
    xid xid8 DEFAULT pg_current_xact_id() NOT NULL,
    at public.instant NOT NULL,
    type text NOT NULL,
    schedule_id bigint,
    slot bigint,
    ord bigint,
    payload jsonb,
    key text,
    "time" public.instant,
    source text,
    source_id text
)
PARTITION BY RANGE (day);
CREATE TABLE public.event_dedup (
    source text NOT NULL,
    id text NOT NULL,
    digest bytea NOT NULL,
    pos bigint NOT NULL,
    at public.instant NOT NULL
);
CREATE TABLE public.event_inbox (
    pos bigint NOT NULL,
    key_ids bigint[],
    schedule_id bigint
);
ALTER TABLE public.event_inbox ALTER COLUMN pos ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.event_inbox_pos_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.event_key (
    id bigint NOT NULL,
    type text NOT NULL,
    key text,
    match jsonb,
    n bigint DEFAULT 0 NOT NULL,
    rows bigint DEFAULT 0 NOT NULL,
    bytes bigint DEFAULT 0 NOT NULL,
    last_at public.instant DEFAULT 0 NOT NULL
)
WITH (fillfactor='50');
ALTER TABLE public.event_key ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.event_key_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
ALTER TABLE public.event ALTER COLUMN pos ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.event_pos_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.event_told (
    xid xid8 DEFAULT pg_current_xact_id() NOT NULL,
    id bigint NOT NULL,
    key_id bigint NOT NULL,
    day integer NOT NULL,
    pos bigint NOT NULL,
    at public.instant NOT NULL
);
ALTER TABLE public.event_told ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.event_told_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE SEQUENCE public.fencing_token
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE public.fire_range (
    schedule_id bigint NOT NULL,
    from_fire public.instant NOT NULL,
    to_fire public.instant NOT NULL,
    rev integer NOT NULL,
    n bigint NOT NULL,
    outcome text NOT NULL,
    reason text NOT NULL,
    decided_at public.instant NOT NULL,
    CONSTRAINT fire_range_n_check CHECK ((n >= 1)),
    CONSTRAINT fire_range_outcome_check CHECK ((outcome = ANY (ARRAY['missed'::text, 'superseded'::text])))
);
CREATE TABLE public.frozen (
    one boolean DEFAULT true NOT NULL,
    who text NOT NULL,
    since public.instant NOT NULL,
    reason text NOT NULL,
    CONSTRAINT frozen_one_check CHECK (one)
);
CREATE TABLE public.gauge (
    resource text NOT NULL,
    value double precision,
    at public.instant NOT NULL,
    error text DEFAULT ''::text NOT NULL,
    stale_at public.instant
);
CREATE TABLE public.idempotency (
    key text NOT NULL,
    request text NOT NULL,
    status integer NOT NULL,
    answer jsonb NOT NULL,
    at public.instant NOT NULL
);
CREATE TABLE public.instance (
    id bigint NOT NULL,
    role text NOT NULL,
    name text NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    version text NOT NULL,
    epoch bigint DEFAULT 1 NOT NULL,
    up_since public.instant NOT NULL,
    heartbeat public.instant NOT NULL,
    direct boolean NOT NULL,
    ended_at public.instant,
    CONSTRAINT instance_role_check CHECK ((role = ANY (ARRAY['scheduler'::text, 'worker'::text, 'api'::text, 'all'::text])))
);
ALTER TABLE public.instance ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.instance_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE UNLOGGED TABLE public.instance_meters (
    instance_id bigint NOT NULL,
    at public.instant NOT NULL,
    meters jsonb NOT NULL
);
CREATE SEQUENCE public.lake_table_change
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE public.lake_table (
    name text NOT NULL,
    version bigint DEFAULT nextval('public.lake_table_change'::regclass) NOT NULL,
    location text,
    known_at public.instant NOT NULL,
    seen_at public.instant NOT NULL,
    assessed text,
    assessed_at public.instant,
    health jsonb,
    score double precision,
    error text DEFAULT ''::text NOT NULL
)
WITH (fillfactor='70');
CREATE TABLE public.lease (
    duty text NOT NULL,
    instance_id bigint NOT NULL,
    epoch bigint NOT NULL,
    token bigint NOT NULL,
    expires public.instant NOT NULL
);
CREATE TABLE public.limit_counter (
    key text NOT NULL,
    held integer DEFAULT 0 NOT NULL,
    keeps public.duration,
    CONSTRAINT limit_counter_held_check CHECK ((held >= 0))
)
WITH (fillfactor='50');
CREATE TABLE public.pool (
    name text NOT NULL,
    slots integer NOT NULL,
    used integer DEFAULT 0 NOT NULL,
    rate_max integer,
    rate_per public.duration,
    rate_burst integer,
    tokens double precision DEFAULT 0 NOT NULL,
    refilled_at public.instant DEFAULT 0 NOT NULL,
    borrow_from text,
    borrow_max integer,
    CONSTRAINT pool_borrow_max_check CHECK ((borrow_max >= 1)),
    CONSTRAINT pool_check CHECK (((borrow_from IS NULL) = (borrow_max IS NULL))),
    CONSTRAINT pool_slots_check CHECK ((slots >= 1)),
    CONSTRAINT pool_used_check CHECK ((used >= 0))
);
CREATE TABLE public.run_live (
    slot bigint NOT NULL,
    schedule_id bigint NOT NULL,
    ord bigint NOT NULL,
    state text NOT NULL,
    ready boolean DEFAULT false NOT NULL,
    rev integer NOT NULL,
    program_id bigint NOT NULL,
    program_rev integer,
    kind text NOT NULL,
    pool text NOT NULL,
    fire_time public.instant,
    previous_fire public.instant,
    cause text NOT NULL,
    caused_by text DEFAULT ''::text NOT NULL,
    priority smallint NOT NULL,
    created_at public.instant NOT NULL,
    wake_at public.instant,
    wake_key text COLLATE pg_catalog."C",
    expires_at public.instant,
    waiting_for jsonb,
    held text[] DEFAULT '{}'::text[] NOT NULL,
    slot_held boolean DEFAULT false NOT NULL,
    ready_at public.instant,
    started_at public.instant,
    attempts integer DEFAULT 0 NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    lost integer DEFAULT 0 NOT NULL,
    stop text,
    stop_by text DEFAULT ''::text NOT NULL,
    stop_at public.instant,
    given jsonb,
    arguments jsonb,
    closed boolean DEFAULT false NOT NULL,
    moved boolean DEFAULT false NOT NULL,
    rank bigint GENERATED ALWAYS AS (((created_at)::bigint - (priority * (60000000)::bigint))) STORED NOT NULL,
    wake_limit integer DEFAULT 0 NOT NULL,
    window_ends public.instant,
    deadline_at public.instant,
    deadline_base public.instant,
    deadline_told text DEFAULT ''::text NOT NULL,
    borrower text,
    CONSTRAINT run_live_check CHECK ((ready = (state = 'ready'::text))),
    CONSTRAINT run_live_check1 CHECK (((state = 'waiting'::text) OR ((wake_at IS NULL) AND (wake_key IS NULL)))),
    CONSTRAINT run_live_state_check CHECK ((state = ANY (ARRAY['waiting'::text, 'ready'::text, 'starting'::text, 'running'::text, 'stopping'::text]))),
    CONSTRAINT run_live_stop_check CHECK ((stop = ANY (ARRAY['cancel'::text, 'timeout'::text, 'window'::text, 'shutdown'::text])))
)
WITH (fillfactor='70');
CREATE VIEW public.loan AS
 SELECT name,
    borrow_from AS lender,
    GREATEST((borrow_max - ( SELECT count(*) AS count
           FROM public.run_live r
          WHERE ((r.borrower = p.name) AND r.slot_held))), (0)::bigint) AS left_over
   FROM public.pool p
  WHERE (borrow_from IS NOT NULL);
CREATE TABLE public.maintenance (
    slot bigint NOT NULL,
    schedule_id bigint NOT NULL,
    ord bigint NOT NULL,
    name text NOT NULL,
    operation text NOT NULL,
    policy text NOT NULL,
    policy_rev integer NOT NULL,
    manual boolean NOT NULL,
    at public.instant NOT NULL,
    reserved bigint NOT NULL,
    bytes bigint NOT NULL,
    settled_at public.instant,
    outcome text,
    result jsonb,
    CONSTRAINT maintenance_bytes_check CHECK ((bytes >= 0)),
    CONSTRAINT maintenance_check CHECK (((outcome IS NULL) = (settled_at IS NULL))),
    CONSTRAINT maintenance_reserved_check CHECK ((reserved >= 0))
)
WITH (fillfactor='70');
CREATE TABLE public.maintenance_off (
    one boolean DEFAULT true NOT NULL,
    who text NOT NULL,
    since public.instant NOT NULL,
    reason text NOT NULL,
    CONSTRAINT maintenance_off_one_check CHECK (one)
);
CREATE TABLE public.namespace (
    name text NOT NULL,
    document jsonb DEFAULT '{}'::jsonb NOT NULL,
    created_at public.instant NOT NULL
);
CREATE TABLE public.owed (
    schedule_id bigint NOT NULL,
    dataset text NOT NULL,
    n bigint NOT NULL,
    day integer NOT NULL,
    snapshot jsonb
);
CREATE TABLE public.pausing (
    schedule_id bigint NOT NULL,
    at public.instant NOT NULL,
    reason text NOT NULL
);
CREATE TABLE public.policy (
    name text NOT NULL,
    rev integer NOT NULL,
    document jsonb,
    author text NOT NULL,
    updated_at public.instant NOT NULL
);
CREATE TABLE public.policy_revision (
    name text NOT NULL,
    rev integer NOT NULL,
    document jsonb,
    author text NOT NULL,
    valid_from public.instant NOT NULL
);
CREATE VIEW public.pool_room AS
 SELECT name,
    (GREATEST((slots - used), 0) + COALESCE(( SELECT LEAST((GREATEST((o.slots - o.used), 0))::bigint, l.left_over) AS "least"
           FROM (public.loan l
             JOIN public.pool o ON ((o.name = l.lender)))
          WHERE ((l.name = p.name) AND (NOT (EXISTS ( SELECT
                   FROM public.run_live w
                  WHERE (w.wake_key = ('pool:'::text || o.name))))))), (0)::bigint)) AS room
   FROM public.pool p;
CREATE TABLE public.program (
    id bigint NOT NULL,
    namespace text NOT NULL,
    name text NOT NULL,
    application text,
    rev integer NOT NULL,
    deleted_at public.instant
);
ALTER TABLE public.program ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.program_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.program_revision (
    program_id bigint NOT NULL,
    rev integer NOT NULL,
    document jsonb NOT NULL,
    spec text NOT NULL,
    valid_from public.instant NOT NULL,
    author text NOT NULL
);
CREATE TABLE public.progress (
    schedule_id bigint NOT NULL,
    enabled_at public.instant NOT NULL,
    elapsed boolean NOT NULL,
    doc text NOT NULL
)
WITH (fillfactor='70');
CREATE SEQUENCE public.queue_turn
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE public.queue_wake (
    key text NOT NULL COLLATE pg_catalog."C",
    at public.instant,
    turn bigint DEFAULT nextval('public.queue_turn'::regclass) NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE public.revision (
    schedule_id bigint NOT NULL,
    rev integer NOT NULL,
    valid_from public.instant NOT NULL,
    mode text NOT NULL,
    reason text DEFAULT ''::text NOT NULL,
    document jsonb NOT NULL,
    spec text NOT NULL,
    tzdata text NOT NULL,
    author text NOT NULL,
    held_expires boolean DEFAULT false NOT NULL,
    CONSTRAINT revision_mode_check CHECK ((mode = ANY (ARRAY['enabled'::text, 'drop'::text, 'keep'::text, 'backlog'::text, 'hold'::text])))
);
CREATE TABLE public.run (
    slot bigint NOT NULL,
    schedule_id bigint NOT NULL,
    ord bigint NOT NULL,
    rev integer NOT NULL,
    program_id bigint NOT NULL,
    program_rev integer,
    fire_time public.instant,
    previous_fire public.instant,
    cause text NOT NULL,
    caused_by text DEFAULT ''::text NOT NULL,
    priority smallint NOT NULL,
    created_at public.instant NOT NULL,
    ready_at public.instant,
    started_at public.instant,
    finished_at public.instant,
    outcome text,
    reason text DEFAULT ''::text NOT NULL,
    stop text,
    merged_into text,
    given jsonb,
    arguments jsonb,
    evidence jsonb,
    inputs jsonb,
    CONSTRAINT run_cause_check CHECK ((cause = ANY (ARRAY['fire'::text, 'evidence'::text, 'backfill'::text, 'manual'::text, 'rerun'::text]))),
    CONSTRAINT run_check CHECK (((outcome IS NULL) = (finished_at IS NULL))),
    CONSTRAINT run_outcome_check CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'failed'::text, 'timed_out'::text, 'cancelled'::text, 'crashed'::text, 'skipped'::text, 'merged'::text, 'expired'::text, 'superseded'::text, 'missed'::text])))
)
PARTITION BY RANGE (slot);
CREATE TABLE public.schedule (
    id bigint NOT NULL,
    namespace text NOT NULL,
    name text NOT NULL,
    application text,
    labels jsonb DEFAULT '{}'::jsonb NOT NULL,
    owner text DEFAULT ''::text NOT NULL,
    description text DEFAULT ''::text NOT NULL,
    program_id bigint NOT NULL,
    created_at public.instant NOT NULL,
    deleted_at public.instant
);
ALTER TABLE public.schedule ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.schedule_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.schedule_stats (
    schedule_id bigint NOT NULL,
    last_start public.instant,
    last_finish public.instant,
    last_success public.instant,
    last_run_success boolean,
    total_runs bigint DEFAULT 0 NOT NULL,
    total_successes bigint DEFAULT 0 NOT NULL,
    total_failures bigint DEFAULT 0 NOT NULL,
    total_crashes bigint DEFAULT 0 NOT NULL,
    total_timeouts bigint DEFAULT 0 NOT NULL,
    total_duration public.duration DEFAULT 0 NOT NULL,
    consecutive_failures integer DEFAULT 0 NOT NULL,
    consecutive_crashes integer DEFAULT 0 NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE public.set_aside (
    id bigint NOT NULL,
    schedule_id bigint NOT NULL,
    error text NOT NULL,
    at public.instant NOT NULL,
    count bigint NOT NULL,
    ranges jsonb NOT NULL,
    replayed_at public.instant
);
ALTER TABLE public.set_aside ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.set_aside_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.sink (
    name text NOT NULL,
    document jsonb NOT NULL,
    rev bigint DEFAULT 1 NOT NULL,
    day integer NOT NULL,
    pos bigint NOT NULL,
    delivered bigint DEFAULT 0 NOT NULL,
    set_aside bigint DEFAULT 0 NOT NULL,
    error text DEFAULT ''::text NOT NULL,
    error_since public.instant,
    moved_at public.instant,
    updated_at public.instant NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE public.sink_refusal (
    sink text NOT NULL,
    pos bigint NOT NULL,
    day integer NOT NULL,
    type text NOT NULL,
    key text NOT NULL,
    reason text NOT NULL,
    at public.instant NOT NULL
);
CREATE TABLE public.start_log (
    schedule_id bigint NOT NULL,
    slot bigint NOT NULL,
    ord bigint NOT NULL,
    key text NOT NULL,
    at public.instant
);
CREATE TABLE public.subscription (
    schedule_id bigint NOT NULL,
    node integer NOT NULL,
    key_id bigint NOT NULL,
    base bigint NOT NULL,
    seen bigint NOT NULL,
    seen_rows bigint NOT NULL,
    seen_bytes bigint NOT NULL,
    seen_day integer NOT NULL,
    need bigint,
    need_rows bigint,
    need_bytes bigint,
    again jsonb
)
WITH (fillfactor='70');
CREATE TABLE public.table_care (
    name text NOT NULL,
    operation text NOT NULL,
    history jsonb NOT NULL
)
WITH (fillfactor='70');
CREATE TABLE public.table_health (
    name text NOT NULL,
    at public.instant NOT NULL,
    health jsonb NOT NULL,
    score double precision
);
CREATE VIEW public.tidegate_attempts AS
 SELECT attempt_open.slot,
    attempt_open.schedule_id,
    attempt_open.ord,
    attempt_open.number,
    'open'::text AS outcome,
    attempt_open.backend,
    attempt_open.backend_id,
    attempt_open.host,
    attempt_open.fence,
    public.as_time(attempt_open.created_at) AS created_at,
    public.as_time(attempt_open.started_at) AS started_at,
    NULL::timestamp with time zone AS finished_at,
    NULL::jsonb AS error
   FROM public.attempt_open
UNION ALL
 SELECT attempt.slot,
    attempt.schedule_id,
    attempt.ord,
    attempt.number,
    attempt.outcome,
    attempt.backend,
    attempt.backend_id,
    attempt.host,
    attempt.fence,
    public.as_time(attempt.created_at) AS created_at,
    public.as_time(attempt.started_at) AS started_at,
    public.as_time(attempt.finished_at) AS finished_at,
    attempt.error
   FROM public.attempt;
CREATE VIEW public.tidegate_events AS
 SELECT public.as_time(e.at) AS at,
    e.type,
    e.key,
    s.namespace,
    s.name AS schedule,
    e.payload,
    public.as_time(e."time") AS "time",
    e.source,
    e.source_id,
    e.slot,
    e.schedule_id,
    e.ord,
    e.pos
   FROM (public.event e
     LEFT JOIN public.schedule s ON ((s.id = e.schedule_id)));
CREATE VIEW public.tidegate_missed AS
 SELECT s.namespace,
    s.name AS schedule,
    f.outcome,
    f.n,
    public.as_time(f.from_fire) AS from_fire,
    public.as_time(f.to_fire) AS to_fire,
    f.reason,
    public.as_time(f.decided_at) AS decided_at,
    f.schedule_id
   FROM (public.fire_range f
     JOIN public.schedule s ON ((s.id = f.schedule_id)));
CREATE VIEW public.tidegate_runs AS
 SELECT s.namespace,
    s.name AS schedule,
    p.name AS program,
    COALESCE(r.outcome, l.state) AS state,
    r.reason,
    public.as_time(r.fire_time) AS fire_time,
    r.cause,
    r.caused_by,
    public.as_time(r.created_at) AS created_at,
    public.as_time(COALESCE(r.ready_at, l.ready_at)) AS ready_at,
    public.as_time(COALESCE(r.started_at, l.started_at)) AS started_at,
    public.as_time(r.finished_at) AS finished_at,
    ((((r.finished_at)::bigint - (r.started_at)::bigint))::double precision * '00:00:00.000001'::interval) AS took,
    l.waiting_for,
    public.as_time(l.wake_at) AS looked_at_again,
    r.slot,
    r.schedule_id,
    r.ord
   FROM (((public.run r
     JOIN public.schedule s ON ((s.id = r.schedule_id)))
     JOIN public.program p ON ((p.id = r.program_id)))
     LEFT JOIN public.run_live l ON (((l.slot = r.slot) AND (l.schedule_id = r.schedule_id) AND (l.ord = r.ord))));
CREATE VIEW public.tidegate_schedules AS
 SELECT s.namespace,
    s.name,
    s.application,
    c.mode,
    c.rev,
    public.as_time(c.cursor) AS decided_up_to,
    public.as_time(c.next_due) AS next_due,
    public.as_time(c.last_fire) AS last_fire,
    public.as_time(s.created_at) AS created_at,
    public.as_time(s.deleted_at) AS deleted_at,
    s.id AS schedule_id
   FROM (public.schedule s
     JOIN public.clock c ON ((c.schedule_id = s.id)));
ALTER TABLE ONLY public.application
    ADD CONSTRAINT application_pkey PRIMARY KEY (namespace, name);
ALTER TABLE ONLY public.arrival
    ADD CONSTRAINT arrival_pkey PRIMARY KEY (key_id, n, day);
ALTER TABLE ONLY public.attempt_open
    ADD CONSTRAINT attempt_open_pkey PRIMARY KEY (schedule_id, slot, ord);
ALTER TABLE ONLY public.attempt
    ADD CONSTRAINT attempt_pkey PRIMARY KEY (slot, schedule_id, ord, number);
ALTER TABLE ONLY public.backfill_item
    ADD CONSTRAINT backfill_item_pkey PRIMARY KEY (schedule_id, fire_time);
ALTER TABLE ONLY public.backfill
    ADD CONSTRAINT backfill_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.calendar
    ADD CONSTRAINT calendar_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.catalog_fault
    ADD CONSTRAINT catalog_fault_pkey PRIMARY KEY (catalog);
ALTER TABLE ONLY public.change
    ADD CONSTRAINT change_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.clock
    ADD CONSTRAINT clock_pkey PRIMARY KEY (schedule_id);
ALTER TABLE ONLY public.dataset_cursor
    ADD CONSTRAINT dataset_cursor_pkey PRIMARY KEY (dataset);
ALTER TABLE ONLY public.dataset
    ADD CONSTRAINT dataset_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.deadline
    ADD CONSTRAINT deadline_pkey PRIMARY KEY (schedule_id, node, at);
ALTER TABLE ONLY public.event_dedup
    ADD CONSTRAINT event_dedup_pkey PRIMARY KEY (source, id);
ALTER TABLE ONLY public.event_inbox
    ADD CONSTRAINT event_inbox_pkey PRIMARY KEY (pos);
ALTER TABLE ONLY public.event_key
    ADD CONSTRAINT event_key_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.event
    ADD CONSTRAINT event_pkey PRIMARY KEY (day, pos);
ALTER TABLE ONLY public.event_told
    ADD CONSTRAINT event_told_pkey PRIMARY KEY (xid, id);
ALTER TABLE ONLY public.fire_range
    ADD CONSTRAINT fire_range_pkey PRIMARY KEY (schedule_id, from_fire);
ALTER TABLE ONLY public.frozen
    ADD CONSTRAINT frozen_pkey PRIMARY KEY (one);
ALTER TABLE ONLY public.gauge
    ADD CONSTRAINT gauge_pkey PRIMARY KEY (resource);
ALTER TABLE ONLY public.idempotency
    ADD CONSTRAINT idempotency_pkey PRIMARY KEY (key);
ALTER TABLE ONLY public.instance_meters
    ADD CONSTRAINT instance_meters_pkey PRIMARY KEY (instance_id);
ALTER TABLE ONLY public.instance
    ADD CONSTRAINT instance_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.lake_table
    ADD CONSTRAINT lake_table_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.lease
    ADD CONSTRAINT lease_pkey PRIMARY KEY (duty);
ALTER TABLE ONLY public.limit_counter
    ADD CONSTRAINT limit_counter_pkey PRIMARY KEY (key);
ALTER TABLE ONLY public.maintenance_off
    ADD CONSTRAINT maintenance_off_pkey PRIMARY KEY (one);
ALTER TABLE ONLY public.maintenance
    ADD CONSTRAINT maintenance_pkey PRIMARY KEY (schedule_id, slot, ord);
ALTER TABLE ONLY public.namespace
    ADD CONSTRAINT namespace_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.owed
    ADD CONSTRAINT owed_pkey PRIMARY KEY (schedule_id, dataset);
ALTER TABLE ONLY public.pausing
    ADD CONSTRAINT pausing_pkey PRIMARY KEY (schedule_id);
ALTER TABLE ONLY public.policy
    ADD CONSTRAINT policy_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.policy_revision
    ADD CONSTRAINT policy_revision_pkey PRIMARY KEY (name, rev);
ALTER TABLE ONLY public.pool
    ADD CONSTRAINT pool_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.program
    ADD CONSTRAINT program_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.program_revision
    ADD CONSTRAINT program_revision_pkey PRIMARY KEY (program_id, rev);
ALTER TABLE ONLY public.progress
    ADD CONSTRAINT progress_pkey PRIMARY KEY (schedule_id);
ALTER TABLE ONLY public.queue_wake
    ADD CONSTRAINT queue_wake_pkey PRIMARY KEY (key);
ALTER TABLE ONLY public.revision
    ADD CONSTRAINT revision_pkey PRIMARY KEY (schedule_id, rev);
ALTER TABLE ONLY public.run_live
    ADD CONSTRAINT run_live_pkey PRIMARY KEY (schedule_id, slot, ord);
ALTER TABLE ONLY public.run
    ADD CONSTRAINT run_pkey PRIMARY KEY (slot, schedule_id, ord);
ALTER TABLE ONLY public.schedule
    ADD CONSTRAINT schedule_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.schedule_stats
    ADD CONSTRAINT schedule_stats_pkey PRIMARY KEY (schedule_id);
ALTER TABLE ONLY public.set_aside
    ADD CONSTRAINT set_aside_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sink
    ADD CONSTRAINT sink_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.sink_refusal
    ADD CONSTRAINT sink_refusal_pkey PRIMARY KEY (sink, pos);
ALTER TABLE ONLY public.start_log
    ADD CONSTRAINT start_log_pkey PRIMARY KEY (schedule_id, slot, ord, key);
ALTER TABLE ONLY public.subscription
    ADD CONSTRAINT subscription_pkey PRIMARY KEY (schedule_id, node, key_id);
ALTER TABLE ONLY public.table_care
    ADD CONSTRAINT table_care_pkey PRIMARY KEY (name, operation);
ALTER TABLE ONLY public.table_health
    ADD CONSTRAINT table_health_pkey PRIMARY KEY (name, at);
CREATE INDEX attempt_open_instance ON public.attempt_open USING btree (instance_id);
CREATE INDEX backfill_item_of ON public.backfill_item USING btree (backfill_id, fire_time);
CREATE INDEX backfill_of ON public.backfill USING btree (schedule_id, id);
CREATE INDEX backfill_unfinished ON public.backfill USING btree (id) WHERE (finished_at IS NULL);
CREATE INDEX backfill_wake ON public.backfill USING btree (wake_at, id) WHERE (wake_at IS NOT NULL);
CREATE INDEX change_of ON public.change USING btree (namespace, kind, name, id DESC);
CREATE INDEX clock_after_finish ON public.clock USING btree (schedule_id) WHERE after_finish;
CREATE INDEX clock_due ON public.clock USING btree (next_due, schedule_id) WHERE (next_due IS NOT NULL);
CREATE INDEX deadline_at ON public.deadline USING btree (at, schedule_id);
CREATE INDEX event_dedup_at ON public.event_dedup USING btree (at);
CREATE INDEX event_key_runs ON public.event_key USING btree (type) WHERE (type ~~ 'run.%'::text);
CREATE UNIQUE INDEX event_key_topic ON public.event_key USING btree (type, key, match) NULLS NOT DISTINCT;
CREATE INDEX fire_range_newest ON public.fire_range USING btree (to_fire, schedule_id);
CREATE INDEX instance_alive ON public.instance USING btree (heartbeat) WHERE (ended_at IS NULL);
CREATE INDEX lake_table_version ON public.lake_table USING btree (version);
CREATE INDEX maintenance_at ON public.maintenance USING btree (at);
CREATE INDEX maintenance_of ON public.maintenance USING btree (name, at DESC);
CREATE INDEX maintenance_open ON public.maintenance USING btree (at) WHERE (settled_at IS NULL);
CREATE UNIQUE INDEX program_name ON public.program USING btree (namespace, name) WHERE (deleted_at IS NULL);
CREATE INDEX queue_wake_at ON public.queue_wake USING btree (at, key);
CREATE INDEX run_asked_for ON ONLY public.run USING btree (schedule_id, fire_time) WHERE (cause = ANY (ARRAY['backfill'::text, 'rerun'::text]));
CREATE INDEX run_live_borrower ON public.run_live USING btree (borrower) WHERE (borrower IS NOT NULL);
CREATE INDEX run_live_deadline ON public.run_live USING btree (deadline_at) WHERE (deadline_at IS NOT NULL);
CREATE INDEX run_live_key ON public.run_live USING btree (wake_key, wake_limit, rank, slot, schedule_id, ord) WHERE (wake_key IS NOT NULL);
CREATE INDEX run_live_ready ON public.run_live USING btree (rank, slot, schedule_id, ord) WHERE ready;
CREATE INDEX run_live_waiting ON public.run_live USING btree (rank, slot, schedule_id, ord) WHERE ((wake_at IS NOT NULL) OR (wake_key IS NOT NULL));
CREATE INDEX run_live_wake ON public.run_live USING btree (wake_at, rank, slot, schedule_id, ord) WHERE (wake_at IS NOT NULL);
CREATE INDEX run_of_schedule ON ONLY public.run USING btree (schedule_id, slot DESC, ord DESC);
CREATE INDEX schedule_application ON public.schedule USING btree (namespace, application) WHERE ((deleted_at IS NULL) AND (application IS NOT NULL));
CREATE INDEX schedule_ever ON public.schedule USING btree (name, namespace);
CREATE UNIQUE INDEX schedule_name ON public.schedule USING btree (namespace, name) WHERE (deleted_at IS NULL);
CREATE INDEX schedule_program ON public.schedule USING btree (program_id) WHERE (deleted_at IS NULL);
CREATE INDEX set_aside_of ON public.set_aside USING btree (schedule_id, id);
CREATE INDEX start_log_newest ON public.start_log USING btree (key, at);
CREATE INDEX subscription_need ON public.subscription USING btree (key_id, need);
CREATE INDEX subscription_need_bytes ON public.subscription USING btree (key_id, need_bytes) WHERE (need_bytes IS NOT NULL);
CREATE INDEX subscription_need_rows ON public.subscription USING btree (key_id, need_rows) WHERE (need_rows IS NOT NULL);
CREATE CONSTRAINT TRIGGER event_number AFTER INSERT ON public.event_told DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.number_told();
CREATE TRIGGER event_tell AFTER INSERT ON public.event REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION public.tell_of_runs();
ALTER TABLE ONLY public.backfill_item
    ADD CONSTRAINT backfill_item_backfill_id_fkey FOREIGN KEY (backfill_id) REFERENCES public.backfill(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.backfill
    ADD CONSTRAINT backfill_schedule_id_fkey FOREIGN KEY (schedule_id) REFERENCES public.schedule(id);
ALTER TABLE ONLY public.clock
    ADD CONSTRAINT clock_schedule_id_fkey FOREIGN KEY (schedule_id) REFERENCES public.schedule(id);
ALTER TABLE ONLY public.instance_meters
    ADD CONSTRAINT instance_meters_instance_id_fkey FOREIGN KEY (instance_id) REFERENCES public.instance(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.program_revision
    ADD CONSTRAINT program_revision_program_id_fkey FOREIGN KEY (program_id) REFERENCES public.program(id);
ALTER TABLE ONLY public.revision
    ADD CONSTRAINT revision_schedule_id_fkey FOREIGN KEY (schedule_id) REFERENCES public.schedule(id);
ALTER TABLE ONLY public.schedule
    ADD CONSTRAINT schedule_program_id_fkey FOREIGN KEY (program_id) REFERENCES public.program(id);
ALTER TABLE ONLY public.sink_refusal
    ADD CONSTRAINT sink_refusal_sink_fkey FOREIGN KEY (sink) REFERENCES public.sink(name) ON DELETE CASCADE;
ALTER TABLE ONLY public.subscription
    ADD CONSTRAINT subscription_key_id_fkey FOREIGN KEY (key_id) REFERENCES public.event_key(id);
