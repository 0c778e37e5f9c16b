-- History for people and for Spark: views whose names and columns stay, each with its meaning (`\d+` shows it).
-- A reader needs USAGE on the schema and SELECT on its views, and no right on anything else.
-- depends: 0010_tables

CREATE SCHEMA tidegate_history;

-- An instant as the columns that end in _us, and slot, hold it. A comparison with it reads only what it must.
CREATE FUNCTION tidegate_history.micros(timestamptz) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS
    $$SELECT (extract(epoch FROM $1) * 1000000)::bigint$$;
CREATE FUNCTION tidegate_history.day_number(date) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    $$SELECT $1 - date '1970-01-01'$$;
CREATE FUNCTION tidegate_history.day_of(bigint) RETURNS date LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    $$SELECT date '1970-01-01' + ($1 / 86400000000)::integer$$;
CREATE FUNCTION tidegate_history.seconds(bigint) RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    $$SELECT $1 / 1000000.0::double precision$$;

CREATE FUNCTION tidegate_history.base36(bigint) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    rest bigint := $1;
    text text := '';
BEGIN
    LOOP
        text := substr('0123456789abcdefghijklmnopqrstuvwxyz', (rest % 36)::integer + 1, 1) || text;
        rest := rest / 36;
        EXIT WHEN rest = 0;
    END LOOP;
    RETURN text;
END $$;
CREATE FUNCTION tidegate_history.run_id(slot bigint, schedule_id bigint, ord bigint) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    $$SELECT 'r' || tidegate_history.base36($1) || '-' || tidegate_history.base36($2) || '-'
        || tidegate_history.base36($3)$$;

-- What is gone with its retention is found by these.
CREATE INDEX table_health_at ON table_health (at);

CREATE VIEW tidegate_history.runs AS
    SELECT tidegate_history.day_of(r.slot) AS day,
           tidegate_history.run_id(r.slot, r.schedule_id, r.ord) AS run_id,
           s.namespace, s.name AS schedule, s.application, p.name AS program, r.rev::bigint AS revision,
           r.cause, nullif(r.caused_by, '') AS caused_by, coalesce(r.outcome, l.state) AS state,
           nullif(r.reason, '') AS reason, r.priority::bigint AS priority,
           as_time(r.fire_time) AS fire_time, as_time(r.created_at) AS created_at,
           as_time(coalesce(r.ready_at, l.ready_at)) AS ready_at,
           as_time(coalesce(r.started_at, l.started_at)) AS started_at, as_time(r.finished_at) AS finished_at,
           tidegate_history.seconds(coalesce(r.started_at, l.started_at) - r.created_at) AS waited_seconds,
           tidegate_history.seconds(r.finished_at - r.started_at) AS duration_seconds,
           r.merged_into, coalesce(r.arguments, l.arguments) AS arguments, r.inputs,
           r.slot, r.schedule_id, r.ord
    FROM run r
    JOIN schedule s ON s.id = r.schedule_id
    JOIN program p ON p.id = r.program_id
    LEFT JOIN run_live l ON l.slot = r.slot AND l.schedule_id = r.schedule_id AND l.ord = r.ord;

CREATE VIEW tidegate_history.attempts AS
    SELECT tidegate_history.day_of(a.slot) AS day,
           tidegate_history.run_id(a.slot, a.schedule_id, a.ord) AS run_id,
           s.namespace, s.name AS schedule, p.name AS program, a.number::bigint AS number, a.outcome,
           a.error ->> 'code' AS code, a.error ->> 'message' AS message,
           a.backend, a.backend_id, a.host, as_time(a.created_at) AS created_at, as_time(a.started_at) AS started_at,
           as_time(a.finished_at) AS finished_at,
           tidegate_history.seconds(a.finished_at - a.started_at) AS duration_seconds, a.error AS note,
           a.slot, a.schedule_id, a.ord
    FROM (
        SELECT slot, schedule_id, ord, number, 'open' AS outcome, backend, backend_id, host, created_at, started_at,
               NULL::bigint AS finished_at, NULL::jsonb AS error
        FROM attempt_open
        UNION ALL
        SELECT slot, schedule_id, ord, number, outcome, backend, backend_id, host, created_at, started_at,
               finished_at, error
        FROM attempt
    ) AS a
    JOIN schedule s ON s.id = a.schedule_id
    LEFT JOIN run r ON r.slot = a.slot AND r.schedule_id = a.schedule_id AND r.ord = a.ord
    LEFT JOIN program p ON p.id = r.program_id;

