"""The event log tells each run's life once: one `run.waiting`, and one event of its end, which is its state."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.domain.ids import RunKey
from tidegate.domain.runs import ENDS, State
from tidegate.sim.history import History, Violation

LAW = "events_told"
_ENDS = {f"run.{state}": state for state in ENDS}


def check(history: History) -> Iterator[Violation]:
    told: dict[RunKey, dict[str, int]] = {}
    for _, type_, run in history.events:
        if run is not None:
            mine = told.setdefault(run, {})
            mine[type_] = mine.get(type_, 0) + 1
    for fact in history.runs:
        mine = told.get(fact.key, {})
        made = 0 if fact.state is State.MERGED else 1  # one that joins another never waits
        if mine.get("run.waiting", 0) != made:
            yield Violation(LAW, f"run {fact.key}: {mine.get('run.waiting', 0)} events say that it was made")
        ends = {type_: count for type_, count in mine.items() if type_ in _ENDS}
        right = {} if fact.live else {f"run.{fact.state}": 1}
        if ends != right:
            yield Violation(LAW, f"run {fact.key} is {fact.state}; its events: {ends}")
        if mine.get("run.started", 0) != (1 if fact.started_at is not None else 0):
            yield Violation(
                LAW, f"run {fact.key} started {fact.started_at}; {mine.get('run.started', 0)} events say so"
            )
