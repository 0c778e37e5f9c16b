"""Laws of declaring, changing, enabling, disabling and deleting schedules."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import Desk

from tidegate.control import runs, schedules
from tidegate.control.common import Effect
from tidegate.domain.errors import Conflict, Invalid, NotFound, Refused, Stale
from tidegate.domain.instants import parse_instant
from tidegate.domain.schedules import Mode


@pytest.mark.requirement("LIFE-2")
def test_a_new_schedule_is_disabled_unless_it_says_otherwise(desk: Desk) -> None:
    quiet, loud = desk.put("quiet"), desk.put("loud", enabled=True)
    assert (quiet.record.mode, quiet.record.next_due) == (Mode.DROP, None)
    assert loud.record.mode is Mode.ENABLED
    assert loud.record.next_due == parse_instant("2026-03-01T12:01:00Z")


@pytest.mark.requirement("LIFE-1", "LIFE-7")
def test_an_equal_document_writes_nothing(desk: Desk) -> None:
    first = desk.put(enabled=True, retry={"delay": "1m"}).record
    changes = len(desk.do(desk.store.changes(None, None, 100)))
    again = desk.put(enabled=True, retry={"delay": "PT1M", "max_attempts": 1}, priority=50)
    assert again.effect is Effect.UNCHANGED
    assert again.record == first
    assert len(desk.do(desk.store.changes(None, None, 100))) == changes


@pytest.mark.requirement("LIFE-4")
def test_an_update_ends_what_waits_and_keeps_what_is_undecided(desk: Desk) -> None:
    desk.put(enabled=True)
    desk.later("1m")
    desk.tick()
    run = desk.do(runs.trigger(desk.store, "sales", "orders", who="ann"))
    desk.later("2m")  # two fires are due, undecided, under the old trigger
    updated = desk.put(enabled=True, trigger={"type": "cron", "expression": "0 5 * * *"})
    assert updated.record.rev == 2
    assert desk.do(runs.get(desk.store, str(run.key))).state == "superseded"
    desk.tick()
    fired = [one.fire_time for one in desk.do(runs.page(desk.store, "sales")).items if one.cause == "fire"]
    assert sorted(fire for fire in fired if fire) == [
        parse_instant(f"2026-03-01T12:0{minute}:00Z") for minute in (1, 2, 3)
    ]
    assert desk.record().next_due == parse_instant("2026-03-02T05:00:00Z")
    assert desk.audit().holds


@pytest.mark.requirement("LIFE-4")
def test_an_update_that_keeps_keeps_what_waits(desk: Desk) -> None:
    desk.put(enabled=True)
    desk.do(runs.trigger(desk.store, "sales", "orders", who="ann"))
    desk.put(enabled=True, priority=70, on_update="keep")
    assert desk.states() == ["waiting"]
    desk.put(enabled=True, priority=71)
    assert desk.states() == ["superseded"]


@pytest.mark.requirement("LIFE-1")
def test_a_change_of_metadata_resets_nothing(desk: Desk) -> None:
    desk.put(enabled=True)
    desk.do(runs.trigger(desk.store, "sales", "orders", who="ann"))
    told = desk.put(enabled=True, metadata={"owner": "core", "labels": {"team": "a"}, "description": "d"})
    assert told.effect is Effect.UPDATED
    assert (told.record.rev, told.record.metadata.owner) == (1, "core")
    assert desk.states() == ["waiting"]


@pytest.mark.requirement("LIFE-2", "CATCH-3", "TIME-8")
def test_disabling_drops_and_enabling_reacts_to_what_comes(desk: Desk) -> None:
    desk.put(enabled=True)
    desk.later("1m")
    desk.tick()
    desk.do(runs.trigger(desk.store, "sales", "orders", who="ann"))
    desk.later("3m")
    desk.do(schedules.disable(desk.store, "sales", "orders", who="bob", reason="holidays"))
    assert desk.record().reason == "holidays"
    assert desk.states() == ["superseded", "superseded", "superseded*3"]
    before = desk.states()
    desk.later("6h")
    desk.tick()
    assert desk.states() == before
    enabled = desk.do(schedules.enable(desk.store, "sales", "orders", who="bob"))
    assert enabled.next_due == parse_instant("2026-03-01T18:05:00Z")
    desk.tick()
    assert desk.states() == before
    desk.later("1m")
    desk.tick()
    assert len(desk.states()) == len(before) + 1
    assert desk.audit().holds


def test_enabling_what_is_enabled_changes_nothing(desk: Desk) -> None:
    record = desk.put(enabled=True).record
    assert desk.do(schedules.enable(desk.store, "sales", "orders", who="x")) == record
    desk.do(schedules.disable(desk.store, "sales", "orders", who="x"))
    disabled = desk.record()
    assert desk.do(schedules.disable(desk.store, "sales", "orders", who="y")) == disabled


@pytest.mark.requirement("LIFE-2")
@pytest.mark.parametrize(
    ("first", "by_hand", "then", "works"),
    [
        (True, "disable", True, False),  # the last word of a person stands
        (True, "disable", None, False),
        (True, "disable", False, False),
        (None, "enable", None, True),
        (None, "enable", False, False),  # its value in the document changed
        (False, "enable", False, True),
        (False, "enable", True, True),
        (False, None, True, True),
        (True, None, False, False),
    ],
)
def test_enabled_acts_when_its_value_in_the_document_changes(
    desk: Desk, first: bool | None, by_hand: str | None, then: bool | None, works: bool
) -> None:
    def said(value: bool | None) -> dict[str, Any]:
        return {} if value is None else {"enabled": value}

    desk.put(**said(first))
    if by_hand is not None:
        desk.do(getattr(schedules, by_hand)(desk.store, "sales", "orders", who="ann"))
    desk.put(**said(then), priority=51)
    assert (desk.record().mode is Mode.ENABLED) == works


def test_enabling_by_document_resets_nothing(desk: Desk) -> None:
    desk.put()
    desk.do(runs.trigger(desk.store, "sales", "orders", who="ann"))
    desk.put(enabled=True)
    assert desk.states() == ["waiting"]
    assert desk.record().mode is Mode.ENABLED


@pytest.mark.requirement("LIFE-5")
def test_a_deleted_schedule_launches_nothing(desk: Desk) -> None:
    desk.put(enabled=True)
    desk.do(runs.trigger(desk.store, "sales", "orders", who="ann"))
    desk.later("29s")
    desk.later("500ms")  # half a second before it is due
    desk.do(schedules.delete(desk.store, "sales", "orders", who="ann"))
    desk.later("1h")
    desk.tick()
    assert desk.states() == ["superseded"]
    with pytest.raises(NotFound):
        desk.record()
    assert desk.audit().holds


@pytest.mark.requirement("LIFE-5")
def test_what_was_due_and_undecided_at_deletion_is_accounted_for(desk: Desk) -> None:
    desk.put(enabled=True)
    desk.later("10m")
    desk.do(schedules.delete(desk.store, "sales", "orders", who="ann"))
    assert desk.states() == ["superseded*10"]
    assert desk.put(enabled=True).effect is Effect.CREATED  # a re-created schedule is a new one
    desk.later("2m")
    desk.tick()
    found = desk.audit()
    assert found.holds and found.owed == 12


@pytest.mark.requirement("LIFE-7")
def test_if_match_refuses_a_stale_change(desk: Desk) -> None:
    desk.put()
    desk.put(priority=60)
    made = desk.declare(priority=70)
    with pytest.raises(Stale):
        desk.do(schedules.put(desk.store, made, who="x", expected=1))
    assert desk.do(schedules.put(desk.store, made, who="x", expected=2)).record.rev == 3
    with pytest.raises(Conflict):
        desk.do(schedules.put(desk.store, made, who="x", expected=0))
    with pytest.raises(Stale):
        desk.do(schedules.delete(desk.store, "sales", "orders", who="x", expected=2))


@pytest.mark.requirement("GATE-15")
def test_an_unknown_program_is_refused_with_the_nearest(desk: Desk) -> None:
    with pytest.raises(Invalid) as refused:
        desk.put(program="laod")
    (fault,) = refused.value.faults
    assert fault.path == "spec.program"
    assert fault.reason == "there is no program 'laod' in namespace 'sales'; did you mean 'load'?"


def test_to_be_enabled_is_no_way_to_rest(desk: Desk) -> None:
    desk.put()
    with pytest.raises(Refused, match="no way to rest"):
        desk.do(schedules.disable(desk.store, "sales", "orders", who="x", mode=Mode.ENABLED))
    with pytest.raises(Refused, match="holds no runs that could expire"):
        desk.do(schedules.disable(desk.store, "sales", "orders", who="x", mode=Mode.KEEP, expire=True))


def test_what_is_not_there_suggests_the_nearest(desk: Desk) -> None:
    desk.put()
    with pytest.raises(NotFound, match="did you mean 'orders'"):
        desk.do(schedules.get(desk.store, "sales", "ordes"))


def test_a_dry_run_leaves_no_trace(desk: Desk) -> None:
    would = desk.do(schedules.put(desk.store, desk.declare(enabled=True), who="x", dry_run=True))
    assert would.effect is Effect.CREATED
    with pytest.raises(NotFound):
        desk.record()


@pytest.mark.requirement("LIFE-8")
def test_every_change_is_on_record_with_who_and_what(desk: Desk) -> None:
    desk.put(enabled=True)
    desk.put(enabled=True, priority=60)
    desk.do(schedules.disable(desk.store, "sales", "orders", who="bob", reason="why"))
    desk.do(schedules.delete(desk.store, "sales", "orders", who="eve"))
    told = [(one.who, one.action) for one in desk.do(desk.store.changes("sales", None, 10)) if one.kind == "Schedule"]
    assert told == [("eve", "deleted"), ("bob", "disabled"), ("ann", "updated"), ("ann", "created")]


def test_pages_go_on_where_they_ended(desk: Desk) -> None:
    for number in range(5):
        desk.put(f"s{number}")
    first = desk.do(schedules.page(desk.store, "sales", limit=2))
    second = desk.do(schedules.page(desk.store, "sales", cursor=first.next, limit=2))
    third = desk.do(schedules.page(desk.store, "sales", cursor=second.next, limit=2))
    names = [one.metadata.name for page in (first, second, third) for one in page.items]
    assert names == ["s4", "s3", "s2", "s1", "s0"]
    assert third.next is None