CREATE VIEW tidegate_history.events AS
    SELECT date '1970-01-01' + e.day AS day, as_time(e.at) AS at, e.type, e.key, s.namespace, s.name AS schedule,
           CASE WHEN e.slot IS NOT NULL THEN tidegate_history.run_id(e.slot, e.schedule_id, e.ord) END AS run_id,
           as_time(e.time) AS time, e.source, e.source_id, e.payload, e.pos, e.day AS day_number
    FROM event e LEFT JOIN schedule s ON s.id = e.schedule_id;

CREATE VIEW tidegate_history.missed AS
    SELECT tidegate_history.day_of(f.to_fire) AS day, s.namespace, s.name AS schedule, f.outcome AS state,
           f.n AS fires, as_time(f.from_fire) AS first_fire, as_time(f.to_fire) AS last_fire, f.reason,
           as_time(f.decided_at) AS decided_at, f.schedule_id, f.from_fire::bigint AS first_fire_us,
           f.to_fire::bigint AS last_fire_us
    FROM fire_range f JOIN schedule s ON s.id = f.schedule_id;

CREATE VIEW tidegate_history.maintenance AS
    SELECT tidegate_history.day_of(m.at) AS day,
           tidegate_history.run_id(m.slot, m.schedule_id, m.ord) AS run_id, m.name AS table_name, m.operation,
           nullif(m.policy, '') AS policy, CASE WHEN m.policy <> '' THEN m.policy_rev::bigint END AS policy_revision,
           m.manual, m.outcome, (m.result ->> 'changed')::boolean AS changed, as_time(m.at) AS created_at,
           as_time(coalesce(r.started_at, l.started_at)) AS started_at, as_time(r.finished_at) AS finished_at,
           tidegate_history.seconds(r.finished_at - r.started_at) AS duration_seconds,
           as_time(m.settled_at) AS settled_at, m.bytes AS budget_bytes,
           (m.result ->> 'bytes_rewritten')::bigint AS bytes_rewritten,
           (m.result ->> 'files_removed')::bigint AS files_removed,
           (m.result ->> 'files_before')::bigint AS files_before, (m.result ->> 'files_after')::bigint AS files_after,
           (m.result ->> 'snapshots_expired')::bigint AS snapshots_expired, m.result ->> 'message' AS message,
           m.result, m.slot, m.schedule_id, m.ord, m.at::bigint AS created_us
    FROM maintenance m
    LEFT JOIN run r ON r.slot = m.slot AND r.schedule_id = m.schedule_id AND r.ord = m.ord
    LEFT JOIN run_live l ON l.slot = m.slot AND l.schedule_id = m.schedule_id AND l.ord = m.ord;

CREATE VIEW tidegate_history.health AS
    SELECT tidegate_history.day_of(h.at) AS day, h.name AS table_name, as_time(h.at) AS measured_at, h.score AS debt,
           h.health ->> 'snapshot' AS snapshot_id, (h.health ->> 'rows')::bigint AS rows,
           (h.health ->> 'data_files')::bigint AS data_files, (h.health ->> 'data_bytes')::bigint AS data_bytes,
           (h.health ->> 'small_files')::bigint AS small_files, (h.health ->> 'delete_files')::bigint AS delete_files,
           (h.health ->> 'manifests')::bigint AS manifests, (h.health ->> 'snapshots')::bigint AS snapshots,
           (h.health ->> 'partitions')::bigint AS partitions,
           as_time((h.health ->> 'changed_at')::bigint) AS changed_at, h.at::bigint AS measured_us
    FROM table_health h;

COMMENT ON VIEW tidegate_history.runs IS
    'one row for each run of the ledger; stretches of missed fires are in `missed`';
COMMENT ON COLUMN tidegate_history.runs.day IS
    'UTC day of the slot: of the fire time, else of when it was made';
