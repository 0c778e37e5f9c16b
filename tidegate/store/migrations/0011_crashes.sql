-- A waiting run whose last attempt crashed while nobody looked after it: when it may start again.
-- depends: 0010_tables

ALTER TABLE run_live
    ADD COLUMN backoff_until instant,            -- its backoff; NULL: its last attempt did not crash so
    ADD COLUMN restart_at instant;               -- not before then either; NULL: no scheduler has decided it yet
