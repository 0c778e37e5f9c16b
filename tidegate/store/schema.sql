CREATE SCHEMA tidegate_history;
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
CREATE FUNCTION tidegate_history.base36(bigint) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    AS $_$
DECLARE
    rest bigint := $1;
    text text := '';
BEGIN
    LOOP
        text := substr('0123456789abcdefghijklmnopqrstuvwxyz', (rest % 36)::integer + 1, 1) || text;
        rest := rest / 36;
        EXIT WHEN rest = 0;
    END LOOP;
    RETURN text;
END $_$;
CREATE FUNCTION tidegate_history.day_number(date) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $_$SELECT $1 - date '1970-01-01'$_$;
CREATE FUNCTION tidegate_history.day_of(bigint) RETURNS date
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $_$SELECT date '1970-01-01' + ($1 / 86400000000)::integer$_$;
CREATE FUNCTION tidegate_history.micros(timestamp with time zone) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $_$SELECT (extract(epoch FROM $1) * 1000000)::bigint$_$;
CREATE FUNCTION tidegate_history.run_id(slot bigint, schedule_id bigint, ord bigint) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $_$SELECT 'r' || tidegate_history.base36($1) || '-' || tidegate_history.base36($2) || '-'
        || tidegate_history.base36($3)$_$;
CREATE FUNCTION tidegate_history.seconds(bigint) RETURNS double precision
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $_$SELECT $1 / 1000000.0::double precision$_$;
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
    paused_at public.instant,
    paused_for bigint DEFAULT 0 NOT NULL,
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
    backoff_until public.instant,
    restart_at public.instant,
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
    at public.instant NOT NULL,
    asked boolean DEFAULT false NOT NULL
);
CREATE TABLE public.source (
    name text NOT NULL,
    document jsonb NOT NULL,
    version bigint NOT NULL,
    received bigint DEFAULT 0 NOT NULL,
    set_aside bigint DEFAULT 0 NOT NULL,
    missed bigint DEFAULT 0 NOT NULL,
    error text DEFAULT ''::text NOT NULL,
    error_since public.instant,
    moved_at public.instant,
    updated_at public.instant NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE public.source_misfit (
    source text NOT NULL,
    id bigint NOT NULL,
    topic text NOT NULL,
    part bigint NOT NULL,
    at_offset bigint NOT NULL,
    reason text NOT NULL,
    at public.instant NOT NULL
);
ALTER TABLE public.source_misfit ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.source_misfit_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.source_place (
    source text NOT NULL,
    topic text NOT NULL,
    part bigint NOT NULL,
    generation text NOT NULL,
    next bigint NOT NULL,
    tail bigint NOT NULL
)
WITH (fillfactor='50');
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
    history jsonb NOT NULL,
    version bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='70');
CREATE SEQUENCE public.table_care_change
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
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
CREATE VIEW tidegate_history.attempts AS
 SELECT tidegate_history.day_of(a.slot) AS day,
    tidegate_history.run_id(a.slot, a.schedule_id, a.ord) AS run_id,
    s.namespace,
    s.name AS schedule,
    p.name AS program,
    (a.number)::bigint AS number,
    a.outcome,
    (a.error ->> 'code'::text) AS code,
    (a.error ->> 'message'::text) AS message,
    a.backend,
    a.backend_id,
    a.host,
    public.as_time(a.created_at) AS created_at,
    public.as_time(a.started_at) AS started_at,
    public.as_time((a.finished_at)::public.instant) AS finished_at,
    tidegate_history.seconds((a.finished_at - (a.started_at)::bigint)) AS duration_seconds,
    a.error AS note,
    a.slot,
    a.schedule_id,
    a.ord
   FROM (((( SELECT attempt_open.slot,
            attempt_open.schedule_id,
            attempt_open.ord,
            attempt_open.number,
            'open'::text AS outcome,
            attempt_open.backend,
            attempt_open.backend_id,
            attempt_open.host,
            attempt_open.created_at,
            attempt_open.started_at,
            NULL::bigint AS finished_at,
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
            attempt.created_at,
            attempt.started_at,
            attempt.finished_at,
            attempt.error
           FROM public.attempt) a
     JOIN public.schedule s ON ((s.id = a.schedule_id)))
     LEFT JOIN public.run r ON (((r.slot = a.slot) AND (r.schedule_id = a.schedule_id) AND (r.ord = a.ord))))
     LEFT JOIN public.program p ON ((p.id = r.program_id)));
