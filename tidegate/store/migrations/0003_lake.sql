-- What is known of datasets: declarations, and how far each watched table has been told.
-- depends: 0002_events

-- A Dataset document. Datasets need none to be waited for.
CREATE TABLE dataset (
    name text PRIMARY KEY,
    kind text NOT NULL CHECK (kind IN ('iceberg', 'stream', 'files')),
    watch duration CHECK (watch > 0),
    document jsonb NOT NULL,
    updated_at instant NOT NULL
);

-- Where the watcher stands with a table. Moved only in the transaction that publishes what lies before the new place,
-- and only from the version that was seen, so that two watchers at once tell nothing twice.
CREATE TABLE dataset_cursor (
    dataset text PRIMARY KEY,
    version bigint NOT NULL DEFAULT 1,
    pointer text,               -- metadata file that was seen last; null: there is no such table
    table_uuid text,            -- null: there was no table yet
    snapshot bigint,            -- up to this one everything was told; null: there was none
    sequence bigint NOT NULL DEFAULT 0,
    error text NOT NULL DEFAULT '',  -- why it could not be read last
    moved_at instant NOT NULL
) WITH (fillfactor = 80);

-- Catalogs that do not answer, and since when.
CREATE TABLE catalog_fault (
    catalog text PRIMARY KEY,
    error text NOT NULL,
    since instant NOT NULL
);
