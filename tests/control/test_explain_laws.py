"""Explain says what the engine decides: each constraint with its value, blocker, earliest time and release."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from conftest import Desk, Rest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.control import explain, runs, schedules
from tidegate.control.nodes import Explanation
from tidegate.domain import windows
from tidegate.domain.admission import Admit, Candidate, Hold, admit, counters_of
from tidegate.domain.calendars import Calendar
from tidegate.domain.constraints import (
    AdmissionFacts,
    Blackout,
    Concurrency,
    Constraint,
    Delay,
    Load,
    MinInterval,
    Rate,
    Starts,
    Unmet,
    Window,
    program_counter,
    schedule_counter,
)
from tidegate.domain.ids import ProgramId, RunKey, ScheduleId
from tidegate.domain.instants import HOUR, MINUTE, SECOND, Instant, format_instant, parse_instant
from tidegate.domain.outlook import outlook
from tidegate.domain.programs import Command, ProgramRef
from tidegate.domain.retry import RetryAt
from tidegate.domain.runs import State
from tidegate.domain.schedules import Deadline, Mode, Retry, ScheduleSpec
from tidegate.domain.triggers import Never
from tidegate.domain.windows import Span
from tidegate.engine.admitter import Admitter
from tidegate.ports.engine import AttemptEnd
from tidegate.ports.records import RunRecord

pytestmark = pytest.mark.requirement("OPS-7")
NIGHT = Span(start=22 * 60, end=6 * 60)


def put(desk: Desk, *constraints: Constraint, name: str = "orders", **said: Any) -> None:
    """A schedule with these constraints, enabled."""
    made = desk.declare(name, enabled=True)
    spec = replace(made.spec, constraints=constraints, **said)
    desk.do(schedules.put(desk.store, replace(made, spec=spec), who="ann"))


def waiting(desk: Desk, name: str = "orders") -> RunRecord:
    """Its clock has fired, and the run waits."""
    desk.later("1m")
    desk.tick()
    found = desk.do(runs.page(desk.store, "sales", schedule=name, states=[State.WAITING])).items
    return found[0]


def why(desk: Desk, run: RunRecord) -> Explanation:
    return desk.do(explain.of_run(desk.store, str(run.key)))


def agrees(desk: Desk, run: RunRecord, told: Explanation) -> None:
    """What the admitter left on record is said, word for word."""
    stored = desk.do(runs.get(desk.store, str(run.key))).waiting_for
    assert stored
    for one in stored:
        assert one["why"] in told.summary


def nodes(told: Explanation) -> dict[str, tuple[bool | None, object, object]]:
    return {one.node: (one.satisfied, one.value, one.threshold) for one in told.tree.children}


def test_a_window_is_the_blocker_until_it_opens(desk: Desk) -> None:
    put(desk, Concurrency(max=1), Window(span=NIGHT))
    run = waiting(desk)
    told = why(desk, run)
    assert (told.verdict, told.blocker) == ("waiting", "window")
    assert told.earliest == parse_instant("2026-03-01T22:00:00Z")
    assert "tidegate trigger orders -n sales" in (told.release or "")
    assert nodes(told)["window"] == (False, "2026-03-01T12:01:30Z", "22:00 to 06:00 UTC")
    assert nodes(told)["concurrency of the schedule"] == (True, 0, 1)
    agrees(desk, run, told)


def test_of_several_instants_the_last_one_counts_and_they_are_followed(desk: Desk) -> None:
    """The delay ends at 07:01, when the window is closed again: the earliest is its next opening."""
    put(desk, Window(span=NIGHT), Delay(duration=19 * HOUR))
    told = why(desk, waiting(desk))
    assert (told.blocker, told.earliest) == ("delay", parse_instant("2026-03-02T22:00:00Z"))


def test_min_interval_and_rate_say_since_when_and_how_many(desk: Desk) -> None:
    put(desk, MinInterval(duration=HOUR), Rate(max=1, per=2 * HOUR))
    desk.later("1m")
    desk.tick()  # admitted, and counts as about to start
    run = waiting(desk)
    told = why(desk, run)
    assert told.blocker == "rate" and told.earliest is not None
    assert nodes(told)["rate of the schedule"] == (False, 1, 1)
    assert nodes(told)["min_interval"][0] is False
    agrees(desk, run, told)


def test_a_blackout_and_a_calendar_that_is_not_there(desk: Desk) -> None:
    put(desk, Blackout(calendar="bank"))
    run = waiting(desk)
    told = why(desk, run)
    assert (told.blocker, told.earliest) == ("blackout", None)
    assert "a calendar named 'bank'" in (told.release or "")

    async def close() -> None:
        async with desk.store.changing() as tx:
            today = desk.at // (24 * HOUR)
            await tx.put_calendar(Calendar(name="bank", days=frozenset({today})), {}, desk.at)

    desk.do(close())
    told = why(desk, run)
    assert (told.blocker, told.earliest) == ("blackout", parse_instant("2026-03-02T00:00:00Z"))


def test_a_load_names_the_reading_that_is_missing(desk: Desk) -> None:
    put(desk, Load(resource="cores", below=8))
    told = why(desk, waiting(desk))
    assert told.blocker == "load" and told.release is not None and "a reading of cores below 8" in told.release
    assert nodes(told)["load of cores"] == (False, None, 8)


def test_a_freeze_comes_before_everything(desk: Desk) -> None:
    async def freeze() -> None:
        async with desk.store.changing() as tx:
            await tx.freeze("eve", "the warehouse moves", desk.at)

    put(desk, Window(span=NIGHT))
    desk.do(freeze())
    told = why(desk, waiting(desk))
    assert (told.blocker, told.release) == ("freeze", "tidegate unfreeze")
    assert "the warehouse moves" in told.summary
    whole = desk.do(explain.of_schedule(desk.store, "sales", "orders"))
    assert "freeze" in {one.node for one in whole.tree.children}


def test_what_will_be_skipped_is_said_before_it_is(desk: Desk) -> None:
    put(desk, Concurrency(max=1), Window(span=NIGHT, unmet=Unmet.SKIP), Delay(duration=MINUTE))
    run = waiting(desk)
    told = why(desk, run)
    assert told.blocker == "delay" and "may be skipped" in str(told.tree)
    desk.later("1m")
    told = why(desk, run)
    assert "So it is skipped" in told.summary
    desk.tick()
    assert desk.do(runs.get(desk.store, str(run.key))).state is State.SKIPPED


def test_how_many_come_first_is_said(desk: Desk) -> None:
    put(desk, Concurrency(max=1))
    for _ in range(3):
        desk.later("1m")
        desk.tick()
    third = desk.do(runs.page(desk.store, "sales", states=[State.WAITING])).items[0]
    assert "1 run waits for the same and comes first" in why(desk, third).summary


def test_a_suspended_schedule_explains_itself_before_and_after_its_first_run(desk: Desk) -> None:
    put(desk, Concurrency(max=1))
    desk.do(schedules.disable(desk.store, "sales", "orders", who="bob", mode=Mode.BACKLOG, reason="moving"))
    told = desk.do(explain.of_schedule(desk.store, "sales", "orders"))
    assert (told.verdict, told.blocker) == ("disabled", "disabled")
    assert "suspended (moving)" in told.summary
    run = waiting(desk)
    told = desk.do(explain.of_schedule(desk.store, "sales", "orders"))
    assert (told.verdict, told.blocker, told.release) == ("waiting", "suspended", "tidegate enable orders -n sales")
    agrees(desk, run, told)


def test_the_queue_says_position_and_earliest_on_every_page(rest: Rest) -> None:
    put(rest.desk, Window(span=NIGHT))
    rest.put("by-data", trigger={"type": "event", "event": "user.landed", "key": "x", "count": 5})
    rest.publish(2)
    for _ in range(5):
        rest.later("1m")
    found: list[Any] = []
    cursor: str | None = ""
    while cursor is not None:
        page = rest("GET", "/queue?limit=2" + (f"&cursor={cursor}" if cursor else ""))
        found += page["items"]
        cursor = page["next"]
    assert [one["position"] for one in found] == [1, 2, 3, 4, 5, None]
    assert {one["earliest"] for one in found[:5]} == {"2026-03-01T22:00:00Z"}
    assert [one["run"] for one in found[:5]] == [one["id"] for one in rest.runs("orders")]
    assert (found[5]["kind"], found[5]["schedule"]) == ("progress", "by-data")


# ── the same code as the engine ────────────────────────────────────────────────────────────────────────────────────

PROGRAM = ProgramRef(id=ProgramId(3), rev=1, namespace="sales", name="load", spec=Command(argv=("true",)))
MADE = parse_instant("2026-03-01T12:00:00Z")
_spans = st.builds(Span, start=st.sampled_from([0, 600, 1320]), end=st.sampled_from([60, 360, 1440]))
_unmet = st.sampled_from(list(Unmet))
_constraints = st.one_of(
    st.builds(Concurrency, max=st.integers(1, 2), scope=st.sampled_from(["schedule", "program"]), unmet=_unmet),
    st.builds(Delay, duration=st.integers(0, 30).map(lambda n: n * HOUR), unmet=_unmet),
    st.builds(Window, span=_spans, unmet=_unmet),
    st.builds(MinInterval, duration=st.integers(1, 30).map(lambda n: n * HOUR), unmet=_unmet),
    st.builds(Rate, max=st.integers(1, 2), per=st.just(20 * HOUR), unmet=_unmet),
    st.builds(Blackout, calendar=st.sampled_from(["open", "closed", "none"]), unmet=_unmet),
)


@given(
    constraints=st.lists(_constraints, max_size=4),
    held=st.integers(0, 2),
    free=st.integers(0, 1),
    starts=st.lists(st.integers(0, 30), max_size=2),
    frozen=st.booleans(),
    mode=st.sampled_from([Mode.ENABLED, Mode.ENABLED, Mode.HOLD, Mode.KEEP]),
    waited=st.integers(0, 40),
    attempts=st.integers(0, 1),
)
def test_nothing_starts_before_the_earliest_and_the_blocker_agrees_with_the_engine(
    constraints: list[Constraint],
    held: int,
    free: int,
    starts: list[int],
    frozen: bool,
    mode: Mode,
    waited: int,
    attempts: int,
) -> None:
    spec = ScheduleSpec(program="load", trigger=Never(), constraints=tuple(constraints))
    run = Candidate(
        key=RunKey(MADE, ScheduleId(1), 0), spec=spec, program=PROGRAM, priority=50, created_at=MADE, expires_at=None,
        attempts=attempts, held=(), given=None, mode=mode,
    )  # fmt: skip
    run = replace(run, held=counters_of(run)) if attempts else run
    now = MADE + waited * HOUR
    begun = Starts(tuple(sorted((now - n * HOUR for n in starts), reverse=True)))
    closed = frozenset({now // (24 * HOUR), now // (24 * HOUR) + 1})
    counters = (schedule_counter(ScheduleId(1)), program_counter(ProgramId(3)))
    facts = AdmissionFacts(
        held=dict.fromkeys(counters, held),
        free={"default": free},
        starts=dict.fromkeys(counters, begun),
        calendars={"open": Calendar(name="open"), "closed": Calendar(name="closed", days=closed)},
        frozen="moving" if frozen else None,
    )

    def decided(at: Instant) -> object:
        (made,) = admit([run], facts, now=at)
        return made

    found, engine = outlook(run, facts, now), decided(now)
    assert (found.blocker is None) == isinstance(engine, Admit)
    assert found.skips == (not isinstance(engine, Admit | Hold))
    if isinstance(engine, Hold):
        assert found.blocker is not None
        unmet = {one["constraint"] for one in engine.waiting_for}
        assert found.blocker.name in unmet
    if found.earliest is not None:
        step = max((found.earliest - now) // 40, 1)
        for at in range(now, found.earliest, step):
            assert not isinstance(decided(at), Admit)


def test_a_window_opens_when_the_queue_says(desk: Desk) -> None:
    """The earliest of a run that only time holds up is when it starts."""
    put(desk, Window(span=NIGHT))
    run = waiting(desk)
    earliest = why(desk, run).earliest
    assert earliest is not None and windows.is_open(NIGHT, earliest)
    desk.at = earliest - 1
    desk.do(desk.admitter.step(desk.at))
    assert desk.do(runs.get(desk.store, str(run.key))).state is State.WAITING
    desk.at = earliest
    for _ in range(3):
        desk.do(desk.admitter.step(desk.at))
    assert desk.do(runs.get(desk.store, str(run.key))).state is State.READY


@pytest.mark.requirement("GATE-18")
def test_deadlines_are_told_before_a_run_exists_and_while_it_waits(desk: Desk) -> None:
    put(desk, Delay(duration=24 * HOUR), deadline=Deadline(start=30 * MINUTE, finish=3 * HOUR))
    before = desk.do(explain.of_schedule(desk.store, "sales", "orders"))
    assert [one.node for one in before.tree.children][-2:] == ["deadline: start", "deadline: finish"]
    assert all(one.satisfied and "must" in one.why for one in before.tree.children[-2:])
    run = waiting(desk)
    for later, met, said in (("0m", True, "."), ("25m", True, ": at risk."), ("10m", False, ": missed.")):
        desk.later(later)
        told = why(desk, run)
        start, finish = told.tree.children[-2:]
        assert (start.satisfied, finish.satisfied) == (met, True)
        assert start.why.endswith(said) and ("missed" in told.summary) is not met
        assert told.blocker == "delay"


@pytest.mark.requirement("FAIL-4")
def test_a_crashed_run_says_why_it_waits_and_until_when(desk: Desk) -> None:
    """Its machine went down; the schedulers have just come up."""
    put(desk, retry=Retry(max_attempts=3, delay=10 * SECOND))
    desk.later("1m")
    desk.tick()
    [run] = desk.do(runs.page(desk.store, "sales", schedule="orders", states=[State.READY])).items
    crash(desk, run)
    desk.fence = desk.do(desk.store.register(role="scheduler", name="t", host="h", pid=3, now=desk.at))
    before = why(desk, run)
    assert "the next scheduler says" in before.summary and before.earliest == desk.at + 10 * SECOND
    desk.do(Admitter(desk.store, desk.fence).step(desk.at))
    told = why(desk, run)
    up_until = desk.at + 5 * MINUTE
    assert (told.verdict, told.blocker, told.earliest) == ("waiting", "crash_wait", up_until)
    assert "scheduler.crash_wait" in (told.release or "")
    assert nodes(told)["crash_wait"][0] is False and nodes(told)["crash_wait"][2] == format_instant(up_until)
    assert nodes(told)["backoff"][0] is False
    assert nodes(told)["attempt 1"] == (False, "crashed", None) and nodes(told)["attempts"] == (None, 1, 3)
    assert "1 of 3 attempts used up, 1 by a crash; attempt 1 ended crashed." in told.summary
    agrees(desk, run, told)
    desk.at = up_until
    desk.do(Admitter(desk.store, desk.fence).step(desk.at))
    assert desk.do(runs.get(desk.store, str(run.key))).state is State.READY


@pytest.mark.requirement("FAIL-3")
def test_a_run_that_waits_for_its_next_attempt_tells_of_those_before_and_of_how_many(desk: Desk) -> None:
    put(desk, retry=Retry(max_attempts=3, delay=10 * SECOND))
    desk.later("1m")
    desk.tick()
    [run] = desk.do(runs.page(desk.store, "sales", schedule="orders", states=[State.READY])).items
    ends(desk, run, "failed", RetryAt(at=desk.at, failures=1, lost=0), "It ended with exit status 3.")
    desk.do(desk.admitter.step(desk.at))
    ends(desk, run, "lost", RetryAt(at=desk.at + 10 * SECOND, failures=0, lost=1))
    told = why(desk, run)
    assert [one.node for one in told.tree.children][:4] == ["cause", "attempt 1", "attempt 2", "attempts"]
    assert told.tree.children[1].why.endswith(": It ended with exit status 3.")
    said = "1 of 3 attempts used up; 1 more does not count; attempt 2 ended lost. Attempt 3 starts no earlier than "
    assert nodes(told)["attempts"] == (None, 1, 3), "the lost one is not the program's doing"
    assert said in told.summary and told.blocker == "backoff"


def ends(desk: Desk, run: RunRecord, outcome: str, again: RetryAt, message: str = "") -> None:
    """Start it, and let its attempt end so."""

    async def start_and_end() -> None:
        worker = await desk.store.register(role="worker", name="w", host="h", pid=2, now=desk.at)
        async with desk.store.transaction(worker) as tx:
            [launch] = [one for one in await tx.claim_ready(["command"], desk.at, 9) if one.attempt.run == run.key]
            error = {"code": "program.exit", "message": message} if message else None
            end = AttemptEnd(attempt=launch.attempt, outcome=outcome, error=error, ago=0, ran=True, then=again)
            await tx.ended([end], desk.at)

    desk.do(start_and_end())


def crash(desk: Desk, run: RunRecord) -> None:
    """Start it, lose its worker and the schedulers, and find out after a while that its program is gone."""

    async def start_and_die() -> None:
        store, at = desk.store, desk.at
        worker = await store.register(role="worker", name="w", host="h", pid=2, now=at)
        async with store.transaction(worker) as tx:
            [launch] = [one for one in await tx.claim_ready(["command"], at, 9) if one.attempt.run == run.key]
            again = RetryAt(at=at + 10 * SECOND, failures=1, lost=0, crashed=True)
            end = AttemptEnd(attempt=launch.attempt, outcome="crashed", error=None, ago=0, ran=True, then=again)
            await tx.ended([end], at)
        for one in await store.alive():
            await store.retire(one, at)

    desk.do(start_and_die())
