-- Deadlines: when a live run is to be looked at because of one.
-- depends: 0005_gates

ALTER TABLE run_live
    ADD COLUMN deadline_at instant,              -- look at its deadlines then; NULL: it has none, or all was told
    ADD COLUMN deadline_base instant,            -- what they count from
    ADD COLUMN deadline_told text NOT NULL DEFAULT '';  -- what was told, separated by spaces
CREATE INDEX run_live_deadline ON run_live (deadline_at) WHERE deadline_at IS NOT NULL;
