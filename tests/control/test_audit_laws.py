"""Laws of the audit: it proves a right ledger, and names each fire that is lost, doubled or unexplained."""

from __future__ import annotations

import copy

import pytest
from conftest import Desk
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples

from tidegate.control import audit as auditing
from tidegate.control import schedules
from tidegate.control.audit import Kind, Progress
from tidegate.domain.ids import RunKey, ScheduleId
from tidegate.domain.instants import MINUTE, parse_instant
from tidegate.domain.runs import State
from tidegate.sim.memory.rows import StretchRow

NOON = parse_instant("2026-03-01T12:00:00Z")


def ran(desk: Desk, minutes: int) -> int:
    """A schedule that ran every minute for so long; its id."""
    made = desk.put(enabled=True, constraints=[]).record
    for _ in range(minutes):
        desk.later("1m")
        desk.tick()
    return made.id


def forget(desk: Desk, schedule: int, minute: int) -> None:
    del desk.store.data.run.rows[RunKey(NOON + minute * MINUTE, ScheduleId(schedule), 0)]


def stretch(desk: Desk, schedule: int, first: int, last: int, n: int, outcome: State = State.MISSED) -> None:
    row = StretchRow(
        schedule_id=ScheduleId(schedule),
        from_fire=NOON + first * MINUTE,
        to_fire=NOON + last * MINUTE,
        rev=1,
        n=n,
        outcome=outcome,
        reason="",
        decided_at=desk.at,
    )
    desk.store.data.stretch.rows[schedule, row.from_fire] = row


@pytest.mark.requirement("CATCH-8")
def test_a_right_ledger_holds(desk: Desk) -> None:
    ran(desk, 5)
    found = desk.audit()
    assert found.holds
    assert (found.owed, found.recorded, found.not_yet_decided, found.findings) == (5, 5, 0, ())
    assert found.outcomes == {"ready": 5}


@pytest.mark.requirement("CATCH-8")
def test_lost_fires_are_named(desk: Desk) -> None:
    schedule = ran(desk, 6)
    forget(desk, schedule, 2)
    forget(desk, schedule, 3)
    forget(desk, schedule, 5)
    found = desk.audit()
    assert not found.holds and found.lost == 3
    assert [(one.kind, one.first, one.last, one.count) for one in found.findings] == [
        (Kind.LOST, NOON + 2 * MINUTE, NOON + 3 * MINUTE, 2),
        (Kind.LOST, NOON + 5 * MINUTE, NOON + 5 * MINUTE, 1),
    ]


@pytest.mark.requirement("CATCH-8")
def test_doubled_fires_are_named(desk: Desk) -> None:
    schedule = ran(desk, 6)
    stretch(desk, schedule, 4, 4, 1)
    found = desk.audit()
    assert (found.doubled, found.lost, found.unexplained) == (1, 0, 0)
    assert found.findings[0].why.startswith("recorded as ")


@pytest.mark.requirement("CATCH-8")
def test_what_nobody_owed_is_unexplained(desk: Desk) -> None:
    schedule = ran(desk, 3)
    rows = desk.store.data.run.rows
    key = RunKey(NOON + 2 * MINUTE, ScheduleId(schedule), 0)
    odd = RunKey(key.slot + 1, key.schedule_id, 0)
    rows[odd] = copy.copy(rows[key])
    rows[odd].key = odd
    found = desk.audit()
    assert (found.unexplained, found.lost, found.doubled) == (1, 0, 0)
    assert found.findings[0].first == odd.slot


@pytest.mark.requirement("CATCH-8")
def test_a_stretch_must_count_right(desk: Desk) -> None:
    schedule = ran(desk, 6)
    for minute in (2, 3, 4):
        forget(desk, schedule, minute)
    stretch(desk, schedule, 2, 4, 3)
    assert desk.audit().holds
    stretch(desk, schedule, 2, 4, 4)
    assert desk.audit().unexplained == 1


