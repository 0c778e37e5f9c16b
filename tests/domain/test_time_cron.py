"""Cron against brute force, over every zone; and what is wrong with an expression."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import pytest
import time_oracle as oracle
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples

from tidegate.domain.cron import CronError, parse_cron
from tidegate.domain.fires import count_fires, fires_between, newest_fire, next_fire, nth_newest
from tidegate.domain.instants import DAY, MINUTE
from tidegate.domain.triggers import Cron, Gap, Overlap
from tidegate.domain.zones import END, UnknownZone, resolve, zone_names

EXPRESSIONS = (
    "*/15 * * * *",
    "30 2 * * *",
    "0,30 0-3 * * *",
    "*/15 2 * * *",
    "15 */2 * * *",
    "0 0 * * *",
    "45 23 * * *",
)
NASTY = {
    "Lord_Howe-half_hour_gap": ("Australia/Lord_Howe", "2026-10-03T15:30:00+00:00"),
    "Lord_Howe-half_hour_overlap": ("Australia/Lord_Howe", "2026-04-04T15:00:00+00:00"),
    "Apia-skipped_day": ("Pacific/Apia", "2011-12-30T10:00:00+00:00"),
    "Kwajalein-skipped_day": ("Pacific/Kwajalein", "1993-08-21T12:00:00+00:00"),
    "Troll-two_hours": ("Antarctica/Troll", "2026-03-29T01:00:00+00:00"),
    "Troll-two_hours_back": ("Antarctica/Troll", "2026-10-25T01:00:00+00:00"),
    "Casablanca-ramadan": ("Africa/Casablanca", "2026-02-15T02:00:00+00:00"),
    "Casablanca-after_ramadan": ("Africa/Casablanca", "2026-03-22T02:00:00+00:00"),
    "Kathmandu-quarter_hour": ("Asia/Kathmandu", "1985-12-31T18:30:00+00:00"),
    "Dublin-negative_dst": ("Europe/Dublin", "2026-03-29T01:00:00+00:00"),
    "Dublin-back": ("Europe/Dublin", "2026-10-25T01:00:00+00:00"),
    "Cairo-midnight_gap": ("Africa/Cairo", "2026-04-23T22:00:00+00:00"),
    "Cairo-midnight_overlap": ("Africa/Cairo", "2026-10-29T21:00:00+00:00"),
    "Berlin-far_future": ("Europe/Berlin", "2451-03-26T01:00:00+00:00"),
}


def compare(expression: str, zone: str, at: datetime, step: timedelta, gap: Gap, overlap: Overlap) -> None:
    """Forwards, backwards and counted, two days around an instant. Odd offsets are looked at minute by minute."""
    quarter, moment = 15 * MINUTE, oracle.micros(at)
    if moment % quarter or resolve(zone).offset_at(moment) % quarter or resolve(zone).offset_at(moment - 1) % quarter:
        step = timedelta(minutes=1)
    low, high = at - timedelta(hours=47), at + timedelta(hours=47)
    expected = oracle.fires(expression, zone, low, high, step, gap=gap.value, overlap=overlap.value)
    trigger = Cron(expression=expression, timezone=zone, dst_gap=gap, dst_overlap=overlap)
    after, until = oracle.micros(low), oracle.micros(high) - 1
    assert list(fires_between(trigger, after, until)) == expected
    assert count_fires(trigger, after, until) == len(expected)
    back = []
    fire = newest_fire(trigger, until)
    while fire is not None and fire > after:
        back.append(fire)
        fire = newest_fire(trigger, fire - 1)
    assert back[::-1] == expected


def transitions(zone: str) -> Iterator[datetime]:
    """Where a zone changes its offset since 1973 (earlier ones are not on whole minutes everywhere)."""
    starts = resolve(zone).segments().starts
    yield from (oracle.EPOCH + timedelta(microseconds=at) for at in starts if at > 3 * 366 * DAY)


def different_clocks() -> list[str]:
    """A zone for each history of offsets: a good third of the names are other names of the same."""
    found = {}
    for zone in sorted(zone_names()):
        segments = resolve(zone).segments()
        found.setdefault((tuple(segments.starts), tuple(segments.offsets)), zone)
    return list(found.values())


@pytest.mark.requirement("TIME-1", "TIME-2")
@pytest.mark.parametrize("overlap", Overlap)
@pytest.mark.parametrize("gap", Gap)
@pytest.mark.parametrize("case", NASTY)
def test_cron_agrees_with_brute_force_where_clocks_change(case: str, gap: Gap, overlap: Overlap) -> None:
    zone, at = NASTY[case]
    moment = datetime.fromisoformat(at)
    assert resolve(zone).offset_at(oracle.micros(moment)) != resolve(zone).offset_at(oracle.micros(moment) - 1), (
        "no change"
    )
    for expression in random.Random(case).sample(EXPRESSIONS, examples(len(EXPRESSIONS))):
        compare(expression, zone, moment, timedelta(minutes=15), gap, overlap)


@pytest.mark.requirement("TIME-2")
def test_cron_agrees_with_brute_force_at_a_change_of_every_zone() -> None:
    rng = random.Random(20261121)
    zones = sorted(zone_names())
    for zone in rng.sample(zones, examples(len(zones))):
        if moments := list(transitions(zone)):
            moment, expression = rng.choice(moments), rng.choice(EXPRESSIONS)
            compare(expression, zone, moment, timedelta(minutes=15), rng.choice(list(Gap)), rng.choice(list(Overlap)))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.requirement("TIME-2")
def test_cron_agrees_with_brute_force_at_many_changes_of_every_zone_to_the_minute() -> None:
    rng = random.Random(7)
    for zone in different_clocks():
        moments = list(transitions(zone))
        for moment in rng.sample(moments, min(3, len(moments))):
            for expression in rng.sample(EXPRESSIONS, 3):
                compare(
                    expression, zone, moment, timedelta(minutes=15), rng.choice(list(Gap)), rng.choice(list(Overlap))
                )
        if moments:
            minutes = f"{rng.randrange(60)},{rng.randrange(60)} {rng.randrange(4)}-{rng.randrange(4, 6)} * * *"
            compare(minutes, zone, rng.choice(moments), timedelta(minutes=1), Gap.SHIFT, rng.choice(list(Overlap)))


@pytest.mark.requirement("TIME-2")
def test_zones_agree_with_zoneinfo_around_every_change() -> None:
    for zone in sorted(zone_names()):
        ours, theirs = resolve(zone), oracle.zone(zone)
        for at in transitions(zone):
            for moment in (at - timedelta(seconds=1), at):
                offset = timedelta(microseconds=ours.offset_at(oracle.micros(moment)))
                assert moment.astimezone(theirs).utcoffset() == offset, (zone, moment)


@pytest.mark.requirement("TIME-2")
def test_two_fixed_times_on_one_instant_fire_once() -> None:
    trigger = Cron(expression="0,30 2 * * *", timezone="Europe/Berlin")
    night = list(fires_between(trigger, oracle.instant("2026-03-28T12:00Z"), oracle.instant("2026-03-29T12:00Z")))
    assert night == [oracle.instant("2026-03-29T01:00Z")]


@pytest.mark.requirement("TIME-2")
def test_a_skipped_day_fires_a_fixed_time_once_at_its_end_or_not_at_all() -> None:
    span = oracle.instant("2011-12-29T12:00-10:00"), oracle.instant("2011-12-31T12:00+14:00")
    shift = Cron(expression="0 9 * * *", timezone="Pacific/Apia")
    skip = Cron(expression="0 9 * * *", timezone="Pacific/Apia", dst_gap=Gap.SKIP)
    assert list(fires_between(shift, *span)) == [
        oracle.instant("2011-12-31T00:00+14:00"),
        oracle.instant("2011-12-31T09:00+14:00"),
    ]
    assert list(fires_between(skip, *span)) == [oracle.instant("2011-12-31T09:00+14:00")]


DAY_FIELDS = [
    ("L", "*", "?"), ("LW", "*", "*"), ("15W", "*", "?"), ("1W", "*", "*"), ("31W", "*", "*"), ("?", "*", "5L"),
    ("*", "*", "2#1"), ("*", "*", "0#5"), ("13", "*", "FRI"), ("*/10", "*", "MON"), ("1-7", "*", "*/2"),
    ("1,15", "JAN-MAR,DEC", "?"), ("29", "2", "*"), ("30", "*/2", "*"), ("*", "*", "7"), ("*", "*", "SAT-SUN"),
    ("*", "*", "5-7"), ("L,1W", "*", "WED#3,6L"), ("10-20/3", "6", "1-5/2"),
]  # fmt: skip


@pytest.mark.requirement("TIME-1")
@pytest.mark.parametrize("fields", DAY_FIELDS, ids=" ".join)
def test_days_agree_with_brute_force_over_decades(fields: tuple[str, str, str]) -> None:
    dom, month, dow = fields
    asked = dow.replace("SAT-SUN", "6,0").replace("5-7", "5,6,0")
    trigger = Cron(expression=f"0 12 {dom} {month} {dow}")
    first, last = date(1996, 1, 1), date(2032, 1, 1)
    days = [first + timedelta(n) for n in range((last - first).days)]
    expected = [
        oracle.micros(datetime(day.year, day.month, day.day, 12, tzinfo=UTC))
        for day in days
        if oracle.day_matches(dom, month, asked, day)
    ]
    span = oracle.instant("1996-01-01T00:00Z"), oracle.instant("2032-01-01T00:00Z")
    assert list(fires_between(trigger, *span)) == expected
    assert count_fires(trigger, *span) == len(expected)


@pytest.mark.requirement("TIME-1")
@pytest.mark.parametrize(
    ("name", "expression", "after", "expected"),
    [
        ("month_end", "0 0 L * *", "2026-02-01T00:00Z", "2026-02-28T00:00Z"),
        ("leap_day", "0 0 29 2 *", "2096-02-29T00:00Z", "2104-02-29T00:00Z"),
        ("thirty_first", "0 0 31 * *", "2026-03-31T00:00Z", "2026-05-31T00:00Z"),
        ("leap_sunday", "0 0 29 2 */7", "2004-02-29T00:00Z", "2032-02-29T00:00Z"),
        ("strictly_after", "0 0 * * *", "2026-03-31T00:00Z", "2026-04-01T00:00Z"),
        ("alias", "@hourly", "2026-03-31T00:00:01Z", "2026-03-31T01:00Z"),
        ("weekly", "@weekly", "2026-03-31T00:00:01Z", "2026-04-05T00:00Z"),
    ],
)
def test_named_cases(name: str, expression: str, after: str, expected: str) -> None:
    assert next_fire(Cron(expression=expression), oracle.instant(after)) == oracle.instant(expected)


@pytest.mark.requirement("TIME-1")
def test_seconds_are_opt_in() -> None:
    fire = next_fire(Cron(expression="*/20 * * * * *", seconds=True), oracle.instant("2026-01-01T00:00:20Z"))
    assert fire == oracle.instant("2026-01-01T00:00:40Z")
    with pytest.raises(CronError, match="six fields; say `seconds: true`"):
        parse_cron("*/20 * * * * *")
    with pytest.raises(CronError, match="5 fields instead of 6"):
        parse_cron("* * * * *", seconds=True)


@pytest.mark.requirement("TIME-1")
@pytest.mark.parametrize(
    ("expression", "field", "position", "says"),
    [
        ("60 * * * *", "minute", 1, "0 to 59"),
        ("* 24 * * *", "hour", 3, "0 to 23"),
        ("0 0 0 * *", "day of month", 5, "1 to 31"),
        ("0 0 * 13 *", "month", 7, "JAN to DEC"),
        ("0 0 * JAN,FOO *", "month", 11, "'FOO'"),
        ("0  0 * * 8", "day of week", 10, "0 to 7"),
        ("0 0 31 2 *", "day of month", 5, "never fires"),
        ("0 0 30-31 2 ?", "day of month", 5, "never fires"),
        ("0 22-3 * * *", "hour", 3, "22-23,0-3"),
        ("*/0 * * * *", "minute", 1, "from 1 to 60"),
        ("5,,6 * * * *", "minute", 3, "surplus comma"),
        ("? * * * *", "minute", 1, "write *"),
        ("0 0 * * 2#6", "day of week", 9, "1 to 5"),
        ("0 0 * * L", "day of week", 9, "5L"),
        ("0 0 L-3 * *", "day of month", 5, "LW"),
        ("-1 * * * *", "minute", 1, "not allowed"),
        ("1.5 * * * *", "minute", 1, "not allowed"),
        ("\u0661 * * * *", "minute", 1, "not allowed"),
        ("", "", 1, "0 fields"),
        ("@reboot", "", 1, "@hourly"),
    ],
)
def test_a_wrong_expression_names_field_position_and_remedy(
    expression: str, field: str, position: int, says: str
) -> None:
    with pytest.raises(CronError) as caught:
        parse_cron(expression)
    assert (caught.value.field, caught.value.position) == (field, position)
    assert says in str(caught.value)


@settings(deadline=None)
@given(st.text(alphabet="0123456789*/,-?LW#@ SUNMO", max_size=30), st.booleans())
def test_any_text_is_read_or_refused_as_a_cron_error(text: str, seconds: bool) -> None:
    try:
        expression = parse_cron(text, seconds=seconds)
    except CronError:
        return
    assert expression.times.first(0) is not None


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from(["* * * * *", "30 2 * * *", "*/7 3-9 L * *", "0 0 29 2 *"]), st.integers(0, END - 1),
       st.integers(0, 400 * DAY), st.sampled_from(["UTC", "Europe/Berlin", "Pacific/Apia"]))  # fmt: skip
def test_next_newest_count_and_nth_newest_agree(expression: str, after: int, span: int, zone: str) -> None:
    trigger = Cron(expression=expression, timezone=zone)
    until = min(after + span, END - DAY)
    first, last, n = next_fire(trigger, after), newest_fire(trigger, until), count_fires(trigger, after, until)
    if n <= 0:
        assert first is None or first > until
        return
    assert first is not None and last is not None and after < first <= last <= until
    assert nth_newest(trigger, after, until, 1) == last
    assert nth_newest(trigger, after, until, n) == first
    assert nth_newest(trigger, after, until, n + 1) is None
    assert count_fires(trigger, first, last) == n - 1


def test_counting_a_year_of_minutes_walks_nothing() -> None:
    trigger = Cron(expression="* * * * *", timezone="Europe/Berlin")
    year = oracle.instant("2025-01-01T00:00Z"), oracle.instant("2026-01-01T00:00Z")
    assert count_fires(trigger, *year) == 525_600


def test_an_unknown_zone_suggests_the_nearest_names() -> None:
    for wrong in ("europe/berlin", "Berlin", "Europe/Belrin"):
        with pytest.raises(UnknownZone, match="did you mean Europe/Berlin"):
            resolve(wrong)
    with pytest.raises(UnknownZone):
        resolve("../zones")
