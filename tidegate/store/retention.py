"""What is past its time goes: rows in bites that are committed one by one, days of runs and events as whole partitions.

A bite holds its locks for moments, and what it removed stays removed whatever becomes of the next. So a retention that
was made shorter by months is done in several passes at worst, and what holds up one table holds up no other.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence

from psycopg import errors

from tidegate.domain.instants import DAY, Duration, Instant
from tidegate.store.connection import Connection, Session, translate
from tidegate.store.sql import Query, load
from tidegate.store.transactions import Parts

log = logging.getLogger(__name__)

UPKEEP = load("upkeep")
EVENTS = load("events")
BACKFILLS = load("backfills")

BITE = 10_000
"""Rows that one statement removes."""
BITES = 1000
"""Of one table in one pass; what is left goes in the next."""
LONGEST = 10
"""Seconds for one bite."""
_KINDS = {"run": "runs", "attempt": "runs", "event": "events", "arrival": "events"}


async def drop_expired(parts: Parts, now: Instant, retention: Mapping[str, Duration]) -> Sequence[str]:
    """See `ports.engine.JanitorStore`. Of what archives keep, whole days go."""
    connection = await parts.database.connect("retention", hurried=False)
    try:
        await connection.execute(f"SET statement_timeout = '{LONGEST}s'".encode())
        for query, before in _past(now, retention):
            await _forget(connection, query, before)
    except errors.Error as error:
        raise translate(error) from error
    finally:
        await connection.close()
    return await parts.partitions.drop(
        now, {table: retention[kind] for table, kind in _KINDS.items() if kind in retention}
    )


def _past(now: Instant, retention: Mapping[str, Duration]) -> Iterator[tuple[Query, dict[str, Instant]]]:
    yield UPKEEP.forget_answers, {"before": now - DAY}
    yield UPKEEP.forget_starts, {"now": now}
    if (kept := retention.get("events")) is not None:
        yield EVENTS.forget_ids, {"before": now - kept}
    if (kept := retention.get("runs")) is not None:
        midnight = (now - kept) // DAY * DAY
        yield UPKEEP.forget_instances, {"before": now - kept}
        yield UPKEEP.forget_stretches, {"before": midnight}
        yield UPKEEP.forget_maintenance, {"before": midnight}
        yield UPKEEP.forget_health, {"before": midnight}
        yield BACKFILLS.forget, {"before": now - kept}


async def _forget(connection: Connection, query: Query, given: Mapping[str, Instant]) -> None:
    try:
        for _ in range(BITES):
            done = await Session(connection).send(query, **given, most=BITE)
            if done.rowcount < BITE:
                return
    except errors.QueryCanceled:
        log.warning("%s took longer than %d s; it is tried again next time", query.name, LONGEST)
