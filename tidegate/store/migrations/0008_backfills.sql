-- Backfills: past fire times that a person asked to be run.
-- depends: 0006_deadlines

CREATE TABLE backfill (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    schedule_id bigint NOT NULL REFERENCES schedule,
    rev         integer NOT NULL,           -- whose trigger says the fire times
    state       text NOT NULL CHECK (state IN ('running', 'paused', 'finished', 'cancelled')),
    reason      text NOT NULL DEFAULT '',   -- of the state
    asked_by    text NOT NULL,
    start_at    instant NOT NULL,
    end_at      instant NOT NULL,           -- the first instant that is not meant
    keys        bigint[],                   -- ascending; NULL: every fire time of the range
    walk        text NOT NULL CHECK (walk IN ('oldest', 'newest')),
    reprocess   text NOT NULL CHECK (reprocess IN ('none', 'failed', 'all')),
    concurrency integer NOT NULL CHECK (concurrency >= 1),
    total       bigint NOT NULL,            -- fire times that were asked for
    cursor      instant NOT NULL,           -- the last one that was looked at
    considered  bigint NOT NULL DEFAULT 0,
    passed      bigint NOT NULL DEFAULT 0,  -- left to the run they have
    succeeded   bigint NOT NULL DEFAULT 0,
    failed      bigint NOT NULL DEFAULT 0,
    cancelled   bigint NOT NULL DEFAULT 0,
    wake_at     instant,                    -- go on with the walk then; NULL: when one of its runs has ended
    created_at  instant NOT NULL,
    finished_at instant                     -- nothing of it is left to be done
) WITH (fillfactor = 70);
CREATE INDEX backfill_wake ON backfill (wake_at, id) WHERE wake_at IS NOT NULL;
CREATE INDEX backfill_unfinished ON backfill (id) WHERE finished_at IS NULL;
CREATE INDEX backfill_of ON backfill (schedule_id, id);

-- Fire times that backfills have in hand: at most one at a time for each instant of a schedule.
CREATE TABLE backfill_item (
    schedule_id bigint NOT NULL,
    fire_time   instant NOT NULL,
    backfill_id bigint NOT NULL REFERENCES backfill ON DELETE CASCADE,
    slot        bigint,                     -- of its run; NULL: it is to be made (again)
    ord         bigint,
    PRIMARY KEY (schedule_id, fire_time),
    CHECK ((slot IS NULL) = (ord IS NULL))
);
CREATE INDEX backfill_item_of ON backfill_item (backfill_id, fire_time);

-- Runs that were asked for and stand for a fire time. Few have a row here: no clock fire has.
CREATE INDEX run_asked_for ON run (schedule_id, fire_time) WHERE cause IN ('backfill', 'rerun');
