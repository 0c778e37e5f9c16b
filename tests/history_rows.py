"""A history to be asked: two schedules, a run an hour of each, over some days; as the ledger would have it."""

from __future__ import annotations

import asyncio

import psycopg

from tidegate.domain.instants import DAY, Instant
from tidegate.store.store import PostgresStore

SCHEDULES = ("orders", "report")
PER_DAY = 24 * len(SCHEDULES)
_NAMED = """
INSERT INTO program (namespace, name, rev) VALUES ('sales', 'load', 1) ON CONFLICT DO NOTHING;
INSERT INTO schedule (namespace, name, program_id, created_at)
SELECT 'sales', n, p.id, 0 FROM unnest(ARRAY['orders', 'report']) AS n, program p
WHERE p.name = 'load' AND NOT EXISTS (SELECT FROM schedule WHERE name = n);
"""
_RUNS = """
INSERT INTO run (slot, schedule_id, ord, rev, program_id, fire_time, cause, priority, created_at, ready_at, started_at,
                 finished_at, outcome, reason, arguments)
SELECT t, s.id, 0, 1, s.program_id, t, 'fire', 50, t, t + 1000000, t + 2000000,
       t + 2000000 + (CASE s.name WHEN 'orders' THEN 10 ELSE 20 END + h) * 1000000,
       CASE WHEN s.name = 'report' AND h = 7 THEN 'failed' ELSE 'succeeded' END, '', '{"region": "eu"}'
FROM generate_series(0, 23) AS h, LATERAL (SELECT %(day)s + h * 3600000000 AS t) AS at, schedule s
WHERE s.name = ANY(%(names)s);
INSERT INTO attempt (slot, schedule_id, ord, number, instance_id, host, fence, backend, created_at, started_at,
                     finished_at, outcome, error)
SELECT slot, schedule_id, ord, 1, 1, 'here', 1, 'command', created_at, started_at, finished_at, outcome,
       CASE outcome WHEN 'failed' THEN '{"code": "program.exit", "message": "no such feed"}'::jsonb END
FROM run WHERE slot >= %(day)s AND slot < %(day)s + 86400000000;
INSERT INTO event (day, at, type, schedule_id, slot, ord, payload)
SELECT slot / 86400000000, slot, 'run.' || outcome, schedule_id, slot, ord, NULL FROM run
WHERE slot >= %(day)s AND slot < %(day)s + 86400000000;
INSERT INTO fire_range SELECT id, %(day)s + 1, %(day)s + 5, 1, 3, 'missed', 'nobody was there', %(day)s + 9
FROM schedule WHERE name = 'report';
INSERT INTO maintenance (slot, schedule_id, ord, name, operation, policy, policy_rev, manual, at, reserved, bytes,
                         settled_at, outcome, result)
SELECT %(day)s, id, 0, 'lake.raw.flights', 'rewrite_data_files', 'nightly', 1, false, %(day)s, 500, 400, %(day)s + 9,
       'succeeded', '{"changed": true, "bytes_rewritten": 400, "files_removed": 8, "message": "9 became 1."}'
FROM schedule WHERE name = 'orders';
INSERT INTO table_health (name, at, health, score) VALUES ('lake.raw.flights', %(day)s, '{"data_files": 9}', 55);
"""


def fill(url: str, first: Instant, days: int) -> None:
    """`days` days from midnight `first` on. They are wholly in the past, or the sources leave today's out."""

    async def partitions() -> None:
        store = PostgresStore(url)
        try:
            wanted = [
                (table, day)
                for day in range(first // DAY, first // DAY + days)
                for table in ("run", "attempt", "event", "arrival")
            ]
            await store.parts.partitions.ensure(wanted)
        finally:
            await store.close()

    asyncio.run(partitions())
    with psycopg.connect(url) as connection:
        connection.execute(_NAMED)  # nobody told of these: the events below are written by themselves
        connection.execute("SET LOCAL session_replication_role = 'replica'")
        for number in range(days):
            given = {"day": first + number * DAY, "names": list(SCHEDULES)}
            for statement in _RUNS.split(";\n"):
                if statement.strip():
                    connection.execute(statement.encode(), given)