@pytest.mark.requirement("CATCH-8")
def test_what_is_not_yet_decided_is_not_lost(desk: Desk) -> None:
    ran(desk, 2)
    desk.later("1m")
    found = desk.audit()
    assert found.holds
    assert (found.not_yet_decided, found.late) == (1, 0)
    desk.later("10m")
    found = desk.audit()
    assert found.holds
    assert (found.not_yet_decided, found.late) == (11, 10)
    desk.do(desk.store.leave(desk.fence, desk.at))
    assert desk.audit().late == 0  # nobody is alive who could be late


@pytest.mark.requirement("CATCH-8", "CATCH-3")
@given(
    moves=st.lists(
        st.sampled_from(["wait", "long", "tick", "disable", "enable", "edit", "other", "delete"]), max_size=25
    )
)
@settings(deadline=None, max_examples=examples(60))
def test_whatever_people_do_the_ledger_holds(moves: list[str]) -> None:
    desk = Desk()
    desk.program()
    desk.put(enabled=True)
    for number, move in enumerate(moves):
        match move:
            case "wait":
                desk.later("70s")
            case "long":
                desk.later("5h")
            case "tick":
                desk.tick()
            case "edit":
                desk.put(priority=number)
            case "other":
                every = ("*/7 * * * *", "30 * * * *", "0 13 * * *")[number % 3]
                desk.put(trigger={"type": "cron", "expression": every, "jitter": "20s"})
            case "delete":
                desk.put()
                desk.do(schedules.delete(desk.store, "sales", "orders", who="ann"))
                desk.put(enabled=True)
            case _:
                desk.do(getattr(schedules, move)(desk.store, "sales", "orders", who="ann"))
        found = desk.audit()
        assert found.holds, (moves[: number + 1], found.findings)


@pytest.mark.requirement("CATCH-7", "CATCH-8")
def test_a_year_of_missed_minutes_is_audited_by_counting(desk: Desk) -> None:
    desk.put(enabled=True, trigger={"type": "interval", "every": "1m"})
    desk.later("365d")
    desk.tick()
    found = desk.audit()
    assert found.holds
    assert found.owed == found.recorded == 365 * 24 * 60


def test_windows_of_time_add_up_to_the_whole(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = ran(desk, 3)
    desk.later("3d")
    desk.tick()
    for _ in range(3):
        desk.later("1m")
        desk.tick()
    whole = desk.audit()
    monkeypatch.setattr(auditing, "DAY", MINUTE)
    monkeypatch.setattr(auditing, "_FEW_ROWS", 0)
    parts = desk.audit()
    assert parts == whole and whole.holds
    forget(desk, schedule, 2)
    assert desk.audit().lost == 1


def test_a_span_and_progress(desk: Desk) -> None:
    ran(desk, 10)
    told: list[Progress] = []
    found = desk.audit(since=NOON + 3 * MINUTE, until=NOON + 6 * MINUTE, on_progress=told.append)
    assert found.holds and found.owed == found.recorded == 4
    assert told == [Progress(schedules=1, fires=4, findings=0, at=NOON + 6 * MINUTE)]
    assert desk.audit(kept=5 * MINUTE).recorded == 5


def test_schedules_of_days_with_windows(desk: Desk) -> None:
    desk.put(enabled=True, trigger={"type": "window_days", "every_days": 2, "earliest": "02:00"})
    for _ in range(10):
        desk.later("12h")
        desk.tick()
    found = desk.audit()
    assert found.holds and found.recorded >= 2
    assert desk.audit(since=NOON + 3 * 24 * 60 * MINUTE).holds


def test_after_finish_cannot_be_recomputed_and_is_believed(desk: Desk) -> None:
    desk.put(enabled=True, trigger={"type": "after_finish", "delay": "1m"})
    desk.later("1s")
    desk.tick()
    found = desk.audit()
    assert found.holds and (found.owed, found.recorded) == (0, 1)
