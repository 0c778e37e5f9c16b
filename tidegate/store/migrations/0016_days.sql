-- A backfill's run stands for a fire time and was made later: its key, and so its day, is when it was made.
-- depends: 0015_table_news

COMMENT ON COLUMN tidegate_history.runs.day IS
    'UTC day of the slot: of the fire time where a clock made the run (cause fire), else (a backfill''s, too) of when it was made';
COMMENT ON COLUMN tidegate_history.runs.slot IS
    'first part of the run''s key: the fire time of a run by a clock (cause fire), else (a backfill''s, too) when it was made; microseconds since 1970';
COMMENT ON COLUMN tidegate_history.attempts.slot IS
    'first part of the run''s key: the fire time of a run by a clock (cause fire), else (a backfill''s, too) when it was made; microseconds since 1970';
COMMENT ON COLUMN tidegate_history.maintenance.slot IS
    'first part of the run''s key: the fire time of a run by a clock (cause fire), else (a backfill''s, too) when it was made; microseconds since 1970';