COMMENT ON COLUMN tidegate_history.runs.run_id IS
    'the run''s id, as `tidegate runs` prints it';
COMMENT ON COLUMN tidegate_history.runs.namespace IS
    'of the schedule';
COMMENT ON COLUMN tidegate_history.runs.schedule IS
    'name of the schedule; a deleted one keeps its rows';
COMMENT ON COLUMN tidegate_history.runs.application IS
    'that the schedule belongs to; null: none';
COMMENT ON COLUMN tidegate_history.runs.program IS
    'name of the program, of the same namespace';
COMMENT ON COLUMN tidegate_history.runs.revision IS
    'of the schedule';
COMMENT ON COLUMN tidegate_history.runs.cause IS
    'fire, evidence, backfill, manual or rerun';
COMMENT ON COLUMN tidegate_history.runs.caused_by IS
    'who asked, of a cause that is a person''s';
COMMENT ON COLUMN tidegate_history.runs.state IS
    'waiting, ready, starting, running, stopping, or how it ended (succeeded, failed, ...)';
COMMENT ON COLUMN tidegate_history.runs.reason IS
    'why it ended so';
COMMENT ON COLUMN tidegate_history.runs.priority IS
    '0 to 100';
COMMENT ON COLUMN tidegate_history.runs.fire_time IS
    'the instant that a time trigger stands for; null: no clock made it';
COMMENT ON COLUMN tidegate_history.runs.created_at IS
    'when it was put on record';
COMMENT ON COLUMN tidegate_history.runs.ready_at IS
    'when its last constraint let it go; null: not yet, or never';
COMMENT ON COLUMN tidegate_history.runs.started_at IS
    'when its first attempt was handed over; null: not yet, or never';
COMMENT ON COLUMN tidegate_history.runs.finished_at IS
    'when its outcome was final; null: it has none';
COMMENT ON COLUMN tidegate_history.runs.waited_seconds IS
    'from created_at to started_at';
COMMENT ON COLUMN tidegate_history.runs.duration_seconds IS
    'from started_at to finished_at, waiting between attempts included';
COMMENT ON COLUMN tidegate_history.runs.merged_into IS
    'id of the run that took this one in';
COMMENT ON COLUMN tidegate_history.runs.arguments IS
    'JSON: what the program was given';
COMMENT ON COLUMN tidegate_history.runs.inputs IS
    'JSON: by dataset, what it was to read';
COMMENT ON COLUMN tidegate_history.runs.slot IS
    'first part of the run''s key: its fire time, else when it was made; microseconds since 1970';
COMMENT ON COLUMN tidegate_history.runs.schedule_id IS
    'second part; a schedule that is made again under its name has another';
COMMENT ON COLUMN tidegate_history.runs.ord IS
    'third part';
COMMENT ON VIEW tidegate_history.attempts IS
    'one row for each attempt of a run';
COMMENT ON COLUMN tidegate_history.attempts.day IS
    'UTC day of the run''s slot, also when the attempt was made later';
COMMENT ON COLUMN tidegate_history.attempts.run_id IS
    'the run''s id, as `tidegate runs` prints it';
COMMENT ON COLUMN tidegate_history.attempts.namespace IS
    'of the schedule';
COMMENT ON COLUMN tidegate_history.attempts.schedule IS
    'name of the schedule; a deleted one keeps its rows';
COMMENT ON COLUMN tidegate_history.attempts.program IS
    'name of the program';
COMMENT ON COLUMN tidegate_history.attempts.number IS
    'which attempt of the run, from 1';
COMMENT ON COLUMN tidegate_history.attempts.outcome IS
    'succeeded, failed, timed_out, cancelled, crashed, lost or refused; open: it has not ended';
COMMENT ON COLUMN tidegate_history.attempts.code IS
    'what is said of the end, as one word, e.g. program.exit';
COMMENT ON COLUMN tidegate_history.attempts.message IS
    'what is said of the end, as a sentence';
COMMENT ON COLUMN tidegate_history.attempts.backend IS
    'what it ran on, e.g. spark or command';
COMMENT ON COLUMN tidegate_history.attempts.backend_id IS
    'what the backend calls it';
COMMENT ON COLUMN tidegate_history.attempts.host IS
    'machine and home of the worker';
