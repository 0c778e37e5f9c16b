"""Catch-up against a naive model that enumerates; and the bookkeeping that goes with it."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import pytest
import time_oracle as oracle
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples

from tidegate.domain.clocks import Due
from tidegate.domain.fires import due as due_at
from tidegate.domain.fires import fires_between
from tidegate.domain.ids import ScheduleId
from tidegate.domain.instants import DAY, HOUR, MINUTE, SECOND
from tidegate.domain.planning import Fire, Plan, Stretch, owed, plan, revise, undecided
from tidegate.domain.programs import ProgramRef
from tidegate.domain.runs import State
from tidegate.domain.schedules import CatchUp, CatchUpPolicy, Mode, Revision, ScheduleSpec
from tidegate.domain.triggers import AfterFinish, At, Cron, Interval, Never, Trigger, WindowDays

T0 = oracle.instant("2026-03-28T12:00:00Z")
NAME = "sales/load"


def revision(
    trigger: Trigger,
    *,
    rev: int = 1,
    valid_from: int = T0,
    mode: Mode = Mode.ENABLED,
    catch_up: CatchUp = CatchUp(),
) -> Revision:
    spec = ScheduleSpec(program="load", trigger=trigger, catch_up=catch_up)
    return Revision(schedule_id=ScheduleId(1), rev=rev, valid_from=valid_from, mode=mode, spec=spec)


def clock(*revisions: Revision, cursor: int | None = None, next_due: int = 0, last_fire: int | None = None) -> Due:
    program: ProgramRef = None  # type: ignore[assignment]  # planning passes it through
    return Due(
        schedule_id=revisions[0].schedule_id,
        name=NAME,
        revisions=revisions,
        program=program,
        cursor=revisions[0].valid_from if cursor is None else cursor,
        next_due=next_due,
        last_fire=last_fire,
        gap=None,
    )


def onward(made: Plan) -> Due:
    """The clock as the next pass finds it."""
    revisions = tuple(r for r in made.due.revisions if r.rev >= made.cursor_rev)
    return made.due._replace(
        revisions=revisions,
        cursor=made.cursor,
        next_due=made.next_due or 0,
        last_fire=made.last_fire,
        gap=made.gap,
    )


def until_quiet(due: Due, now: int, cap: int) -> tuple[list[Fire], list[Stretch], Plan]:
    """Pass after pass at one instant until nothing is due any more."""
    fires: list[Fire] = []
    missed: list[Stretch] = []
    for _ in range(10_000):
        [made] = plan([due], now=now, cap=cap)
        fires += made.fires
        missed += made.missed
        assert sum(1 for fire in made.fires if now - fire.due > MINUTE) <= max(cap, 0) or cap > 10**6
        if made.next_due is None or made.next_due > now:
            assert made.gap is None and made.postponed == 0
            return fires, missed, made
        due = onward(made)
    raise AssertionError("never quiet")


# ── the naive model ────────────────────────────────────────────────────────────────────────────────────────────────


def naive(revisions: Sequence[Revision], cursor: int, now: int) -> tuple[list[int], list[int]]:
    """(run, missed) of grid triggers, by looking at every fire."""
    ruled: list[tuple[int, int, Revision]] = []
    for this, following in itertools.zip_longest(revisions, revisions[1:]):
        end = following.valid_from if following else None
        if this.mode is not Mode.ENABLED:
            continue
        after = max(cursor, this.valid_from)
        for fire in fires_between(this.spec.trigger, after, min(now, end) if end else now):
            at = due_at(NAME, this.spec.trigger, fire)
            at = max(min(at, end), fire) if end else at
            if at <= now:
                ruled.append((fire, at, this))
    run: set[int] = set()
    caught_up = 0
    for fire, at, this in reversed(ruled):
        policy = this.spec.catch_up
        newest = policy.policy is CatchUpPolicy.LATEST and not run
        in_reach = policy.policy is CatchUpPolicy.ALL and fire >= now - policy.window and caught_up < policy.max
        if now - at <= policy.grace:
            run.add(fire)
        elif newest or in_reach:
            run.add(fire)
            caught_up += 1
    fires = [fire for fire, _, _ in ruled]
    return [fire for fire in fires if fire in run], [fire for fire in fires if fire not in run]


TRIGGERS = st.one_of(
    st.builds(
        Cron,
        expression=st.sampled_from(["*/5 * * * *", "30 2 * * *", "0,30 */3 * * *", "0 4 L * *"]),
        timezone=st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe"]),
        jitter=st.sampled_from([0, 0, MINUTE, HOUR]),
        end=st.sampled_from([None, None, T0 + 30 * HOUR]),
    ),
    st.builds(Interval, every=st.sampled_from(["PT7M", "PT1H", "P1D"]), jitter=st.sampled_from([0, 10 * MINUTE])),
    st.builds(At, time=st.integers(T0, T0 + 3 * DAY)),
    st.just(Never()),
)
POLICIES = st.builds(
    CatchUp,
    policy=st.sampled_from(list(CatchUpPolicy)),
    grace=st.sampled_from([0, MINUTE, 2 * HOUR]),
    window=st.sampled_from([HOUR, DAY, 10 * DAY]),
    max=st.sampled_from([1, 3, 100, 10_000]),
)


@st.composite
def histories(draw: st.DrawFn) -> tuple[Revision, ...]:
    at = T0
    found = []
    for rev in range(1, draw(st.integers(1, 4)) + 1):
        mode = draw(st.sampled_from([Mode.ENABLED, Mode.ENABLED, Mode.ENABLED, Mode.DROP]))
        found.append(revision(draw(TRIGGERS), rev=rev, valid_from=at, mode=mode, catch_up=draw(POLICIES)))
        at += draw(st.integers(1, DAY))
    return tuple(found)


def spread(stretches: Sequence[Stretch], revisions: Sequence[Revision]) -> list[int]:
    """Every fire that the stretches stand for."""
    by_rev = {r.rev: r for r in revisions}
    found: list[int] = []
    for stretch in stretches:
        fires = list(fires_between(by_rev[stretch.rev].spec.trigger, stretch.from_fire - 1, stretch.to_fire))
        assert len(fires) == stretch.n and fires[0] == stretch.from_fire and fires[-1] == stretch.to_fire
        found += fires
    return found


@pytest.mark.requirement("CATCH-1", "CATCH-2", "CATCH-3", "CATCH-4", "CATCH-5", "CATCH-8", "TIME-7")
@settings(max_examples=examples(300), deadline=None)
@given(histories(), st.integers(0, 5 * DAY), st.just(10**9))
def test_catching_up_agrees_with_the_naive_model(revisions: tuple[Revision, ...], late: int, cap: int) -> None:
    now = revisions[-1].valid_from + late
    run, missed = naive(revisions, T0, now)
    fires, stretches, end = until_quiet(clock(*revisions), now, cap)
    ordinary_only = len(run) <= 100  # beyond, passes at one frozen instant judge `latest` and `max` piece by piece
    if ordinary_only:
        assert [fire.fire_time for fire in fires] == run
        assert spread(stretches, revisions) == missed
    assert sorted([fire.fire_time for fire in fires] + spread(stretches, revisions)) == sorted(run + missed)
    assert [fire.previous_fire for fire in fires] == [None, *[fire.fire_time for fire in fires]][:-1] or not fires
    assert all(fire.fire_time <= fire.due <= now for fire in fires)
    due_now = [fire for part in owed(revisions, T0, now) for fire in part.fires()]
    assert due_now[: len(run + missed)] == sorted(run + missed)
    assert len(due_now) - len(run + missed) <= 1  # the newest may still wait for its jitter
    assert sum(part.n for part in owed(revisions, T0, now)) == len(due_now)
    assert end.next_due is None or end.next_due > now


@pytest.mark.requirement("CATCH-2")
@settings(max_examples=examples(150), deadline=None)
@given(histories(), st.integers(0, 3 * DAY), st.integers(1, 7))
def test_what_the_cap_cuts_comes_in_later_passes_as_it_was_judged(
    revisions: tuple[Revision, ...], late: int, cap: int
) -> None:
    now = revisions[-1].valid_from + late
    run, missed = naive(revisions, T0, now)
    fires: list[int] = []
    dropped: list[Stretch] = []
    due = clock(*revisions)
    for _ in range(5000):
        [made] = plan([due], now=now, cap=cap)
        fires += [fire.fire_time for fire in made.fires]
        dropped += made.missed
        if made.next_due is None or made.next_due > now:
            break
        due = onward(made)
    assert sorted(fires + spread(dropped, revisions)) == sorted(run + missed)
    assert fires == sorted(set(fires))
    if len({r.spec.catch_up for r in revisions}) == 1 and len(run) <= 100:
        assert fires == run


@pytest.mark.requirement("CATCH-2")
def test_the_cap_is_dealt_out_in_turn_so_that_no_schedule_starves_another() -> None:
    policy = CatchUp(policy=CatchUpPolicy.ALL)
    crowd = [clock(revision(Interval(every="PT1M"), valid_from=T0 + n * SECOND, catch_up=policy)) for n in range(8)]
    plans = plan(crowd, now=T0 + HOUR, cap=20)
    launched = [sum(1 for fire in made.fires if T0 + HOUR - fire.due > MINUTE) for made in plans]
    assert sum(launched) == 20 and max(launched) - min(launched) <= 1
    assert all(made.next_due == T0 + HOUR and made.gap is not None for made in plans)
    few = plan(crowd, now=T0 + HOUR, cap=3)
    assert sum(len(made.fires) for made in few) == 3
    assert all(len(made.fires) <= 1 for made in few)


@pytest.mark.requirement("CATCH-7")
@pytest.mark.parametrize("policy", CatchUpPolicy)
def test_a_year_of_missed_minutes_is_decided_quickly_in_bounded_memory(policy: CatchUpPolicy) -> None:
    trigger = Cron(expression="* * * * *", timezone="Europe/Berlin")
    catch_up = CatchUp(policy=policy, window=400 * DAY, max=1_000_000)
    due = clock(revision(trigger, catch_up=catch_up))
    now = T0 + 365 * DAY + 30 * SECOND
    tracemalloc.start()
    begin = perf_counter()
    [made] = plan([due], now=now, cap=100)
    spent = perf_counter() - begin
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert spent < 1 and peak < 2_000_000
    match policy:
        case CatchUpPolicy.ALL:
            assert len(made.fires) == 100 and not made.missed
            assert made.gap is not None and made.gap.left == 525_500
        case _:
            [late] = made.fires
            [stretch] = made.missed
            assert late.fire_time == now - 30 * SECOND and stretch.n == 525_599


@pytest.mark.requirement("CATCH-1")
@pytest.mark.parametrize("policy", CatchUpPolicy)
def test_a_failover_of_seconds_skips_nothing(policy: CatchUpPolicy) -> None:
    due = clock(revision(Interval(every="PT10S"), catch_up=CatchUp(policy=policy)))
    [made] = plan([due], now=T0 + 50 * SECOND, cap=0)
    assert len(made.fires) == 5 and not made.missed


@pytest.mark.requirement("CATCH-3")
def test_the_time_while_disabled_is_never_caught_up() -> None:
    cron = Cron(expression="0 * * * *")
    catch_up = CatchUp(policy=CatchUpPolicy.ALL)
    off = revision(cron, rev=2, valid_from=T0 + 2 * HOUR + 1, mode=Mode.DROP, catch_up=catch_up)
    on = revision(cron, rev=3, valid_from=T0 + 5 * HOUR + 1, catch_up=catch_up)
    due = clock(revision(cron, catch_up=catch_up), off, on)
    fires, missed, _ = until_quiet(due, T0 + 7 * HOUR, 100)
    assert [(fire.fire_time - T0) // HOUR for fire in fires] == [1, 2, 6, 7] and not missed


@pytest.mark.requirement("CATCH-4")
def test_latest_runs_the_newest_and_records_the_others_as_one_stretch() -> None:
    due = clock(revision(Cron(expression="0 * * * *")))
    [made] = plan([due], now=T0 + 5 * HOUR + 30 * MINUTE, cap=100)
    assert [fire.fire_time for fire in made.fires] == [T0 + 5 * HOUR]
    [stretch] = made.missed
    assert (stretch.from_fire, stretch.to_fire, stretch.n) == (T0 + HOUR, T0 + 4 * HOUR, 4)
    assert stretch.outcome is State.MISSED and "latest" in stretch.reason
    assert made.cursor == T0 + 5 * HOUR and made.next_due == T0 + 6 * HOUR


@pytest.mark.requirement("CATCH-1")
def test_a_fire_is_decided_by_the_policy_in_force_at_its_time() -> None:
    dropping = revision(Cron(expression="0 * * * *"), catch_up=CatchUp(policy=CatchUpPolicy.NONE))
    keeping = revision(
        Cron(expression="30 * * * *"), rev=2, valid_from=T0 + 3 * HOUR, catch_up=CatchUp(policy=CatchUpPolicy.ALL)
    )
    fires, missed, end = until_quiet(clock(dropping, keeping), T0 + 6 * HOUR, 100)
    assert [fire.fire_time - T0 for fire in fires] == [n * HOUR + 30 * MINUTE for n in (3, 4, 5)]
    [stretch] = missed
    assert stretch.rev == 1 and stretch.n == 3 and end.cursor_rev == 2


@pytest.mark.requirement("CATCH-1")
def test_the_grace_itself_is_not_yet_too_late() -> None:
    due = clock(revision(At(time=T0 + HOUR), catch_up=CatchUp(policy=CatchUpPolicy.NONE)))
    assert len(plan([due], now=T0 + HOUR + MINUTE, cap=1)[0].fires) == 1
    assert len(plan([due], now=T0 + HOUR + MINUTE + 1, cap=1)[0].missed) == 1


@pytest.mark.requirement("CATCH-1")
def test_the_newest_max_are_counted_over_all_revisions_of_a_gap() -> None:
    policy = CatchUp(policy=CatchUpPolicy.ALL, max=3)
    older = revision(Cron(expression="0 * * * *"), catch_up=policy)
    newer = revision(Cron(expression="30 * * * *"), rev=2, valid_from=T0 + 3 * HOUR, catch_up=policy)
    [made] = plan([clock(older, newer)], now=T0 + 5 * HOUR, cap=100)
    assert [fire.fire_time - T0 for fire in made.fires] == [3 * HOUR, 3 * HOUR + 30 * MINUTE, 4 * HOUR + 30 * MINUTE]


@pytest.mark.requirement("CATCH-2")
def test_a_stored_gap_is_launched_once_and_what_came_since_follows_it() -> None:
    due = clock(revision(Cron(expression="0 * * * *"), catch_up=CatchUp(policy=CatchUpPolicy.ALL)))
    [first] = plan([due], now=T0 + 5 * HOUR + 30 * MINUTE, cap=3)
    assert first.gap is not None and first.gap.left == first.postponed == 2
    [second] = plan([onward(first)], now=T0 + 7 * HOUR + 30 * MINUTE, cap=100)
    assert [(fire.fire_time - T0) // HOUR for fire in (*first.fires, *second.fires)] == [1, 2, 3, 4, 5, 6, 7]
    assert second.gap is None and not second.missed


# ── fixed delay and windows ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("TIME-4")
def test_fixed_delay_fires_at_once_on_enabling_then_waits_for_the_end_of_its_run() -> None:
    trigger = AfterFinish(delay=5 * MINUTE)
    new = revision(trigger, catch_up=CatchUp(policy=CatchUpPolicy.NONE))
    standing = revise(NAME, None, (), new)
    assert standing.next_due == T0 + 1
    [made] = plan([clock(new, next_due=T0 + 1)], now=T0 + 3 * HOUR, cap=0)
    assert [fire.fire_time for fire in made.fires] == [T0 + 1] and made.next_due is None and not made.missed
    later = clock(new, cursor=made.cursor, next_due=T0 + 4 * HOUR, last_fire=made.last_fire)
    [again] = plan([later], now=T0 + 4 * HOUR, cap=0)
    assert again.fires == (Fire(fire_time=T0 + 4 * HOUR, due=T0 + 4 * HOUR, previous_fire=T0 + 1),)


@dataclass(frozen=True)
class Facts:
    cursor: int
    next_due: int | None
    last_fire: int | None = None


@pytest.mark.requirement("TIME-4", "LIFE-4")
def test_an_update_of_a_fixed_delay_does_not_fire_while_its_run_is_under_way() -> None:
    old, new = revision(AfterFinish(delay=MINUTE)), revision(AfterFinish(delay=HOUR), rev=2, valid_from=T0 + HOUR)
    assert revise(NAME, Facts(T0 + 1, None), (old,), new).next_due is None
    assert revise(NAME, Facts(T0 + 1, T0 + 2 * HOUR), (old,), new).next_due == T0 + 2 * HOUR
    pending = revise(NAME, Facts(T0, T0 + 1), (old,), new)
    assert pending == (T0, 1, T0 + 1)
    [made] = plan([clock(old, new, next_due=T0 + 1)], now=T0 + HOUR, cap=10)
    assert len(made.fires) == 1 and made.next_due is None and made.cursor_rev == 2


@pytest.mark.requirement("TIME-5")
def test_a_missed_window_runs_while_it_is_open_and_waits_for_the_next_when_it_closed() -> None:
    trigger = WindowDays(every_days=2, earliest=22 * 60, latest=4 * 60)
    opening = oracle.instant("2026-03-28T22:00:00Z")
    due = clock(revision(trigger))
    [open_] = plan([due], now=oracle.instant("2026-03-29T03:59:00Z"), cap=10)
    assert [fire.fire_time for fire in open_.fires] == [opening]
    assert open_.next_due == opening + 2 * DAY
    [closed] = plan([due], now=oracle.instant("2026-03-29T04:00:00Z"), cap=10)
    assert not closed.fires and [stretch.from_fire for stretch in closed.missed] == [opening]
    assert closed.next_due == opening + DAY  # it counts from the last run, so it is due again on the next day
    parts = list(owed(due.revisions, T0, T0 + 6 * DAY, ran=[opening + DAY, opening + 3 * DAY]))
    assert [fire - opening for part in parts for fire in part.fires()] == [0, DAY, 3 * DAY, 5 * DAY]


# ── what people do ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("TIME-8")
@settings(deadline=None)
@given(TRIGGERS, st.integers(0, 3 * DAY))
def test_declaring_or_enabling_never_fires_for_the_past(trigger: Trigger, later: int) -> None:
    new = revision(trigger, valid_from=T0 + later)
    standing = revise(NAME, None, (), new)
    assert standing.cursor == T0 + later and (standing.next_due is None or standing.next_due > T0 + later)
    off = revision(trigger, mode=Mode.DROP)
    again = revise(NAME, Facts(T0, None), (off,), replace(new, rev=2))
    assert again == (T0 + later, 2, standing.next_due)
    off_again = revise(NAME, Facts(T0, T0), (revision(trigger),), replace(new, rev=2, mode=Mode.DROP))
    assert off_again == (T0 + later, 2, None)


@pytest.mark.requirement("CATCH-8", "LIFE-4")
@settings(max_examples=examples(150), deadline=None)
@given(histories(), TRIGGERS, st.integers(0, 2 * DAY), st.integers(0, DAY))
def test_revise_undecided_and_owed_agree(
    revisions: tuple[Revision, ...], trigger: Trigger, behind: int, after: int
) -> None:
    """Whatever was undecided at an edit is decided by the old revisions, or superseded: the books balance."""
    edit = revisions[-1].valid_from + behind
    new = revision(trigger, rev=len(revisions) + 1, valid_from=edit, catch_up=CatchUp(policy=CatchUpPolicy.ALL))
    facts = Facts(T0, T0)
    left = undecided(NAME, facts, revisions, edit, reason="disabled")
    due_by_then = [fire for part in owed(revisions, T0, edit) for fire in part.fires()]
    assert spread(left, revisions) == due_by_then
    assert all(stretch.outcome is State.SUPERSEDED for stretch in left)
    standing = revise(NAME, facts, revisions, new)
    if due_by_then:
        assert standing.cursor == T0 and standing.cursor_rev == 1
        assert standing.next_due is not None and standing.next_due <= edit
    else:
        assert standing.cursor == edit and standing.cursor_rev == new.rev
    history = tuple(r for r in (*revisions, new) if r.rev >= standing.cursor_rev)
    now = edit + after
    fires, missed, _ = until_quiet(clock(*history, cursor=standing.cursor), now, 10**9)
    decided = sorted([fire.fire_time for fire in fires] + spread(missed, history))
    expected = [fire for part in owed((*revisions, new), T0, now) for fire in part.fires()]
    assert decided == expected[: len(decided)] and len(expected) - len(decided) <= 1
