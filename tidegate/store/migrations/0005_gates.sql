-- Gates: what a run may have to wait for before it starts, and in what order.
-- depends: 0004_meters

-- While it is suspended (backlog, hold), runs expire all the same.
ALTER TABLE revision ADD COLUMN held_expires boolean NOT NULL DEFAULT false;

-- Limits are told by those who wait for them (run_live.wake_limit).
ALTER TABLE clock DROP COLUMN limit_schedule, DROP COLUMN limit_program;

-- A run that is held waits at an instant of its own (wake_at), or in the queue of that name (wake_key), where those that
-- wait for the same stand in order of rank: priority with ageing, domain/admission.rank. `wake_limit`: of a counter's
-- queue, how many may hold the counter. `window_ends`: what still runs then is stopped.
ALTER TABLE run_live
    ALTER COLUMN wake_key TYPE text COLLATE "C",
    ADD COLUMN rank bigint NOT NULL GENERATED ALWAYS AS (created_at - priority * 60000000::bigint) STORED,
    ADD COLUMN wake_limit integer NOT NULL DEFAULT 0,
    ADD COLUMN window_ends instant,
    DROP CONSTRAINT run_live_stop_check,
    ADD CONSTRAINT run_live_stop_check CHECK (stop IN ('cancel', 'timeout', 'window', 'shutdown'));
DROP INDEX run_live_wake, run_live_key, run_live_ready;
CREATE INDEX run_live_wake ON run_live (wake_at, rank, slot, schedule_id, ord) WHERE wake_at IS NOT NULL;
CREATE INDEX run_live_key ON run_live (wake_key, wake_limit, rank, slot, schedule_id, ord) WHERE wake_key IS NOT NULL;
CREATE INDEX run_live_ready ON run_live (rank, slot, schedule_id, ord) WHERE ready;
-- all that wait: nothing waits without the one or the other
CREATE INDEX run_live_waiting ON run_live (rank, slot, schedule_id, ord) WHERE wake_at IS NOT NULL OR wake_key IS NOT NULL;

-- When the first of a queue are to be judged; NULL: only when something is given back under its key. Whoever changes
-- `at` draws a new `turn`: who looked at an older one does not take back what was said since.
CREATE SEQUENCE queue_turn;
CREATE TABLE queue_wake (
    key         text COLLATE "C" PRIMARY KEY,
    at          instant,
    turn        bigint NOT NULL DEFAULT nextval('queue_turn')
) WITH (fillfactor = 50);
CREATE INDEX queue_wake_at ON queue_wake (at, key);

-- First attempts under a counter, for as long as somebody reads them (rate, min_interval). `at` is NULL from the
-- admission to the first attempt.
ALTER TABLE limit_counter ADD COLUMN keeps duration;  -- how long its starts are kept; NULL: nobody reads them
CREATE TABLE start_log (
    schedule_id bigint NOT NULL,
    slot        bigint NOT NULL,
    ord         bigint NOT NULL,
    key         text NOT NULL,
    at          instant,
    PRIMARY KEY (schedule_id, slot, ord, key)
);
CREATE INDEX start_log_newest ON start_log (key, at);

-- At most one row: nothing is admitted while it is there.
CREATE TABLE frozen (
    one         boolean PRIMARY KEY DEFAULT true CHECK (one),
    who         text NOT NULL,
    since       instant NOT NULL,
    reason      text NOT NULL
);

CREATE TABLE calendar (
    name        text PRIMARY KEY,
    document    jsonb NOT NULL,             -- as the person wrote it
    spec        text NOT NULL               -- canonical, see store/codec.py
);

-- The last reading of each resource that `load` constraints ask for.
CREATE TABLE gauge (
    resource    text PRIMARY KEY,
    value       double precision,           -- NULL: it cannot be read, `error` says why
    at          instant NOT NULL,
    error       text NOT NULL DEFAULT ''
);
