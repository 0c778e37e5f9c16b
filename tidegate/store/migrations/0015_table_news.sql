-- What became of operations on tables is read again only where it changed.
-- depends: 0014_replays

CREATE SEQUENCE table_care_change;
ALTER TABLE table_care ADD COLUMN version bigint NOT NULL DEFAULT 0;  -- a new one with every change
CREATE INDEX table_care_version ON table_care (version, name, operation);
