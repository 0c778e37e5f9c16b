"""Each message is one event: whatever fails, and whoever reads."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from sizes import examples
from worlds import World, crank

from tidegate.domain.errors import UNSTORABLE, Refused, TidegateError, Unavailable
from tidegate.domain.ids import Fence
from tidegate.domain.instants import SECOND, Duration
from tidegate.domain.sources import EventShape, Record, SourceSpec
from tidegate.engine.intake import Intake
from tidegate.ports.collecting import EventRecord
from tidegate.ports.sources import Haul, Lost, Place, SourceRecord

SPEC = SourceSpec(
    type="kafka", servers="k", topics=("t",), event=EventShape(type="user.order", key="sales/{{ value.region }}")
)


@dataclass
class Log:
    """A topic of two partitions, outside: what lies in it, and how it behaves."""

    parts: dict[int, list[bytes]] = field(default_factory=lambda: {0: [], 1: []})
    fault: str = ""
    slow: bool = False
    lost: tuple[Lost, ...] = ()
    opened: int = 0
    most: int = 5

    def put(self, *values: object, partition: int = 0) -> None:
        self.parts[partition] += [one if isinstance(one, bytes) else json.dumps(one).encode() for one in values]


class FakeFeed:
    def __init__(self, log: Log, places: Sequence[Place]) -> None:
        self.log, self.begun, self.told = log, False, ""
        self.next = {one.partition: one.next for one in places}

    def begin(self) -> None:
        assert not self.begun
        self.begun = True

    def result(self) -> Haul | None:
        log = self.log
        if not self.begun or log.slow:
            return None
        if log.fault:
            if self.told == log.fault:
                return None
            self.begun, self.told = False, log.fault
            return Haul(fault=log.fault)
        records = [
            Record(topic="t", partition=part, offset=offset, value=values[offset])
            for part, values in log.parts.items()
            for offset in range(self.next.get(part, 0), min(len(values), self.next.get(part, 0) + log.most))
        ]
        if not records and not log.lost and not self.told:
            return None
        for one in records:
            self.next[one.partition] = one.offset + 1
        lost, log.lost, self.told, self.begun = log.lost, (), "", False
        places = [Place(topic="t", partition=part, generation="", next=next) for part, next in self.next.items()]
        return Haul(records=records, places=places, lost=lost)

    async def close(self) -> None:
        self.begun = False


class Bench:
    def __init__(self, *sources: str, spec: SourceSpec = SPEC) -> None:
        self.world = World()
        self.logs = {name: Log() for name in sources}
        self.secret = True
        self.spec = spec
        for name in sources:
            self.declare(name)
        self.intake = self.another()

    def declare(self, name: str) -> None:
        async def put() -> None:
            async with self.world.store.changing() as tx:
                await tx.put_source(name, self.spec, {"spec": {}}, self.world.now)

        crank(put())

    def open(self, name: str, spec: SourceSpec, places: Sequence[Place]) -> FakeFeed:
        if not self.secret:
            raise Refused("The environment variable KEY is not set.")
        self.logs[name].opened += 1
        return FakeFeed(self.logs[name], places)

    def another(self, fence: Fence | None = None) -> Intake:
        return Intake(self.world.store, self, fence or self.world.fence)

    def scheduler(self) -> Intake:
        """Another one, registered."""
        now, store = self.world.now, self.world.store
        return self.another(crank(store.register(role="scheduler", name="t", host="h", pid=2, now=now)))

    def pass_(self, times: int = 1, *, after: Duration = SECOND, by: Intake | None = None) -> list[str]:
        notes: list[str] = []
        for _ in range(times):
            self.world.pass_time(after)
            notes += self.world.step(by or self.intake).notes
        return notes

    def source(self, name: str = "a") -> SourceRecord:
        return {one.name: one for one in crank(self.world.store.sources())}[name]

    def events(self) -> list[EventRecord]:
        found, _ = crank(self.world.store.events(type="user.order", key=None, since=None, before=None, limit=100_000))
        return sorted(found, key=lambda one: one.pos)


def order(number: int, region: str = "eu") -> dict[str, object]:
    return {"region": region, "n": number}


@pytest.mark.requirement("EVENT-9")
def test_each_message_is_one_event_in_the_order_of_its_partition() -> None:
    bench = Bench("a")
    bench.pass_()
    bench.logs["a"].put(*map(order, range(12)))
    bench.logs["a"].put(*(order(n, "us") for n in range(8)), partition=1)
    bench.pass_(5)
    events = bench.events()
    assert [one.payload["n"] for one in events if one.key == "sales/eu"] == list(range(12))
    assert [one.payload["n"] for one in events if one.key == "sales/us"] == list(range(8))
    record = bench.source()
    assert (record.received, record.set_aside) == (20, 0)
    assert [one.next for one in record.places] == [12, 8]
    assert bench.logs["a"].opened == 1


@pytest.mark.requirement("EVENT-9", "EVENT-3")
def test_what_is_no_event_is_set_aside_with_its_place_and_the_others_go_on() -> None:
    bench = Bench("a")
    bench.logs["a"].put(order(1), b"{", {"n": 2}, b"\xff", order(3), [1], order(4, "a b\0"))
    notes = bench.pass_(4)
    assert [one.payload["n"] for one in bench.events()] == [1, 3]
    assert (bench.source().received, bench.source().set_aside) == (7, 5)
    told = crank(bench.world.store.set_aside_of("a", 9))
    assert sorted(one.offset for one in told) == [1, 2, 3, 5, 6]
    reasons = {one.offset: one.reason for one in told}
    assert "no JSON" in reasons[1] and "'region' is not there" in reasons[2] and "UTF-8" in reasons[3]
    assert any("sets aside" in note for note in notes)


def test_what_only_the_database_refuses_is_found_and_set_aside_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench("a")
    bench.logs["a"].most = 100
    bench.logs["a"].put(*map(order, range(30)))
    really = bench.world.store.transaction

    def picky(fence: Fence) -> object:
        tx = really(fence)
        publish = type(tx).publish

        class Picky(type(tx)):  # type: ignore[misc]
            __slots__ = ()

            async def publish(self, events, now):  # type: ignore[no-untyped-def]
                if any(one.payload.get("n") == 17 for one in events):
                    raise Refused("no such value", code=UNSTORABLE)
                return await publish(self, events, now)

        tx.__class__ = Picky
        return tx

    monkeypatch.setattr(bench.world.store, "transaction", picky)
    bench.pass_(3)
    assert sorted(one.payload["n"] for one in bench.events()) == [n for n in range(30) if n != 17]
    (told,) = crank(bench.world.store.set_aside_of("a", 9))
    assert told.offset == 17 and "no such value" in told.reason
    assert (bench.source().received, bench.source().set_aside) == (30, 1)


@pytest.mark.requirement("EVENT-9")
def test_a_broker_that_is_down_for_an_hour_delays_and_is_said_once() -> None:
    bench = Bench("a", "b")
    bench.logs["a"].fault = "Kafka does not answer."
    bench.logs["a"].put(*map(order, range(3)))
    bench.logs["b"].put(*map(order, range(3)))
    notes = bench.pass_(90, after=40 * SECOND)
    assert len(notes) == 1 and "nothing is lost" in notes[0]
    assert len(bench.events()) == 3, "the other one goes on"
    assert bench.source().error_since is not None
    bench.logs["a"].fault = ""
    assert any("again" in note for note in bench.pass_(5))
    assert len(bench.events()) == 6 and bench.source().error == ""


def test_a_source_that_cannot_be_opened_says_why_and_waits() -> None:
    bench = Bench("a")
    bench.secret = False
    bench.logs["a"].put(order(1))
    bench.pass_(3)
    assert "KEY is not set" in bench.source().error
    bench.secret = True
    bench.pass_(20)
    assert len(bench.events()) == 1 and bench.source().error == ""


def test_what_was_gone_before_it_was_read_is_told_and_counted() -> None:
    bench = Bench("a")
    bench.logs["a"].lost = (Lost(topic="t", partition=1, first=4, count=9, reason="9 were dropped"),)
    notes = bench.pass_(2)
    assert bench.source().missed == 9 and bench.source().set_aside == 0
    (told,) = crank(bench.world.store.set_aside_of("a", 9))
    assert (told.partition, told.offset, told.reason) == (1, 4, "9 were dropped")
    assert any("9 were dropped" in note for note in notes)


def test_of_messages_with_one_id_the_first_is_the_event_and_another_one_is_set_aside() -> None:
    spec = SourceSpec(
        type="kafka", servers="k", topics=("t",), event=EventShape(type="user.order", key="s/x", id="{{ value.id }}")
    )
    bench = Bench("a", spec=spec)
    bench.logs["a"].put({"id": 1}, {"id": 1}, {"id": 2}, {"id": 1, "more": True})
    bench.pass_(4)
    assert [one.id for one in bench.events()] == ["1", "2"]
    (told,) = crank(bench.world.store.set_aside_of("a", 9))
    assert told.offset == 3 and "used before" in told.reason


@pytest.mark.requirement("HA-5")
def test_sources_are_shared_among_schedulers_when_another_comes() -> None:
    bench = Bench("a", "b", "c", "d")
    bench.pass_(3)
    second = bench.scheduler()
    for _ in range(20):
        bench.pass_(after=2 * SECOND)
        bench.pass_(after=SECOND, by=second)
    assert sorted(log.opened for log in bench.logs.values()) == [1, 1, 2, 2]
    for log in bench.logs.values():
        log.put(*map(order, range(4)))
    for _ in range(5):
        bench.pass_()
        bench.pass_(by=second)
    assert len(bench.events()) == 16


@pytest.mark.requirement("EVENT-9", "HA-5")
@settings(max_examples=examples(40), deadline=None, phases=[Phase.generate])
@given(seed=st.integers(0, 2**32), steps=st.integers(20, 90))
def test_whatever_fails_each_message_is_one_event_in_the_order_of_its_partition(seed: int, steps: int) -> None:
    chance = random.Random(seed)
    bench = Bench("a", "b")
    intakes = [bench.intake]
    really = bench.world.store.transaction
    faults = [0]

    def fragile(fence: Fence) -> object:
        """Now and then a commit fails, or happens and nobody is told."""
        tx, how = really(fence), chance.randrange(6) if faults[0] else 9
        leave = type(tx).__aexit__

        class Fragile(type(tx)):  # type: ignore[misc]
            __slots__ = ()

            async def __aexit__(self, kind, error, trace):  # type: ignore[no-untyped-def]
                if how == 0 and kind is None:
                    lost = Unavailable("gone")
                    await leave(self, type(lost), lost, None)
                    raise lost
                await leave(self, kind, error, trace)
                if how == 1 and kind is None:
                    raise Unavailable("nobody knows")

        tx.__class__ = Fragile
        return tx

    bench.world.store.transaction = fragile  # type: ignore[assignment, method-assign]
    put = {name: [0, 0] for name in bench.logs}
    faults[0] = 1
    for _ in range(steps):
        match chance.randrange(6):
            case 0 | 1:
                name, part = chance.choice("ab"), chance.randrange(2)
                for _ in range(chance.randint(1, 9)):
                    bench.logs[name].put(order(put[name][part], f"{name}{part}"), partition=part)
                    put[name][part] += 1
            case 2:  # the process dies; another takes over, under the same registration or its own
                intakes.append(bench.another() if chance.random() < 0.5 else bench.scheduler())
            case 3:
                log = bench.logs[chance.choice("ab")]
                log.slow, log.fault = chance.random() < 0.3, "away" if chance.random() < 0.3 else ""
            case 4 | 5:  # a frozen one may wake up and go on
                try:
                    bench.pass_(1, by=chance.choice(intakes[-2:]), after=chance.choice([SECOND // 10, 5 * SECOND]))
                except TidegateError:
                    continue
    faults[0] = 0
    for log in bench.logs.values():
        log.slow, log.fault = False, ""
    bench.pass_(1, by=intakes[-1], after=31 * SECOND)
    for _ in range(200):
        bench.pass_(1, by=intakes[-1])
        if all(one.received == sum(put[one.name]) for one in map(bench.source, put)):
            break
    said: dict[str, list[int]] = {}
    for one in bench.events():
        said.setdefault(one.key, []).append(one.payload["n"])
    wanted = {f"sales/{name}{part}": list(range(n)) for name, ns in put.items() for part, n in enumerate(ns) if n}
    assert said == wanted
