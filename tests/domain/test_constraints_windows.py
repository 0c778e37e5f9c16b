"""Windows and calendars against brute force: every minute is tried, on the wall clock of Python, in nasty zones."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.domain.calendars import Calendar, apart, closed_until
from tidegate.domain.instants import DAY, HOUR, MINUTE, SECOND, from_datetime
from tidegate.domain.triggers import Weekday
from tidegate.domain.windows import Span, closes, is_open, opens

WEEK = tuple(Weekday)
AHEAD = 3 * 1440
NASTY = {
    "UTC": datetime(2026, 3, 29, tzinfo=UTC),
    "Europe/Berlin": datetime(2026, 3, 29, 1, tzinfo=UTC),
    "America/New_York": datetime(2026, 11, 1, 6, tzinfo=UTC),
    "Australia/Lord_Howe": datetime(2026, 4, 4, 15, tzinfo=UTC),  # half an hour back
    "America/Sao_Paulo": datetime(2018, 11, 4, 3, tzinfo=UTC),  # no midnight
    "America/Havana": datetime(2026, 3, 8, 5, tzinfo=UTC),  # no midnight
    "America/Asuncion": datetime(2024, 3, 24, 3, tzinfo=UTC),  # two midnights
    "Pacific/Apia": datetime(2011, 12, 30, 10, tzinfo=UTC),  # no 30th of December
    "Asia/Kathmandu": datetime(2026, 1, 1, tzinfo=UTC),
    "Africa/Casablanca": datetime(2026, 2, 15, 2, tzinfo=UTC),  # Ramadan
    "America/St_Johns": datetime(2010, 11, 7, 2, tzinfo=UTC),  # back at one minute past midnight
}


def wall(at: int, timezone: str) -> datetime:
    return datetime.fromtimestamp(at // SECOND, ZoneInfo(timezone)).replace(tzinfo=None)


def shown(span: Span, at: int) -> bool:
    """Whether the clock on the wall shows a time inside, of a window that opened today or yesterday."""
    local = wall(at, span.timezone)
    end = span.end + (1440 if span.end <= span.start else 0)
    for back in (0, 1):
        minutes = back * 1440 + local.hour * 60 + local.minute
        opened = local.date() - timedelta(days=back)
        if span.start <= minutes < end and WEEK[opened.weekday()] in span.days:
            return True
    return False


def first(wanted: bool, span: Span, at: int) -> int | None:
    """The first instant from then on at which it is open, or closed, within three days; offsets are whole minutes."""
    if shown(span, at) is wanted:
        return at
    minute = at - at % MINUTE
    return next((one for n in range(1, AHEAD) if shown(span, one := minute + n * MINUTE) is wanted), None)


spans = st.builds(
    Span,
    start=st.one_of(st.integers(0, 1439), st.sampled_from([0, 1, 30, 90, 120, 150, 1410, 1439])),
    end=st.one_of(st.integers(1, 1440), st.sampled_from([1, 60, 120, 150, 180, 1440])),
    timezone=st.sampled_from(sorted(NASTY)),
    days=st.one_of(st.just(WEEK), st.lists(st.sampled_from(WEEK), min_size=1, unique=True).map(tuple)),
)
away = st.integers(-36 * HOUR, 36 * HOUR)


@pytest.mark.requirement("GATE-5")
@given(spans, away)
def test_a_window_opens_and_closes_when_the_clock_on_the_wall_says_so(span: Span, offset: int) -> None:
    at = from_datetime(NASTY[span.timezone]) + offset
    assert is_open(span, at) is shown(span, at)
    for wanted, found in ((True, opens(span, at)), (False, closes(span, at))):
        tried = first(wanted, span, at)
        if tried is not None:
            assert found == tried
        else:
            assert found is None or found >= at + (AHEAD - 1) * MINUTE


@pytest.mark.requirement("GATE-5", "GATE-13")
@given(spans, away)
def test_a_window_that_says_when_it_opens_is_open_then_and_not_a_microsecond_before(span: Span, offset: int) -> None:
    at = from_datetime(NASTY[span.timezone]) + offset
    begin = opens(span, at)
    if begin is not None and begin > at:
        assert is_open(span, begin) and not is_open(span, begin - 1)
    end = closes(span, at)
    if end is not None and end > at:
        assert not is_open(span, end) and is_open(span, end - 1)


@pytest.mark.requirement("GATE-5")
def test_a_window_across_midnight_belongs_to_the_day_on_which_it_opened() -> None:
    night = Span(start=22 * 60, end=6 * 60, timezone="Europe/Berlin", days=(Weekday.FRI,))
    saturday = from_datetime(datetime(2026, 6, 6, 3, 59, tzinfo=UTC))  # 05:59 in Berlin
    assert is_open(night, saturday) and not is_open(night, saturday + MINUTE)
    assert not is_open(night, saturday - DAY), "Friday's small hours are Thursday's"
    assert closes(night, saturday) == saturday + MINUTE


def test_a_window_inside_a_gap_does_not_open_that_day() -> None:
    lost = Span(start=2 * 60 + 15, end=2 * 60 + 45, timezone="Europe/Berlin")
    before = from_datetime(datetime(2026, 3, 29, 0, 50, tzinfo=UTC))
    assert opens(lost, before) == from_datetime(datetime(2026, 3, 30, 0, 15, tzinfo=UTC))


# ── calendars ──────────────────────────────────────────────────────────────────────────────────────────────────────

RULES: dict[str, Callable[[date], bool]] = {
    "0 0 * * SAT,SUN": lambda day: day.weekday() >= 5,
    "30 2 * * MON": lambda day: day.weekday() == 0,
    "0 12 1 * *": lambda day: day.day == 1,
    "0 0 25 12 *": lambda day: (day.month, day.day) == (12, 25),
    "15 0 */2 * *": lambda day: day.day % 2 == 1,
}


@st.composite
def calendars(draw: st.DrawFn) -> tuple[Calendar, int]:
    """A calendar around the jump of its zone, and an instant there."""
    timezone = draw(st.sampled_from(sorted(NASTY)))
    begin = from_datetime(NASTY[timezone])
    today = (wall(begin, timezone).date() - date(1970, 1, 1)).days
    minutes = st.integers(-36 * 60, 72 * 60)
    edges = draw(st.lists(st.tuples(minutes, st.integers(1, 600)), max_size=3))
    found = Calendar(
        name="closed",
        timezone=timezone,
        days=frozenset(today + draw(st.integers(-1, 3)) for _ in range(draw(st.integers(0, 3)))),
        rules=tuple(draw(st.lists(st.sampled_from(sorted(RULES)), max_size=2, unique=True))),
        spans=apart((begin + at * MINUTE, begin + (at + length) * MINUTE) for at, length in edges),
    )
    return found, begin + draw(away)


def closed(calendar: Calendar, at: int) -> bool:
    day = wall(at, calendar.timezone).date()
    return (
        (day - date(1970, 1, 1)).days in calendar.days
        or any(RULES[rule](day) for rule in calendar.rules)
        or any(begin <= at < end for begin, end in calendar.spans)
    )


@pytest.mark.requirement("GATE-8", "GATE-13")
@given(calendars())
def test_a_calendar_is_closed_until_the_first_minute_that_is_not(drawn: tuple[Calendar, int]) -> None:
    calendar, at = drawn
    until = closed_until(calendar, at)
    if not closed(calendar, at):
        assert until is None
        return
    minute = at - at % MINUTE
    tried = next((one for n in range(1, 8 * 1440) if not closed(calendar, one := minute + n * MINUTE)), None)
    assert until == tried
