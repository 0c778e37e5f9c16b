-- The spine: who declares what, what is due, what ran.
--
-- Instants and durations are bigint microseconds since 1970-01-01T00:00Z (docs/decisions/0001). The views at the end
-- show them as timestamptz to people.
--
-- In which order rows are locked: docs/explanation/locks.md.
-- depends:

CREATE DOMAIN instant AS bigint;
CREATE DOMAIN duration AS bigint;

-- ── who is here ──────────────────────────────────────────────────────────────────────────────────────────────────
CREATE TABLE instance (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    role        text NOT NULL CHECK (role IN ('scheduler', 'worker', 'api', 'all')),
    name        text NOT NULL,
    host        text NOT NULL,              -- identifies the home (machine + home directory): what may adopt local attempts
    pid         integer NOT NULL,
    version     text NOT NULL,
    epoch       bigint NOT NULL DEFAULT 1,  -- raised by a takeover; a writer with an older one is fenced
    up_since    instant NOT NULL,
    heartbeat   instant NOT NULL,
    direct      boolean NOT NULL,           -- holds a session advisory lock: gone at once when the process dies
    ended_at    instant                     -- clean shutdown or declared dead
);
CREATE INDEX instance_alive ON instance (heartbeat) WHERE ended_at IS NULL;

CREATE TABLE lease (
    duty        text PRIMARY KEY,
    instance_id bigint NOT NULL,
    epoch       bigint NOT NULL,
    token       bigint NOT NULL,            -- raised by every change of holder
    expires     instant NOT NULL
);

CREATE SEQUENCE fencing_token;

-- ── what is declared ─────────────────────────────────────────────────────────────────────────────────────────────
CREATE TABLE namespace (
    name        text PRIMARY KEY,
    document    jsonb NOT NULL DEFAULT '{}',
    created_at  instant NOT NULL
);

CREATE TABLE application (
    namespace   text NOT NULL,
    name        text NOT NULL,
    document    jsonb NOT NULL,
    rev         integer NOT NULL DEFAULT 1,
    updated_at  instant NOT NULL,
    PRIMARY KEY (namespace, name)
);

CREATE TABLE pool (
    name        text PRIMARY KEY,
    slots       integer NOT NULL CHECK (slots >= 1),
    used        integer NOT NULL DEFAULT 0 CHECK (used >= 0),
    rate_max    integer,                    -- launches per rate_per, bucket of rate_burst; NULL: no limit
    rate_per    duration,
    rate_burst  integer,
    tokens      double precision NOT NULL DEFAULT 0,
    refilled_at instant NOT NULL DEFAULT 0
);

CREATE TABLE program (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace   text NOT NULL,
    name        text NOT NULL,
    application text,
    rev         integer NOT NULL,
    deleted_at  instant
);
CREATE UNIQUE INDEX program_name ON program (namespace, name) WHERE deleted_at IS NULL;

CREATE TABLE program_revision (
    program_id  bigint NOT NULL REFERENCES program,
    rev         integer NOT NULL,
    document    jsonb NOT NULL,             -- as the person wrote it
    spec        text NOT NULL,              -- canonical, see store/codec.py
    valid_from  instant NOT NULL,
    author      text NOT NULL,
    PRIMARY KEY (program_id, rev)
);

CREATE TABLE schedule (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace   text NOT NULL,
    name        text NOT NULL,
    application text,
    labels      jsonb NOT NULL DEFAULT '{}',
    owner       text NOT NULL DEFAULT '',
    description text NOT NULL DEFAULT '',
    program_id  bigint NOT NULL REFERENCES program,  -- of the newest revision
    created_at  instant NOT NULL,
    deleted_at  instant
);
CREATE UNIQUE INDEX schedule_name ON schedule (namespace, name) WHERE deleted_at IS NULL;
CREATE INDEX schedule_ever ON schedule (name, namespace);  -- deleted ones too: their runs are still asked for
CREATE INDEX schedule_program ON schedule (program_id) WHERE deleted_at IS NULL;
CREATE INDEX schedule_application ON schedule (namespace, application) WHERE deleted_at IS NULL AND application IS NOT NULL;

CREATE TABLE revision (
    schedule_id bigint NOT NULL REFERENCES schedule,
    rev         integer NOT NULL,
    valid_from  instant NOT NULL,           -- rules over fires after it, up to and including the next one's
    mode        text NOT NULL CHECK (mode IN ('enabled', 'drop', 'keep', 'backlog', 'hold')),
    reason      text NOT NULL DEFAULT '',   -- of the mode
    document    jsonb NOT NULL,             -- the spec as the person wrote it
    spec        text NOT NULL,              -- canonical, see store/codec.py
    tzdata      text NOT NULL,
    author      text NOT NULL,
    PRIMARY KEY (schedule_id, rev)
);

