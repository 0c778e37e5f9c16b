"""A real broker gets every event, in the order of each schedule, whatever happens to it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import Message as Consumed

from tidegate.domain.instants import SECOND
from tidegate.domain.sinks import SinkSpec
from tidegate.ports.sinks import Delivery, Message
from tidegate.sinks import kafka
from tidegate.sinks.kafka import KafkaSink

from .broker import Broker

pytestmark = [
    pytest.mark.requirement("EVENT-9"),
    pytest.mark.slow,
    pytest.mark.xdist_group("kafka"),
    pytest.mark.timeout(400),  # the first time its jars are fetched
]


def message(number: int, lane: str = "", body: bytes = b"{}") -> Message:
    lane = lane or f"sales/{number % 5}"
    return Message(id=str(number), lane=lane, type="user.x", at=1_800_000_000 * SECOND, body=body)


def sink(broker: Broker, topic: str, **options: str) -> KafkaSink:
    return KafkaSink("k", SinkSpec(type="kafka", servers=broker.servers, topic=topic, options=options), lambda: None)


def deliver(one: KafkaSink, messages: Sequence[Message]) -> Delivery:
    return asyncio.run(one.deliver(messages))


def close(one: KafkaSink) -> None:
    asyncio.run(one.close())


def consumed(broker: Broker, topic: str, partitions: int = 3) -> dict[str, list[int]]:
    """Ids by key, in order, as a consumer of every partition sees them, repetitions dropped."""
    consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": "t", "enable.partition.eof": True})
    found: dict[str, list[int]] = {}
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        ended: set[int] = set()
        until = time.monotonic() + 20
        while len(ended) < partitions and time.monotonic() < until:
            one: Consumed | None = consumer.poll(1)
            if one is None:
                continue
            if one.error() is not None:
                ended.add(one.partition() or 0)
                continue
            headers = dict(one.headers() or [])
            lane = found.setdefault((one.key() or b"").decode(), [])
            if (number := int(headers["id"] or b"-1")) not in lane:
                lane.append(number)
    finally:
        consumer.close()
    return found


def in_order(found: dict[str, list[int]], wanted: Sequence[int]) -> bool:
    return all(one == sorted(one) for one in found.values()) and sorted(sum(found.values(), [])) == list(wanted)


def test_a_topic_has_every_event_in_the_order_of_its_schedule(broker: Broker) -> None:
    broker.create("all")
    one = sink(broker, "all")
    assert deliver(one, [message(n) for n in range(500)]) == Delivery(passed=500)
    assert deliver(one, [message(n) for n in range(450, 900)]) == Delivery(passed=450)
    close(one)
    assert in_order(consumed(broker, "all"), range(900))


@pytest.mark.requirement("EVENT-3")
def test_what_is_too_large_for_the_topic_is_set_aside_alone_and_the_order_stays(broker: Broker) -> None:
    broker.create("small", config={"max.message.bytes": "20000"})
    one = sink(broker, "small", **{"compression.type": "none", "batch.size": "15000"})
    bodies = {7: b"x" * 50_000, 8: b"y" * 50_000, 60: b"z" * 30_000}
    delivery = deliver(one, [message(n, "sales/a", bodies.get(n, b"{}" * 50)) for n in range(100)])
    close(one)
    assert (delivery.passed, delivery.fault) == (100, "")
    assert [place for place, _ in delivery.refused] == [7, 8, 60]
    assert in_order(consumed(broker, "small"), [n for n in range(100) if n not in bodies])


def test_a_topic_that_is_not_there_is_a_fault_of_the_sink(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "PATIENCE", 4.0)
    one = sink(broker, "nowhere", **{"topic.metadata.propagation.max.ms": "1000"})
    delivery = deliver(one, [message(1), message(2)])
    close(one)
    assert (delivery.passed, delivery.refused) == (0, ()) and "does not take them" in delivery.fault


def test_a_broker_that_is_killed_and_comes_again_has_every_event_in_order(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "PATIENCE", 3.0)
    broker.create("killed")
    one = sink(broker, "killed")
    assert deliver(one, [message(n) for n in range(300)]).passed == 300
    broker.kill()
    delivery = deliver(one, [message(n) for n in range(300, 600)])
    assert delivery.fault and delivery.passed < 300
    broker.start()
    left = [message(n) for n in range(300 + delivery.passed, 600)]
    for _ in range(10):
        delivery = deliver(one, left)
        left = left[delivery.passed :]
        if not left:
            break
    close(one)
    assert in_order(consumed(broker, "killed"), range(600))
