-- What a sink refused may be sent again when somebody asks.
-- depends: 0012_sources

ALTER TABLE sink_refusal ADD COLUMN asked boolean NOT NULL DEFAULT false;