-- The schedule's mutex and its hot row. Narrow: what it means is in revision and program_revision, cached by (id, rev).
CREATE TABLE clock (
    schedule_id bigint PRIMARY KEY REFERENCES schedule,
    program_id  bigint NOT NULL,            -- schedule.program_id
    rev         integer NOT NULL,           -- newest
    cursor_rev  integer NOT NULL,           -- in force at the cursor; < rev while fires of older revisions are undecided
    mode        text NOT NULL,
    gen         bigint NOT NULL DEFAULT 0,  -- last `ord` handed out to runs that are not clock fires
    cursor      instant NOT NULL,           -- every fire up to and including it is decided
    next_due    instant,                    -- fire time + jitter of the next undecided fire; NULL: none
    last_fire   instant,                    -- newest fire time that became a run
    gap_to      instant,                    -- a found gap: fires up to here are catch-up launches, already judged
    gap_left    integer,                    -- how many of them are still to be launched
    after_finish boolean NOT NULL DEFAULT false,  -- works, and by an after_finish trigger: a run's end sets next_due
    limit_schedule integer,                 -- of the newest revision: at most so many runs of the schedule at a time,
    limit_program integer                   -- of its program; NULL: it does not say
);
CREATE INDEX clock_due ON clock (next_due, schedule_id) WHERE next_due IS NOT NULL;
CREATE INDEX clock_after_finish ON clock (schedule_id) WHERE after_finish;

-- ── what happened ────────────────────────────────────────────────────────────────────────────────────────────────
-- One row per run, made with it and completed at its end; what happens in between stands in run_live.
CREATE TABLE run (
    slot        bigint NOT NULL,            -- clock: fire time; else the instant it was made
    schedule_id bigint NOT NULL,
    ord         bigint NOT NULL,            -- clock: 0; else ++clock.gen
    rev         integer NOT NULL,           -- newest when the run was made; at its end the one it ran by
    program_id  bigint NOT NULL,
    program_rev integer,                    -- that it ran by
    fire_time   instant,
    previous_fire instant,                  -- the fire time of the run before this one
    cause       text NOT NULL CHECK (cause IN ('fire', 'evidence', 'backfill', 'manual', 'rerun')),
    caused_by   text NOT NULL DEFAULT '',   -- who asked; of a rerun, the id of the old run
    priority    smallint NOT NULL,
    created_at  instant NOT NULL,
    ready_at    instant,
    started_at  instant,                    -- first attempt
    finished_at instant,
    outcome     text CHECK (outcome IN ('succeeded', 'failed', 'timed_out', 'cancelled', 'crashed',
                                        'skipped', 'merged', 'expired', 'superseded', 'missed')),
    reason      text NOT NULL DEFAULT '',
    stop        text,                       -- why it was asked to stop, if it was
    merged_into text,
    given       jsonb,                      -- arguments given by hand
    arguments   jsonb,                      -- as rendered for the launch
    evidence    jsonb,
    inputs      jsonb,
    PRIMARY KEY (slot, schedule_id, ord),
    CHECK ((outcome IS NULL) = (finished_at IS NULL))
) PARTITION BY RANGE (slot);
CREATE INDEX run_of_schedule ON run (schedule_id, slot DESC, ord DESC);

-- A stretch of missed fires is one row, however many fires it stands for.
CREATE TABLE fire_range (
    schedule_id bigint NOT NULL,
    from_fire   instant NOT NULL,
    to_fire     instant NOT NULL,
    rev         integer NOT NULL,           -- that decided it
    n           bigint NOT NULL CHECK (n >= 1),
    outcome     text NOT NULL CHECK (outcome IN ('missed', 'superseded')),
    reason      text NOT NULL,
    decided_at  instant NOT NULL,
    PRIMARY KEY (schedule_id, from_fire)
);
CREATE INDEX fire_range_newest ON fire_range (to_fire, schedule_id);

