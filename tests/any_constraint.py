"""Any constraint and any deadline that a document can say, for properties."""

from __future__ import annotations

from hypothesis import strategies as st

from tidegate.domain import constraints
from tidegate.domain.instants import DAY, MILLISECOND
from tidegate.domain.schedules import Deadline, DeadlineFrom
from tidegate.domain.triggers import Weekday
from tidegate.domain.windows import Span

unmet = st.sampled_from(constraints.Unmet)
counts = st.integers(1, 1000)
durations = st.integers(1, 400 * DAY // MILLISECOND).map(lambda number: number * MILLISECOND)
names = st.sampled_from(["nightly", "a.b", "X_1-2"])
scopes = st.sampled_from(["schedule", "program", "group:nightly", "group:a.b"])
zones = st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe"])
weekdays = st.sets(st.sampled_from(Weekday), min_size=1).map(
    lambda chosen: tuple(day for day in Weekday if day in chosen)
)
spans = st.builds(Span, start=st.integers(0, 1439), end=st.integers(1, 1440), timezone=zones, days=weekdays).filter(
    lambda span: span.start != span.end
)
loads = st.one_of(
    st.builds(constraints.Load, resource=names, below=st.floats(-1e9, 1e9), unmet=unmet),
    st.builds(constraints.Load, resource=names.map("pool:{}".format), below=st.floats(0.1, 100), unmet=unmet),
)
constraint = st.one_of(
    st.builds(constraints.Concurrency, max=counts, scope=scopes, unmet=unmet),
    st.builds(constraints.Delay, duration=durations, unmet=unmet),
    st.builds(constraints.Window, span=spans, stop_at_end=st.booleans(), unmet=unmet),
    st.builds(constraints.MinInterval, duration=durations, unmet=unmet),
    st.builds(constraints.Rate, max=counts, per=durations, scope=scopes, unmet=unmet),
    loads,
    st.builds(constraints.Blackout, calendar=names, unmet=unmet),
)


def _key(one: constraints.Constraint) -> object:
    """What two constraints of one schedule may not both be."""
    if isinstance(one, constraints.Concurrency):
        return one.scope, one.unmet
    return type(one) if isinstance(one, constraints.Delay | constraints.MinInterval) else one


several = st.lists(constraint, max_size=4, unique_by=_key).map(tuple)  # type: ignore[arg-type]
deadlines = st.builds(
    lambda start, more, since: Deadline(start=start, finish=None if more is None else (start or 0) + more, since=since),
    st.none() | durations,
    st.none() | durations,
    st.sampled_from(DeadlineFrom),
).filter(lambda one: one != Deadline(since=one.since))
