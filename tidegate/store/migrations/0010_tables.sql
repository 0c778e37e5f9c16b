-- Tables that are looked after: policies, what was measured, and maintenance that was started.
-- depends: 0006_deadlines

CREATE TABLE policy (
    name        text PRIMARY KEY,
    rev         integer NOT NULL,
    document    jsonb,                      -- as the person wrote it; NULL: it was deleted
    author      text NOT NULL,
    updated_at  instant NOT NULL
);

CREATE TABLE policy_revision (
    name        text NOT NULL,
    rev         integer NOT NULL,
    document    jsonb,
    author      text NOT NULL,
    valid_from  instant NOT NULL,
    PRIMARY KEY (name, rev)
);

-- At most one row: while it is there, only people start maintenance.
CREATE TABLE maintenance_off (
    one         boolean PRIMARY KEY DEFAULT true CHECK (one),
    who         text NOT NULL,
    since       instant NOT NULL,
    reason      text NOT NULL
);

CREATE SEQUENCE lake_table_change;
CREATE TABLE lake_table (
    name        text PRIMARY KEY,           -- its catalog path
    version     bigint NOT NULL DEFAULT nextval('lake_table_change'),  -- a new one with every change
    location    text,                       -- its metadata file; NULL: it is not in its catalog any more
    known_at    instant NOT NULL,           -- when it was first found
    seen_at     instant NOT NULL,           -- when it was found with this metadata file
    assessed    text,                       -- the metadata file that `health` was read from
    assessed_at instant,
    health      jsonb,
    score       double precision,
    error       text NOT NULL DEFAULT ''    -- why it could not be read last
) WITH (fillfactor = 70);
CREATE INDEX lake_table_version ON lake_table (version);

CREATE TABLE table_health (
    name        text NOT NULL,
    at          instant NOT NULL,
    health      jsonb NOT NULL,
    score       double precision,
    PRIMARY KEY (name, at)
);

-- What became of an operation on a table so far.
CREATE TABLE table_care (
    name        text NOT NULL,
    operation   text NOT NULL,
    history     jsonb NOT NULL,
    PRIMARY KEY (name, operation)
) WITH (fillfactor = 70);

-- Maintenance that was started: a run, and what is reserved for it in its policy's budget.
CREATE TABLE maintenance (
    slot        bigint NOT NULL,
    schedule_id bigint NOT NULL,
    ord         bigint NOT NULL,
    name        text NOT NULL,
    operation   text NOT NULL,
    policy      text NOT NULL,
    policy_rev  integer NOT NULL,
    manual      boolean NOT NULL,
    at          instant NOT NULL,
    reserved    bigint NOT NULL CHECK (reserved >= 0),
    bytes       bigint NOT NULL CHECK (bytes >= 0),  -- reserved until it is settled, spent from then on
    settled_at  instant,
    outcome     text,
    result      jsonb,
    PRIMARY KEY (schedule_id, slot, ord),
    CHECK ((outcome IS NULL) = (settled_at IS NULL))
) WITH (fillfactor = 70);
CREATE INDEX maintenance_open ON maintenance (at) WHERE settled_at IS NULL;
CREATE INDEX maintenance_at ON maintenance (at);
CREATE INDEX maintenance_of ON maintenance (name, at DESC);
