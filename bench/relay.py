"""The event log carried on into Kafka: the relay of a scheduler, a real broker, a database, all on this machine.

The events are published first; a figure is the time from the first step of the relay until the place of the sink, in
the database, is behind the last of them. Afterwards the topic has as many messages. The broker is the tests' own
(tests/sinks/broker.py), in KRaft mode; where its jars cannot be had, there is no figure.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time

from confluent_kafka import Consumer, TopicPartition

from bench import ground
from bench.figures import Figure, Say, at_least, median
from tidegate.domain.instants import SECOND
from tidegate.domain.sinks import SinkSpec
from tidegate.engine.relay import Relay
from tidegate.ports.collecting import NewEvent
from tidegate.sinks.opening import SinkOpener
from tidegate.store.store import PostgresStore

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))


def measure(say: Say, *, messages: int = 100_000, rounds: int = 3, keys: int = 100) -> list[Figure]:
    """The median of the rounds."""
    from sinks.broker import Broker, NoBroker

    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        broker = Broker(Path(folder) / "kafka")
        try:
            broker.start()
        except NoBroker as why:
            say(f"no broker: {why}")
            return []
        try:
            broker.create("tidegate.events", partitions=6)
            with ground.ground() as place:
                rates = asyncio.run(_relayed(say, place, broker.servers, messages, rounds, keys))
            found = _count(broker.servers, 6)
            assert found >= messages * rounds, f"{messages * rounds:,} published, {found:,} in the topic"
        finally:
            broker.kill()
    how = f"{messages:,} events of {keys} schedules, acks=all, six partitions, median of {rounds} rounds"
    return [at_least("relay into Kafka", median(rates), "messages/s", 10_000.0, how)]


async def _relayed(say: Say, place: ground.Ground, servers: str, messages: int, rounds: int, keys: int) -> list[float]:
    store = PostgresStore(place.url)
    rates = []
    try:
        fence = await ground.enlist(store)
        spec = SinkSpec(type="kafka", servers=servers, topic="tidegate.events")
        document = {"metadata": {"name": "k"}, "spec": {"type": "kafka", "servers": servers}}
        async with store.changing() as tx:
            await tx.put_sink("k", spec, document, await store.now())
        for turn in range(rounds):
            for first in range(0, messages, 2000):
                async with store.transaction(fence) as engine:
                    events = [
                        NewEvent(type="user.bench", key=f"bench/{n % keys}", payload={"n": n, "rows": 1000})
                        for n in range(first, min(first + 2000, messages))
                    ]
                    await engine.publish(events, await store.now())
            opener = SinkOpener(place.url)
            relay = Relay(store, opener, fence)
            changed = asyncio.Event()
            opener.on_change = changed.set
            wanted, began, own = (turn + 1) * messages, perf_counter(), process_time()
            server = ground.cpu_of(place.server_pid)
            while (await store.sinks())[0].delivered < wanted:
                changed.clear()
                outcome = await relay.step(await store.now())
                if not outcome.did:
                    try:
                        await asyncio.wait_for(changed.wait(), 100_000 / SECOND)
                    except TimeoutError:
                        continue
            rates.append(messages / (perf_counter() - began))
            own, server = process_time() - own, ground.cpu_of(place.server_pid) - server
            say(
                f"{rates[-1]:,.0f} messages/s; CPU for each: relay {own / messages * 1e6:.0f} µs, "
                f"database {server / messages * 1e6:.0f} µs"
            )
            await relay.close()
    finally:
        await store.close()
    return rates


def _count(servers: str, partitions: int) -> int:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "bench"})
    try:
        ends = [
            consumer.get_watermark_offsets(TopicPartition("tidegate.events", one), timeout=10)
            for one in range(partitions)
        ]
    finally:
        consumer.close()
    return sum(high - low for low, high in ends)
