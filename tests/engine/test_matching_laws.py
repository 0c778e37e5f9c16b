"""The matcher, by hand: what came and what is due is taken, once; who cannot be evaluated holds up nobody else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from worlds import FaultyStore, World, crank

from tidegate.domain import plugins
from tidegate.domain.collected import Arrival, Topic
from tidegate.domain.errors import CommitUnknown
from tidegate.domain.ids import ScheduleId
from tidegate.domain.instants import HOUR, MINUTE, SECOND
from tidegate.domain.runs import Cause, State
from tidegate.domain.schedules import Waiting, WaitingPolicy
from tidegate.domain.triggers import All, AnyOf, Custom, Happened, Interval, Quiet, Trigger
from tidegate.engine import outcome
from tidegate.engine.matcher import Matcher, MatcherSettings
from tidegate.ports.collecting import NewEvent

EVENT = Happened(event="user.landed", key="ns/eu")


class Feed(World):
    """A world in which somebody publishes."""

    def __init__(self) -> None:
        super().__init__()
        self.job = self.program()
        self.faulty = FaultyStore(self.store)
        self.matcher = Matcher(self.faulty, self.fence)  # type: ignore[arg-type]

    def waits_for(self, trigger: Trigger, name: str = "s", **said: Any) -> ScheduleId:
        said.setdefault("waiting", WaitingPolicy(runs=Waiting.ALL))
        schedule = self.schedule(self.job, name, trigger=trigger, **said)

        async def begin() -> None:
            async with self.store.changing() as tx:
                await tx.reset_progress(schedule, self.now)

        crank(begin())
        return schedule

    def publish(self, times: int = 1) -> None:
        async def tell() -> None:
            async with self.store.changing() as tx:
                await tx.publish([NewEvent(type="user.landed", key="ns/eu")] * times, self.now)

        crank(tell())

    def match(self) -> outcome.Outcome:
        """Steps until nothing is left."""
        while (done := self.step(self.matcher)).left:
            pass
        return done

    def runs(self, schedule: ScheduleId) -> list[int]:
        """How many events each of its runs was made of."""
        rows = [row for key, row in sorted(self.store.data.run.rows.items()) if key.schedule_id == schedule]
        return [sum(leaf["n"] for leaf in row.evidence["leaves"]) for row in rows]


@pytest.mark.requirement("DATA-3", "EVENT-1")
def test_what_came_is_taken_once_whatever_becomes_of_a_commit() -> None:
    feed = Feed()
    schedule = feed.waits_for(Happened(event="user.landed", key="ns/eu", count=3))
    for fault in ("lost", "unknown", ""):
        feed.publish(4)
        feed.faulty.faults.append(fault)
        if fault:
            with pytest.raises(CommitUnknown):
                feed.match()
        feed.match()
    assert feed.runs(schedule) == [3, 3, 3, 3]


@pytest.mark.requirement("DATA-8")
def test_it_asks_to_be_called_when_silence_decides() -> None:
    feed = Feed()
    schedule = feed.waits_for(Quiet(trigger=EVENT, silence=MINUTE))
    feed.publish()
    feed.match()
    assert feed.match().next == feed.now + MINUTE
    feed.pass_time(30 * SECOND)
    feed.publish()
    feed.pass_time(30 * SECOND)
    feed.match()
    assert (feed.runs(schedule), feed.match().next) == ([], feed.now + 30 * SECOND)
    feed.pass_time(30 * SECOND)
    feed.match()
    assert feed.runs(schedule) == [2]


def test_who_made_a_run_wakes_the_admitter() -> None:
    feed = Feed()
    feed.waits_for(EVENT)
    feed.publish()
    assert outcome.Topic.ADMIT in feed.step(feed.matcher).wakes
    assert not feed.match().wakes


class Stubborn:
    """A plug-in whose leaf cannot be evaluated as long as `broken`."""

    broken = True

    def topics(self, parameters: Mapping[str, Any]) -> Sequence[Topic]:
        return [Topic("user.landed", "ns/eu")]

    def start(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"n": 0}

    def add(self, parameters: Mapping[str, Any], state: Mapping[str, Any], event: Arrival) -> Mapping[str, Any]:
        if self.broken:
            raise ZeroDivisionError("it divides by nothing")
        return {"n": state["n"] + 1}

    def satisfied(self, parameters: Mapping[str, Any], state: Mapping[str, Any]) -> bool:
        return bool(state["n"] >= 2)

    def why(self, parameters: Mapping[str, Any], state: Mapping[str, Any]) -> str:
        return ""


@pytest.mark.requirement("EVENT-3", "DATA-13")
def test_who_cannot_be_evaluated_is_set_aside_and_can_be_given_it_again() -> None:
    stubborn = Stubborn()
    plugins.register("stubborn", stubborn)
    feed = Feed()
    poisoned = feed.waits_for(Custom(plugin="stubborn", parameters={}), "poisoned")
    sound = feed.waits_for(EVENT, "sound")
    feed.publish(2)
    notes = feed.step(feed.matcher).notes
    assert (feed.runs(poisoned), feed.runs(sound)) == ([], [1, 1])
    assert any("ns/poisoned" in note for note in notes)
    (aside,) = crank(feed.store.set_asides(None, None, 10))
    assert (aside.schedule, aside.count) == ("poisoned", 2)
    assert "divides by nothing" in aside.error

    stubborn.broken = False
    feed.publish()
    feed.match()
    assert feed.runs(poisoned) == []  # one of two

    async def replay() -> None:
        async with feed.store.changing() as tx:
            await tx.replay(aside.id, feed.now)

    crank(replay())
    feed.match()
    assert feed.runs(poisoned) == [2]
    assert crank(feed.store.set_asides(None, None, 10)) == []


@pytest.mark.requirement("EVENT-3")
def test_one_that_cannot_even_be_read_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = Feed()
    first, poisoned, last = (feed.waits_for(EVENT, name) for name in ("a", "b", "c"))
    feed.publish(2)
    row = feed.store.data.program.rows
    clock = feed.store.data.clock.rows[poisoned]
    monkeypatch.setattr(clock, "program_id", len(row) + 7)  # what is read of it leads nowhere
    feed.match()
    assert (feed.runs(first), feed.runs(poisoned), feed.runs(last)) == ([1, 1], [], [1, 1])
    assert [one.schedule for one in crank(feed.store.set_asides(None, None, 10))] == ["b"]


@pytest.mark.requirement("DATA-9")
def test_a_tick_comes_before_what_came_after_it() -> None:
    feed = Feed()
    begin = feed.now
    tree = AnyOf(triggers=(Interval(every="PT1H"), Happened(event="user.landed", key="ns/eu", count=3)))
    schedule = feed.waits_for(tree, due=feed.now + HOUR)
    feed.publish(2)
    feed.pass_time(HOUR + SECOND)
    feed.publish(2)  # after the tick, which nobody has looked at yet
    feed.match()
    assert feed.runs(schedule) == []
    feed.step(feed.timekeeper())
    feed.match()
    assert feed.runs(schedule) == [2]
    feed.publish()
    feed.match()
    assert feed.runs(schedule) == [2, 3]
    causes = [row.cause for _, row in sorted(feed.store.data.run.rows.items())]
    assert causes == [Cause.FIRE, Cause.EVIDENCE]
    assert feed.fires(schedule)[0] == begin + HOUR


@pytest.mark.requirement("GATE-10")
def test_fires_that_merge_are_on_record_each() -> None:
    feed = Feed()
    tree = AnyOf(triggers=(Interval(every="PT1H"), EVENT))
    schedule = feed.waits_for(tree, due=feed.now + HOUR, waiting=WaitingPolicy(runs=Waiting.MERGE))
    feed.publish()
    feed.match()
    for _ in range(2):
        feed.pass_time(HOUR)
        feed.publish()
        feed.step(feed.timekeeper())
    rows = sorted(feed.store.data.run.rows.items())
    assert [row.state for _, row in rows] == [State.WAITING, State.MERGED, State.MERGED]
    assert {row.merged_into for _, row in rows[1:]} == {str(rows[0][0])}
    assert sum(leaf["n"] for leaf in rows[0][1].evidence["leaves"]) == 3
    assert len(feed.fires(schedule)) == 2


def test_batches_are_bounded_and_nothing_is_left() -> None:
    feed = Feed()
    feed.matcher = Matcher(feed.store, feed.fence, MatcherSettings(batch=2))
    schedules = [feed.waits_for(All(triggers=(EVENT, EVENT), max_wait=HOUR), f"s{number}") for number in range(7)]
    for _ in range(5):
        feed.publish()
    feed.match()
    while feed.store.data.inbox.rows:
        feed.match()
    assert [feed.runs(one) for one in schedules] == [[2] * 5] * 7