COMMENT ON VIEW tidegate_history.attempts IS 'one row for each attempt of a run';
COMMENT ON COLUMN tidegate_history.attempts.day IS 'UTC day of the run''s slot, also when the attempt was made later';
COMMENT ON COLUMN tidegate_history.attempts.run_id IS 'the run''s id, as `tidegate runs` prints it';
COMMENT ON COLUMN tidegate_history.attempts.namespace IS 'of the schedule';
COMMENT ON COLUMN tidegate_history.attempts.schedule IS 'name of the schedule; a deleted one keeps its rows';
COMMENT ON COLUMN tidegate_history.attempts.program IS 'name of the program';
COMMENT ON COLUMN tidegate_history.attempts.number IS 'which attempt of the run, from 1';
COMMENT ON COLUMN tidegate_history.attempts.outcome IS 'succeeded, failed, timed_out, cancelled, crashed, lost or refused; open: it has not ended';
COMMENT ON COLUMN tidegate_history.attempts.code IS 'what is said of the end, as one word, e.g. program.exit';
COMMENT ON COLUMN tidegate_history.attempts.message IS 'what is said of the end, as a sentence';
COMMENT ON COLUMN tidegate_history.attempts.backend IS 'what it ran on, e.g. spark or command';
COMMENT ON COLUMN tidegate_history.attempts.backend_id IS 'what the backend calls it';
COMMENT ON COLUMN tidegate_history.attempts.host IS 'machine and home of the worker';
COMMENT ON COLUMN tidegate_history.attempts.created_at IS 'when it was taken for launching';
COMMENT ON COLUMN tidegate_history.attempts.started_at IS 'when it was handed over to the backend';
COMMENT ON COLUMN tidegate_history.attempts.finished_at IS 'when its end was put on record';
COMMENT ON COLUMN tidegate_history.attempts.duration_seconds IS 'from started_at to finished_at';
COMMENT ON COLUMN tidegate_history.attempts.note IS 'JSON: all that the end said';
COMMENT ON COLUMN tidegate_history.attempts.slot IS 'first part of the run''s key: the fire time of a run by a clock (cause fire), else (a backfill''s, too) when it was made; microseconds since 1970';
COMMENT ON COLUMN tidegate_history.attempts.schedule_id IS 'second part; a schedule that is made again under its name has another';
COMMENT ON COLUMN tidegate_history.attempts.ord IS 'third part';
CREATE VIEW tidegate_history.events AS
 SELECT ('1970-01-01'::date + e.day) AS day,
    public.as_time(e.at) AS at,
    e.type,
    e.key,
    s.namespace,
    s.name AS schedule,
        CASE
            WHEN (e.slot IS NOT NULL) THEN tidegate_history.run_id(e.slot, e.schedule_id, e.ord)
            ELSE NULL::text
        END AS run_id,
    public.as_time(e."time") AS "time",
    e.source,
    e.source_id,
    e.payload,
    e.pos,
    e.day AS day_number
   FROM (public.event e
     LEFT JOIN public.schedule s ON ((s.id = e.schedule_id)));