-- Runs that have not ended; a row goes when its run ends. No index names `state`, so that starting -> running ->
-- stopping are heap-only updates: wake_at and wake_key are set only while waiting, `ready` only while ready.
CREATE TABLE run_live (
    slot        bigint NOT NULL,
    schedule_id bigint NOT NULL,
    ord         bigint NOT NULL,
    state       text NOT NULL CHECK (state IN ('waiting', 'ready', 'starting', 'running', 'stopping')),
    ready       boolean NOT NULL DEFAULT false,
    rev         integer NOT NULL,           -- newest when the run was made; from ready on pinned
    program_id  bigint NOT NULL,
    program_rev integer,                    -- pinned when ready
    kind        text NOT NULL,              -- of the program: which launcher
    pool        text NOT NULL,
    fire_time   instant,
    previous_fire instant,
    cause       text NOT NULL,
    caused_by   text NOT NULL DEFAULT '',
    priority    smallint NOT NULL,
    created_at  instant NOT NULL,
    wake_at     instant,                    -- waiting: judge again then; never later than expires_at
    wake_key    text,                       -- waiting: judge again when this counter or pool is released
    expires_at  instant,
    waiting_for jsonb,                      -- the last verdict, for people: [{constraint, verdict, until, why}]
    held        text[] NOT NULL DEFAULT '{}',  -- counters it holds, from admission to the end of the run
    slot_held   boolean NOT NULL DEFAULT false,-- a slot of its pool, from admission to the end of the attempt
    ready_at    instant,
    started_at  instant,                    -- first attempt
    attempts    integer NOT NULL DEFAULT 0, -- attempts made
    failures    integer NOT NULL DEFAULT 0, -- counted against retry.max_attempts
    lost        integer NOT NULL DEFAULT 0, -- lost workers and refused launches, counted against their own budget
    stop        text CHECK (stop IN ('cancel', 'timeout', 'shutdown')),
    stop_by     text NOT NULL DEFAULT '',
    stop_at     instant,                    -- when it was asked to stop
    given       jsonb,
    arguments   jsonb,
    PRIMARY KEY (schedule_id, slot, ord),
    CHECK (ready = (state = 'ready')),
    CHECK (state = 'waiting' OR (wake_at IS NULL AND wake_key IS NULL))
) WITH (fillfactor = 70);
CREATE INDEX run_live_wake ON run_live (wake_at, slot, schedule_id, ord) WHERE wake_at IS NOT NULL;
CREATE INDEX run_live_key ON run_live (wake_key, priority DESC, slot, schedule_id, ord) WHERE wake_key IS NOT NULL;
CREATE INDEX run_live_ready ON run_live (priority DESC, slot, schedule_id, ord) WHERE ready;

-- Attempts under way: each is a possible crash, committed before the backend is touched. A row moves to `attempt` at
-- its end.
CREATE TABLE attempt_open (
    slot        bigint NOT NULL,
    schedule_id bigint NOT NULL,
    ord         bigint NOT NULL,
    number      integer NOT NULL,
    instance_id bigint NOT NULL,            -- the worker that looks after it
    epoch       bigint NOT NULL,
    host        text NOT NULL,
    fence       bigint NOT NULL,            -- from fencing_token, given to the program
    backend     text NOT NULL,              -- the launcher's kind
    backend_id  text,                       -- what the backend calls it (pid, session, ...)
    created_at  instant NOT NULL,           -- the possible crash was committed
    started_at  instant,                    -- the backend said so
    PRIMARY KEY (schedule_id, slot, ord)
) WITH (fillfactor = 70);
CREATE INDEX attempt_open_instance ON attempt_open (instance_id);

-- Attempts that ended.
CREATE TABLE attempt (
    slot        bigint NOT NULL,
    schedule_id bigint NOT NULL,
    ord         bigint NOT NULL,
    number      integer NOT NULL,
    instance_id bigint NOT NULL,
    host        text NOT NULL,
    fence       bigint NOT NULL,
    backend     text NOT NULL,
    backend_id  text,
    created_at  instant NOT NULL,
    started_at  instant,
    finished_at instant NOT NULL,
    outcome     text NOT NULL
                CHECK (outcome IN ('succeeded', 'failed', 'timed_out', 'cancelled', 'crashed', 'lost', 'refused')),
    error       jsonb,                      -- {code, message, exit_status}
    PRIMARY KEY (slot, schedule_id, ord, number)
) PARTITION BY RANGE (slot);

CREATE TABLE limit_counter (
    key         text PRIMARY KEY,           -- s<schedule id>, p<program id>
    held        integer NOT NULL DEFAULT 0 CHECK (held >= 0)
) WITH (fillfactor = 50);