COMMENT ON COLUMN tidegate_history.attempts.created_at IS
    'when it was taken for launching';
COMMENT ON COLUMN tidegate_history.attempts.started_at IS
    'when it was handed over to the backend';
COMMENT ON COLUMN tidegate_history.attempts.finished_at IS
    'when its end was put on record';
COMMENT ON COLUMN tidegate_history.attempts.duration_seconds IS
    'from started_at to finished_at';
COMMENT ON COLUMN tidegate_history.attempts.note IS
    'JSON: all that the end said';
COMMENT ON COLUMN tidegate_history.attempts.slot IS
    'first part of the run''s key: its fire time, else when it was made; microseconds since 1970';
COMMENT ON COLUMN tidegate_history.attempts.schedule_id IS
    'second part; a schedule that is made again under its name has another';
COMMENT ON COLUMN tidegate_history.attempts.ord IS
    'third part';
COMMENT ON VIEW tidegate_history.events IS
    'the event log';
COMMENT ON COLUMN tidegate_history.events.day IS
    'UTC day on which it was put on record';
COMMENT ON COLUMN tidegate_history.events.at IS
    'when it was put on record';
COMMENT ON COLUMN tidegate_history.events.type IS
    'e.g. dataset.updated, run.failed, user.NAME';
COMMENT ON COLUMN tidegate_history.events.key IS
    'what it is about, e.g. a table''s path';
COMMENT ON COLUMN tidegate_history.events.namespace IS
    'of the schedule, of events about runs and schedules';
COMMENT ON COLUMN tidegate_history.events.schedule IS
    'of events about runs and schedules';
COMMENT ON COLUMN tidegate_history.events.run_id IS
    'of events about runs';
COMMENT ON COLUMN tidegate_history.events.time IS
    'when it happened, if its publisher says so';
COMMENT ON COLUMN tidegate_history.events.source IS
    'who published it';
COMMENT ON COLUMN tidegate_history.events.source_id IS
    'the publisher''s id of it';
COMMENT ON COLUMN tidegate_history.events.payload IS
    'JSON: what it says';
COMMENT ON COLUMN tidegate_history.events.pos IS
    'its place in the log';
COMMENT ON COLUMN tidegate_history.events.day_number IS
    'days since 1970, in UTC';
COMMENT ON VIEW tidegate_history.missed IS
    'one row for each stretch of fires that passed without a run';
COMMENT ON COLUMN tidegate_history.missed.day IS
    'UTC day of its last fire';
COMMENT ON COLUMN tidegate_history.missed.namespace IS
    'of the schedule';
COMMENT ON COLUMN tidegate_history.missed.schedule IS
    'name of the schedule';
COMMENT ON COLUMN tidegate_history.missed.state IS
    'missed or superseded';
COMMENT ON COLUMN tidegate_history.missed.fires IS
    'how many';
COMMENT ON COLUMN tidegate_history.missed.first_fire IS
    'the first of them';
COMMENT ON COLUMN tidegate_history.missed.last_fire IS
    'the last of them';
COMMENT ON COLUMN tidegate_history.missed.reason IS
    'why there is no run';
COMMENT ON COLUMN tidegate_history.missed.decided_at IS
    'when that was found';
COMMENT ON COLUMN tidegate_history.missed.schedule_id IS
    'a schedule that is made again under its name has another';
COMMENT ON COLUMN tidegate_history.missed.first_fire_us IS
    'first_fire in microseconds since 1970';
COMMENT ON COLUMN tidegate_history.missed.last_fire_us IS
    'last_fire in microseconds since 1970';
COMMENT ON VIEW tidegate_history.maintenance IS
    'one row for each operation on a table that was started, by policies or by hand';
COMMENT ON COLUMN tidegate_history.maintenance.day IS
    'UTC day on which it was put on record';
COMMENT ON COLUMN tidegate_history.maintenance.run_id IS
    'its run; how that went is in `runs` and `attempts`';
COMMENT ON COLUMN tidegate_history.maintenance.table_name IS
    'path of the table';
COMMENT ON COLUMN tidegate_history.maintenance.operation IS
    'e.g. rewrite_data_files';