COMMENT ON VIEW tidegate_history.events IS 'the event log';
COMMENT ON COLUMN tidegate_history.events.day IS 'UTC day on which it was put on record';
COMMENT ON COLUMN tidegate_history.events.at IS 'when it was put on record';
COMMENT ON COLUMN tidegate_history.events.type IS 'e.g. dataset.updated, run.failed, user.NAME';
COMMENT ON COLUMN tidegate_history.events.key IS 'what it is about, e.g. a table''s path';
COMMENT ON COLUMN tidegate_history.events.namespace IS 'of the schedule, of events about runs and schedules';
COMMENT ON COLUMN tidegate_history.events.schedule IS 'of events about runs and schedules';
COMMENT ON COLUMN tidegate_history.events.run_id IS 'of events about runs';
COMMENT ON COLUMN tidegate_history.events."time" IS 'when it happened, if its publisher says so';
COMMENT ON COLUMN tidegate_history.events.source IS 'who published it';
COMMENT ON COLUMN tidegate_history.events.source_id IS 'the publisher''s id of it';
COMMENT ON COLUMN tidegate_history.events.payload IS 'JSON: what it says';
COMMENT ON COLUMN tidegate_history.events.pos IS 'its place in the log';
COMMENT ON COLUMN tidegate_history.events.day_number IS 'days since 1970, in UTC';
CREATE VIEW tidegate_history.health AS
 SELECT tidegate_history.day_of((at)::bigint) AS day,
    name AS table_name,
    public.as_time(at) AS measured_at,
    score AS debt,
    (health ->> 'snapshot'::text) AS snapshot_id,
    ((health ->> 'rows'::text))::bigint AS rows,
    ((health ->> 'data_files'::text))::bigint AS data_files,
    ((health ->> 'data_bytes'::text))::bigint AS data_bytes,
    ((health ->> 'small_files'::text))::bigint AS small_files,
    ((health ->> 'delete_files'::text))::bigint AS delete_files,
    ((health ->> 'manifests'::text))::bigint AS manifests,
    ((health ->> 'snapshots'::text))::bigint AS snapshots,
    ((health ->> 'partitions'::text))::bigint AS partitions,
    public.as_time((((health ->> 'changed_at'::text))::bigint)::public.instant) AS changed_at,
    (at)::bigint AS measured_us
   FROM public.table_health h;
COMMENT ON VIEW tidegate_history.health IS 'one row for each time that a table was measured';
COMMENT ON COLUMN tidegate_history.health.day IS 'UTC day on which it was measured';
COMMENT ON COLUMN tidegate_history.health.table_name IS 'path of the table';
COMMENT ON COLUMN tidegate_history.health.measured_at IS 'when';
COMMENT ON COLUMN tidegate_history.health.debt IS 'its debt then, 0 to 1000';
COMMENT ON COLUMN tidegate_history.health.snapshot_id IS 'the snapshot that was measured; null: the table had none';
COMMENT ON COLUMN tidegate_history.health.rows IS 'rows of the table; null, here and below: unknown';
COMMENT ON COLUMN tidegate_history.health.data_files IS 'data files';
COMMENT ON COLUMN tidegate_history.health.data_bytes IS 'their size';
COMMENT ON COLUMN tidegate_history.health.small_files IS 'data files that are small by the policy';
COMMENT ON COLUMN tidegate_history.health.delete_files IS 'delete files';
COMMENT ON COLUMN tidegate_history.health.manifests IS 'manifests of the snapshot';
COMMENT ON COLUMN tidegate_history.health.snapshots IS 'snapshots that the table kept';
COMMENT ON COLUMN tidegate_history.health.partitions IS 'partitions with data';
COMMENT ON COLUMN tidegate_history.health.changed_at IS 'newest commit then that brought or took rows';
COMMENT ON COLUMN tidegate_history.health.measured_us IS 'measured_at in microseconds since 1970';
CREATE VIEW tidegate_history.maintenance AS
 SELECT tidegate_history.day_of((m.at)::bigint) AS day,
    tidegate_history.run_id(m.slot, m.schedule_id, m.ord) AS run_id,
    m.name AS table_name,
    m.operation,
    NULLIF(m.policy, ''::text) AS policy,
        CASE
            WHEN (m.policy <> ''::text) THEN (m.policy_rev)::bigint
            ELSE NULL::bigint
        END AS policy_revision,
    m.manual,
    m.outcome,
    ((m.result ->> 'changed'::text))::boolean AS changed,
    public.as_time(m.at) AS created_at,
    public.as_time(COALESCE(r.started_at, l.started_at)) AS started_at,
    public.as_time(r.finished_at) AS finished_at,
    tidegate_history.seconds(((r.finished_at)::bigint - (r.started_at)::bigint)) AS duration_seconds,
    public.as_time(m.settled_at) AS settled_at,
    m.bytes AS budget_bytes,
    ((m.result ->> 'bytes_rewritten'::text))::bigint AS bytes_rewritten,
    ((m.result ->> 'files_removed'::text))::bigint AS files_removed,
    ((m.result ->> 'files_before'::text))::bigint AS files_before,
    ((m.result ->> 'files_after'::text))::bigint AS files_after,
    ((m.result ->> 'snapshots_expired'::text))::bigint AS snapshots_expired,
    (m.result ->> 'message'::text) AS message,
    m.result,
    m.slot,
    m.schedule_id,
    m.ord,
    (m.at)::bigint AS created_us
   FROM ((public.maintenance m
     LEFT JOIN public.run r ON (((r.slot = m.slot) AND (r.schedule_id = m.schedule_id) AND (r.ord = m.ord))))
     LEFT JOIN public.run_live l ON (((l.slot = m.slot) AND (l.schedule_id = m.schedule_id) AND (l.ord = m.ord))));
