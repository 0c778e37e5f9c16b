"""Laws of asking for runs, cancelling and repeating them, and of saying why."""

from __future__ import annotations

import pytest
from conftest import Desk

from tidegate.control import explain, preview, runs, schedules
from tidegate.documents import parse_trigger
from tidegate.domain.errors import Conflict, NotFound, Refused
from tidegate.domain.instants import format_instant, parse_instant
from tidegate.domain.runs import State


def test_a_manual_run_works_while_disabled_and_moves_no_clock(desk: Desk) -> None:
    before = desk.put().record
    run = desk.do(runs.trigger(desk.store, "sales", "orders", who="ann", arguments={"region": "eu"}))
    assert (run.state, run.cause, run.caused_by, run.given) == (State.WAITING, "manual", "ann", {"region": "eu"})
    after = desk.record()
    assert (after.cursor, after.next_due, after.rev) == (before.cursor, before.next_due, before.rev)
    desk.tick()
    assert desk.do(runs.get(desk.store, str(run.key))).state is State.READY


@pytest.mark.requirement("RUN-9")
def test_cancel_works_while_waiting_and_while_ready(desk: Desk) -> None:
    desk.put()
    for ticks in (0, 1):
        run = desk.do(runs.trigger(desk.store, "sales", "orders", who="ann"))
        for _ in range(ticks):
            desk.tick()
        assert desk.do(runs.cancel(desk.store, str(run.key), who="bob")).state is State.CANCELLED
        assert desk.do(runs.cancel(desk.store, str(run.key), who="bob")).state is State.CANCELLED  # twice is harmless
    pools = {pool.name: pool.used for pool in desk.do(desk.store.pools())}
    assert pools["default"] == 0


@pytest.mark.requirement("RUN-9")
def test_what_has_ended_otherwise_cannot_be_cancelled(desk: Desk) -> None:
    desk.put(enabled=True)
    desk.later("1m")
    desk.tick()
    run = desk.do(runs.page(desk.store, "sales")).items[0]
    desk.do(schedules.delete(desk.store, "sales", "orders", who="ann"))
    with pytest.raises(Conflict, match="superseded"):
        desk.do(runs.cancel(desk.store, str(run.key), who="bob"))


def test_a_rerun_has_the_old_arguments_and_fire_time(desk: Desk) -> None:
    desk.put(enabled=True, arguments={"a": 1})
    desk.later("1m")
    desk.tick()
    old = desk.do(runs.page(desk.store, "sales")).items[0]
    with pytest.raises(Conflict, match="has not ended"):
        desk.do(runs.rerun(desk.store, str(old.key), who="ann"))
    desk.do(runs.cancel(desk.store, str(old.key), who="ann"))
    desk.put(enabled=True, arguments={"a": 2})
    new = desk.do(runs.rerun(desk.store, str(old.key), who="ann"))
    assert (new.cause, new.caused_by, new.fire_time) == ("rerun", str(old.key), old.fire_time)
    desk.tick()
    assert desk.do(runs.get(desk.store, str(new.key))).arguments == {"a": 1}


def test_a_stretch_cannot_be_run_again(desk: Desk) -> None:
    desk.put(enabled=True)
    desk.later("5m")
    desk.do(schedules.disable(desk.store, "sales", "orders", who="ann"))
    stretch = desk.do(runs.page(desk.store, "sales")).items[0]
    with pytest.raises(Refused, match="stands for 5 fires"):
        desk.do(runs.rerun(desk.store, str(stretch.key), who="ann"))


@pytest.mark.parametrize("word", ["nonsense", "r1-1-1", "", "r" + "z" * 40])
def test_what_is_no_run_is_not_found(desk: Desk, word: str) -> None:
    with pytest.raises(NotFound):
        desk.do(runs.get(desk.store, word))


@pytest.mark.requirement("OPS-7")
def test_explain_names_what_a_waiting_run_waits_for(desk: Desk) -> None:
    desk.put()
    first = desk.do(runs.trigger(desk.store, "sales", "orders", who="ann"))
    desk.later("1s")
    second = desk.do(runs.trigger(desk.store, "sales", "orders", who="ann"))
    desk.tick()
    told = desk.do(explain.of_run(desk.store, str(second.key)))
    assert (told.verdict, told.blocker) == ("waiting", "concurrency")
    assert told.release == f"the end of run {first.key}"
    assert "at most 1 may be" in told.summary
    nodes = {node.node: node.satisfied for node in told.tree.children}
    assert nodes == {"cause": True, "concurrency of the schedule": False, "slot of pool default": True}
    stored = desk.do(runs.get(desk.store, str(second.key))).waiting_for
    assert stored[0]["why"] in told.summary  # the same decision


@pytest.mark.requirement("OPS-7")
def test_explain_says_why_a_schedule_does_not_run(desk: Desk) -> None:
    desk.put()
    told = desk.do(explain.of_schedule(desk.store, "sales", "orders"))
    assert (told.verdict, told.blocker) == ("disabled", "disabled")
    assert told.release == "tidegate enable orders -n sales"
    desk.do(schedules.enable(desk.store, "sales", "orders", who="ann"))
    told = desk.do(explain.of_schedule(desk.store, "sales", "orders"))
    assert (told.verdict, told.earliest) == ("idle", parse_instant("2026-03-01T12:01:00Z"))
    desk.later("1m")
    desk.tick()
    told = desk.do(explain.of_schedule(desk.store, "sales", "orders"))
    assert told.verdict == "ready" and told.blocker == "worker"
    desk.do(desk.store.leave(desk.fence, desk.at))
    desk.do(runs.cancel(desk.store, str(desk.do(runs.page(desk.store, "sales")).items[0].key), who="x"))
    desk.later("2m")
    told = desk.do(explain.of_schedule(desk.store, "sales", "orders"))
    assert (told.verdict, told.blocker) == ("due", "scheduler")


@pytest.mark.requirement("TIME-9")
def test_a_preview_changes_nothing(desk: Desk) -> None:
    desk.put(enabled=True)
    record = desk.record()
    fires = desk.do(preview.of_schedule(desk.store, "sales", "orders", count=3))
    assert [format_instant(one.fire_time) for one in fires] == [f"2026-03-01T12:0{n}:00Z" for n in (1, 2, 3)]
    assert desk.record() == record
    trigger = parse_trigger({"type": "cron", "expression": "30 2 * * *", "timezone": "Europe/Berlin"})
    after = parse_instant("2026-03-28T12:00:00Z")
    (gap,) = desk.do(preview.of_trigger(desk.store, trigger, after=after, count=1))
    assert (gap.local_time, bool(gap.note)) == ("2026-03-29T03:00:00+02:00", True)
