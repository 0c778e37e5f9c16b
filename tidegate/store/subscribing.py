"""A control transaction's side of collecting: beginning anew, and giving again what was set aside."""

from __future__ import annotations

from tidegate.domain.collected import Facts, Need
from tidegate.domain.evidence import datasets
from tidegate.domain.ids import ScheduleId
from tidegate.domain.instants import Instant
from tidegate.domain.looking import subscriptions
from tidegate.domain.progress import COLLECTING, begin, ticks_from
from tidegate.domain.schedules import Mode, ScheduleSpec
from tidegate.domain.triggers import Elapsed, Since, collects, nodes
from tidegate.store.arrays import Ints, Texts
from tidegate.store.codec import decode_schedule, to_json
from tidegate.store.collecting import CollectingTx
from tidegate.store.partitions import day_of
from tidegate.store.progress_codec import encode_progress
from tidegate.store.sql import load

Q = load("collecting")


class SubscribingTx(CollectingTx):
    """See `ports.collecting.EventControlTx`."""

    async def reset_progress(self, schedule: ScheduleId, now: Instant) -> None:
        row = await self.session.row(Q.newest, schedule=schedule)
        if row is None:
            return
        text, mode, deleted, busy = row
        spec = decode_schedule(text)
        on = not deleted and Mode(mode) in COLLECTING and collects(spec.trigger)
        for query in (Q.unsubscribe, Q.forget_progress, Q.forget_owed):
            await self.session.send(query, schedule=schedule)
        await self.session.send(Q.clear_deadlines, schedules=Ints([schedule]))
        await self.session.send(Q.mark_collecting, schedule=schedule, collects=on)
        if on:
            await self._subscribe(schedule, spec, now, busy=busy)

    async def _subscribe(self, schedule: ScheduleId, spec: ScheduleSpec, now: Instant, *, busy: bool) -> None:
        """From the present end of its topics on: what is acknowledged by now belongs to the old state."""
        trigger = spec.trigger
        wanted = subscriptions(trigger)
        topics = list(dict.fromkeys(one.topic for one in wanted))
        found: dict[int, tuple[int, int, int, int]] = {}
        if topics:
            said = {
                "types": Texts(one.type for one in topics),
                "keys": Texts(one.key for one in topics),
                "matches": Texts(one.match for one in topics),
            }
            await self.session.send(Q.make_topics, **said)
            found = {row[0] - 1: row[1:] for row in await self.session.rows(Q.find_topics, **said)}
        place = {topic: found[index] for index, topic in enumerate(topics)}
        facts = Facts(enabled_at=now, last_start=None, busy=busy, ticks_from=ticks_from(spec.catch_up, now))
        first = begin(trigger, facts)
        rows = []
        for one in wanted:
            key, n, total_rows, total_bytes = place[one.topic]
            marks = first.needs.get(one, Need()).beyond(n, total_rows, total_bytes)
            rows.append((one.node, key, n, total_rows, total_bytes, *marks))
        if rows:
            columns = list(zip(*rows, strict=True))
            await self.session.send(
                Q.subscribe,
                schedule=schedule,
                day=day_of(now) - 1,
                nodes=Ints(columns[0]),
                keys=Ints(columns[1]),
                ns=Ints(columns[2]),
                total_rows=Ints(columns[3]),
                total_bytes=Ints(columns[4]),
                needs=Ints(columns[5]),
                need_rows=Ints(columns[6]),
                need_bytes=Ints(columns[7]),
            )
        await self._owe(
            schedule, [(one, place[topic]) for one in datasets(trigger) for topic in topics if topic.key == one], now
        )
        elapsed = any(isinstance(node, Elapsed) and node.since is Since.LAST_RUN for node in nodes(trigger))
        await self.session.send(
            Q.begin_progress, schedule=schedule, now=now, elapsed=elapsed, doc=encode_progress(first.progress)
        )
        if first.deadlines:
            await self.session.send(
                Q.write_deadlines,
                schedules=Ints(schedule for _ in first.deadlines),
                nodes=Ints(one.node for one in first.deadlines),
                ats=Ints(one.at for one in first.deadlines),
            )
        await self.notice(one[0] for one in place.values())
        self.tell("events")

    async def _owe(
        self, schedule: ScheduleId, places: list[tuple[str, tuple[int, int, int, int]]], now: Instant
    ) -> None:
        """Input begins at the present."""
        if places:
            await self.session.send(
                Q.move_owed,
                schedules=Ints(schedule for _ in places),
                datasets=Texts(dataset for dataset, _ in places),
                ns=Ints(place[1] for _, place in places),
                days=Ints(day_of(now) - 1 for _ in places),
                snapshots=Texts(None for _ in places),
            )

    async def replay(self, set_aside: int, now: Instant) -> None:
        row = await self.session.row(Q.take_set_aside, id=set_aside, now=now)
        if row is None:
            return
        schedule, ranges = row
        await self.session.row(Q.newest, schedule=schedule)  # its clock: nobody reads its places meanwhile
        for node, key, low, high in ranges:
            # a tree that has another shape by now takes what it still listens to
            await self.session.send(Q.read_again, schedule=schedule, node=node, key=key, ranges=to_json([[low, high]]))
        await self.session.send(Q.look_at, schedule=schedule)
        self.tell("events")