COMMENT ON VIEW tidegate_history.maintenance IS 'one row for each operation on a table that was started, by policies or by hand';
COMMENT ON COLUMN tidegate_history.maintenance.day IS 'UTC day on which it was put on record';
COMMENT ON COLUMN tidegate_history.maintenance.run_id IS 'its run; how that went is in `runs` and `attempts`';
COMMENT ON COLUMN tidegate_history.maintenance.table_name IS 'path of the table';
COMMENT ON COLUMN tidegate_history.maintenance.operation IS 'e.g. rewrite_data_files';
COMMENT ON COLUMN tidegate_history.maintenance.policy IS 'whose options it had; null: of none';
COMMENT ON COLUMN tidegate_history.maintenance.policy_revision IS 'of the policy';
COMMENT ON COLUMN tidegate_history.maintenance.manual IS 'whether a person asked';
COMMENT ON COLUMN tidegate_history.maintenance.outcome IS 'how it ended; null: it is under way';
COMMENT ON COLUMN tidegate_history.maintenance.changed IS 'whether it changed anything, counted from snapshots; null: unknown';
COMMENT ON COLUMN tidegate_history.maintenance.created_at IS 'when it was put on record, and its budget reserved';
COMMENT ON COLUMN tidegate_history.maintenance.started_at IS 'when its first attempt was handed over';
COMMENT ON COLUMN tidegate_history.maintenance.finished_at IS 'when its outcome was final';
COMMENT ON COLUMN tidegate_history.maintenance.duration_seconds IS 'from started_at to finished_at';
COMMENT ON COLUMN tidegate_history.maintenance.settled_at IS 'when its budget was settled';
COMMENT ON COLUMN tidegate_history.maintenance.budget_bytes IS 'of its policy''s budget: reserved until it is settled, spent from then on';
COMMENT ON COLUMN tidegate_history.maintenance.bytes_rewritten IS 'size of the files it replaced; null: unknown';
COMMENT ON COLUMN tidegate_history.maintenance.files_removed IS 'by how many the data files became fewer by its own commits; null: unknown';
COMMENT ON COLUMN tidegate_history.maintenance.files_before IS 'data files of the table before it';
COMMENT ON COLUMN tidegate_history.maintenance.files_after IS 'data files of the table after it, those of writers meanwhile included';
COMMENT ON COLUMN tidegate_history.maintenance.snapshots_expired IS 'how many; null: unknown';
COMMENT ON COLUMN tidegate_history.maintenance.message IS 'what it did, as a sentence';
COMMENT ON COLUMN tidegate_history.maintenance.result IS 'JSON: all that it said';
COMMENT ON COLUMN tidegate_history.maintenance.slot IS 'first part of the run''s key: the fire time of a run by a clock (cause fire), else (a backfill''s, too) when it was made; microseconds since 1970';
COMMENT ON COLUMN tidegate_history.maintenance.schedule_id IS 'second part; a schedule that is made again under its name has another';
COMMENT ON COLUMN tidegate_history.maintenance.ord IS 'third part';
COMMENT ON COLUMN tidegate_history.maintenance.created_us IS 'created_at in microseconds since 1970';
CREATE VIEW tidegate_history.missed AS
 SELECT tidegate_history.day_of((f.to_fire)::bigint) AS day,
    s.namespace,
    s.name AS schedule,
    f.outcome AS state,
    f.n AS fires,
    public.as_time(f.from_fire) AS first_fire,
    public.as_time(f.to_fire) AS last_fire,
    f.reason,
    public.as_time(f.decided_at) AS decided_at,
    f.schedule_id,
    (f.from_fire)::bigint AS first_fire_us,
    (f.to_fire)::bigint AS last_fire_us
   FROM (public.fire_range f
     JOIN public.schedule s ON ((s.id = f.schedule_id)));
