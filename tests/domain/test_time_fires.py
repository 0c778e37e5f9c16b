"""Intervals, windows, one-off instants, bounds, jitter, preview and validation."""

from __future__ import annotations

import calendar
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

import pytest
import time_oracle as oracle
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.domain.fires import (
    after_finish_due,
    closing,
    count_fires,
    due,
    fires_between,
    first_due,
    newest_fire,
    next_fire,
    preview,
)
from tidegate.domain.instants import DAY, HOUR, MINUTE, SECOND
from tidegate.domain.intervals import parse_every
from tidegate.domain.triggers import (
    AfterFinish,
    At,
    Cron,
    Gap,
    Interval,
    Never,
    Overlap,
    TimeTrigger,
    Trigger,
    Weekday,
    WindowDays,
)
from tidegate.domain.validation import validate

T0 = oracle.instant("2026-03-28T12:00:00Z")
INSTANTS = st.integers(oracle.instant("1980-01-01T00:00Z"), oracle.instant("2060-01-01T00:00Z"))


def wall_to_instant(wall: datetime, zone: str) -> int:
    """A wall-clock time as `datetime` sees it: the first of two, and in a gap the first instant after it."""
    moment = wall.replace(tzinfo=oracle.zone(zone), fold=0).astimezone(UTC)
    if moment.astimezone(oracle.zone(zone)).replace(tzinfo=None) == wall:
        return oracle.micros(moment)
    probe = moment - timedelta(hours=30)
    while probe.astimezone(oracle.zone(zone)).replace(tzinfo=None) < wall:
        probe += timedelta(minutes=15)
    return oracle.micros(probe)


@pytest.mark.requirement("TIME-3")
@settings(deadline=None)
@given(INSTANTS, INSTANTS, st.integers(1, 10**6))
def test_an_exact_grid_never_drifts(anchor: int, after: int, seconds: int) -> None:
    trigger = Interval(every=f"PT{seconds}S", anchor=anchor, timezone="Europe/Berlin")
    fires = list(islice(fires_between(trigger, after, after + 10**15), 5))
    assert fires[0] > after >= fires[0] - seconds * SECOND
    assert all((fire - anchor) % (seconds * SECOND) == 0 for fire in fires)
    assert all(later - fire == seconds * SECOND for fire, later in pairwise(fires))


@pytest.mark.requirement("TIME-3")
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Africa/Cairo", "Australia/Lord_Howe"])
@pytest.mark.parametrize("days", [1, 3, 7])
def test_days_follow_the_calendar_of_the_zone(zone: str, days: int) -> None:
    first, last = datetime(2022, 1, 1, 2, 15), datetime(2030, 1, 1, 2, 15)
    trigger = Interval(every=f"P{days}D", anchor=wall_to_instant(first, zone), timezone=zone)
    walls = [first + timedelta(n) for n in range(0, (last - first).days, days)]
    expected = [wall_to_instant(wall, zone) for wall in walls]
    assert list(fires_between(trigger, expected[0] - 1, expected[-1])) == expected
    assert count_fires(trigger, expected[0], expected[-1]) == len(expected) - 1


@pytest.mark.requirement("TIME-3")
def test_a_skipped_day_of_a_daily_grid_fires_once_with_the_next() -> None:
    trigger = Interval(every="P1D", timezone="Pacific/Apia")
    span = oracle.instant("2011-12-28T12:00-10:00"), oracle.instant("2012-01-01T12:00+14:00")
    expected = ["2011-12-29T00:00-10:00", "2011-12-31T00:00+14:00", "2012-01-01T00:00+14:00"]
    assert list(fires_between(trigger, *span)) == [oracle.instant(text) for text in expected]
    assert count_fires(trigger, *span) == 3


@pytest.mark.requirement("TIME-3")
@pytest.mark.parametrize("months", [1, 2, 12, 18])
@pytest.mark.parametrize("day", [1, 29, 31])
def test_months_keep_the_anchors_day_where_it_exists(months: int, day: int) -> None:
    anchor = datetime(2024, 1, day, 6)
    trigger = Interval(every=f"P{months}M", anchor=oracle.micros(anchor.replace(tzinfo=UTC)))
    expected = []
    for n in range(0, 400, months):
        year, month = divmod(anchor.year * 12 + anchor.month - 1 + n, 12)
        last = calendar.monthrange(year, month + 1)[1]
        expected.append(oracle.micros(datetime(year, month + 1, min(day, last), 6, tzinfo=UTC)))
    assert list(fires_between(trigger, expected[0] - 1, expected[-1])) == expected
    assert count_fires(trigger, expected[0], expected[-1]) == len(expected) - 1
    assert newest_fire(trigger, expected[5] - 1) == expected[4]