-- Made with the schedule.
CREATE TABLE schedule_stats (
    schedule_id bigint PRIMARY KEY,
    last_start  instant,
    last_finish instant,
    last_success instant,
    last_run_success boolean,
    total_runs  bigint NOT NULL DEFAULT 0,
    total_successes bigint NOT NULL DEFAULT 0,
    total_failures bigint NOT NULL DEFAULT 0,
    total_crashes bigint NOT NULL DEFAULT 0,
    total_timeouts bigint NOT NULL DEFAULT 0,
    total_duration duration NOT NULL DEFAULT 0,
    consecutive_failures integer NOT NULL DEFAULT 0,
    consecutive_crashes integer NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- The event log, which is also the outbox: written in the transaction of the change it tells.
CREATE TABLE event (
    day         integer NOT NULL,           -- days since 1970-01-01, of `at`
    pos         bigint GENERATED ALWAYS AS IDENTITY,
    xid         xid8 NOT NULL DEFAULT pg_current_xact_id(),
    at          instant NOT NULL,
    type        text NOT NULL,
    schedule_id bigint,
    slot        bigint,
    ord         bigint,
    payload     jsonb,
    PRIMARY KEY (day, pos)
) PARTITION BY RANGE (day);

-- Every change a person made: who, when, what differed.
CREATE TABLE change (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at          instant NOT NULL,
    who         text NOT NULL,
    action      text NOT NULL,
    kind        text NOT NULL,
    namespace   text NOT NULL DEFAULT '',
    name        text NOT NULL,
    before      jsonb,
    after       jsonb
);
CREATE INDEX change_of ON change (namespace, kind, name, id DESC);

-- Answers to requests that carried an Idempotency-Key.
CREATE TABLE idempotency (
    key         text PRIMARY KEY,
    request     text NOT NULL,              -- digest of method, path and body
    status      integer NOT NULL,
    answer      jsonb NOT NULL,
    at          instant NOT NULL
);

-- ── for people ───────────────────────────────────────────────────────────────────────────────────────────────────
CREATE FUNCTION as_time(instant) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    $$SELECT timestamptz 'epoch' + $1 * interval '1 microsecond'$$;

CREATE VIEW tidegate_schedules AS
    SELECT s.namespace, s.name, s.application, c.mode, c.rev, as_time(c.cursor) AS decided_up_to,
           as_time(c.next_due) AS next_due, as_time(c.last_fire) AS last_fire, as_time(s.created_at) AS created_at,
           as_time(s.deleted_at) AS deleted_at, s.id AS schedule_id
    FROM schedule s JOIN clock c ON c.schedule_id = s.id;

CREATE VIEW tidegate_runs AS
    SELECT s.namespace, s.name AS schedule, p.name AS program, coalesce(r.outcome, l.state) AS state, r.reason,
           as_time(r.fire_time) AS fire_time, r.cause, r.caused_by, as_time(r.created_at) AS created_at,
           as_time(coalesce(r.ready_at, l.ready_at)) AS ready_at,
           as_time(coalesce(r.started_at, l.started_at)) AS started_at, as_time(r.finished_at) AS finished_at,
           (r.finished_at - r.started_at) * interval '1 microsecond' AS took,
           l.waiting_for, as_time(l.wake_at) AS looked_at_again, r.slot, r.schedule_id, r.ord
    FROM run r
    JOIN schedule s ON s.id = r.schedule_id
    JOIN program p ON p.id = r.program_id
    LEFT JOIN run_live l ON l.slot = r.slot AND l.schedule_id = r.schedule_id AND l.ord = r.ord;

CREATE VIEW tidegate_missed AS
    SELECT s.namespace, s.name AS schedule, f.outcome, f.n, as_time(f.from_fire) AS from_fire,
           as_time(f.to_fire) AS to_fire, f.reason, as_time(f.decided_at) AS decided_at, f.schedule_id
    FROM fire_range f JOIN schedule s ON s.id = f.schedule_id;

CREATE VIEW tidegate_attempts AS
    SELECT slot, schedule_id, ord, number, 'open' AS outcome, backend, backend_id, host, fence,
           as_time(created_at) AS created_at, as_time(started_at) AS started_at, NULL::timestamptz AS finished_at,
           NULL::jsonb AS error
    FROM attempt_open
    UNION ALL
    SELECT slot, schedule_id, ord, number, outcome, backend, backend_id, host, fence,
           as_time(created_at), as_time(started_at), as_time(finished_at), error
    FROM attempt;

CREATE VIEW tidegate_events AS
    SELECT as_time(e.at) AS at, e.type, s.namespace, s.name AS schedule, e.payload, e.slot, e.schedule_id, e.ord, e.pos
    FROM event e LEFT JOIN schedule s ON s.id = e.schedule_id;
