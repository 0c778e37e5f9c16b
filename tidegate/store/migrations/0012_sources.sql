-- Sources: messages of other systems that become events, and up to where each partition was read.
-- depends: 0010_tables

CREATE TABLE source (
    name        text PRIMARY KEY,
    document    jsonb NOT NULL,             -- its metadata and spec
    version     bigint NOT NULL,            -- begins at the instant of its declaration; raised by each, and by each move
    received    bigint NOT NULL DEFAULT 0,  -- messages read
    set_aside   bigint NOT NULL DEFAULT 0,  -- of these no events
    missed      bigint NOT NULL DEFAULT 0,  -- gone before they were read
    error       text NOT NULL DEFAULT '',   -- what is wrong with it now
    error_since instant,
    moved_at    instant,
    updated_at  instant NOT NULL
) WITH (fillfactor = 50);

-- Moved with the events of what lies before, under the row of the source.
CREATE TABLE source_place (
    source      text NOT NULL REFERENCES source ON DELETE CASCADE,
    topic       text NOT NULL,
    part        bigint NOT NULL,            -- -1: the topic was looked for and was not there
    generation  text NOT NULL,              -- which topic of this name; empty: its broker does not tell
    next        bigint NOT NULL,            -- the offset to read on from
    tail        bigint NOT NULL,            -- behind its last message, when last seen
    PRIMARY KEY (source, topic, part)
) WITH (fillfactor = 50);

-- What was no event; the latest of each source.
CREATE TABLE source_misfit (
    source      text NOT NULL REFERENCES source ON DELETE CASCADE,
    id          bigint GENERATED ALWAYS AS IDENTITY,
    topic       text NOT NULL,
    part        bigint NOT NULL,
    at_offset   bigint NOT NULL,
    reason      text NOT NULL,
    at          instant NOT NULL,
    PRIMARY KEY (source, id)
);
