"""Each sink gets every event that it wants, from when it was declared on: first in the order of each lane, and nothing
that is not in the log. What its place has passed was delivered, and after the faults its place moves on.

Where a standby took over without the last commits, a sink may have what was forgotten, and positions are given a second
time: then what counts is that it got each event that is in the log now."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.domain.instants import MINUTE
from tidegate.sim.history import History, Violation
from tidegate.sim.sink_facts import SinkFact

LAW = "sinks_told"
PATIENCE = MINUTE


def check(history: History) -> Iterator[Violation]:
    log = {pos: (at, type_) for pos, at, type_ in history.log}
    for sink in history.sinks:
        wanted = {pos: at for pos, (at, type_) in log.items() if pos > sink.since and sink.spec.wants(type_)}
        got = {(pos, at) for pos, _, at in sink.got}
        for pos, at in wanted.items():
            if pos <= sink.place and (pos, at) not in got:
                yield Violation(LAW, f"{sink.name}: its place {sink.place} has passed event {pos}, which it never got")
        if not history.losses:
            for pos, at in sorted(got):
                if wanted.get(pos) != at:
                    yield Violation(LAW, f"{sink.name} got event {pos}, which is not in the log or not for it")
            yield from _in_order(sink)
        late = [pos for pos, at in wanted.items() if pos > sink.place and at < history.end - PATIENCE]
        if late and history.calm_since is not None and history.end >= history.calm_since + PATIENCE:
            yield Violation(LAW, f"{sink.name}: {len(late)} events wait since long, the first at {min(late)}")


def _in_order(sink: SinkFact) -> Iterator[Violation]:
    newest: dict[str, int] = {}
    seen: set[int] = set()
    for pos, lane, _ in sink.got:
        if pos not in seen:
            seen.add(pos)
            if pos < newest.get(lane, 0):
                yield Violation(LAW, f"{sink.name}: {pos} of {lane} came first after {newest[lane]}")
            newest[lane] = pos
