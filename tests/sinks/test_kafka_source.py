"""What a feed reads from a real broker: each message once, from where the database says, whatever becomes of topics."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import NewPartitions

from tidegate.domain.errors import Refused
from tidegate.domain.sources import EventShape, Record, SourceSpec
from tidegate.ports.sources import ABSENT, Haul, Lost, Place
from tidegate.sources import kafka
from tidegate.sources.kafka import KafkaFeed

from .broker import Broker

pytestmark = [
    pytest.mark.requirement("EVENT-9"),
    pytest.mark.slow,
    pytest.mark.xdist_group("kafka"),
    pytest.mark.timeout(400),
]


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "LOOK", 0.5)
    monkeypatch.setattr(kafka, "ANSWER", 2.0)


def spec(broker: Broker, *topics: str, begin: str = "oldest", **options: str) -> SourceSpec:
    event = EventShape(type="user.x", key="a/b")
    return SourceSpec(type="kafka", servers=broker.servers, topics=topics, event=event, begin=begin, options=options)


def produce(broker: Broker, topic: str, *values: str, partition: int = 0, **config: Any) -> None:
    producer = Producer({"bootstrap.servers": broker.servers, "log_level": 0, **config})
    for one in values:
        producer.produce(topic, value=one, key=b"k", headers={"h": b"v"}, partition=partition)
    assert producer.flush(20) == 0


class Reader:
    """Reads by feeds, one after the other, from the places of the one before."""

    def __init__(self, spec: SourceSpec) -> None:
        self.spec = spec
        self.places: dict[tuple[str, int], Place] = {}
        self.records: list[Record] = []
        self.lost: list[Lost] = []
        self.fault = ""

    async def read(
        self, until: Callable[[], bool], seconds: float = 30, during: Coroutine[Any, Any, None] | None = None
    ) -> None:
        feed = KafkaFeed("s", self.spec, list(self.places.values()), lambda: None)
        other = None if during is None else asyncio.create_task(during)
        ends = time.monotonic() + seconds
        try:
            feed.begin()
            while not until():
                assert time.monotonic() < ends, (self.records, self.lost, self.fault)
                haul = feed.result()
                if haul is None:
                    await asyncio.sleep(0.02)
                    continue
                assert not haul.ended, haul.fault
                self.take(haul)
                feed.begin()
        finally:
            await feed.close()
            if other is not None:
                await other

    def take(self, haul: Haul) -> None:
        self.records += haul.records
        self.lost += haul.lost
        self.fault = haul.fault
        self.places |= {(one.topic, one.partition): one for one in haul.places}

    def run(self, until: Callable[[], bool], **more: Any) -> None:
        asyncio.run(self.read(until, **more))

    def values(self) -> list[str]:
        return [(one.value or b"").decode() for one in self.records]

    def next(self, topic: str) -> list[int]:
        return [one.next for at, one in sorted(self.places.items()) if at[0] == topic]


def numbers(first: int, last: int) -> list[str]:
    return [str(n) for n in range(first, last)]


def ordered(values: Sequence[str]) -> list[str]:
    return sorted(values, key=int)


def test_each_message_is_read_once_also_by_the_next_feed(broker: Broker) -> None:
    broker.create("read", partitions=2)
    produce(broker, "read", *numbers(0, 2500))
    produce(broker, "read", *numbers(2500, 2700), partition=1)
    reader = Reader(spec(broker, "read"))
    reader.run(lambda: len(reader.records) > 1200)
    reader.run(lambda: len(reader.records) >= 2700)
    assert ordered(reader.values()) == numbers(0, 2700)
    assert [one for one in reader.values() if int(one) < 2500] == numbers(0, 2500), "in order"
    assert reader.next("read") == [2500, 200] and (reader.lost, reader.fault) == ([], "")
    first = next(one for one in reader.records if one.partition == 0)
    assert (first.offset, first.key, first.headers) == (0, b"k", (("h", b"v"),))
    assert abs((first.at or 0) / 1e6 - time.time()) < 300


def test_a_new_source_begins_with_what_comes_and_new_partitions_are_read_whole(broker: Broker) -> None:
    broker.create("new", partitions=1)
    produce(broker, "new", "old")
    reader = Reader(spec(broker, "new", begin="newest"))
    reader.run(lambda: bool(reader.places))
    assert reader.next("new") == [1]

    async def more() -> None:
        produce(broker, "new", "1")
        admin = broker.admin()
        for each in admin.create_partitions([NewPartitions("new", 2)]).values():
            each.result(20)
        await asyncio.sleep(1)
        produce(broker, "new", "2", partition=1)

    reader.run(lambda: len(reader.records) == 2, during=more())
    assert sorted(reader.values()) == ["1", "2"]


def test_a_topic_that_is_not_there_is_said_and_waited_for_and_the_others_are_read(broker: Broker) -> None:
    broker.create("there", partitions=1)
    reader = Reader(spec(broker, "there", "later", begin="newest"))
    reader.run(lambda: bool(reader.fault) and ("there", 0) in reader.places)
    assert "no topic 'later'" in reader.fault and ("later", ABSENT) in reader.places
    produce(broker, "there", "1")
    broker.create("later", partitions=1)
    produce(broker, "later", "2")
    reader.run(lambda: len(reader.records) == 2)
    assert sorted(reader.values()) == ["1", "2"] and reader.fault == ""


@pytest.mark.parametrize("length", [2, 9])
def test_a_topic_that_was_made_anew_is_read_whole_also_where_it_is_longer_by_now(broker: Broker, length: int) -> None:
    topic = f"anew{length}"

    def make(*values: str) -> None:
        broker.create(topic, partitions=1)
        produce(broker, topic, *values)

    make(*numbers(0, 5))
    reader = Reader(spec(broker, topic))
    reader.run(lambda: len(reader.records) == 5)

    async def anew() -> None:
        admin = broker.admin()  # must outlive what it is asked
        for each in admin.delete_topics([topic]).values():
            each.result(20)
        await asyncio.sleep(0.5)
        make(*numbers(5, 5 + length))

    reader.run(lambda: len(reader.records) >= 5 + length, seconds=20, during=anew())
    assert reader.values() == numbers(0, 5 + length)
    assert [(one.first, "made anew" in one.reason) for one in reader.lost] == [(5, True)]


def test_what_retention_dropped_before_it_was_read_is_told_and_counted(broker: Broker) -> None:
    broker.create("short", partitions=1)
    produce(broker, "short", *numbers(0, 5))
    reader = Reader(spec(broker, "short"))
    reader.run(lambda: len(reader.records) == 5)
    produce(broker, "short", *numbers(5, 20))
    admin = broker.admin()
    for each in admin.delete_records([TopicPartition("short", 0, 12)]).values():
        each.result(20)
    reader.run(lambda: len(reader.records) == 13)
    assert reader.values() == numbers(0, 5) + numbers(12, 20)
    assert [(one.first, one.count) for one in reader.lost] == [(5, 7)]


def test_messages_of_transactions_that_were_given_up_are_passed_over(broker: Broker) -> None:
    broker.create("tx", partitions=1)
    producer = Producer({"bootstrap.servers": broker.servers, "log_level": 0, "transactional.id": "t"})
    producer.init_transactions(20)
    for value, keep in (("1", True), ("2", False), ("3", True)):
        producer.begin_transaction()
        producer.produce("tx", value=value)
        producer.flush(20)
        if keep:
            producer.commit_transaction(20)
        else:
            producer.abort_transaction(20)
    reader = Reader(spec(broker, "tx"))
    reader.run(lambda: len(reader.records) == 2)
    assert reader.values() == ["1", "3"]


def test_a_broker_that_is_killed_delays_and_nothing_is_lost_or_read_twice(broker: Broker) -> None:
    broker.create("down", partitions=1)
    produce(broker, "down", *numbers(0, 50))
    reader = Reader(spec(broker, "down"))
    faults: list[str] = []

    async def down() -> None:
        while len(reader.records) < 50:
            await asyncio.sleep(0.05)
        await asyncio.to_thread(broker.kill)
        while not reader.fault:
            await asyncio.sleep(0.05)
        faults.append(reader.fault)
        await asyncio.to_thread(broker.start)
        await asyncio.to_thread(produce, broker, "down", *numbers(50, 80))

    reader.run(lambda: len(reader.records) >= 80 and not reader.fault, seconds=90, during=down())
    assert reader.values() == numbers(0, 80) and reader.lost == []
    assert "does not answer" in faults[0] and reader.fault == ""


def test_a_secret_that_is_not_there_is_refused_before_anybody_is_asked(broker: Broker) -> None:
    with pytest.raises(Refused, match="NO_SUCH_VARIABLE, which is not set"):
        KafkaFeed("s", spec(broker, "x", **{"sasl.password": "env:NO_SUCH_VARIABLE"}), [], lambda: None)
