"""Daily partitions of runs, attempts, events and arrivals: there when needed, gone whole when their time is over.

`CREATE TABLE ... PARTITION OF` waits for every open writer and blocks those behind it; a table made like its parent
and then attached does not. Each is made in a short transaction of its own, beside whatever transaction needs it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from psycopg import errors, sql

from tidegate.domain.instants import DAY, Duration, Instant, to_datetime
from tidegate.store.connection import Connection, Database, bounded, translate

log = logging.getLogger(__name__)

_LOCK = 0x7469_6465_0000_0002
_TABLES = {"run": DAY, "attempt": DAY, "event": 1, "arrival": 1}  # what one day is in units of the partition column
_LONG = 600.0
"""Seconds for the removal of many days: each waits for old readers."""
OLD_READERS = 30
"""Seconds for which one day waits for those who have read its table in a transaction that is still open."""
_STORAGE = {"run": "WITH (fillfactor = 75)", "attempt": "", "event": "", "arrival": ""}
_ATTACHED = """
SELECT p.relname, c.relname, i.inhdetachpending
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent
WHERE i.inhparent IN ('run'::regclass, 'attempt'::regclass, 'event'::regclass, 'arrival'::regclass)
ORDER BY i.inhdetachpending DESC, c.relname
"""


def day_of(instant: Instant) -> int:
    """Days since 1970-01-01 in UTC."""
    return instant // DAY


def partition_name(table: str, day: int) -> str:
    """Such as `run_p20261121`."""
    return f"{table}_p{_stamp(day)}"


def _stamp(day: int) -> str:
    try:
        return f"{to_datetime(0) + timedelta(days=day):%Y%m%d}"
    except OverflowError:
        return f"d{day}".replace("-", "m")


class Partitions:
    """Which partitions exist, as far as this process knows."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: set[tuple[str, int]] = set()

    def missing(self, *, slots: Iterable[Instant] = (), now: Instant | None = None) -> list[tuple[str, int]]:
        """What runs (and their attempts) of these slots, and events of `now`, need and is not known to be there."""
        known = self._known
        wanted = {(table, day) for day in {slot // DAY for slot in slots} for table in ("run", "attempt")}
        if now is not None:
            wanted |= {("event", now // DAY), ("arrival", now // DAY)}
        return sorted(wanted - known) if not wanted <= known else []

    async def ensure(self, wanted: Iterable[tuple[str, int]]) -> Sequence[str]:
        """Create and attach those that are missing, all together; their names."""
        wanted = [item for item in wanted if item not in self._known]
        if not wanted:
            return []
        connection = await self._database.connect("partitions")
        try:
            with bounded(connection):
                made = await self._attach(connection, wanted)
            self._known.update(wanted)
        except errors.Error as error:
            raise translate(error) from error
        finally:
            await connection.close()
        return [partition_name(table, day) for table, day in made]

    async def _attach(self, connection: Connection, wanted: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
        """Which of them were missing."""
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            there = {row[1] for row in await (await connection.execute(_ATTACHED)).fetchall()}
            made = [(table, day) for table, day in wanted if partition_name(table, day) not in there]
            for table, day in made:
                await self._make(connection, table, day)
        return made

    def forget(self) -> None:
        """Somebody else dropped one: look anew."""
        self._known.clear()

    async def _make(self, connection: Connection, table: str, day: int) -> None:
        parent, child = sql.Identifier(table), sql.Identifier(partition_name(table, day))
        unit = _TABLES[table]
        # One that was detached and not yet dropped would be in the way; it is past its time.
        await connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(child))
        # Identity stays the parent's; everything else, indexes too, must be there for ATTACH to have nothing to do.
        await connection.execute(
            sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING ALL EXCLUDING IDENTITY) {}").format(
                child, parent, sql.SQL(_STORAGE[table])
            )
        )
        await connection.execute(
            sql.SQL("ALTER TABLE {} ATTACH PARTITION {} FOR VALUES FROM ({}) TO ({})").format(
                parent, child, sql.Literal(day * unit), sql.Literal((day + 1) * unit)
            )
        )

    async def drop(self, now: Instant, retention: Mapping[str, Duration]) -> Sequence[str]:
        """Drop partitions that lie wholly before `now - retention[table]` and hold no open run; their names.

        What an interrupted earlier call left half detached is finished first: a table can have one such. A table with
        old readers is left for the next time, the others are not.
        """
        gone: list[str] = []
        connection = await self._database.connect("retention", hurried=False)
        try:
            with bounded(connection, _LONG):
                await self._detach(connection, now, retention)
                gone += await self._drop_detached(connection, now, retention)
        except (errors.QueryCanceled, errors.TransactionTimeout):
            log.warning("an old transaction holds up the removal of partitions; it is tried again next time")
        except errors.Error as error:
            raise translate(error) from error
        finally:
            await connection.close()
        self.forget()
        return sorted(set(gone))

    async def _detach(self, connection: Connection, now: Instant, retention: Mapping[str, Duration]) -> None:
        await connection.execute(f"SET statement_timeout = '{OLD_READERS}s'".encode())
        rows = await (await connection.execute(_ATTACHED)).fetchall()
        live = await connection.execute(
            "SELECT DISTINCT slot / %s FROM run_live UNION SELECT DISTINCT slot / %s FROM attempt_open", (DAY, DAY)
        )
        busy = {row[0] for row in await live.fetchall()}
        held: set[str] = set()
        for table, name, pending in rows:
            keep = retention.get(table)
            day = _day(name)
            if (
                keep is None
                or day is None
                or (day + 1) * DAY > now - keep
                or (table in ("run", "attempt") and day in busy)
                or table in held
            ):
                continue
            how = "FINALIZE" if pending else "CONCURRENTLY"
            detach = sql.SQL("ALTER TABLE {} DETACH PARTITION {} " + how)
            try:
                await connection.execute(detach.format(sql.Identifier(table), sql.Identifier(name)))
            except errors.QueryCanceled:
                held.add(table)
                log.warning("an old transaction holds up the removal of %s; it is tried again next time", name)

    async def _drop_detached(
        self, connection: Connection, now: Instant, retention: Mapping[str, Duration]
    ) -> Sequence[str]:
        found = await connection.execute(
            r"SELECT relname FROM pg_class WHERE relkind = 'r' AND NOT relispartition"
            r" AND relname ~ '^(run|attempt|event|arrival)_p\d{8}$' AND relnamespace = current_schema()::regnamespace"
        )
        names = [row[0] for row in await found.fetchall()]
        gone = []
        for name in names:
            keep, day = retention.get(name.partition("_p")[0]), _day(name)
            if keep is not None and day is not None and (day + 1) * DAY <= now - keep:
                await connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(name)))
                gone.append(name)
        return gone


def _day(name: str) -> int | None:
    stamp = name.rpartition("_p")[2]
    if len(stamp) != 8 or not stamp.isdecimal():
        return None
    year, month, day = int(stamp[:4]), int(stamp[4:6]), int(stamp[6:])
    return (to_datetime(0).replace(year=year, month=month, day=day) - to_datetime(0)).days
