"""Closing what runs were given: their evidence with its first and last events, and their input of every dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.domain.events import DATASET_UPDATED
from tidegate.domain.evidence import (
    EMPTY,
    MOST_EVENTS,
    MOST_NAMES,
    Owed,
    datasets,
    document,
    event_document,
    first_and_last,
    input_of,
    ranges,
    taken,
    united,
    upstream_of,
)
from tidegate.domain.ids import RunKey, ScheduleId
from tidegate.domain.instants import Instant
from tidegate.domain.schedules import JsonObject
from tidegate.domain.triggers import Trigger
from tidegate.ports.collecting import Pin, Pinned
from tidegate.store.arrays import Bools, Ints, Texts
from tidegate.store.codec import to_json
from tidegate.store.collecting import CollectingTx
from tidegate.store.connection import Row
from tidegate.store.events import LoggedEvent, logged
from tidegate.store.partitions import day_of
from tidegate.store.sql import load
from tidegate.store.transactions import spanning

Q = load("collecting")


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Arrivals of a topic in (low, high]; none before `day`."""

    key: int
    low: int
    high: int
    day: int


class PinningTx(CollectingTx):
    """See `ports.collecting.PinningTx`."""

    async def pin(self, pins: Sequence[Pin], now: Instant) -> Mapping[RunKey, Pinned]:
        if not pins:
            return {}
        pins = sorted(pins, key=lambda one: one.key)
        keys = spanning(one.key for one in pins)
        known = {RunKey(row[0], ScheduleId(row[1]), row[2]): row[3] for row in await self.fetch(Q.evidence, **keys)}
        triggers = await self._triggers({one.key.schedule_id for one in pins})
        evidence: dict[RunKey, Any] = {}
        for one in pins:
            found = known.get(one.key) or EMPTY
            if one.shown is not None and one.key.schedule_id in self.trees:
                readings = [place.reading for place in self.trees[one.key.schedule_id].places if place.reading]
                found = united(known.get(one.key), document(triggers[one.key.schedule_id], one.shown, readings))
            evidence[one.key] = found
        told = await self._events(evidence)
        inputs = await self._inputs(pins, triggers, evidence)
        pinned = {
            one.key: Pinned(evidence={**evidence[one.key], **told[one.key]}, inputs=inputs[one.key]) for one in pins
        }
        await self.session.send(
            Q.pin,
            **keys,
            evidences=Texts(to_json(pinned[one.key].evidence) for one in pins),
            inputs=Texts(to_json(pinned[one.key].inputs) for one in pins),
        )
        await self.session.send(Q.close, **keys, moved=Bools(one.moves for one in pins))
        return pinned

    async def _triggers(self, schedules: set[ScheduleId]) -> dict[int, Trigger]:
        """What the newest revisions of these schedules say, collecting or not."""
        found: dict[int, Trigger] = {}
        missing = []
        for schedule in schedules:
            if schedule in self.trees:
                found[schedule] = self.trees[schedule].revision.spec.trigger
            else:
                missing.append(schedule)
        if missing:
            rows = await self.fetch(Q.revs, schedules=Ints(sorted(missing)))
            learn = self.parts.definitions
            revisions = await learn.revisions(self.session, {(row[0], row[1]) for row in rows})
            found.update((schedule, revisions[schedule, rev].spec.trigger) for schedule, rev in rows)
        return found

    # ── evidence ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def _events(self, evidence: Mapping[RunKey, JsonObject]) -> dict[RunKey, dict[str, Any]]:
        """The first and the last events of each run's evidence, and the run upstream."""
        asked: list[tuple[RunKey, _Stretch]] = []
        for key, one in evidence.items():
            days = _days(one)
            asked += [
                (key, _Stretch(topic, low, high, days.get(topic, 0)))
                for topic, (low, high) in ranges(one).items()
                if high > low
            ]
        arrivals: dict[RunKey, dict[int, Row]] = {key: {} for key in evidence}
        for query in (Q.firsts, Q.lasts) if asked else ():
            for row in await self._stretches(query, [stretch for _, stretch in asked], MOST_EVENTS):
                arrivals[asked[row[0] - 1][0]][row[2]] = row
        places = {(row[8], row[9]) for found in arrivals.values() for row in found.values()}
        events = await logged(self.session, places)
        told = {}
        for key, found in arrivals.items():
            order = [(row, events[row[8], row[9]]) for _, row in sorted(found.items()) if (row[8], row[9]) in events]
            told[key] = {
                "events": [_told(row, event) for row, event in first_and_last(order)],
                "upstream": next((_upstream(one) for _, one in reversed(order) if one.run is not None), None),
            }
        return told

    async def _stretches(self, query: Any, stretches: Sequence[_Stretch], limit: int) -> list[Row]:
        return await self.fetch(
            query,
            keys=Ints(one.key for one in stretches),
            lows=Ints(one.low for one in stretches),
            highs=Ints(one.high for one in stretches),
            days=Ints(one.day for one in stretches),
            first_day=min(one.day for one in stretches),
            limit=limit,
        )

    # ── inputs ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _inputs(
        self,
        pins: Sequence[Pin],
        triggers: Mapping[int, Trigger],
        evidence: Mapping[RunKey, JsonObject],
    ) -> dict[RunKey, dict[str, JsonObject]]:
        """What each dataset of the tree has that no started run was given yet."""
        named = {schedule: datasets(trigger) for schedule, trigger in triggers.items()}
        topics = await self._dataset_topics(sorted({one for names in named.values() for one in names}))
        owing: dict[tuple[int, str], tuple[Owed, int]] = {}
        if topics:
            for schedule, dataset, n, day, snapshot in await self.fetch(Q.owed, schedules=Ints(sorted(named))):
                owing[schedule, dataset] = (Owed(n=n, snapshot=snapshot), day)
        found: dict[RunKey, dict[str, JsonObject]] = {one.key: {} for one in pins}
        moved: dict[tuple[int, str], tuple[Owed, int]] = {}
        for one in pins:
            schedule = one.key.schedule_id
            own = ranges(evidence[one.key])
            present: dict[int, int] = {}
            days: dict[int, int] = {}
            for place in self.trees[schedule].places if schedule in self.trees else ():
                present[place.key], days[place.key] = place.n, day_of(place.last_at)
            for dataset in named[schedule]:
                key, total = topics.get(dataset, (0, 0))
                owed, day = moved.get((schedule, dataset)) or owing.get((schedule, dataset)) or (Owed(n=total), 0)
                upto = present.get(key, owed.n) if one.present else own.get(key, (0, owed.n))[1]
                given = await self._input(_Stretch(key, owed.n, upto, day), owed)
                found[one.key][dataset] = given
                if one.moves:
                    moved[schedule, dataset] = (taken(given), days[key] if present.get(key) == given["to_n"] else day)
        if moved:
            await self._move(moved)
        return found

    async def _dataset_topics(self, names: Sequence[str]) -> dict[str, tuple[int, int]]:
        if not names:
            return {}
        rows = await self.fetch(
            Q.find_topics,
            types=Texts(DATASET_UPDATED for _ in names),
            keys=Texts(names),
            matches=Texts(None for _ in names),
        )
        return {names[row[0] - 1]: (row[1], row[2]) for row in rows}

    async def _input(self, stretch: _Stretch, owed: Owed) -> dict[str, Any]:
        """One dataset's input. Of very many events the partitions of the first are named, and everything is counted."""
        if stretch.high <= stretch.low:
            return input_of(owed, owed.n, [])
        rows = await self._stretches(Q.firsts, [stretch], MOST_NAMES)
        if len(rows) == MOST_NAMES and rows[-1][1] < stretch.high:
            rows += await self._stretches(Q.lasts, [stretch], 1)
        if not rows:  # past retention
            return input_of(owed, stretch.high, [])
        events = await logged(self.session, {(row[8], row[9]) for row in rows})
        payloads = [events[row[8], row[9]].record.payload for row in rows if (row[8], row[9]) in events]
        first, last = rows[0], rows[-1]
        return input_of(
            owed,
            stretch.high,
            payloads,
            rows=last[6] - first[6] + first[4],
            bytes=last[7] - first[7] + first[5],
        )

    async def _move(self, moved: Mapping[tuple[int, str], tuple[Owed, int]]) -> None:
        order = sorted(moved)
        await self.session.send(
            Q.move_owed,
            schedules=Ints(schedule for schedule, _ in order),
            datasets=Texts(dataset for _, dataset in order),
            ns=Ints(moved[one][0].n for one in order),
            days=Ints(moved[one][1] for one in order),
            snapshots=Texts(to_json(moved[one][0].snapshot) for one in order),
        )


def _days(evidence: JsonObject) -> dict[int, int]:
    """key_id -> the day before which its range has nothing."""
    found: dict[int, int] = {}
    for leaf in evidence["leaves"]:
        for topic in leaf["topics"]:
            day = 0 if leaf["first_at"] is None else day_of(leaf["first_at"])
            found[topic["key_id"]] = min(found.get(topic["key_id"], day), day)
    return found


def _told(row: Row, event: LoggedEvent) -> dict[str, Any]:
    one = event.record
    return event_document(one.pos, one.type, one.key, one.id, one.source, one.time, row[3], one.payload)


def _upstream(event: LoggedEvent) -> dict[str, Any]:
    payload = event.record.payload
    assert event.run is not None
    namespace, _, schedule = payload["schedule"].partition("/")
    program = payload["program"].partition("/")[2]
    return upstream_of(event.run, namespace, schedule, program, payload["outcome"], event.fire_time, event.arguments)
