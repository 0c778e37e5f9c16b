"""Calendars as people write them: dates, rules, iCalendar files; and what is no calendar."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples

from tidegate.documents import declared, files, parse
from tidegate.domain.calendars import Calendar, closed_until
from tidegate.domain.errors import Invalid
from tidegate.domain.instants import Instant, from_datetime

BERLIN = ZoneInfo("Europe/Berlin")
EPOCH = date(1970, 1, 1)


def ics(*events: str) -> str:
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//test//EN"]
    for number, event in enumerate(events):
        lines += ["BEGIN:VEVENT", f"UID:{number}", "DTSTAMP:20260101T000000Z", *event.split(), "END:VEVENT"]
    return "\r\n".join([*lines, "END:VCALENDAR", ""])


def calendar(**spec: Any) -> Calendar:
    made = parse({"spec": spec}, kind="Calendar", name="holidays")
    assert isinstance(made, declared.Calendar)
    return made.calendar


def at(*when: int, zone: ZoneInfo = BERLIN) -> Instant:
    return from_datetime(datetime(*when, tzinfo=zone))  # type: ignore[misc, arg-type]


def is_closed(one: Calendar, *when: int) -> bool:
    return closed_until(one, at(*when)) is not None


@pytest.mark.requirement("GATE-8")
def test_dates_and_rules_close_local_days() -> None:
    found = calendar(timezone="Europe/Berlin", days=["2026-12-25"], rules=["0 0 1 1 *"])
    assert found.days == {(date(2026, 12, 25) - EPOCH).days} and found.rules == ("0 0 1 1 *",)
    assert not is_closed(found, 2026, 12, 24, 23, 59)
    assert closed_until(found, at(2026, 12, 25)) == at(2026, 12, 26)
    assert closed_until(found, at(2027, 1, 1, 12)) == at(2027, 1, 2)


@pytest.mark.requirement("GATE-8")
def test_a_whole_day_of_an_icalendar_file_closes_that_local_day_every_year_that_it_repeats() -> None:
    found = calendar(timezone="Europe/Berlin", ics=ics("DTSTART;VALUE=DATE:20251225 RRULE:FREQ=YEARLY"))
    assert closed_until(found, at(2026, 12, 25, 13)) == at(2026, 12, 26)
    assert is_closed(found, 2050, 12, 25) and not is_closed(found, 2051, 12, 25)
    assert not is_closed(found, 2026, 12, 26) and not is_closed(found, 2024, 12, 25)


@pytest.mark.requirement("GATE-8")
def test_an_event_with_hours_closes_from_its_beginning_to_its_end_by_its_own_zone() -> None:
    tokyo = "DTSTART;TZID=Asia/Tokyo:20260302T090000 DTEND;TZID=Asia/Tokyo:20260302T110000"
    found = calendar(timezone="Europe/Berlin", ics=ics(tokyo, "DTSTART:20260302T120000Z DURATION:PT30M"))
    assert found.spans == ((at(2026, 3, 2, 1), at(2026, 3, 2, 3)), (at(2026, 3, 2, 13), at(2026, 3, 2, 13, 30)))


@pytest.mark.requirement("GATE-8", "TIME-5")
def test_a_time_without_a_zone_is_the_calendars_and_follows_its_clocks() -> None:
    nightly = "DTSTART:20260301T220000 DTEND:20260302T060000 RRULE:FREQ=WEEKLY;COUNT=5"
    found = calendar(timezone="Europe/Berlin", ics=ics(nightly))
    assert [end - start for start, end in found.spans] == [8 * 3_600_000_000 for _ in range(5)], (
        "the last begins on the Sunday on which the clocks have gone forward already"
    )
    assert found.spans[-1] == (at(2026, 3, 29, 22), at(2026, 3, 30, 6))


def test_what_was_cancelled_and_what_a_series_leaves_out_does_not_close() -> None:
    daily = "DTSTART;VALUE=DATE:20260601 RRULE:FREQ=DAILY;COUNT=3 EXDATE;VALUE=DATE:20260602"
    found = calendar(ics=ics(daily, "DTSTART;VALUE=DATE:20260701 STATUS:CANCELLED"))
    assert found.days == {(date(2026, 6, day) - EPOCH).days for day in (1, 3)}


@settings(deadline=None, max_examples=examples(60))
@given(
    st.lists(
        st.tuples(st.datetimes(datetime(2026, 1, 1), datetime(2026, 12, 1)), st.timedeltas(timedelta(0), timedelta(3))),
        min_size=1,
        max_size=6,
    )
)
def test_spans_cover_exactly_the_events_and_never_touch(given_events: list[tuple[datetime, timedelta]]) -> None:
    events = [(start.replace(microsecond=0), timedelta(seconds=length.seconds)) for start, length in given_events]
    text = ics(*(f"DTSTART:{start:%Y%m%dT%H%M%S}Z DTEND:{start + length:%Y%m%dT%H%M%S}Z" for start, length in events))
    found = calendar(ics=text)
    utc = ZoneInfo("UTC")
    edges = [edge for start, length in events for edge in (start, start + length)]
    for edge in edges:
        for moment in (edge - timedelta(seconds=1), edge, edge + timedelta(seconds=1)):
            inside = any(start <= moment < start + length for start, length in events)
            instant = from_datetime(moment.replace(tzinfo=utc))
            assert any(start <= instant < end for start, end in found.spans) is inside
    assert all(one[1] < other[0] for one, other in zip(found.spans, found.spans[1:], strict=False))


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "no_zone": ({"timezone": "Mars/Olympus"}, "spec.timezone", "Mars/Olympus"),
    "no_date": ({"days": ["2026-12-25", "25.12.2026"]}, "spec.days[1]", "is not a date; write it like"),
    "no_such_day": ({"days": ["2026-02-30"]}, "spec.days[0]", "is not a date"),
    "day_as_a_number": ({"days": [20261225]}, "spec.days[0]", "must be a date such as"),
    "no_rule": ({"rules": ["0 0 1 1 *", "every day"]}, "spec.rules[1]", "field"),
    "rule_that_never_fires": ({"rules": ["0 0 30 2 *"]}, "spec.rules[0]", "never"),
    "unknown_key": ({"dates": []}, "spec.dates", "did you mean 'days'"),
    "path": ({"ics": "holidays.ics"}, "spec.ics", "a path can only be read by `tidegate apply -f FILE`"),
    "torn": ({"ics": "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nEND:VCALENDAR"}, "spec.ics", "is not an iCalendar file"),
    "no_start": ({"ics": ics("SUMMARY:x")}, "spec.ics", "event 'x' has no DTSTART"),
    "rubbish": ({"ics": ics("DTSTART:rubbish")}, "spec.ics", "is not an iCalendar file"),
    "strange_zone": (
        {"ics": ics("DTSTART;TZID=Mars/Olympus:20260101T000000")},
        "spec.ics",
        "is in a zone that nobody knows, Mars/Olympus",
    ),
    "backwards": ({"ics": ics("DTSTART:20260102T000000Z DTEND:20260101T000000Z")}, "spec.ics", "ends before it begins"),
    "bad_repeat": ({"ics": ics("DTSTART:20260102T000000Z RRULE:FREQ=NEVER")}, "spec.ics", "is not an iCalendar file"),
    "too_often": (
        {"ics": ics("DTSTART:20260102T000000Z RRULE:FREQ=SECONDLY")},
        "spec.ics",
        "repeats secondly",
    ),
    "too_many": (
        {"ics": ics("DTSTART:19700102T000000Z DURATION:PT1M RRULE:FREQ=HOURLY;COUNT=20001")},
        "spec.ics",
        "has more than 20000 events",
    ),
}


@pytest.mark.requirement("GATE-15")
@pytest.mark.parametrize(("spec", "path", "says"), REFUSED.values(), ids=REFUSED)
def test_a_calendar_that_is_not_one_is_refused_and_named(spec: dict[str, Any], path: str, says: str) -> None:
    with pytest.raises(Invalid) as caught:
        calendar(**spec)
    [fault] = caught.value.faults
    assert fault.path == path and says in fault.reason


@settings(deadline=None, max_examples=examples(100))
@given(st.lists(st.sampled_from(ics("DTSTART:20260102T000000Z RRULE:FREQ=DAILY;COUNT=3").split("\r\n")), max_size=12))
def test_whatever_stands_in_a_file_is_read_or_refused(lines: list[str]) -> None:
    try:
        calendar(ics="\r\n".join(["BEGIN:VCALENDAR", *lines]))
    except Invalid as invalid:
        assert all(fault.path == "spec.ics" for fault in invalid.faults)


@pytest.mark.requirement("GATE-8")
def test_the_path_of_an_icalendar_file_is_read_beside_the_document(tmp_path: Path) -> None:
    (tmp_path / "dates").mkdir()
    content = ics("DTSTART;VALUE=DATE:20261225")
    (tmp_path / "dates" / "x.ics").write_bytes(b"\xef\xbb\xbf" + content.encode())
    file = tmp_path / "calendar.yaml"
    file.write_text("apiVersion: tidegate/v1\nkind: Calendar\nmetadata: {name: h}\nspec: {ics: dates/x.ics}\n")
    [document] = files.raw_documents(file).values
    assert document["spec"]["ics"].replace("\r\n", "\n") == content.replace("\r\n", "\n")
    file.write_text("apiVersion: tidegate/v1\nkind: Calendar\nmetadata: {name: h}\nspec:\n  ics: nowhere.ics\n")
    with pytest.raises(Invalid, match=r"calendar.yaml:5 spec.ics: names the file 'nowhere.ics', which cannot be read"):
        files.raw_documents(file)
    (tmp_path / "nowhere.ics").write_text("hello")
    with pytest.raises(Invalid, match="which is no iCalendar file"):
        files.raw_documents(file)
