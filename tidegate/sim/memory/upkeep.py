"""What the reconciler and the janitor ask: drift found and mended, days that are past retention dropped."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from tidegate.domain.errors import Fenced
from tidegate.domain.ids import AttemptKey, Fence
from tidegate.domain.instants import DAY, Duration, Instant, to_datetime
from tidegate.domain.triggers import AfterFinish, Never
from tidegate.ports.engine import Drift
from tidegate.sim.memory.data import Data
from tidegate.sim.memory.engine import check_fence
from tidegate.sim.memory.rows import CounterRow, copied

DUTY = "reconciler"


class Upkeep:
    """`ports.engine.ReconcilerStore` and `JanitorStore`. There is nothing to create: days have no tables here."""

    data: Data

    async def resync(self, fence: Fence, token: int, now: Instant) -> Sequence[Drift]:
        data = self.data
        check_fence(data, fence)
        if not any(row.token == token and row.instance_id == fence.instance_id for row in data.lease.rows.values()):
            raise Fenced("the lease that this resync was asked under is another's by now.")
        return [*self._counters(), *self._pools(), *self._clocks(now)]

    def _counters(self) -> Iterator[Drift]:
        """Rows locked by a transaction are left for the next time."""
        data = self.data
        counted: dict[str, int] = {}
        for key in data.live:
            for counter in data.run.rows[key].held:
                counted[counter] = counted.get(counter, 0) + 1
        for name in sorted({*counted, *data.counter.rows}):
            row = data.counter.rows.get(name)
            found, right = row.held if row else 0, counted.get(name, 0)
            if found != right and name not in data.counter.locks:
                data.counter.rows[name] = (row or CounterRow(name))._replace(held=right)
                yield Drift(what="counter", name=name, found=str(found), mended=str(right))

    def _pools(self) -> Iterator[Drift]:
        data = self.data
        counted: dict[str, int] = {}
        for key in data.live:
            run = data.run.rows[key]
            if run.slot_held:
                counted[run.pool] = counted.get(run.pool, 0) + 1
        for name, row in sorted(data.pool.rows.items()):
            right = counted.get(name, 0)
            if row.used != right and name not in data.pool.locks:
                mended = copied(row)
                mended.used = right
                data.pool.rows[name] = mended
                yield Drift(what="pool", name=name, found=str(row.used), mended=str(right))

    def _clocks(self, now: Instant) -> Iterator[Drift]:
        """A clock that stands still although its schedule works, or goes on although it does not."""
        data = self.data
        for number, clock in sorted(data.clock.rows.items()):
            schedule = data.schedule.rows[number]
            newest = schedule.newest.revision
            rests = schedule.deleted_at is not None or (not newest.mode.works and clock.cursor_rev == newest.rev)
            if number in data.clock.locks:
                continue
            if rests and clock.next_due is not None:
                self._set_due(number, None)
                yield Drift(what="clock", name=schedule.name, found="due", mended="stopped")
            elif (
                not rests
                and clock.next_due is None
                and clock.cursor_rev != newest.rev
                and not isinstance(newest.spec.trigger, Never | AfterFinish)
            ):
                self._set_due(number, now)
                yield Drift(what="clock", name=schedule.name, found="stopped", mended="due")

    def _set_due(self, number: int, at: Instant | None) -> None:
        old = self.data.clock.rows[number]
        new = copied(old)
        new.next_due = at
        self.data.clock.rows[number] = new
        if self.data.clock.follow is not None:
            self.data.clock.follow(old, new)

    async def ensure_partitions(self, now: Instant, ahead: Duration) -> Sequence[str]:
        return []

    async def drop_expired(self, now: Instant, retention: Mapping[str, Duration]) -> Sequence[str]:
        """Drops whole days of runs and attempts (`runs`) and of events (`events`) in which nothing is open; under
        `runs` also what was measured of tables and done to them."""
        data, dropped = self.data, []
        if (keep := retention.get("runs")) is not None:
            open_days = {key.slot // DAY for key in data.live}
            past = sorted(day for day in data.days if day < (now - keep) // DAY and day not in open_days)
            for day in past:
                for key in data.days.pop(day):
                    gone = data.run.rows.pop(key)
                    data.forget_asked(gone)
                    for number in range(1, gone.attempts + 1):
                        data.attempt.rows.pop(AttemptKey(key, number), None)
            dropped += [f"run_{to_datetime(day * DAY):%Y%m%d}" for day in past]
            self._forget_care((now - keep) // DAY * DAY)
        if (keep := retention.get("events")) is not None:
            first = bisect_left(data.events, (now - keep) // DAY * DAY, key=lambda event: event.at)
            days = {event.at // DAY for event in data.events[:first]}
            del data.events[:first]
            dropped += [f"event_{to_datetime(day * DAY):%Y%m%d}" for day in sorted(days)]
        return dropped

    def _forget_care(self, before: Instant) -> None:
        data = self.data
        opened = [one.at // DAY * DAY for one in data.maintenance.rows.values() if one.settled_at is None]
        for key in [run for run, one in data.maintenance.rows.items() if one.at < min([before, *opened])]:
            del data.maintenance.rows[key]
        for table, at in [key for key in data.table_health.rows if key[1] < before]:
            del data.table_health.rows[table, at]
