"""Closing the input of runs, in memory (`ports.collecting.PinningTx`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.domain.evidence import (
    EMPTY,
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
from tidegate.domain.ids import RunKey, parse_run_id
from tidegate.domain.instants import Instant
from tidegate.ports.collecting import Pin, Pinned
from tidegate.sim.memory.collect import CollectingTransaction, updated
from tidegate.sim.memory.event_rows import ArrivalRow
from tidegate.sim.memory.rows import RunRow, Written


class PinningTransaction(CollectingTransaction):
    __slots__ = ()

    async def pin(self, pins: Sequence[Pin], now: Instant) -> Mapping[RunKey, Pinned]:
        self.check()
        found = {}
        for one in sorted(pins, key=lambda pin: pin.key):
            run = self.edit(self.data.run, one.key)
            run.evidence = self._evidence(run, one)
            run.inputs = self._inputs(run, one)
            run.moved = one.moves
            run.input_rev = self._newest(run).revision.rev
            found[one.key] = Pinned(evidence=run.evidence, inputs=run.inputs)
        return found

    def _newest(self, run: RunRow) -> Written:
        row = self.get(self.data.schedule, run.key.schedule_id)
        assert row is not None
        return row.newest

    def _evidence(self, run: RunRow, pin: Pin) -> dict[str, Any]:
        data = self.data
        evidence = run.evidence or EMPTY
        if pin.shown is not None:
            readings = [place.reading for place in self.readings.get(run.key.schedule_id, ())]
            evidence = united(run.evidence, document(self._newest(run).revision.spec.trigger, pin.shown, readings))
        arrivals: dict[int, ArrivalRow] = {}
        for topic, (low, high) in ranges(evidence).items():
            arrivals.update((one.pos, one) for one in first_and_last(data.arrivals[topic][low:high]))
        order = [arrivals[pos] for pos in sorted(arrivals)]
        events = [
            event_document(
                one.pos, one.event.type, one.event.key, one.event.id, one.event.source, one.event.time, one.at,
                one.event.payload or {},
            )
            for one in first_and_last(order)
        ]  # fmt: skip
        newest = next((one.event for one in reversed(order) if one.event.type.startswith("run.")), None)
        return {**evidence, "events": events, "upstream": None if newest is None else self._upstream(newest.payload)}

    def _upstream(self, payload: Any) -> dict[str, Any] | None:
        run = self.get(self.data.run, parse_run_id(payload["run"]))
        if run is None:
            return None
        about = self.data.schedule.rows[run.key.schedule_id].metadata
        return upstream_of(
            run.key, about.namespace, about.name, run.program.name, payload["outcome"], run.fire_time, run.arguments
        )

    def _inputs(self, run: RunRow, pin: Pin) -> dict[str, dict[str, Any]]:
        """What each dataset of the tree has that no started run was given yet."""
        data, schedule = self.data, run.key.schedule_id
        own = ranges(run.evidence or EMPTY)
        present = {place.reading.key_id: place.reading.end for place in self.readings.get(schedule, ())}
        found = {}
        for dataset in datasets(self._newest(run).revision.spec.trigger):
            topic = data.topic_of(updated(dataset))
            owed = self.get(data.owed, (schedule, dataset))
            if owed is None:  # it does not collect: an empty range, readable as a table
                owed = Owed(n=data.topic.rows[topic].n)
            upto = present.get(topic, owed.n) if pin.present else own.get(topic, (0, owed.n))[1]
            payloads = [one.event.payload or {} for one in data.arrivals[topic][owed.n : upto]]
            found[dataset] = input_of(owed, upto, payloads)
            if pin.moves:
                self.put(data.owed, (schedule, dataset), taken(found[dataset]))
        return found
