-- What each process counts, told every few seconds, so that any API process can show all of it.
-- depends: 0003_lake

-- Not logged: a crash of the server loses counters that are told again at once.
CREATE UNLOGGED TABLE instance_meters (
    instance_id bigint PRIMARY KEY REFERENCES instance ON DELETE CASCADE,
    at          instant NOT NULL,
    meters      jsonb NOT NULL
);