COMMENT ON VIEW tidegate_history.missed IS 'one row for each stretch of fires that passed without a run';
COMMENT ON COLUMN tidegate_history.missed.day IS 'UTC day of its last fire';
COMMENT ON COLUMN tidegate_history.missed.namespace IS 'of the schedule';
COMMENT ON COLUMN tidegate_history.missed.schedule IS 'name of the schedule';
COMMENT ON COLUMN tidegate_history.missed.state IS 'missed or superseded';
COMMENT ON COLUMN tidegate_history.missed.fires IS 'how many';
COMMENT ON COLUMN tidegate_history.missed.first_fire IS 'the first of them';
COMMENT ON COLUMN tidegate_history.missed.last_fire IS 'the last of them';
COMMENT ON COLUMN tidegate_history.missed.reason IS 'why there is no run';
COMMENT ON COLUMN tidegate_history.missed.decided_at IS 'when that was found';
COMMENT ON COLUMN tidegate_history.missed.schedule_id IS 'a schedule that is made again under its name has another';
COMMENT ON COLUMN tidegate_history.missed.first_fire_us IS 'first_fire in microseconds since 1970';
COMMENT ON COLUMN tidegate_history.missed.last_fire_us IS 'last_fire in microseconds since 1970';
CREATE VIEW tidegate_history.runs AS
 SELECT tidegate_history.day_of(r.slot) AS day,
    tidegate_history.run_id(r.slot, r.schedule_id, r.ord) AS run_id,
    s.namespace,
    s.name AS schedule,
    s.application,
    p.name AS program,
    (r.rev)::bigint AS revision,
    r.cause,
    NULLIF(r.caused_by, ''::text) AS caused_by,
    COALESCE(r.outcome, l.state) AS state,
    NULLIF(r.reason, ''::text) AS reason,
    (r.priority)::bigint AS priority,
    public.as_time(r.fire_time) AS fire_time,
    public.as_time(r.created_at) AS created_at,
    public.as_time(COALESCE(r.ready_at, l.ready_at)) AS ready_at,
    public.as_time(COALESCE(r.started_at, l.started_at)) AS started_at,
    public.as_time(r.finished_at) AS finished_at,
    tidegate_history.seconds(((COALESCE(r.started_at, l.started_at))::bigint - (r.created_at)::bigint)) AS waited_seconds,
    tidegate_history.seconds(((r.finished_at)::bigint - (r.started_at)::bigint)) AS duration_seconds,
    r.merged_into,
    COALESCE(r.arguments, l.arguments) AS arguments,
    r.inputs,
    r.slot,
    r.schedule_id,
    r.ord
   FROM (((public.run r
     JOIN public.schedule s ON ((s.id = r.schedule_id)))
     JOIN public.program p ON ((p.id = r.program_id)))
     LEFT JOIN public.run_live l ON (((l.slot = r.slot) AND (l.schedule_id = r.schedule_id) AND (l.ord = r.ord))));