@pytest.mark.requirement("TIME-3")
@pytest.mark.parametrize(
    ("every", "expected"),
    [("P1D", "2026-03-29T00:00+01:00"), ("P1W", "2026-03-30T00:00+02:00"), ("PT1H", "2026-03-28T14:00+01:00"),
     ("P1M", "2026-04-05T00:00+02:00"), ("P1Y", "2027-01-05T00:00+01:00"), ("1w", "2026-03-30T00:00+02:00")],
)  # fmt: skip
def test_the_default_anchor_is_the_first_monday_of_1970_in_the_zone(every: str, expected: str) -> None:
    assert next_fire(Interval(every=every, timezone="Europe/Berlin"), T0) == oracle.instant(expected)


@pytest.mark.requirement("TIME-3")
@pytest.mark.parametrize(
    ("text", "says"),
    [("P1DT2H", "PT36H"), ("P1M1D", "P30D"), ("PT0S", "PT1S"), ("500ms", "PT1S"), ("P0D", "PT1S"), ("", "P1W"),
     ("5 min", "15m"), ("P", "P1M"), ("-PT5M", "PT15M")],
)  # fmt: skip
def test_an_interval_that_cannot_be_is_refused_with_what_would_be_right(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_every(text)


@pytest.mark.requirement("TIME-5")
def test_a_window_across_midnight_belongs_to_the_day_on_which_it_opens() -> None:
    trigger = WindowDays(every_days=2, days=(Weekday.MON, Weekday.WED, Weekday.THU), earliest=22 * 60, latest=4 * 60)
    monday = oracle.instant("2026-03-30T22:00Z")
    assert next_fire(trigger, T0) == monday
    assert closing(trigger, monday) == oracle.instant("2026-03-31T04:00Z")
    tuesday_one = oracle.instant("2026-03-31T01:00Z")  # a run inside Monday's window counts from Monday
    for last_fire in (monday, tuesday_one):
        assert next_fire(trigger, tuesday_one, last_fire=last_fire) == oracle.instant("2026-04-01T22:00Z")
    tuesday_noon = oracle.instant("2026-03-31T12:00Z")
    assert next_fire(trigger, tuesday_noon, last_fire=tuesday_noon) == oracle.instant("2026-04-02T22:00Z")


@pytest.mark.requirement("TIME-5")
@settings(deadline=None)
@given(INSTANTS, st.integers(1, 9), st.sets(st.sampled_from(list(Weekday)), min_size=1), st.integers(0, 1439))
def test_windows_agree_with_looking_at_every_day(last_fire: int, every: int, days: set[Weekday], earliest: int) -> None:
    zone = "Europe/Berlin"
    latest = 1440 if earliest else 720
    trigger = WindowDays(every_days=every, days=tuple(days), earliest=earliest, latest=latest, timezone=zone)
    wall = (oracle.EPOCH + timedelta(microseconds=last_fire)).astimezone(oracle.zone(zone)).date()
    day = wall + timedelta(every)
    while list(Weekday)[day.weekday()] not in days:
        day += timedelta(1)
    opening = datetime(day.year, day.month, day.day) + timedelta(minutes=earliest)
    assert next_fire(trigger, last_fire, last_fire=last_fire) == wall_to_instant(opening, zone)


TRIGGERS: list[TimeTrigger] = [
    Cron(expression="*/10 * * * *"),
    Interval(every="PT90M"),
    WindowDays(every_days=1, earliest=60, latest=120),
    At(time=T0 + 5 * HOUR),
]


@pytest.mark.requirement("TIME-6")
@pytest.mark.parametrize("trigger", TRIGGERS, ids=lambda t: t.TYPE)
def test_start_and_end_bound_every_trigger_inclusively(trigger: TimeTrigger) -> None:
    from dataclasses import replace

    free = list(fires_between(trigger, T0, T0 + 10 * DAY, last_fire=None))
    low, high = free[0], free[min(3, len(free) - 1)]
    bounded = replace(trigger, start=low, end=high)
    inside = [fire for fire in free if low <= fire <= high]
    assert list(fires_between(bounded, 0, T0 + 20 * DAY)) == inside
    assert newest_fire(bounded, T0 + 20 * DAY) == high and newest_fire(bounded, low - 1) is None
    assert count_fires(bounded, 0, T0 + 20 * DAY) == len(inside)
    assert next_fire(bounded, high) is None


@pytest.mark.requirement("TIME-6", "TIME-7")
@settings(deadline=None)
@given(st.integers(0, 10 * DAY), st.integers(1, 3 * HOUR), st.text(min_size=1, max_size=8))
def test_jitter_is_a_function_of_schedule_and_fire_time_and_keeps_the_order(at: int, most: int, name: str) -> None:
    for trigger in (Cron(expression="*/10 * * * *", jitter=most), Interval(every="PT90M", jitter=most)):
        fires = list(fires_between(trigger, T0 + at, T0 + at + 6 * HOUR))
        dues = [due(name, trigger, fire) for fire in fires]
        assert dues == [due(name, trigger, fire) for fire in fires]
        assert all(fire <= then <= fire + most for fire, then in zip(fires, dues, strict=True))
        assert all(then < following for then, following in zip(dues, fires[1:], strict=False))


@pytest.mark.requirement("TIME-6")
def test_jitter_spreads_schedules_and_stays_inside_a_window() -> None:
    trigger = Cron(expression="@daily", jitter=HOUR)
    midnight = oracle.instant("2026-04-01T00:00Z")
    spread = {due(f"team/s{n}", trigger, midnight) - midnight for n in range(200)}
    assert len(spread) == 200 and max(spread) > 50 * MINUTE and min(spread) < 10 * MINUTE
    narrow = WindowDays(every_days=1, earliest=60, latest=61, jitter=5 * HOUR)
    assert all(due(f"s{n}", narrow, midnight + HOUR) < midnight + HOUR + MINUTE for n in range(50))


@pytest.mark.requirement("TIME-4", "TIME-6")
def test_fixed_delay_is_due_after_the_end_within_its_bounds() -> None:
    trigger = AfterFinish(delay=HOUR, start=T0, end=T0 + DAY)
    assert first_due("a/b", trigger, T0 - DAY) == T0 and first_due("a/b", trigger, T0 + 5) == T0 + 6
    assert after_finish_due(trigger, T0 + 5) == T0 + 5 + HOUR
    assert after_finish_due(trigger, T0 + DAY) is None
    assert next_fire(trigger, T0) is None and next_fire(Never(), T0) is None


@pytest.mark.requirement("TIME-9")
def test_a_preview_tells_what_daylight_saving_does() -> None:
    cron = Cron(expression="30 2 * * *", timezone="Europe/Berlin")
    spring = preview(cron, oracle.instant("2026-03-27T12:00Z"), 3)
    assert [fire.local_time for fire in spring] == [
        "2026-03-28T02:30:00+01:00",
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:30:00+02:00",
    ]
    assert "does not exist" in spring[1].note and "+01:00 to +02:00" in spring[1].note
    assert not spring[0].note and not spring[2].note
    both = Cron(expression="30 2 * * *", timezone="Europe/Berlin", dst_overlap=Overlap.BOTH)
    autumn = preview(both, oracle.instant("2026-10-24T12:00Z"), 2)
    assert "this is the first" in autumn[0].note and "this is the second" in autumn[1].note
    skip = Cron(expression="30 2 * * *", timezone="Europe/Berlin", dst_gap=Gap.SKIP)
    assert "skipped" in preview(skip, oracle.instant("2026-03-27T12:00Z"), 2)[1].note


@pytest.mark.requirement("TIME-9")
@pytest.mark.parametrize("trigger", [*TRIGGERS, AfterFinish(delay=MINUTE), Never()], ids=lambda t: t.TYPE)
def test_a_preview_is_the_next_fires_of_any_trigger(trigger: Trigger) -> None:
    fires = [fire.fire_time for fire in preview(trigger, T0, 4)]
    match trigger:
        case Never():
            assert fires == []
        case AfterFinish():
            assert fires == [T0]
        case _:
            assert fires == list(islice(fires_between(trigger, T0, T0 + 30 * DAY), 4))


@pytest.mark.requirement("TIME-1", "TIME-6")
@pytest.mark.parametrize(
    ("trigger", "paths"),
    [
        (Cron(expression="61 * * * *", timezone="Berlin", jitter=-1), ["timezone", "expression", "jitter"]),
        (Cron(expression="0 0 31 2 *"), ["expression"]),
        (Cron(expression="0 0 29 2 *", start=T0, end=T0 + DAY), ["end"]),
        (Interval(every="P1DT2H"), ["every"]),
        (Interval(every="PT5M", start=T0, end=T0 - 1), ["end"]),
        (AfterFinish(delay=-1), ["delay"]),
        (At(time=T0, end=T0 - DAY), ["end"]),
        (WindowDays(every_days=0, days=(), earliest=9, latest=9), ["every_days", "days", "latest"]),
        (WindowDays(every_days=1, earliest=1440, latest=0), ["earliest", "latest"]),
        (Never(), []),
        *((trigger, []) for trigger in TRIGGERS),
    ],
    ids=str,
)
def test_every_fault_of_a_trigger_is_told_at_once_with_its_place(trigger: Trigger, paths: list[str]) -> None:
    assert [fault.path for fault in validate(trigger)] == paths
