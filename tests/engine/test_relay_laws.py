"""Each event reaches each sink, and first in the order of its schedule: whatever fails, and whoever relays."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from sizes import examples
from worlds import World, crank

from tidegate.domain.errors import Refused
from tidegate.domain.ids import Fence
from tidegate.domain.instants import SECOND, Duration
from tidegate.domain.sinks import SinkSpec
from tidegate.engine.outcome import Topic
from tidegate.engine.relay import Relay, RelaySettings
from tidegate.ports.collecting import NewEvent
from tidegate.ports.sinks import Delivery, Message, SinkRecord

POISON = "poison"


@dataclass
class Target:
    """What a sink stands for, outside: what it got, in order, and what it is up to."""

    got: list[Message] = field(default_factory=list)
    down: bool = False
    slow: bool = False
    some: random.Random | None = None  # takes only a part of each batch, by chance
    opened: int = 0
    picky: bool = True  # refuses what is poisoned
    most: int = 1000  # so many of a batch at once

    def ids(self) -> list[int]:
        return [int(one.id) for one in self.got]

    def refuses(self, message: Message) -> bool:
        return self.picky and POISON in message.body.decode()


class FakeSink:
    def __init__(self, target: Target) -> None:
        self.target = target
        self.messages: Sequence[Message] | None = None

    def begin(self, messages: Sequence[Message]) -> None:
        assert self.messages is None and messages
        self.messages = messages

    def result(self) -> Delivery | None:
        target, messages = self.target, self.messages
        if messages is None or target.slow:
            return None
        self.messages = None
        if target.down:
            return Delivery(passed=0, fault="it is down.")
        wanted = min(len(messages), target.most)
        told = wanted if target.some is None else target.some.randint(0, wanted)
        really = told if target.some is None else target.some.randint(told, len(messages))  # an answer may be lost
        refused = tuple((at, "too large") for at, one in enumerate(messages[:told]) if target.refuses(one))
        target.got += [one for one in messages[:really] if not target.refuses(one)]
        return Delivery(passed=told, refused=refused, fault="" if told == wanted else "it is gone.")

    async def close(self) -> None:
        if self.messages is not None and self.target.some is not None:  # what was under way may arrive all the same
            arrived = self.target.some.randint(0, len(self.messages))
            self.target.got += [one for one in self.messages[:arrived] if not self.target.refuses(one)]
        self.messages = None


class Bench:
    def __init__(self, *sinks: str, topics: tuple[str, ...] = ("*",)) -> None:
        self.world = World()
        self.targets = {name: Target() for name in sinks}
        self.secret = True
        for name in sinks:
            self.declare(name, topics)
        self.relay = self.another()

    def declare(self, name: str, topics: tuple[str, ...] = ("*",)) -> None:
        async def put() -> None:
            async with self.world.store.changing() as tx:
                spec = SinkSpec(type="webhook", url="http://example.org", topics=topics)
                await tx.put_sink(name, spec, {"spec": {}}, self.world.now)

        crank(put())

    def open(self, name: str, spec: SinkSpec) -> FakeSink:
        if not self.secret:
            raise Refused("The environment variable KEY is not set.")
        self.targets[name].opened += 1
        return FakeSink(self.targets[name])

    def another(self, fence: Fence | None = None) -> Relay:
        return Relay(self.world.store, self, fence or self.world.fence, RelaySettings(batch=7))

    def publish(self, count: int = 1, *, key: str = "sales/a", type: str = "user.x", say: str = "") -> None:
        async def put() -> None:
            async with self.world.store.transaction(self.world.fence) as tx:
                await tx.publish([NewEvent(type=type, key=key, payload={"say": say})] * count, self.world.now)

        crank(put())

    def pass_(self, times: int = 1, *, after: Duration = SECOND, relay: Relay | None = None) -> list[str]:
        notes: list[str] = []
        for _ in range(times):
            self.world.pass_time(after)
            notes += self.world.step(relay or self.relay).notes
        return notes

    def sink(self, name: str) -> SinkRecord:
        return {one.name: one for one in crank(self.world.store.sinks())}[name]


def first_seen(target: Target) -> list[int]:
    return list(dict.fromkeys(target.ids()))


@pytest.mark.requirement("EVENT-9")
def test_events_arrive_in_order_and_once_while_all_is_well() -> None:
    bench = Bench("a", "b")
    bench.pass_()
    bench.publish(20)
    bench.publish(3, key="sales/b")
    bench.pass_(10)
    for target in bench.targets.values():
        assert target.ids() == sorted(target.ids()) and len(target.got) == 23
    assert (bench.sink("a").delivered, bench.sink("a").behind) == (23, 0)
    assert bench.targets["a"].opened == 1


@pytest.mark.requirement("EVENT-9")
def test_runs_are_told_with_the_schedule_whose_order_counts() -> None:
    bench = Bench("a", topics=("run.*",))
    world = bench.world
    bench.pass_()
    schedule = world.schedule(world.program())
    world.trigger(schedule)
    bench.publish(2)
    bench.pass_(3)
    told = [(one.type, one.lane) for one in bench.targets["a"].got]
    assert told and {lane for _, lane in told} == {"ns/s"}
    assert all(type.startswith("run.") for type, _ in told), "what it did not ask for is passed over"


@pytest.mark.requirement("EVENT-9")
def test_a_sink_that_is_down_for_an_hour_delays_and_loses_nothing_and_holds_up_no_other() -> None:
    bench = Bench("a", "b")
    bench.targets["a"].down = True
    bench.publish(30)
    said = bench.pass_(300, after=12 * SECOND)
    assert len(said) == 1 and "nothing is lost" in said[0]
    assert len(bench.targets["b"].got) == 30
    record = bench.sink("a")
    assert record.error == "it is down." and record.error_since is not None and record.behind == 30
    bench.targets["a"].down = False
    assert any("again" in note for note in bench.pass_(20, after=6 * SECOND))
    assert first_seen(bench.targets["a"]) == bench.targets["b"].ids()
    assert bench.sink("a").error == ""


@pytest.mark.requirement("EVENT-9")
def test_a_sink_that_takes_a_part_at_a_time_is_well_and_gets_the_rest_at_once() -> None:
    bench = Bench("a")
    bench.targets["a"].most = 2
    bench.publish(20)
    notes = bench.pass_(20, after=SECOND // 10)
    assert bench.targets["a"].ids() == sorted(set(bench.targets["a"].ids())) and len(bench.targets["a"].got) == 20
    assert (bench.sink("a").delivered, bench.sink("a").behind, bench.sink("a").error, notes) == (20, 0, "", [])


@pytest.mark.requirement("EVENT-9", "EVENT-3")
def test_a_poisoned_event_is_set_aside_and_shown_and_the_others_go_on() -> None:
    bench = Bench("a")
    bench.publish(3)
    bench.publish(say=POISON)
    bench.publish(3)
    notes = bench.pass_(5)
    record = bench.sink("a")
    assert (len(bench.targets["a"].got), record.delivered, record.set_aside, record.behind) == (6, 6, 1, 0)
    (refused,) = crank(bench.world.store.refusals("a", 10))
    assert (refused.type, refused.reason) == ("user.x", "too large")
    assert any("set aside" in note for note in notes)


@pytest.mark.requirement("EVENT-9")
def test_what_was_refused_is_sent_again_when_somebody_asks_and_may_be_refused_again() -> None:
    bench = Bench("a")
    target, poison = bench.targets["a"], POISON
    for _ in range(2):
        bench.publish(2)
        bench.publish(say=poison)
    bench.pass_(5)
    assert (len(target.got), bench.sink("a").set_aside) == (4, 2)

    def ask(position: int | None = None) -> int:
        async def put() -> int:
            async with bench.world.store.changing() as tx:
                return await tx.replay_sink("a", position)

        bench.relay.hear(Topic.DECLARED)
        return crank(put())

    target.most = 1
    assert ask() == 2
    assert sum("refuses event" in note for note in bench.pass_(5)) == 2
    assert bench.sink("a").set_aside == 2 and not bench.sink("a").asked
    first, second = sorted(one.pos for one in crank(bench.world.store.refusals("a", 9)))
    target.picky = False
    assert (ask(first), ask(first + 1)) == (1, 0)
    bench.publish(1)
    bench.pass_(5)
    assert sorted(target.ids())[-1] > second and target.ids().count(first) == 1
    target.down = True
    ask()
    bench.pass_(10, after=5 * SECOND)
    assert bench.sink("a").error == "it is down." and second not in target.ids()
    target.down = False
    bench.pass_(40, after=5 * SECOND)
    record = bench.sink("a")
    assert target.ids().count(second) == 1
    assert (record.delivered, record.set_aside, record.error, record.asked) == (7, 0, "", False)
    assert crank(bench.world.store.refusals("a", 9)) == []


def test_a_sink_that_cannot_be_opened_says_why_and_waits() -> None:
    bench = Bench("a")
    bench.secret = False
    bench.publish()
    bench.pass_(3)
    assert "KEY is not set" in bench.sink("a").error
    bench.secret = True
    bench.pass_(40)
    assert len(bench.targets["a"].got) == 1


def test_a_new_sink_gets_what_happens_from_now_on_and_a_changed_one_goes_on() -> None:
    bench = Bench("a")
    bench.publish(5)
    bench.targets["b"] = Target()
    bench.declare("b")
    bench.publish(2, type="user.y")
    bench.pass_(5)
    assert [len(bench.targets[name].got) for name in "ab"] == [7, 2]
    bench.declare("a", ("user.y",))
    bench.publish(3)
    bench.publish(1, type="user.y")
    bench.pass_(5)
    assert len(bench.targets["a"].got) == 8 and bench.sink("a").rev == 2


def test_what_an_open_transaction_may_still_add_is_waited_for() -> None:
    """Positions are drawn before the commit: a later one that is seen earlier does not go first."""
    bench = Bench("a")
    store = bench.world.store

    async def late() -> None:
        async with store.transaction(bench.world.fence) as tx:
            await tx.publish([NewEvent(type="user.x", key="sales/slow")], bench.world.now)
            async with store.transaction(bench.world.fence) as other:
                await other.publish([NewEvent(type="user.x", key="sales/fast")], bench.world.now)
            for _ in range(3):
                bench.world.pass_time(SECOND)
                await bench.relay.step(bench.world.now)
            assert bench.targets["a"].got == []

    crank(late())
    bench.pass_(3)
    assert [one.lane for one in bench.targets["a"].got] == ["sales/slow", "sales/fast"]


def test_who_does_not_hold_the_lease_relays_nothing() -> None:
    bench = Bench("a")
    bench.pass_()
    world = bench.world
    second = bench.another(crank(world.store.register(role="scheduler", name="t", host="h", pid=2, now=world.now)))
    bench.publish(3)
    bench.pass_(2, relay=second)
    assert bench.targets["a"].got == []


@pytest.mark.requirement("EVENT-9", "HA-5")
@settings(max_examples=examples(25), deadline=None, phases=[Phase.generate])
@given(seed=st.integers(0, 2**32), steps=st.integers(20, 120))
def test_whatever_fails_each_event_arrives_and_first_in_the_order_of_its_schedule(seed: int, steps: int) -> None:
    chance = random.Random(seed)
    bench = Bench("a", "b")
    for target in bench.targets.values():
        target.some, target.most = random.Random(chance.random()), chance.choice([3, 1000])
    published = 0
    relays = [bench.relay]
    for _ in range(steps):
        match chance.randrange(6):
            case 0 | 1:
                count = chance.randint(1, 12)
                bench.publish(count, key=f"sales/{chance.randrange(3)}")
                published += count
            case 2:  # the process dies; another takes over under the same registration, knowing nothing
                relays.append(bench.another())
            case 3:
                target = bench.targets[chance.choice("ab")]
                target.slow = chance.random() < 0.5
            case 4 | 5:  # a frozen one may wake up and go on
                bench.pass_(1, relay=chance.choice(relays[-2:]), after=chance.choice([SECOND // 10, 5 * SECOND]))
    for target in bench.targets.values():
        target.slow, target.some, target.most = False, None, 1000
    bench.pass_(1, relay=relays[-1], after=31 * SECOND)
    bench.pass_(100, relay=relays[-1])
    for target in bench.targets.values():
        seen = first_seen(target)
        assert len(seen) == published, "each event"
        lanes: dict[str, list[int]] = {}
        for one in target.got:
            lane = lanes.setdefault(one.lane, [])
            if int(one.id) not in lane:
                lane.append(int(one.id))
        assert all(lane == sorted(lane) for lane in lanes.values()), "first in order"
