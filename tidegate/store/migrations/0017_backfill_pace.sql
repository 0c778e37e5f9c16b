-- How long a backfill has been paused, so that its own pace is known.
-- depends: 0016_days

ALTER TABLE backfill ADD COLUMN paused_at instant;                         -- NULL: it is not
ALTER TABLE backfill ADD COLUMN paused_for bigint NOT NULL DEFAULT 0;  -- before, in microseconds