COMMENT ON COLUMN tidegate_history.maintenance.policy IS
    'whose options it had; null: of none';
COMMENT ON COLUMN tidegate_history.maintenance.policy_revision IS
    'of the policy';
COMMENT ON COLUMN tidegate_history.maintenance.manual IS
    'whether a person asked';
COMMENT ON COLUMN tidegate_history.maintenance.outcome IS
    'how it ended; null: it is under way';
COMMENT ON COLUMN tidegate_history.maintenance.changed IS
    'whether it changed anything, counted from snapshots; null: unknown';
COMMENT ON COLUMN tidegate_history.maintenance.created_at IS
    'when it was put on record, and its budget reserved';
COMMENT ON COLUMN tidegate_history.maintenance.started_at IS
    'when its first attempt was handed over';
COMMENT ON COLUMN tidegate_history.maintenance.finished_at IS
    'when its outcome was final';
COMMENT ON COLUMN tidegate_history.maintenance.duration_seconds IS
    'from started_at to finished_at';
COMMENT ON COLUMN tidegate_history.maintenance.settled_at IS
    'when its budget was settled';
COMMENT ON COLUMN tidegate_history.maintenance.budget_bytes IS
    'of its policy''s budget: reserved until it is settled, spent from then on';
COMMENT ON COLUMN tidegate_history.maintenance.bytes_rewritten IS
    'size of the files it replaced; null: unknown';
COMMENT ON COLUMN tidegate_history.maintenance.files_removed IS
    'by how many the data files became fewer by its own commits; null: unknown';
COMMENT ON COLUMN tidegate_history.maintenance.files_before IS
    'data files of the table before it';
COMMENT ON COLUMN tidegate_history.maintenance.files_after IS
    'data files of the table after it, those of writers meanwhile included';
COMMENT ON COLUMN tidegate_history.maintenance.snapshots_expired IS
    'how many; null: unknown';
COMMENT ON COLUMN tidegate_history.maintenance.message IS
    'what it did, as a sentence';
COMMENT ON COLUMN tidegate_history.maintenance.result IS
    'JSON: all that it said';
COMMENT ON COLUMN tidegate_history.maintenance.slot IS
    'first part of the run''s key: its fire time, else when it was made; microseconds since 1970';
COMMENT ON COLUMN tidegate_history.maintenance.schedule_id IS
    'second part; a schedule that is made again under its name has another';
COMMENT ON COLUMN tidegate_history.maintenance.ord IS
    'third part';
COMMENT ON COLUMN tidegate_history.maintenance.created_us IS
    'created_at in microseconds since 1970';
COMMENT ON VIEW tidegate_history.health IS
    'one row for each time that a table was measured';
COMMENT ON COLUMN tidegate_history.health.day IS
    'UTC day on which it was measured';
COMMENT ON COLUMN tidegate_history.health.table_name IS
    'path of the table';
COMMENT ON COLUMN tidegate_history.health.measured_at IS
    'when';
COMMENT ON COLUMN tidegate_history.health.debt IS
    'its debt then, 0 to 1000';
COMMENT ON COLUMN tidegate_history.health.snapshot_id IS
    'the snapshot that was measured; null: the table had none';
COMMENT ON COLUMN tidegate_history.health.rows IS
    'rows of the table; null, here and below: unknown';
COMMENT ON COLUMN tidegate_history.health.data_files IS
    'data files';
COMMENT ON COLUMN tidegate_history.health.data_bytes IS
    'their size';
COMMENT ON COLUMN tidegate_history.health.small_files IS
    'data files that are small by the policy';
COMMENT ON COLUMN tidegate_history.health.delete_files IS
    'delete files';
COMMENT ON COLUMN tidegate_history.health.manifests IS
    'manifests of the snapshot';
COMMENT ON COLUMN tidegate_history.health.snapshots IS
    'snapshots that the table kept';
COMMENT ON COLUMN tidegate_history.health.partitions IS
    'partitions with data';
COMMENT ON COLUMN tidegate_history.health.changed_at IS
    'newest commit then that brought or took rows';
COMMENT ON COLUMN tidegate_history.health.measured_us IS
    'measured_at in microseconds since 1970';