COMMENT ON VIEW tidegate_history.runs IS 'one row for each run of the ledger; stretches of missed fires are in `missed`';
COMMENT ON COLUMN tidegate_history.runs.day IS 'UTC day of the slot: of the fire time where a clock made the run (cause fire), else (a backfill''s, too) of when it was made';
COMMENT ON COLUMN tidegate_history.runs.run_id IS 'the run''s id, as `tidegate runs` prints it';
COMMENT ON COLUMN tidegate_history.runs.namespace IS 'of the schedule';
COMMENT ON COLUMN tidegate_history.runs.schedule IS 'name of the schedule; a deleted one keeps its rows';
COMMENT ON COLUMN tidegate_history.runs.application IS 'that the schedule belongs to; null: none';
COMMENT ON COLUMN tidegate_history.runs.program IS 'name of the program, of the same namespace';
COMMENT ON COLUMN tidegate_history.runs.revision IS 'of the schedule';
COMMENT ON COLUMN tidegate_history.runs.cause IS 'fire, evidence, backfill, manual or rerun';
COMMENT ON COLUMN tidegate_history.runs.caused_by IS 'who asked, of a cause that is a person''s';
COMMENT ON COLUMN tidegate_history.runs.state IS 'waiting, ready, starting, running, stopping, or how it ended (succeeded, failed, ...)';
COMMENT ON COLUMN tidegate_history.runs.reason IS 'why it ended so';
COMMENT ON COLUMN tidegate_history.runs.priority IS '0 to 100';
COMMENT ON COLUMN tidegate_history.runs.fire_time IS 'the instant that a time trigger stands for; null: no clock made it';
COMMENT ON COLUMN tidegate_history.runs.created_at IS 'when it was put on record';
COMMENT ON COLUMN tidegate_history.runs.ready_at IS 'when its last constraint let it go; null: not yet, or never';
COMMENT ON COLUMN tidegate_history.runs.started_at IS 'when its first attempt was handed over; null: not yet, or never';
COMMENT ON COLUMN tidegate_history.runs.finished_at IS 'when its outcome was final; null: it has none';
COMMENT ON COLUMN tidegate_history.runs.waited_seconds IS 'from created_at to started_at';
COMMENT ON COLUMN tidegate_history.runs.duration_seconds IS 'from started_at to finished_at, waiting between attempts included';
COMMENT ON COLUMN tidegate_history.runs.merged_into IS 'id of the run that took this one in';
COMMENT ON COLUMN tidegate_history.runs.arguments IS 'JSON: what the program was given';
COMMENT ON COLUMN tidegate_history.runs.inputs IS 'JSON: by dataset, what it was to read';
COMMENT ON COLUMN tidegate_history.runs.slot IS 'first part of the run''s key: the fire time of a run by a clock (cause fire), else (a backfill''s, too) when it was made; microseconds since 1970';
COMMENT ON COLUMN tidegate_history.runs.schedule_id IS 'second part; a schedule that is made again under its name has another';
COMMENT ON COLUMN tidegate_history.runs.ord IS 'third part';
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
ALTER TABLE ONLY public.source_misfit
    ADD CONSTRAINT source_misfit_pkey PRIMARY KEY (source, id);
ALTER TABLE ONLY public.source
    ADD CONSTRAINT source_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.source_place
    ADD CONSTRAINT source_place_pkey PRIMARY KEY (source, topic, part);
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
CREATE INDEX table_care_version ON public.table_care USING btree (version, name, operation);
CREATE INDEX table_health_at ON public.table_health USING btree (at);
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
ALTER TABLE ONLY public.source_misfit
    ADD CONSTRAINT source_misfit_source_fkey FOREIGN KEY (source) REFERENCES public.source(name) ON DELETE CASCADE;
ALTER TABLE ONLY public.source_place
    ADD CONSTRAINT source_place_source_fkey FOREIGN KEY (source) REFERENCES public.source(name) ON DELETE CASCADE;
ALTER TABLE ONLY public.subscription
    ADD CONSTRAINT subscription_key_id_fkey FOREIGN KEY (key_id) REFERENCES public.event_key(id);
