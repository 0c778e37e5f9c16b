-- Sinks: where the event log is delivered to, and how far each has come.
-- depends: 0006_deadlines

CREATE TABLE sink (
    name        text PRIMARY KEY,
    document    jsonb NOT NULL,             -- its metadata and spec
    rev         bigint NOT NULL DEFAULT 1,  -- raised by each declaration
    day         integer NOT NULL,           -- of the newest event up to `pos`
    pos         bigint NOT NULL,            -- up to here everything was delivered, set aside, or is not for it
    delivered   bigint NOT NULL DEFAULT 0,
    set_aside   bigint NOT NULL DEFAULT 0,
    error       text NOT NULL DEFAULT '',   -- why it takes nothing now
    error_since instant,
    moved_at    instant,
    updated_at  instant NOT NULL
) WITH (fillfactor = 50);

-- What a sink refused; the events themselves are in the log.
CREATE TABLE sink_refusal (
    sink        text NOT NULL REFERENCES sink ON DELETE CASCADE,
    pos         bigint NOT NULL,
    day         integer NOT NULL,
    type        text NOT NULL,
    key         text NOT NULL,
    reason      text NOT NULL,
    at          instant NOT NULL,
    PRIMARY KEY (sink, pos)
);
