"""What laws see of sinks: where each began, how far its place is, and what arrived."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.domain.instants import Instant
from tidegate.domain.sinks import SinkSpec

if TYPE_CHECKING:
    from tidegate.sim.world import Simulation


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkFact:
    name: str
    spec: SinkSpec
    since: int  # the place in the log at which it began
    place: int
    got: tuple[tuple[int, str, Instant], ...]  # (position, lane, instant), as it came


def sink_facts(sim: Simulation) -> tuple[SinkFact, ...]:
    if sim.targets is None:
        return ()
    return tuple(
        SinkFact(
            name=name,
            spec=row.spec,
            since=sim.sinks_since[name],
            place=row.spot.pos,
            got=tuple(sim.targets.got.get(name, ())),
        )
        for name, row in sorted(sim.store.data.sink.rows.items())
    )
